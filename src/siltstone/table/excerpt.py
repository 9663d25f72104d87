"""Some rows of one fragment, by page: which bytes they need, and what comes of them.

What must hold:
- Bytes are used only after they were checked.
- Columns whose pages align are decoded together, as one small file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from siltstone.format.seal import Part
from siltstone.table import pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from siltstone.format.parquet import Range
    from siltstone.table.columns import Plan
    from siltstone.table.fragment_bytes import FragmentBytes
    from siltstone.table.indexes import Index, Indexes
    from siltstone.table.pages import Piece

    Checked = list[list[list[bytes]]]  # by pick and column


class Pick(NamedTuple):
    """Rows of one row group: those of some pages, or all."""

    group: int
    pages: list[int] | None  # None: all
    starts: list[int]  # the first row of each page in the file, or of the row group
    counts: list[int]  # the rows of each


class _Column(NamedTuple):
    """What an excerpt has of one column chunk."""

    leaf: int
    piece: Piece
    offsets: Index | None  # None: all pages
    kept: bytes  # its dictionary, where it need not be fetched


class Excerpt:
    """One small file: which ranges it needs, and what comes of them."""

    def __init__(self, source: FragmentBytes, indexes: Indexes, plan: Plan, picks: Sequence[Pick]) -> None:
        self._source = source
        self._indexes = indexes
        self._plan = plan
        self._picks = picks
        self._parts: list[list[_Column]] = []
        self.ranges: list[Range] = []
        for pick in picks:
            parts = self._whole(pick.group) if pick.pages is None else self._some(pick.group, pick.pages)
            self._parts.append(parts)
            for part in parts:
                self.ranges += part.piece.ranges[1:] if part.kept else part.piece.ranges

    def checked(self, fetched: Iterator[bytes]) -> Checked:
        """The bytes that it is made of: the next of ``fetched``, checked, and those that were kept."""
        return [
            [self._bytes(pick, part, fetched) for part in parts]
            for pick, parts in zip(self._picks, self._parts, strict=True)
        ]

    def table(self, checked: Checked, *, threads: bool = False) -> pa.Table:
        """The rows."""
        plan, name = self._plan, self._source.key
        if not plan.leaves:
            return plan.fill(sum(sum(pick.counts) for pick in self._picks))
        groups = [
            (sum(pick.counts), [(part.piece, data) for part, data in zip(parts, found, strict=True)])
            for pick, parts, found in zip(self._picks, self._parts, checked, strict=True)
        ]
        rows = sum(count for count, _ in groups)
        file = pages.build(plan.head, groups)
        found = pages.read(file, rows=rows, name=name, threads=threads, checksums=not self._source.sums)
        return plan.shape(found)

    def _whole(self, group: int) -> list[_Column]:
        chunks = self._source.footer.groups[group].chunks
        return [_Column(leaf, pages.whole(chunks[leaf]), None, b"") for leaf in self._plan.leaves]

    def _some(self, group: int, chosen: list[int]) -> list[_Column]:
        chunks = self._source.footer.groups[group].chunks
        parts = []
        for leaf in self._plan.leaves:
            index = self._indexes.index(group, leaf)
            piece = pages.some(chunks[leaf], index, chosen)
            # Asked for once: another thread may keep it at any time.
            kept = self._indexes.dictionary(group, leaf) if piece.dictionary_bytes else b""
            parts.append(_Column(leaf, piece, index, kept))
        return parts

    def _bytes(self, pick: Pick, part: _Column, fetched: Iterator[bytes]) -> list[bytes]:
        leaf, piece, offsets, kept = part
        if offsets is None or pick.pages is None:
            data = next(fetched)
            self._source.sums.check(data, Part.DATA, group=pick.group, leaf=leaf)
            return [data]
        found = [kept] if kept else []
        found += [next(fetched) for _ in piece.ranges[len(found) :]]
        pages.check(piece, found, offsets, pick.pages, name=self._source.key)
        if piece.dictionary_bytes and not kept:
            self._indexes.keep_dictionary(found[0], group=pick.group, leaf=leaf)
        return found
