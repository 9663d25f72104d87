"""Which shard a key belongs to."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from key_types import KEYS
from siltstone.errors import InvalidInputError
from siltstone.shard.route import SEED, hash64, shard_numbers, spark_expression, spark_hash, split
from siltstone.table.schema import key_fields, make_schema


def signed(number):
    return number - 2**64 if number >= 2**63 else number


def xxh64(data, seed=SEED):
    return xxhash.xxh64_intdigest(data, seed)


def hashes(values, kind):
    return hash64(pa.table({"k": pa.array(values, kind)})).tolist()


def long_bytes(number):
    return (number % 2**64).to_bytes(8, "little")


LONGS = [0, 1, -1, 42, 127, -128, 2**31, -(2**31), 2**53, 2**63 - 1, -(2**63)]
BYTES = [b"", b"a", b"abc", b"\xff" * 4, b"12345678", b"x" * 31, b"y" * 32, b"z" * 33, bytes(range(256)) * 20]


@pytest.mark.parametrize("times", [1, 10], ids=["few", "many"])
def test_hash64__integers__are_those_of_eight_bytes(times):
    assert hashes(LONGS * times, pa.int64()) == [signed(xxh64(long_bytes(one))) for one in LONGS] * times


@pytest.mark.parametrize("times", [1, 10], ids=["few", "many"])
def test_hash64__dates__are_those_of_four_bytes(times):
    days = [0, 1, -1, 20_000, 2**31 - 1, -(2**31)]

    found = hash64(pa.table({"k": pa.array(days * times, pa.int32()).view(pa.date32())})).tolist()

    assert found == [signed(xxh64((one % 2**32).to_bytes(4, "little"))) for one in days] * times


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (pa.int8(), pa.int16()), (pa.int16(), pa.int32()), (pa.int32(), pa.int64()), (pa.uint8(), pa.int16()),
        (pa.uint16(), pa.uint32()), (pa.uint32(), pa.int64()), (pa.uint32(), pa.uint64()),
        (pa.decimal128(3, 0), pa.decimal128(18, 0)), (pa.decimal128(18, 0), pa.decimal128(38, 0)),
    ],
    ids=str,
)  # fmt: skip
def test_hash64__a_column_is_widened__stays(narrow, wide):
    values = pa.array([0, 1, 7, 100, 127], pa.int64())
    if not pa.types.is_unsigned_integer(narrow):
        values = pa.concat_arrays([values, pa.array([-1, -100, -128], pa.int64())])
    before = values.cast(pa.decimal128(19, 0)).cast(narrow) if pa.types.is_decimal(narrow) else values.cast(narrow)

    assert (
        hash64(pa.table([before], names=["a"])).tolist() == hash64(pa.table([before.cast(wide)], names=["b"])).tolist()
    )


def test_hash64__unsigned_numbers_above_the_signed_ones__are_those_less_two_to_the_64():
    values = [2**63, 2**64 - 1, 2**63 - 1] * 20

    assert hashes(values, pa.uint64()) == hashes([signed(one) for one in values], pa.int64())


@pytest.mark.parametrize("kind", [pa.binary(), pa.string()])
def test_hash64__bytes_of_any_length__are_hashed_as_they_are(kind):
    values = [one for one in BYTES if kind == pa.binary() or max(one, default=0) < 128]

    assert hash64(pa.table({"k": pa.array(values, pa.binary()).cast(kind)})).tolist() == [
        signed(xxh64(one)) for one in values
    ]


def test_hash64__fixed_bytes__are_like_others():
    assert hashes([b"abc", b"\0\0\0"], pa.binary(3)) == hashes([b"abc", b"\0\0\0"], pa.binary())


def test_hash64__times__are_numbers_of_their_unit_and_timestamps_of_microseconds():
    assert hashes([3, -5], pa.timestamp("s")) == hashes([3_000_000, -5_000_000], pa.int64())
    assert hashes([3, -5], pa.timestamp("ms", "UTC")) == hashes([3_000, -5_000], pa.int64())
    assert hashes([3, -5], pa.timestamp("us")) == hashes([3, -5], pa.int64())
    assert hashes([3, -5], pa.timestamp("ns")) == hashes([3, -5], pa.int64())
    assert hashes([3, 5], pa.time32("ms")) == hashes([3, 5], pa.int64())
    assert hashes([3, 5], pa.time64("ns")) == hashes([3, 5], pa.int64())


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-70_000, 70_000), min_size=1, max_size=20))
def test_hash64__decimals__are_the_fewest_bytes_of_the_unscaled_number(numbers):
    # The highest bit of what is kept is the sign, and no byte before it says anything more.
    wanted = [one.to_bytes((one if one >= 0 else ~one).bit_length() // 8 + 1, "big", signed=True) for one in numbers]
    values = pa.array([Decimal(f"{one}E-2") for one in numbers], pa.decimal128(38, 2))

    assert hash64(pa.table({"k": values})).tolist() == [signed(xxh64(one)) for one in wanted]
    assert hash64(pa.table({"k": values[1:]})).tolist() == [signed(xxh64(one)) for one in wanted[1:]]


def test_hash64__several_columns__each_seeds_the_next():
    table = pa.table({"a": pa.array([1, 2], pa.int32()), "b": ["x", "y"], "c": pa.array([5, 6], pa.date32())})

    expected = []
    for one, text, day in ((1, b"x", 5), (2, b"y", 6)):
        seed = xxh64(text, xxh64(long_bytes(one)))
        expected.append(signed(xxh64(day.to_bytes(4, "little"), seed)))
    assert hash64(table).tolist() == expected
    assert hash64(table.select(["b", "a", "c"])).tolist() != expected


@pytest.mark.parametrize("name", KEYS)
def test_hash64__chunks_and_slices_of_each_type__do_not_matter(name):
    kind, value = KEYS[name]
    keys = pa.table({"k": pa.array([value(one) for one in range(121)], kind)})
    whole = hash64(keys)

    assert len(set(whole.tolist())) == 121
    assert hash64(keys.slice(17, 50)).tolist() == whole[17:67].tolist()
    parts = pa.concat_tables([keys.slice(0, 40), keys.slice(40, 0), keys.slice(40)])
    assert hash64(parts).tolist() == whole.tolist()
    assert hash64(keys.slice(0, 0)).tolist() == []


def test_hash64__null_or_no_key__is_refused():
    with pytest.raises(InvalidInputError, match="null"):
        hashes([1, None], pa.int64())
    with pytest.raises(InvalidInputError, match="can't be part of a key"):
        hashes([1.5], pa.float64())


@pytest.mark.parametrize("count", [1, 2, 3, 7, 9999])
def test_shard_numbers__any_count__are_from_zero_on_and_even(count):
    numbers = shard_numbers(pa.table({"k": np.arange(20_000)}), count)

    assert numbers.min() >= 0
    assert numbers.max() < count
    if count < 100:
        assert np.bincount(numbers, minlength=count).min() > 20_000 / count * 0.9
    assert numbers.tolist() == [one % count for one in hash64(pa.table({"k": np.arange(20_000)})).tolist()]


def test_shard_numbers__no_shards__is_refused():
    with pytest.raises(InvalidInputError):
        shard_numbers(pa.table({"k": [1]}), 0)


def test_split__rows__are_all_there_once_and_in_order():
    rows = pa.concat_tables(
        [pa.table({"n": np.arange(start, start + 100), "k": np.arange(100) % 37}) for start in (0, 100)]
    )

    parts = split(rows, ["k"], 4)

    assert [number for number, _ in parts] == [0, 1, 2, 3]
    for number, part in parts:
        assert set(shard_numbers(part.select(["k"]), 4).tolist()) == {number}
        assert part.column("n").to_pylist() == sorted(part.column("n").to_pylist())
    assert sorted(one for _, part in parts for one in part.column("n").to_pylist()) == list(range(200))


def test_split__one_shard_or_no_rows__copies_nothing():
    rows = pa.table({"k": [5, 5]})

    [(number, part)] = split(rows, ["k"], 4)

    assert part is rows
    assert number == shard_numbers(rows, 4)[0]
    assert split(rows, ["k"], 1) == [(0, rows)]
    assert split(rows.slice(0, 0), ["k"], 4) == []


def fields_of(**kinds):
    return key_fields(make_schema(pa.schema(list(kinds.items())), list(kinds)))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.int64(), "xxhash64(`k`)"),
        (pa.int32(), "xxhash64(CAST(`k` AS BIGINT))"),
        (pa.string(), "xxhash64(`k`)"),
        (pa.decimal128(10, 2), "xxhash64(CAST(`k` AS DECIMAL(38, 2)))"),
        (pa.timestamp("us"), "xxhash64(`k`)"),
        (pa.timestamp("ns"), None),
        (pa.time64("us"), None),
    ],
    ids=str,
)
def test_spark_hash__each_type__is_text_or_none(kind, text):
    assert spark_hash(fields_of(k=kind)) == text


def test_spark_expression__names_and_several_columns__are_quoted():
    fields = fields_of(**{"a`b": pa.int64(), "c d": pa.string()})

    assert spark_expression(fields, 4) == "pmod(xxhash64(`a``b`, `c d`), 4)"
    assert spark_expression(fields_of(k=pa.time64("us")), 4) is None
