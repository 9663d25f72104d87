"""Bloom filters as pyarrow writes them: no value that is there is missed."""

from __future__ import annotations

import datetime as dt
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

from siltstone.errors import CorruptionError
from siltstone.format import parquet
from siltstone.table import bloom
from siltstone.table.bloom import Bloom

ROWS = 3000


def filter_of(values):
    out = io.BytesIO()
    pq.write_table(pa.table({"a": values}), out, bloom_filter_options={"a": {"ndv": len(values), "fpp": 0.01}})
    data = out.getvalue()
    start = parquet.footer_start(data[-8:], size=len(data), name="x")
    chunk = parquet.parse_footer(data[start:], start=start, name="x").groups[0].chunks[0]
    return data[chunk.bloom.start : chunk.bloom.end]


def values_of(kind, numbers):
    if pa.types.is_string(kind):
        return pa.array([f"value {n}" for n in numbers], kind)
    if pa.types.is_binary(kind):
        return pa.array([n.to_bytes(8, "big") for n in numbers], kind)
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([n.to_bytes(kind.byte_width, "big") for n in numbers], kind)
    if pa.types.is_date(kind):
        return pa.array([dt.date(1970, 1, 1) + dt.timedelta(days=n) for n in numbers], kind)
    return pa.array(numbers, pa.int64()).cast(kind)


KINDS = [
    pa.int32(), pa.int64(), pa.uint32(), pa.uint64(), pa.int16(), pa.uint16(), pa.string(), pa.binary(), pa.binary(12),
    pa.date32(), pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.time64("us"),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_might_contain__what_the_file_has__is_always_true(kind):
    there = values_of(kind, range(ROWS))
    found = Bloom(filter_of(there), name="x")
    assert bloom.can_hash(kind)
    assert found.might_contain(bloom.hashes(there)).all()
    assert found.might_contain(bloom.hashes(there.slice(7, 5))).all()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_might_contain__what_the_file_lacks__is_rarely_true(kind):
    found = Bloom(filter_of(values_of(kind, range(ROWS))), name="x")
    wrong = found.might_contain(bloom.hashes(values_of(kind, range(ROWS, 4 * ROWS))))
    assert wrong.mean() < 0.03


def test_might_contain__one_key__is_one_answer():
    found = Bloom(filter_of(pa.array([5, 6, 7])), name="x")
    assert found.might_contain(bloom.hashes(pa.array([6]))).tolist() == [True]
    assert found.might_contain(np.empty(0, np.uint64)).tolist() == []


def test_might_contain_one__any_hash__is_what_all_together_give():
    found = Bloom(filter_of(pa.array(range(ROWS))), name="x")
    hashes = bloom.hashes(pa.array(range(-ROWS, 2 * ROWS)))
    assert [found.might_contain_one(one) for one in hashes.tolist()] == found.might_contain(hashes).tolist()


def test_hashes__of_numbers_and_strings__are_those_of_their_plain_bytes():
    assert bloom.hashes(pa.array([258])).tolist() == [xxhash.xxh64_intdigest(b"\x02\x01" + bytes(6))]
    assert bloom.hashes(pa.array([-1], pa.int8())).tolist() == [xxhash.xxh64_intdigest(b"\xff" * 4)]
    assert bloom.hashes(pa.array(["", "é"])).tolist() == [
        xxhash.xxh64_intdigest(b""),
        xxhash.xxh64_intdigest(b"\xc3\xa9"),
    ]


def test_can_hash__decimals_and_floats__are_left_alone():
    assert not bloom.can_hash(pa.decimal128(10, 2))
    assert not bloom.can_hash(pa.float64())


@pytest.mark.parametrize("change", ["cut", "longer", "empty", "other-size"])
def test_bloom__of_another_size_than_it_says__is_corrupt(change):
    data = filter_of(pa.array(range(ROWS)))
    changed = {"cut": data[:-32], "longer": data + bytes(32), "empty": b"", "other-size": b"\x15\x02\x00" + bytes(1)}
    with pytest.raises(CorruptionError) as caught:
        Bloom(changed[change], name="the object")
    assert caught.value.facts["object"] == "the object"


def test_bloom__of_an_unknown_kind__rules_nothing_out():
    data = filter_of(pa.array(range(ROWS)))
    other = data.replace(b"\x1c\x1c\0\0", b"\x1c\x2c\0\0", 1)
    assert other != data
    found = Bloom(other, name="x")
    hashes = bloom.hashes(pa.array([10**9, 10**9 + 1]))
    assert found.might_contain(hashes).all()
    assert all(map(found.might_contain_one, hashes.tolist()))
