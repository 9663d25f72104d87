"""Parquet's split-block bloom filters: whether a row group may hold a value.

What must hold:
- A value that was put in is always found; others are found rarely.
- Values are hashed as Parquet writes them plainly: numbers little-endian in the width of the file's column,
  strings without their length.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
import xxhash

from siltstone.errors import CorruptionError
from siltstone.format import thrift

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCK_BYTES = 32
BLOOM_BYTES_MAX = 128 * 1024 * 1024

_SALT = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)
_SALTS = _SALT.tolist()
_BLOCK = struct.Struct("<8I")
_WORD = 0xFFFFFFFF
_LEAST_BITS = 32  # Parquet stores narrower integers in as many
_HEAD_BYTES_MAX = 64
_SIZE, _ALGORITHM, _HASH, _COMPRESSION = 1, 2, 3, 4


class Bloom:
    """The filter of one column in one row group."""

    def __init__(self, data: bytes, *, name: str) -> None:
        head, start = thrift.decode(data[:_HEAD_BYTES_MAX], name=name)
        size = head.get(_SIZE, (thrift.I32, 0))
        known = all(
            head.get(one, (0, None))[1] == {1: (thrift.STRUCT, {})} for one in (_ALGORITHM, _HASH, _COMPRESSION)
        )
        if size[0] != thrift.I32 or size[1] < BLOCK_BYTES or size[1] % BLOCK_BYTES or size[1] != len(data) - start:
            raise CorruptionError(
                f"{name} is damaged: a bloom filter has another size than it says",
                hint="restore it from a copy",
                object=name,
            )
        self._blocks = np.frombuffer(data, "<u4", offset=start).reshape(-1, 8) if known else None
        self._data = memoryview(data)[start:]
        self.nbytes = len(data)

    def might_contain(self, hashes: np.ndarray) -> np.ndarray:
        """For each hash, whether the row group may hold its value; all may where the filter is of an unknown kind."""
        if self._blocks is None:
            return np.ones(len(hashes), dtype=bool)
        places = ((hashes >> np.uint64(32)) * np.uint64(len(self._blocks))) >> np.uint64(32)
        bits = (hashes.astype(np.uint32)[:, None] * _SALT) >> np.uint32(27)
        found: np.ndarray = (self._blocks[places] >> bits & np.uint32(1)).all(axis=1)
        return found

    def might_contain_one(self, one: int) -> bool:
        """The same for one hash, several times as fast."""
        if self._blocks is None:
            return True
        words = _BLOCK.unpack_from(self._data, BLOCK_BYTES * ((one >> 32) * (len(self._data) // BLOCK_BYTES) >> 32))
        low = one & _WORD
        return all(word >> ((low * salt & _WORD) >> 27) & 1 for word, salt in zip(words, _SALTS, strict=True))


def hashes(values: pa.Array) -> np.ndarray:
    """The hashes of values without nulls, of the type that a file's column has."""
    return np.array([xxhash.xxh64_intdigest(one) for one in _plain(values)], np.uint64)


def hash_one(value: pa.Array) -> int:
    """The same for an array of one value."""
    return xxhash.xxh64_intdigest(_plain(value)[0])


def can_hash(kind: pa.DataType) -> bool:
    """Whether values of a type are hashed as they lie in memory, or as a wider integer."""
    return bool(
        kinds.is_integer(kind)
        or (kinds.is_temporal(kind) and not kinds.is_interval(kind))
        or kinds.is_string(kind)
        or kinds.is_binary(kind)
        or kinds.is_fixed_size_binary(kind)
    )


def _plain(values: pa.Array) -> Sequence[bytes]:
    kind = values.type
    if kinds.is_string(kind) or kinds.is_binary(kind):
        _, offsets, data = values.buffers()
        ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].tolist()
        view = memoryview(data) if data is not None else memoryview(b"")
        return [view[start:end] for start, end in pairwise(ends)]  # type: ignore[misc]
    if kinds.is_fixed_size_binary(kind) or kind.bit_width >= _LEAST_BITS:
        width = kind.byte_width
        plain = bytes(memoryview(values.buffers()[1])[values.offset * width : (values.offset + len(values)) * width])
    else:
        width = _LEAST_BITS // 8
        plain = values.to_numpy().astype(np.int32).tobytes()
    return [plain[start : start + width] for start in range(0, len(plain), width)]
