"""Thrift's compact protocol: what was written is read, and nothing else is believed."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moments import ends_soon
from siltstone.errors import CorruptionError
from siltstone.format import thrift
from siltstone.format.thrift import BINARY, BYTE, DOUBLE, I16, I32, I64, LIST, MAP, SET, STRUCT, TRUE

NUMBERS = st.integers(-(2**63), 2**63 - 1)
PLAIN = {
    TRUE: st.booleans(),
    BYTE: st.integers(-128, 127),
    I16: st.integers(-(2**15), 2**15 - 1),
    I32: st.integers(-(2**31), 2**31 - 1),
    I64: NUMBERS,
    DOUBLE: st.floats(allow_nan=False),
    BINARY: st.binary(max_size=300),
}
IDS = st.integers(-(2**15), 2**15 - 1)


def of_kind(kind, inner):
    if kind in PLAIN:
        return PLAIN[kind]
    if kind == STRUCT:
        return inner
    kinds = st.sampled_from([*PLAIN, STRUCT])
    if kind == MAP:
        return st.tuples(kinds, kinds).flatmap(
            lambda two: st.lists(st.tuples(of_kind(two[0], inner), of_kind(two[1], inner)), max_size=4).map(
                lambda pairs: (*two, pairs) if pairs else (0, 0, [])
            )
        )
    return kinds.flatmap(lambda one: st.lists(of_kind(one, inner), max_size=20).map(lambda values: (one, values)))


def structs(inner):
    kinds = st.sampled_from([*PLAIN, STRUCT, LIST, SET, MAP])
    fields = kinds.flatmap(lambda kind: of_kind(kind, inner).map(lambda value: (kind, value)))
    return st.dictionaries(IDS, fields, max_size=6)


STRUCTS = st.recursive(st.just({}), structs, max_leaves=8)


@settings(max_examples=300, deadline=None)
@given(STRUCTS)
def test_decode__of_what_encode_gave__is_the_same(fields):
    data = thrift.encode(fields)
    assert thrift.decode(data + b"rest", name="x") == (fields, len(data))


def test_decode__inside_other_bytes__begins_where_it_is_told_to():
    data = thrift.encode({1: (I32, 5)})
    assert thrift.decode(b"before" + data, name="x", start=6) == ({1: (I32, 5)}, 6 + len(data))


def test_encode__of_a_decoded_footer__gives_the_same_bytes():
    out = io.BytesIO()
    table = pa.table({"a": [1, None, 3], "b": ["x", "y", None], "c": [[1.5], [], None], "d": [True, None, False]})
    pq.write_table(table, out, write_page_index=True)
    data = out.getvalue()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    fields, end = thrift.decode(footer, name="x")
    assert end == len(footer)
    assert thrift.encode(fields) == footer


@settings(max_examples=300, deadline=None)
@given(STRUCTS.map(thrift.encode), st.data())
def test_decode__cut_anywhere__is_corruption(data, choose):
    end = choose.draw(st.integers(0, len(data) - 1))
    with pytest.raises(CorruptionError) as caught:
        thrift.decode(data[:end], name="the object")
    assert caught.value.facts["object"] == "the object"


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=200))
def test_decode__any_bytes__are_a_structure_or_corruption(data):
    try:
        fields, end = thrift.decode(data, name="x")
    except CorruptionError:
        return
    assert end <= len(data)
    assert isinstance(fields, dict)


@pytest.mark.parametrize(
    "data",
    [
        b"\x1c" * 100_000,
        b"\x19\x19" + b"\x19" * 100_000,
        b"\x1b\x01\xcc" + b"\x1c" * 100_000,
        b"\x18" + thrift.varint(2**62),
        b"\x19\xf8" + thrift.varint(2**40),
        b"\x1b" + thrift.varint(2**40) + b"\x88",
        b"\x16" + b"\x80" * 100,
        b"\x16" + b"\xff" * 9 + b"\x7f",
        b"\x1d",
        b"\x19\x10",
        b"\x17abc",
    ],
    ids=["structs", "lists", "maps", "string", "list", "map", "endless", "huge", "kind", "no-kind", "half-double"],
)
def test_decode__of_hostile_bytes__is_refused_at_once(data):
    with ends_soon(), pytest.raises(CorruptionError):
        thrift.decode(data, name="x")


def test_decode__more_parts_than_anyone_writes__is_refused():
    count = thrift.ITEMS_MAX + 1
    with pytest.raises(CorruptionError, match="too many parts"):
        thrift.decode(b"\x19\xfc" + thrift.varint(count) + bytes(count + 1), name="x")


@given(NUMBERS)
def test_zigzag__any_number__is_read_back(number):
    assert thrift.decode(b"\x16" + thrift.zigzag(number) + b"\0", name="x")[0] == {1: (I64, number)}
