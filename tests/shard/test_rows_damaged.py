"""Bodies of WAL entries that are damaged, or made by others."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import figures
from shard_chunks import END, GOOD, KEYED, LENGTH, ROWS, SCHEMA, UNKEYED, batch_of, made, same_rows
from siltstone.errors import CorruptionError, UnsupportedFormatError
from siltstone.format.records import Header, decode_entry, encode_entry
from siltstone.format.shard import WalHeader
from siltstone.shard.rows import Chunk, chunk_schema, decode_body, encode_body, fitted, tombstones
from siltstone.table.schema import make_schema

BITS_PER_BYTE = 8


def back(data, schema=KEYED):
    return decode_body(data, schema, 7, name="wal/entry 7")


def without(name):
    return batch_of(**{key: value for key, value in GOOD.items() if key != name})


def with_columns(**columns):
    return batch_of(**{**GOOD, **columns})


def schema_fields(data):
    """Where a body's first message and the schema in it have the list of their fields, and where they begin."""
    start = LENGTH.size + LENGTH.unpack_from(data)[0] + 8
    root = start + struct.unpack_from("<I", data, start)[0]
    fields = root - struct.unpack_from("<i", data, root)[0]
    held = root + struct.unpack_from("<H", data, fields + 8)[0]
    schema = held + struct.unpack_from("<I", data, held)[0]
    return root, fields, schema - struct.unpack_from("<i", data, schema)[0]


def big_endian(data):
    """The same body with a schema that says that numbers have their highest byte first."""
    _, _, fields = schema_fields(data)
    changed = bytearray(data)
    # The byte order is read from where something else stands, which is not 0.
    struct.pack_into("<H", changed, fields + 4, struct.unpack_from("<H", data, fields + 6)[0])
    return bytes(changed)


def of_kind(data, kind):
    """The same body with a first message that says that it is about something else."""
    root, fields, _ = schema_fields(data)
    changed = bytearray(data)
    changed[root + struct.unpack_from("<H", data, fields + 6)[0]] = kind
    return bytes(changed)


DAMAGED = {
    "nothing": b"",
    "a header that is cut": LENGTH.pack(10) + b"{}",
    "no rows behind the header": made(batch_of(**GOOD))[: 4 + len(b'{"rows":2}')],
    "a header that is no JSON": made(batch_of(**GOOD), header=b'{"rows":2'),
    "a header of wrong types": made(batch_of(**GOOD), header=b'{"rows":"2"}'),
    "more rows than it says": made(batch_of(**GOOD), rows=1),
    "less rows than it says": made(batch_of(**GOOD), rows=3),
    "no end": made(batch_of(**GOOD), end=b""),
    "a cut end": made(batch_of(**GOOD), end=END[:-1]),
    "something behind its end": made(batch_of(**GOOD), end=END + b"\0"),
    "two ends": made(batch_of(**GOOD), end=END + END),
    "a second batch": made(batch_of(**GOOD), end=batch_of(**GOOD).serialize().to_pybytes() + END),
    "a second schema": made(batch_of(**GOOD), start=batch_of(**GOOD).schema.serialize().to_pybytes()),
    "no stream": LENGTH.pack(10) + b'{"rows":2}' + b"\0" * 64,
    "compressed rows": made(
        batch_of(f1=pa.array(range(2000)), f2=pa.array(["a"] * 2000), f3=pa.array(["x"] * 2000)),
        options=pa.ipc.IpcWriteOptions(compression="zstd"),
    ),
    "another byte order": big_endian(made(batch_of(**GOOD))),
    "a schema that is a dictionary": of_kind(made(batch_of(**GOOD)), 2),
    "a schema that is a batch": of_kind(made(batch_of(**GOOD)), 3),
    "a schema that is nothing": of_kind(made(batch_of(**GOOD)), 77),
    "a name that is no text": made(with_columns(fabcdef=pa.array([1, 2]))).replace(b"abcdef", b"abc\xff\xfef"),
    "no key": made(without("f1")),
    "a key of null": made(with_columns(f1=pa.array([1, None]))),
    "a key of null in a tombstone": made(with_columns(f1=pa.array([1, None]), _deleted=pa.array([False, True]))),
    "another type": made(with_columns(f2=pa.array([1.5, 2.5]))),
    "a type that is too wide": made(with_columns(f1=pa.array([1, 2]).cast(pa.decimal128(20)))),
    "a type that no table has": made(with_columns(f4=pa.array([1, 2]).cast(pa.float16()))),
    "a dictionary": made(with_columns(f4=pa.array(["a", "b"]).dictionary_encode())),
    "a struct without parts": made(with_columns(f4=pa.array([{}, {}], pa.struct([])))),
    "names that are no ids": made(pa.record_batch(GOOD)),
    "an id with zeros before it": made(with_columns(f04=pa.array([1, 2]))),
    "an id that is too large": made(with_columns(f9999999999=pa.array([1, 2]))),
    "a column twice": made(pa.record_batch([*batch_of(**GOOD).columns, pa.array([1, 2])], names=["1", "2", "3", "1"])),
    "marks that are no marks": made(with_columns(_deleted=pa.array([1, 0]))),
    "marks of null": made(with_columns(_deleted=pa.array([True, None]))),
    "text that is no UTF-8": made(with_columns(f2=pa.array([b"\xff", b"a"]).view(pa.string()))),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGED)
def test_decode_body__damaged__is_told_with_the_object(what):
    with pytest.raises(CorruptionError) as caught:
        back(DAMAGED[what])

    assert caught.value.facts["object"] == "wal/entry 7"


def test_decode_body__values_that_do_not_fit_a_wider_type__are_damage():
    schema = make_schema(pa.schema([("at", pa.timestamp("us"))]), None)

    assert (
        back(made(batch_of(f1=pa.array([5], pa.timestamp("s")))), schema).chunk.rows.column("at")[0].value == 5_000_000
    )
    with pytest.raises(CorruptionError, match="can't hold"):
        back(made(batch_of(f1=pa.array([2**62], pa.timestamp("s")))), schema)


def test_decode_body__made_by_hand__is_read():
    assert back(made(batch_of(**GOOD))).chunk.rows.column("payload").to_pylist() == ["x", None]


def test_decode_body__tombstones_without_a_key__are_damage():
    data = made(with_columns(_deleted=pa.array([True, False])))

    assert back(data).chunk.deleted.tolist() == [True, False]
    with pytest.raises(CorruptionError, match="deleted"):
        back(data, UNKEYED)


def test_decode_body__null_in_a_column_that_is_never_null__is_damage_but_for_tombstones():
    fields = [pa.field("id", pa.int64()), pa.field("n", pa.int8(), nullable=False)]
    schema = make_schema(pa.schema(fields), "id")
    columns = {"f1": pa.array([1, 2]), "f2": pa.array([1, None], pa.int8())}

    assert back(made(batch_of(**columns, _deleted=pa.array([False, True]))), schema).chunk.count == 2
    for data in (made(batch_of(**columns)), made(batch_of(**columns, _deleted=pa.array([True, False])))):
        with pytest.raises(CorruptionError, match="'n' is null"):
            back(data, schema)


FUZZED = encode_body(
    [Chunk(0, fitted(ROWS, SCHEMA)), tombstones(ROWS.select(["key"]), SCHEMA)], SCHEMA, once=("a",), batches={"s": 1}
)


def check_fuzzed(data):
    """Damage is told, or what comes back are rows that can be used."""
    figures.record("mutated/WAL body")
    try:
        found = back(data, SCHEMA)
    except CorruptionError:
        return
    found.chunk.rows.validate(full=True)
    assert found.chunk.rows.schema.equals(chunk_schema(SCHEMA))
    assert found.header.rows == found.chunk.count
    assert found.chunk.deleted is None or len(found.chunk.deleted) == found.chunk.count
    same_rows(
        back(encode_body([found.chunk], SCHEMA), SCHEMA).chunk.rows.select(["key"]), found.chunk.rows.select(["key"])
    )


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(FUZZED) - 1))
def test_decode_body__cut_anywhere__is_damage(length):
    figures.record("cut/WAL body")
    with pytest.raises(CorruptionError):
        back(FUZZED[:length], SCHEMA)


@settings(max_examples=1000, deadline=None)
@given(st.lists(st.integers(0, len(FUZZED) * BITS_PER_BYTE - 1), min_size=1, max_size=4))
def test_decode_body__bits_flipped__is_damage_or_rows(bits):
    data = bytearray(FUZZED)
    for bit in bits:
        data[bit // BITS_PER_BYTE] ^= 1 << bit % BITS_PER_BYTE

    check_fuzzed(bytes(data))


NUMBERS = st.sampled_from([0, 1, 2, 8, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1])


@settings(max_examples=1000, deadline=None)
@given(st.integers(0, len(FUZZED) // 4 - 2), NUMBERS)
def test_decode_body__lengths_and_places_replaced__is_damage_or_rows(word, number):
    check_fuzzed(FUZZED[: 4 * word] + struct.pack("<Q", number) + FUZZED[4 * word + 8 :])


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.integers(0, len(FUZZED)), st.integers(0, len(FUZZED)))
def test_decode_body__parts_cut_out_and_put_in__is_damage_or_rows(put, start, end):
    check_fuzzed(FUZZED[:start] + put + FUZZED[end:])


ENTRY = encode_entry(Header(log="a1" * 16, position=7, epoch=2, op="b2" * 16, nonce="c3" * 16, prev="d4" * 32), FUZZED)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(ENTRY) * BITS_PER_BYTE - 1))
def test_entry__any_bit_flipped__is_refused_before_its_rows_are_read(bit):
    data = bytearray(ENTRY)
    data[bit // BITS_PER_BYTE] ^= 1 << bit % BITS_PER_BYTE

    with pytest.raises((CorruptionError, UnsupportedFormatError)):
        decode_entry(bytes(data), name="wal/entry 7")
    figures.record("mutated/entry")


def test_entry__as_written__holds_the_rows():
    _, body = decode_entry(ENTRY, name="wal/entry 7")

    found = back(body, SCHEMA)

    same_rows(found.chunk.rows.slice(0, 3), fitted(ROWS, SCHEMA))
    assert found.header == WalHeader(rows=6, once=("a",), batches={"s": 1})
