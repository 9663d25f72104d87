"""Which shard a key belongs to.

What must hold:
- A key's hash depends on its values alone: not on names, chunks or what else is in a batch, and not on the width of
  its columns, so that it stays when a column of the key is widened. It never changes: rows lie where it said.
- Spark computes the same hash by itself, for all types that it has (``spark_hash``).

The hash is XXH64 with the seed 42 over the first column's bytes; the hash of each column is the seed of the next one,
as in Spark's ``xxhash64``. The bytes of a value, little endian:

- integers, signed or not, of any width: 8 bytes, as int64 (uint64 from 2**63 on: less 2**64)
- timestamps of seconds, milliseconds and microseconds: 8 bytes, as microseconds; of nanoseconds: as such
- date32: 4 bytes, as days; time32 and time64: 8 bytes, in their unit
- string, binary and fixed_size_binary: the bytes
- decimal128: those of the unscaled number, the fewest that hold it with its sign, the highest byte first

A key's shard is its hash, as a signed number, modulo the count of shards, from 0 on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
import xxhash

from siltstone.errors import InvalidInputError, UnsupportedTypeError
from siltstone.table.schema import arrow_type
from siltstone.table.types import shown, shown_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from siltstone.format.table import Field

SEED = 42

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(one)
    for one in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)
_BITS = np.uint64(64)
_TO_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_DECIMAL_BYTES = 16
_DIGITS_MAX = 38
_FEW_ROWS = 32


def hash64(keys: pa.Table) -> NDArray[np.int64]:
    """The hash of each key; ``keys`` has the columns of the key, in its order.

    Raises:
        InvalidInputError: one is null, or of a type that no key has.
    """
    seeds = np.full(keys.num_rows, SEED, np.uint64)
    if not keys.num_rows:
        return seeds.view(np.int64)
    for field, column in zip(keys.schema, keys.columns, strict=True):
        values = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        if values.null_count:
            raise InvalidInputError(f"column {shown(field.name)} of a key is null", hint="give each row its key")
        seeds = _hashed(values, seeds, column=field.name)
    return seeds.view(np.int64)


def shard_numbers(keys: pa.Table, count: int) -> NDArray[np.int64]:
    """The number of the shard that each key belongs to, of ``count`` shards."""
    if count < 1:
        raise InvalidInputError(f"there are {count} shards to choose from", hint="a table has at least one shard")
    if count == 1:
        return np.zeros(keys.num_rows, np.int64)
    return hash64(keys) % np.int64(count)  # not negative, as the count is not


def split(rows: pa.Table, key: Sequence[str], count: int) -> list[tuple[int, pa.Table]]:
    """The rows of each shard that has some, in their order, by the shard's number."""
    if not rows.num_rows:
        return []
    numbers = shard_numbers(rows.select(list(key)), count)
    order = np.argsort(numbers, kind="stable")
    used, first = np.unique(numbers[order], return_index=True)
    if len(used) == 1:
        return [(int(used[0]), rows)]
    rows = rows.combine_chunks()
    parts = zip(used.tolist(), np.split(order, first[1:]), strict=True)
    return [(number, rows.take(pa.array(part))) for number, part in parts]


def spark_expression(fields: Sequence[Field], count: int) -> str | None:
    """Spark SQL for the number of a key's shard; ``fields`` are the key's. None where Spark can't tell."""
    text = spark_hash(fields)
    return f"pmod({text}, {count})" if text is not None else None


def spark_hash(fields: Sequence[Field]) -> str | None:
    """Spark SQL for the hash of a key, from its columns as Spark has them; None where it lacks the type of one."""
    parts = [_spark_value(arrow_type(field), f"`{field.name.replace('`', '``')}`") for field in fields]
    return f"xxhash64({', '.join(part for part in parts if part)})" if all(parts) else None


def _spark_value(kind: pa.DataType, name: str) -> str | None:
    if kinds.is_uint64(kind):  # decimal(20, 0) in Spark
        return f"CAST(CASE WHEN {name} >= {2**63} THEN {name} - {2**64} ELSE {name} END AS BIGINT)"
    if kinds.is_integer(kind):
        return name if kinds.is_int64(kind) else f"CAST({name} AS BIGINT)"
    if kinds.is_decimal128(kind):  # shorter ones are hashed as numbers there
        return name if kind.precision == _DIGITS_MAX else f"CAST({name} AS DECIMAL({_DIGITS_MAX}, {kind.scale}))"
    if kinds.is_timestamp(kind):
        return name if kind.unit in _TO_MICROSECONDS else None
    if kinds.is_string(kind) or kinds.is_binary(kind) or kinds.is_fixed_size_binary(kind) or kinds.is_date32(kind):
        return name
    return None


# -- values to hashes ------------------------------------------------------------------------------


def _hashed(values: pa.Array, seeds: NDArray[np.uint64], *, column: str) -> NDArray[np.uint64]:
    kind = values.type
    if kinds.is_integer(kind):
        return _hash_longs(values.to_numpy(), seeds)
    if kinds.is_date32(kind):
        return _hash_ints(values.view(pa.int32()).to_numpy(), seeds)
    if kinds.is_timestamp(kind) or kinds.is_time(kind):
        numbers = values.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_numpy().astype(np.int64)
        # Timestamps that don't fit are no rows of any table; times stay in their unit.
        scale = _TO_MICROSECONDS.get(kind.unit, 1) if kinds.is_timestamp(kind) else 1
        return _hash_longs(numbers * np.int64(scale), seeds)
    if kinds.is_string(kind) or kinds.is_binary(kind) or kinds.is_fixed_size_binary(kind):
        return _hash_bytes(values.cast(pa.binary()), seeds)
    if kinds.is_decimal128(kind):
        return _hash_bytes(_fewest_bytes(values), seeds)
    raise UnsupportedTypeError(
        f"column {shown(column)} of type {shown_type(kind)} can't be part of a key", hint="choose another key"
    )


def _hash_longs(numbers: NDArray[Any], seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """XXH64 of 8 bytes each."""
    long = numbers.astype(np.int64).view(np.uint64) if numbers.dtype != np.uint64 else numbers
    if len(long) <= _FEW_ROWS:
        return _hash_few(long.astype("<u8"), seeds)
    mixed = seeds + _P5 + np.uint64(8)
    mixed ^= _rotated(long * _P2, 31) * _P1
    return _finished(_rotated(mixed, 27) * _P1 + _P4)


def _hash_ints(numbers: NDArray[np.int32], seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """XXH64 of 4 bytes each."""
    if len(numbers) <= _FEW_ROWS:
        return _hash_few(numbers.astype("<i4"), seeds)
    mixed = seeds + _P5 + np.uint64(4)
    mixed ^= numbers.view(np.uint32).astype(np.uint64) * _P1
    return _finished(_rotated(mixed, 23) * _P2 + _P3)


def _hash_few(numbers: NDArray[Any], seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """XXH64 of the bytes of a few numbers, each by itself: numpy takes as long for one as for a thousand."""
    width, plain = numbers.itemsize, numbers.tobytes()
    parts = [plain[start : start + width] for start in range(0, len(plain), width)]
    return np.fromiter(map(xxhash.xxh64_intdigest, parts, seeds.tolist()), np.uint64, len(parts))


def _hash_bytes(values: pa.Array, seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """XXH64 of bytes of any length; the library is faster for each than numpy is for all."""
    found = map(xxhash.xxh64_intdigest, values.to_pylist(), seeds.tolist())
    return np.fromiter(found, np.uint64, len(values))


def _rotated(numbers: NDArray[np.uint64], by: int) -> NDArray[np.uint64]:
    return (numbers << np.uint64(by)) | (numbers >> (_BITS - np.uint64(by)))


def _finished(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    numbers ^= numbers >> np.uint64(33)
    numbers *= _P2
    numbers ^= numbers >> np.uint64(29)
    numbers *= _P3
    numbers ^= numbers >> np.uint64(32)
    return numbers


def _fewest_bytes(values: pa.Array) -> pa.Array:
    """The unscaled numbers of decimals, each in as few bytes as hold it with its sign, the highest first."""
    stored = np.frombuffer(values.buffers()[1], np.uint8, len(values) * _DECIMAL_BYTES, values.offset * _DECIMAL_BYTES)
    highest_first = stored.reshape(-1, _DECIMAL_BYTES)[:, ::-1]
    sign = np.where(highest_first[:, :1] >= 128, np.uint8(255), np.uint8(0))
    # A byte can go where it repeats the sign, which the next byte still tells.
    can_go = (highest_first[:, :-1] == sign) & ((highest_first[:, 1:] ^ sign) < 128)
    going = np.logical_and.accumulate(can_go, axis=1)
    kept = np.ones(highest_first.shape, np.bool_)
    kept[:, :-1] = ~going
    ends = np.concatenate([np.zeros(1, np.int32), np.cumsum(kept.sum(axis=1), dtype=np.int32)])
    data = pa.py_buffer(highest_first[kept].tobytes())
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(ends.tobytes()), data])
