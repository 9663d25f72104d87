"""A few rows of one fragment, anywhere in it: what was read for them is kept for who comes back.

What must hold:
- All bytes that a call needs, and that are not kept, come with one request.
- Of short values whole pages are kept, since others will ask for their neighbours. Of long ones those that were asked
  for are kept; their pages only where there is place to spare, since one would take the place of hundreds of values.
- What is kept has memory of its own, never a view of something larger.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from siltstone.format import thrift
from siltstone.format.parquet import ELEMENT_REPETITION
from siltstone.table.columns import filler
from siltstone.table.excerpt import Excerpt, Pick
from siltstone.table.page_cache import PLAIN, WHOLE
from siltstone.table.page_values import as_array, plain_page, readable, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from siltstone.format.parquet import Node
    from siltstone.table.columns import Plan
    from siltstone.table.excerpt import Checked
    from siltstone.table.fragment_bytes import FragmentBytes
    from siltstone.table.indexes import Index, Indexes, Layout
    from siltstone.table.page_cache import PageCache

    Cells = list[list[pa.Array]]  # by column and row: arrays of one value
    Page = tuple[int, int]  # row group and number

LONG_PAGE_ROWS = 512  # pages of fewer rows have long values
_REQUIRED = (thrift.I32, 0)


class _Column:
    """The values of one column: where they are, and those that were found."""

    def __init__(self, plan: Plan, node: Node, layouts: dict[int, Layout], where: Sequence[tuple[int, int]]) -> None:
        self.plan = plan
        self.node = node
        self.layouts = layouts
        self.cells: list[pa.Array] = [None] * len(where)
        # Of each page: places among the rows asked for, and the row of the page.
        self.missing: dict[Page, list[tuple[int, int]]] = {}

    def find(self, where: Sequence[tuple[int, int]], cache: PageCache) -> None:
        """Take what is kept, and note what is missing."""
        plan = self.plan
        known = {group: (layout.firsts, self.is_long(group)) for group, layout in self.layouts.items()}
        for place, (group, row) in enumerate(where):
            firsts, long = known[group]
            page = bisect_right(firsts, row) - 1
            inside = row - firsts[page]
            if long:
                found = cache.get((plan, group, page, inside))
            else:
                found = cache.get((plan, group, page, WHOLE))
                found = None if found is None else found.slice(inside, 1)
            if found is None:
                self.missing.setdefault((group, page), []).append((place, inside))
            self.cells[place] = found

    def is_long(self, group: int) -> bool:
        """Whether its pages have long values there."""
        counts = self.layouts[group].counts
        return counts[0] < LONG_PAGE_ROWS and len(counts) > 1

    def lacks(self, *, long: bool) -> list[Page]:
        """The pages that are missing, in order: those of long values, or the others."""
        return sorted(page for page in self.missing if self.is_long(page[0]) is long)

    def picks(self, pages: Sequence[Page], starts: Sequence[int]) -> list[Pick]:
        """How pages are read."""
        picks = []
        for group, some in groupby(pages, lambda page: page[0]):
            layout, chosen = self.layouts[group], [number for _, number in some]
            firsts = [starts[group] + layout.firsts[number] for number in chosen]
            picks.append(Pick(group, chosen, firsts, [layout.counts[number] for number in chosen]))
        return picks


class Few:
    """Reads a few rows of one fragment at a time. Safe to share between threads."""

    def __init__(self, source: FragmentBytes, indexes: Indexes, cache: PageCache) -> None:
        self._source = source
        self._indexes = indexes
        self._cache = cache
        self._starts = [one.start for one in source.footer.groups]

    def cells(self, plan: Plan, rows: Sequence[int]) -> Cells | None:
        """The values of some rows, in any order; None where a column has no pages that are known by their rows."""
        nodes = [node for node in plan.nodes if node is not None]
        if not plan.flat:
            return None
        starts = self._starts
        where = [(group := bisect_right(starts, row) - 1, row - starts[group]) for row in rows]
        groups = sorted({group for group, _ in where})
        self._indexes.load(groups, [node.leaf for node in nodes])
        columns: list[_Column | None] = []
        for field, node in zip(plan.fields, plan.nodes, strict=True):
            if node is None:
                columns.append(None)
                continue
            layouts = {group: layout for group in groups if (layout := self._layout(group, node.leaf)) is not None}
            if len(layouts) < len(groups):
                return None
            column = _Column(self._indexes.plan((field,)), node, layouts, where)
            column.find(where, self._cache)
            self._pick_from_plain(column)
            columns.append(column)
        self._read([column for column in columns if column is not None and column.missing])
        return [
            [filler(field, 1).chunk(0)] * len(rows) if column is None else column.cells
            for field, column in zip(plan.fields, columns, strict=True)
        ]

    def _layout(self, group: int, leaf: int) -> Layout | None:
        if not self._source.footer.groups[group].chunks[leaf].offsets.end:
            return None
        return self._indexes.index(group, leaf).layout

    def _read(self, columns: Sequence[_Column]) -> None:
        """Read what is missing, with one request."""
        if not columns:
            return
        alike: dict[object, list[_Column]] = {}  # by the pages that they lack, where these have the same rows
        long: list[_Column] = []
        for column in columns:
            short = column.lacks(long=False)
            if short:
                alike.setdefault(tuple((page, id(column.layouts[page[0]])) for page in short), []).append(column)
            if len(short) < len(column.missing):
                long.append(column)
        short_reads = [(same, *self._excerpt(same, same[0].lacks(long=False))) for same in alike.values()]
        long_reads = [(column, *self._excerpt([column], column.lacks(long=True))) for column in long]
        excerpts = [excerpt for _, _, excerpt in (*short_reads, *long_reads)]
        fetched = iter(self._source.fetch([one for excerpt in excerpts for one in excerpt.ranges]))
        for same, picks, excerpt in short_reads:
            self._keep_pages(same, picks, excerpt.table(excerpt.checked(fetched)))
        for column, picks, excerpt in long_reads:
            self._read_values(column, picks, excerpt, excerpt.checked(fetched))

    def _excerpt(self, columns: Sequence[_Column], pages: Sequence[Page]) -> tuple[list[Pick], Excerpt]:
        picks = columns[0].picks(pages, self._starts)
        plan = self._indexes.plan([column.plan.fields[0] for column in columns])
        return picks, Excerpt(self._source, self._indexes, plan, picks)

    def _keep_pages(self, columns: Sequence[_Column], picks: Sequence[Pick], table: pa.Table) -> None:
        start = 0
        for group, page, count in _pages(picks):
            rows = None if count == table.num_rows else pa.array(np.arange(start, start + count))
            start += count
            for place, column in enumerate(columns):
                found = table.column(place)
                array = (found if rows is None else found.take(rows)).combine_chunks()
                self._cache.put((column.plan, group, page, WHOLE), array, array.get_total_buffer_size())
                for cell, row in column.missing[group, page]:
                    column.cells[cell] = array.slice(row, 1)

    def _pick_from_plain(self, column: _Column) -> None:
        """Find missing values in pages that are kept as they were unpacked."""
        for group, page in column.lacks(long=True) if column.missing else ():
            plain = self._cache.get((column.plan, group, page, PLAIN))
            found = None if plain is None else self._picked(column, plain, group, page)
            if found is not None:
                self._keep_values(column, group, page, found)
                del column.missing[group, page]

    def _read_values(self, column: _Column, picks: Sequence[Pick], excerpt: Excerpt, checked: Checked) -> None:
        """Find missing values in pages that were read."""
        found = self._texts(column, picks, checked)
        if found is None:
            table, start = excerpt.table(checked).column(0), 0
            found = []
            for group, page, count in _pages(picks):
                rows = [start + row for _, row in column.missing[group, page]]
                found.append([table.take(pa.array([row])).combine_chunks() for row in rows])
                start += count
        for (group, page, _), values in zip(_pages(picks), found, strict=True):
            self._keep_values(column, group, page, values)

    def _texts(self, column: _Column, picks: Sequence[Pick], checked: Checked) -> list[list[pa.Array]] | None:
        """The missing values of each page, if they are texts whose pages were compared with their sums; else None."""
        leaf = column.node.leaf
        if not self._source.sums or self._indexes.type_of(column.plan).arrow != column.plan.kinds[0]:
            return None
        found = []
        for pick, (parts,) in zip(picks, checked, strict=True):
            chunk = self._source.footer.groups[pick.group].chunks[leaf]
            if not readable(chunk, column.plan.kinds[0]):
                return None
            index = self._indexes.index(pick.group, leaf)
            for page, data in _split(pick, index, parts):
                plain = plain_page(data, values=index.layout.counts[page], plain_most=chunk.plain_bytes)
                values = None if plain is None else self._picked(column, plain, pick.group, page)
                if plain is None or values is None:
                    return None
                self._cache.put((column.plan, pick.group, page, PLAIN), plain, len(plain), spare=True)
                found.append(values)
        return found

    def _picked(self, column: _Column, plain: bytes, group: int, page: int) -> list[pa.Array] | None:
        values = values_of(
            plain,
            [row for _, row in column.missing[group, page]],
            values=column.layouts[group].counts[page],
            optional=column.node.element.get(ELEMENT_REPETITION, _REQUIRED) != _REQUIRED,
        )
        return None if values is None else [as_array(value, column.plan.kinds[0]) for value in values]

    def _keep_values(self, column: _Column, group: int, page: int, values: Sequence[pa.Array]) -> None:
        for (cell, row), value in zip(column.missing[group, page], values, strict=True):
            column.cells[cell] = value
            self._cache.put((column.plan, group, page, row), value, value.get_total_buffer_size())


def joined(cells: Cells, schema: pa.Schema) -> pa.Table:
    """A table of single values."""
    return pa.Table.from_arrays([pa.concat_arrays(column) for column in cells], schema=schema)


def _pages(picks: Sequence[Pick]) -> Iterator[tuple[int, int, int]]:
    """The row group, the number and the rows of each page."""
    for pick in picks:
        for page, count in zip(pick.pages or (), pick.counts, strict=True):
            yield pick.group, page, count


def _split(pick: Pick, index: Index, parts: Sequence[bytes]) -> Iterator[tuple[int, memoryview]]:
    """The bytes of each page; pages that lie side by side were read as one part."""
    rest = iter(parts)
    view = memoryview(b"")
    for page in pick.pages or ():
        size = index.ends[page] - index.starts[page]
        if not view:
            view = memoryview(next(rest))
        yield page, view[:size]
        view = view[size:]
