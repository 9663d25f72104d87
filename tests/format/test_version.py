"""Bodies of versions whose fragments are columns: what is written can be read, and damage is never passed over."""

from __future__ import annotations

import json
import random
import struct

import pyarrow as pa
import pytest

from siltstone.errors import CorruptionError, LimitExceededError
from siltstone.format import packed
from siltstone.format.packed import pack_with, unpack_with
from siltstone.format.rollup import Live, from_columns, to_columns
from siltstone.format.table import Bounds, Change, Fragment, Vector, decode_body, encode_body, encode_change, is_body
from siltstone.format.version import decode_version, encode_version, requires, spelled_out, whole_change

CHANGE = Change(operation="clone", message="a clone")


def name(number, origin=1):
    return f"{number:020d}-{number:032x}@{origin}"


def lives(count=5):
    """Fragments; each second one has a vector."""
    return [
        Live(
            Fragment(
                name=name(number),
                rows=10 + number,
                bytes=100 * number,
                sha256=f"{number:064x}",
                bounds={"1": Bounds(number, number + 9, 0), "2": Bounds("a", None, number)},
            ),
            Vector(name=name(number, 2), offset=number, length=50, rows=3) if number % 2 else None,
        )
        for number in range(count)
    ]


COLUMNS = to_columns(lives())


def with_column(column, values, kind=None, table=COLUMNS):
    array = pa.array(values, kind or table.schema.field(column).type)
    if column not in table.column_names:
        return table.append_column(column, array)
    at = table.column_names.index(column)
    return table.set_column(at, pa.field(column, array.type, nullable=True), array)


def body_of(table):
    return encode_version(encode_change(CHANGE), columns=table)


def stream(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=2 if not options else None)
    return sink.getvalue().to_pybytes()


PLAIN = json.dumps({"change": {"operation": "clone"}}).encode()


# -- what is right -----------------------------------------------------------------------------------


def test_encode_version__with_columns__is_read_back_and_means_what_the_records_would():
    held = decode_version(body_of(COLUMNS), name="it")
    assert from_columns(held.columns) == lives()
    whole = whole_change(body_of(COLUMNS), name="it")
    assert whole.add == tuple(live.fragment for live in lives())
    assert whole.mask == {live.fragment.name: live.vector for live in lives() if live.vector}
    assert (whole.operation, whole.message) == ("clone", "a clone")
    assert requires(COLUMNS) == ("columns",)


def test_encode_version__without_columns__is_what_it_always_was():
    assert encode_version(encode_change(CHANGE)) == encode_body(encode_change(CHANGE))
    assert requires(None) == ()
    assert decode_version(encode_body(encode_change(CHANGE)), name="it").columns is None


def test_encode_version__the_same_twice__gives_the_same_bytes():
    pieces = pa.concat_tables([COLUMNS.slice(0, 2), COLUMNS.slice(2)])
    assert body_of(pieces) == body_of(COLUMNS)


def test_decode_body__of_one_with_columns__is_refused():
    with pytest.raises(CorruptionError):
        decode_body(body_of(COLUMNS), name="it")


def test_is_body__with_and_without_columns__is_told_from_other_bytes():
    assert is_body(body_of(COLUMNS))
    assert is_body(encode_body(encode_change(CHANGE)))
    assert not is_body(body_of(COLUMNS)[:-1])
    assert not is_body(b"rows")


def test_spelled_out__what_the_change_says_itself__counts_more():
    vector = Vector(name=name(99), offset=0, length=9, rows=5)
    change = Change(operation="clone", mask={name(1): vector}, unmask=(name(3),))
    assert spelled_out(change, COLUMNS).mask == {name(1): vector}


def test_decode_version__a_column_that_nobody_knows__is_passed_over():
    for odd in ("of_tomorrow", "low.x", "nulls.0", "high.99999999999"):
        held = decode_version(body_of(with_column(odd, [1] * 5, pa.int8())), name="it")
        assert from_columns(held.columns) == lives()


@pytest.mark.parametrize("spaces", range(9))
def test_decode_version__columns_at_any_place__are_read(spaces):
    plain, more = PLAIN + b" " * spaces, stream(COLUMNS, compression=None)
    both = pa.Codec("zstd").compress(plain + more, asbytes=True)
    held = decode_version(struct.pack("<BQQ", 0x5B, len(plain), len(more)) + both, name="it")
    assert from_columns(held.columns) == lives()


# -- what is wrong -----------------------------------------------------------------------------------

WRONG = {
    "a fragment twice": with_column("name", [name(0)] * 5),
    "no name": with_column("name", [None, *map(name, range(4))]),
    "a path as a name": with_column("name", ["../../etc/passwd", *map(name, range(4))]),
    "another kind of name": with_column("name", [b"x"] * 5, pa.binary()),
    "no rows": with_column("rows", [0, 1, 1, 1, 1]),
    "too many rows": with_column("rows", [2**31, 1, 1, 1, 1]),
    "fewer bytes than none": with_column("bytes", [-1, 1, 1, 1, 1]),
    "half a vector": with_column("vector_length", [None] * 5),
    "a short digest": with_column("sha256", [b"x"] * 5, pa.binary(1)),
    "a column less": COLUMNS.drop_columns("vector_rows"),
    "bounds of another type": with_column("low.1", [True] * 5, pa.bool_()),
    "nulls of another type": with_column("nulls.1", [0.5] * 5, pa.float64()),
    "fewer nulls than none": with_column("nulls.1", [-1] * 5),
}


@pytest.mark.parametrize("what", WRONG)
def test_decode_version__columns_that_can_not_be__are_corruption(what):
    with pytest.raises(CorruptionError, match="version 7") as caught:
        decode_version(body_of(WRONG[what]), name="version 7")
    assert caught.value.facts["object"] == "version 7"


STREAMS = {
    "compressed": stream(COLUMNS, compression="zstd"),
    "several batches": stream(COLUMNS),
    "no batch": COLUMNS.schema.serialize().to_pybytes(),
    "nothing": b"",
    "something behind": stream(COLUMNS, compression=None) + b"x",
    "an end that is cut off": stream(COLUMNS, compression=None)[:-8],
    "a column twice": stream(pa.table([*COLUMNS.columns, COLUMNS["rows"]], [*COLUMNS.column_names, "rows"])),
}


@pytest.mark.parametrize("what", STREAMS)
def test_decode_version__another_stream__is_corruption(what):
    with pytest.raises(CorruptionError, match="it"):
        decode_version(pack_with(PLAIN, STREAMS[what]), name="it")


def test_decode_version__cut_anywhere__is_corruption():
    body = body_of(COLUMNS)
    for length in range(1, len(body)):
        with pytest.raises(CorruptionError):
            decode_version(body[:length], name="it")


def test_decode_version__bytes_of_the_stream_changed__is_corruption_or_fragments():
    chance = random.Random(7)
    clean = bytearray(stream(COLUMNS, compression=None))
    for _ in range(2000):
        broken = clean.copy()
        for _ in range(chance.randint(1, 4)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        try:
            held = decode_version(pack_with(PLAIN, bytes(broken)), name="it")
        except CorruptionError:
            continue
        assert all(live.fragment.rows >= 1 for live in from_columns(held.columns))


def test_unpack_with__lengths_over_the_limit__are_refused_before_anything_is_unpacked():
    for lengths in ((2**62, 1), (1, 2**62), (packed.JSON_BYTES_MAX, 1)):
        with pytest.raises(CorruptionError, match="says it holds"):
            unpack_with(struct.pack("<BQQ", 0x5B, *lengths) + b"x", name="it")


def test_pack_with__over_the_limit__is_refused(monkeypatch):
    monkeypatch.setattr(packed, "JSON_BYTES_MAX", 1000)
    with pytest.raises(LimitExceededError, match="too large for one version"):
        pack_with(PLAIN, b"x" * 1000)
