"""Checksums of what Parquet leaves unprotected: a block between a file's last page index and its footer.

A page's own checksum covers its values but not its head, and neither an index nor the footer has any. A flipped bit
there hides rows or changes what values mean, and a reader that looks up single pages would not notice.

What must hold:
- A sealed file is the same Parquet file to every other reader: nothing before the block moves, and the footer
  is the same bytes.
- The footer is checked before anything in it is believed, and each part before it is used.
- A file without the block is read as it is.

The block has four parts. Sums are XXH3 with 64 bits, in their canonical, big-endian form.

1. For each column of each row group, the sum of each of its pages: its dictionary, if any, and its data pages. There
   are none where it has no offset index.
2. For each of them again, a row of the table: how many sums it has in the first part (four bytes, little-endian), and
   the sums of all its bytes, its offset index, its column index, its bloom filter and of its sums in the first part.
3. The sum of the table, and the sum of the footer with what follows it.
4. Eight bytes of magic.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import accumulate
from typing import TYPE_CHECKING

import xxhash

from siltstone.errors import CorruptionError
from siltstone.format.parquet import Chunk, Footer, Range, footer_start, parse_footer, parse_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC = b"siltsums"
SUM_BYTES = 8
END_BYTES = 3 * SUM_BYTES


class Part(IntEnum):
    """What has a row's sum of its own."""

    DATA = 0
    OFFSETS = 1
    BOUNDS = 2
    BLOOM = 3
    PAGES = 4


_COUNT_BYTES = 4
_ROW_BYTES = _COUNT_BYTES + SUM_BYTES * len(Part)


def seal(data: bytes | memoryview, *, name: str) -> bytes:
    """A finished Parquet file with the block; ``name`` is for the error where it is none."""
    view = memoryview(data)
    start = footer_start(bytes(view[-16:]), size=len(view), name=name)
    footer = parse_footer(bytes(view[start:]), start=start, name=name)
    pages, rows = [], []
    for group in footer.groups:
        for chunk in group.chunks:
            sums = b"".join(summed(_cut(view, one)) for one in _pages(view, chunk, group.rows, name=name))
            parts = [_cut(view, part_range(chunk, part)) for part in Part if part is not Part.PAGES]
            pages.append(sums)
            rows.append((len(sums) // SUM_BYTES).to_bytes(_COUNT_BYTES, "little"))
            rows += [*map(summed, parts), summed(sums)]
    table = b"".join(rows)
    return b"".join((view[:start], *pages, table, summed(table), summed(view[start:]), MAGIC, view[start:]))


def is_sealed(before: bytes) -> bool:
    """Whether the bytes right before a footer are the end of a block."""
    return before[-len(MAGIC) :] == MAGIC


def check_footer(before: bytes, footer: bytes, *, name: str) -> None:
    """Check the footer, with what follows it, against the bytes before it."""
    if summed(footer) != before[-2 * SUM_BYTES : -SUM_BYTES]:
        raise _changed("the footer", name)


def table_range(footer: Footer, *, start: int, name: str) -> Range:
    """Where the table and its sum are in a sealed file whose footer begins at ``start``."""
    end = start - END_BYTES + SUM_BYTES
    first = end - SUM_BYTES - _ROW_BYTES * sum(len(group.chunks) for group in footer.groups)
    if first < 0:
        raise _changed("the footer", name)
    return Range(first, end)


def part_range(chunk: Chunk, part: Part) -> Range:
    """Where a part of a column is that has a sum."""
    return (chunk.range, chunk.offsets, chunk.bounds, chunk.bloom)[part]


def summed(data: bytes | memoryview) -> bytes:
    """The sum of some bytes."""
    return xxhash.xxh3_64_digest(data)


class Sums:
    """The table of a file; empty, and believing all, where it is not sealed."""

    def __init__(self, data: bytes, where: Range, *, leaves: int, name: str) -> None:
        self._name = name
        self._leaves = leaves
        self._table = data[:-SUM_BYTES]
        if data and summed(self._table) != data[-SUM_BYTES:]:
            raise _changed("the table of checksums", name)
        starts = range(0, len(self._table), _ROW_BYTES)
        counts = [int.from_bytes(self._table[one : one + _COUNT_BYTES], "little") * SUM_BYTES for one in starts]
        self._page_sums = [*accumulate(counts, initial=where.start - sum(counts))]
        if self._page_sums[0] < 0:
            raise _changed("the table of checksums", name)

    def __bool__(self) -> bool:
        return bool(self._table)

    def page_sums(self, group: int, leaf: int) -> Range:
        """Where the sums of a column's pages are; nowhere where it has none."""
        if not self._table:
            return Range(0, 0)
        row = group * self._leaves + leaf
        return Range(self._page_sums[row], self._page_sums[row + 1])

    def check(self, data: bytes, part: Part, *, group: int, leaf: int) -> None:
        """Check the bytes of a part."""
        if not self._table:
            return
        start = (group * self._leaves + leaf) * _ROW_BYTES + _COUNT_BYTES + part * SUM_BYTES
        if summed(data) != self._table[start : start + SUM_BYTES]:
            raise _changed(f"the {part.name.lower()} of column {leaf} in row group {group}", self._name)


def check_page(data: bytes | memoryview, sums: bytes, place: int, *, name: str) -> None:
    """Check a page against the sum at a place among those of its column."""
    if summed(data) != sums[place * SUM_BYTES : (place + 1) * SUM_BYTES]:
        raise _changed(f"page {place} of a column", name)


def _pages(view: memoryview, chunk: Chunk, rows: int, *, name: str) -> Iterator[Range]:
    if not chunk.offsets.end:
        return
    if chunk.data > chunk.range.start:
        yield Range(chunk.range.start, chunk.data)
    found = parse_offsets(bytes(_cut(view, chunk.offsets)), chunk, rows=rows, name=name)
    yield from map(Range, found.starts, found.ends)


def _changed(what: str, name: str) -> CorruptionError:
    return CorruptionError(
        f"{name} is damaged: {what} changed since it was written", hint="restore it from a copy", object=name
    )


def _cut(view: memoryview, where: Range) -> memoryview:
    return view[where.start : where.end]
