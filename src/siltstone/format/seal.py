"""Checksums of what Parquet leaves unprotected: a block between a file's last page index and its footer.

A page's checksum covers its values, not its head, and neither an index nor the footer has any. A flipped bit there
hides rows or changes what values mean, so a reader that looks up single pages would not notice.

What must hold:
- A sealed file is the same Parquet file to every other reader: nothing before the block moves, and the footer
  is the same bytes.
- The footer is checked before anything in it is believed; a part is checked before it is used.
- A file without the block is read as it is.

The block is, for each row group and each of its columns, the XXH3 of the column's bytes, of its offset index, its
column index and its bloom filter (0 where it has none), then the XXH3 of all these, the XXH3 of the footer with what
follows it, and a magic; numbers are little-endian and have 64 bits.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from siltstone.errors import CorruptionError
from siltstone.format.parquet import Chunk, Footer, Range, footer_start, parse_footer

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC = b"siltsums"

_END_BYTES = 24


class Part(IntEnum):
    """What has a checksum of its own."""

    DATA = 0
    OFFSETS = 1
    BOUNDS = 2
    BLOOM = 3


def part_range(chunk: Chunk, part: Part) -> Range:
    """Where a part of a column is."""
    return (chunk.range, chunk.offsets, chunk.bounds, chunk.bloom)[part]


def seal(data: bytes | memoryview, *, name: str) -> bytes:
    """A finished Parquet file with the block; ``name`` is for the error where it is none."""
    view = memoryview(data)
    start = footer_start(bytes(view[-16:]), size=len(view), name=name)
    footer = parse_footer(bytes(view[start:]), start=start, name=name)
    sums = b"".join(_number(_sum(view[slice(*found)]) if found.end else 0) for found in _parts(footer))
    block = sums + _number(_sum(sums)) + _number(_sum(view[start:])) + MAGIC
    return b"".join((view[:start], block, view[start:]))


def block_bytes(footer: Footer) -> int:
    """How long the block before a footer is, if there is one."""
    return sum(8 * len(Part) * len(group.chunks) for group in footer.groups) + _END_BYTES


def is_sealed(before: bytes) -> bool:
    """Whether the bytes right before a footer are the end of a block."""
    return before[-len(MAGIC) :] == MAGIC


def check_footer(before: bytes, footer: bytes, *, name: str) -> None:
    """Check the footer, with what follows it, against the end of the block."""
    if _number(_sum(footer)) != before[-2 * len(MAGIC) : -len(MAGIC)]:
        raise _changed("the footer", name)


class Sums:
    """The checksums of a file's parts; none where it is not sealed."""

    def __init__(self, block: bytes, *, name: str, leaves: int) -> None:
        self.name = name
        self.nbytes = len(block)
        self._leaves = leaves
        sums = block[:-_END_BYTES]
        if block and _number(_sum(sums)) != block[-_END_BYTES : 8 - _END_BYTES]:
            raise _changed("the list of checksums", name)
        self._sums = np.frombuffer(sums, "<u8")

    def __bool__(self) -> bool:
        return bool(self.nbytes)

    def check(self, data: bytes, part: Part, *, group: int, leaf: int) -> None:
        """Check a part's bytes."""
        if self.nbytes and _sum(data) != self._sums[(group * self._leaves + leaf) * len(Part) + part]:
            raise _changed(f"the {part.name.lower()} of column {leaf} in row group {group}", self.name)


def _parts(footer: Footer) -> Iterator[Range]:
    for group in footer.groups:
        for chunk in group.chunks:
            for part in Part:
                yield part_range(chunk, part)


def _sum(data: bytes | memoryview) -> int:
    return xxhash.xxh3_64_intdigest(data)


def _number(number: int) -> bytes:
    return number.to_bytes(8, "little")


def _changed(what: str, name: str) -> CorruptionError:
    return CorruptionError(
        f"{name} is damaged: {what} changed since it was written", hint="restore it from a copy", object=name
    )
