"""Single values of a page of texts, without decoding the others.

What must hold:
- A value is what pyarrow would give for it. A page that is not exactly as our own writer makes them is left to
  pyarrow, which says what is wrong with it.
- No byte is used that did not come out of the page: lengths are believed only within it.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from siltstone.errors import CorruptionError
from siltstone.format import thrift
from siltstone.format.parquet import BYTE_ARRAY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from siltstone.format.parquet import Chunk

ZSTD = 6
_DATA_PAGE, _DATA_PAGE_HEAD = 0, 5
_PLAIN, _RLE = 0, 3
_ENCODINGS = frozenset({_PLAIN, _RLE})
_CODEC = pa.Codec("zstd")
_SIZE = struct.Struct("<I")
_OFFSETS = struct.Struct("<ii")
_VARINT_SHIFT_MAX = 28


class _OtherwiseError(Exception):
    """The page is written in another way."""


_BROKEN = (_OtherwiseError, KeyError, IndexError, TypeError, ValueError, struct.error)


def readable(chunk: Chunk, kind: pa.DataType) -> bool:
    """Whether pages of a chunk may be read here, as values of a type that the file has, too."""
    return (
        chunk.type == BYTE_ARRAY
        and chunk.codec == ZSTD
        and chunk.data == chunk.range.start  # no dictionary
        and _ENCODINGS.issuperset(chunk.encodings)
        and bool(kinds.is_string(kind) or kinds.is_binary(kind))
    )


def plain_page(page: bytes | memoryview, *, values: int, plain_most: int) -> bytes | None:
    """What a page unpacks to, whose bytes are checked; None where it is left to pyarrow.

    It must have so many values, nulls counted, and at most ``plain_most`` bytes when unpacked.
    """
    try:
        return _decompressed(page, values=values, plain_most=plain_most)
    except (*_BROKEN, CorruptionError, pa.ArrowException, OSError, OverflowError, MemoryError):
        return None


def values_of(plain: bytes, wanted: Sequence[int], *, values: int, optional: bool) -> list[bytes | None] | None:
    """The values at some places of what ``plain_page`` gave; None where the page is left to pyarrow."""
    try:
        start, present = _levels(plain, values) if optional else (0, None)
        return _picked(plain, start, present, wanted)
    except _BROKEN:
        return None


def as_array(value: bytes | None, kind: pa.DataType) -> pa.Array:
    """A text as an array that has nothing else."""
    if value is None:
        return pa.nulls(1, kind)
    offsets = pa.py_buffer(_OFFSETS.pack(0, len(value)))
    return pa.Array.from_buffers(kind, 1, [None, offsets, pa.py_buffer(value)], null_count=0)


def _decompressed(page: bytes | memoryview, *, values: int, plain_most: int) -> bytes:
    head, start = thrift.decode(page, name="a page")  # type: ignore[arg-type]
    more = head[_DATA_PAGE_HEAD][1]
    size, packed = head[2][1], memoryview(page)[start:]
    good = (
        head[1][1] == _DATA_PAGE
        and head[3][1] == len(packed)
        and (more[1][1], more[2][1], more[3][1]) == (values, _PLAIN, _RLE)
        and 0 <= size <= plain_most
    )
    if not good:
        raise _OtherwiseError
    # Refused where it is not exactly of that size.
    plain: bytes = _CODEC.decompress(packed, decompressed_size=size, asbytes=True)
    return plain


def _levels(plain: bytes, values: int) -> tuple[int, NDArray[np.bool_] | None]:
    """Where the values begin, and which of them are there; None where all are."""
    if plain.startswith(whole := _all_there(values)):
        return len(whole), None
    start = _SIZE.size
    end = start + _SIZE.unpack_from(plain)[0]
    found: list[NDArray[np.bool_]] = []
    count = 0
    while count < values:
        if start >= end:
            raise _OtherwiseError
        head, start = _varint(plain, start)
        if head & 1:
            width = min(head >> 1, end - start, -(-(values - count) // 8))
            run = np.unpackbits(np.frombuffer(plain, np.uint8, width, start), bitorder="little").astype(np.bool_)
            start += head >> 1
        else:
            run = np.full(min(head >> 1, values - count), plain[start] == 1)
            start += 1
        found.append(run)
        count += len(run)
        if not len(run):
            raise _OtherwiseError
    present = found[0] if len(found) == 1 else np.concatenate(found)
    present = present[:values]
    return end, None if present.all() else present


@lru_cache(maxsize=1024)
def _all_there(values: int) -> bytes:
    """The levels of a page without nulls: their size, and a run of ones."""
    run = thrift.varint(values << 1) + b"\1"
    return _SIZE.pack(len(run)) + run


def _varint(data: bytes, start: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[start]
        start += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, start
        shift += 7
        if shift > _VARINT_SHIFT_MAX:
            raise _OtherwiseError


def _picked(plain: bytes, start: int, present: NDArray[np.bool_] | None, wanted: Sequence[int]) -> list[bytes | None]:
    """Values by their places: each says how long it is, so those before it are stepped over."""
    found: dict[int, bytes | None] = {}
    size_at, step = _SIZE.unpack_from, _SIZE.size
    passed = 0
    for place in sorted(set(wanted)):
        if present is not None and not present[place]:
            found[place] = None
            continue
        number = place if present is None else int(np.count_nonzero(present[:place]))
        for _ in range(number - passed):
            start += step + size_at(plain, start)[0]
        passed = number
        end = start + step + size_at(plain, start)[0]
        if end > len(plain):
            raise _OtherwiseError
        found[place] = plain[start + step : end]
    return [found[place] for place in wanted]
