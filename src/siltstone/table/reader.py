"""Rows of one fragment, by row group, by page or by number.

What must hold:
- All bytes that a call needs, and that are not kept, come with one request for each batch of row groups.
- A batch is at most ``BATCH_BYTES`` of the file, or one row group where that is more.
- Columns whose pages align are decoded together; whether they do changes nothing in the answer.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from siltstone.format.seal import Part
from siltstone.table import pages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from siltstone.format.parquet import Range
    from siltstone.table.columns import Plan
    from siltstone.table.fragment_bytes import FragmentBytes
    from siltstone.table.indexes import Index, Indexes, Layout
    from siltstone.table.page_cache import PageCache, PageKey
    from siltstone.table.pages import Piece

BATCH_BYTES = 32 * 1024 * 1024
MOST = 0.75  # of a row group's pages: where more are hit, all are read
PAGE_ROWS = 1024  # about; for estimates
THREADS_ROWS = 4096  # from here on, columns of single rows are decoded side by side


class Pick(NamedTuple):
    """Rows of one row group: those of some pages, or all."""

    group: int
    pages: list[int] | None  # None: all
    starts: list[int]  # the first row of each page in the file, or of the row group
    counts: list[int]  # the rows of each


class Reader:
    """Decodes what was picked of one fragment."""

    def __init__(self, source: FragmentBytes, indexes: Indexes, cache: PageCache) -> None:
        self._source = source
        self._indexes = indexes
        self._cache = cache
        self._groups = source.footer.groups
        self._starts = np.array([one.start for one in self._groups], np.int64)

    def all_of(self, group: int) -> Pick:
        """All rows of a row group."""
        return Pick(group, None, [self._groups[group].start], [self._groups[group].rows])

    def pages_of(self, group: int, chosen: list[int], layout: Layout) -> Pick:
        """The rows of some pages, in order; of all where most are chosen."""
        if len(chosen) > MOST * len(layout.counts):
            return self.all_of(group)
        first = self._groups[group].start
        starts = [first + layout.firsts[page] for page in chosen]
        return Pick(group, chosen, starts, [layout.counts[page] for page in chosen])

    def layout(self, group: int, leaf: int) -> Layout | None:
        """Which rows the pages of a chunk hold; None where the file does not say."""
        if not self._groups[group].chunks[leaf].offsets.end:
            return None
        return self._indexes.index(group, leaf).layout

    def aligned(self, plan: Plan, picks: Sequence[Pick]) -> bool:
        """Whether the pages of all columns of a plan hold the same rows."""
        return plan.flat and all(self._is_aligned(plan, pick.group) for pick in picks)

    def _is_aligned(self, plan: Plan, group: int) -> bool:
        if group not in plan.aligned:
            layouts = [self.layout(group, leaf) for leaf in plan.leaves]
            plan.aligned[group] = layouts[0] is not None and all(one is layouts[0] for one in layouts)
        return plan.aligned[group]

    def read(self, plan: Plan, picks: Sequence[Pick], *, threads: bool = False) -> pa.Table:
        """The picked rows, some columns of them. Where pages are picked, all columns align."""
        return self._read_each([(plan, picks)], threads=threads)[0]

    def batches(self, picks: Sequence[Pick], plan: Plan) -> Iterator[list[Pick]]:
        """Picks in lots of a bounded number of bytes."""
        batch: list[Pick] = []
        total = 0
        for pick in picks:
            size = self._estimate(plan, pick.group, 0 if pick.pages is None else len(pick.pages))
            if batch and total + size > BATCH_BYTES:
                yield batch
                batch, total = [], 0
            batch.append(pick)
            total += size
        if batch:
            yield batch

    def take(self, plan: Plan, rows: np.ndarray) -> pa.Table:
        """Rows by their numbers, which are distinct, in order and in range; the plan has columns in the file."""
        edges = np.searchsorted(rows, np.append(self._starts, self._source.fragment.rows))
        hit = np.flatnonzero(np.diff(edges)).tolist()
        lots: list[list[int]] = [[]]
        total = 0
        for group in hit:
            size = self._estimate(plan, group, int(edges[group + 1] - edges[group]))
            if lots[-1] and total + size > BATCH_BYTES:
                lots.append([])
                total = 0
            lots[-1].append(group)
            total += size
        tables = [
            self._take(plan, [(group, rows[edges[group] : edges[group + 1]] - self._starts[group]) for group in lot])
            for lot in lots
        ]
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    def _estimate(self, plan: Plan, group: int, pages_hit: int) -> int:
        chunks = self._groups[group].chunks
        size = sum(chunks[leaf].range.end - chunks[leaf].range.start for leaf in plan.leaves)
        share = min(1.0, pages_hit * PAGE_ROWS / self._groups[group].rows) if pages_hit else 1.0
        return int(size * share)

    def _take(self, plan: Plan, wanted: Sequence[tuple[int, np.ndarray]]) -> pa.Table:
        flat = [node.leaf for node in plan.nodes if node is not None and node.flat]
        self._indexes.load([group for group, _ in wanted], flat)
        classes: dict[tuple[int, ...], list[int]] = {}
        layouts: dict[tuple[int, ...], list[Layout | None]] = {}
        for number, node in enumerate(plan.nodes):
            if node is not None:
                found = [self.layout(group, node.leaf) if node.flat else None for group, _ in wanted]
                key = tuple(map(id, found))
                classes.setdefault(key, []).append(number)
                layouts[key] = found
        chosen = [
            [self._choose(*one, layout) for one, layout in zip(wanted, layouts[key], strict=True)] for key in classes
        ]
        plans = (
            [plan]
            if len(classes) == 1
            else [self._indexes.plan([plan.fields[number] for number in numbers]) for numbers in classes.values()]
        )
        reads = [(one, [pick for pick, _ in picks]) for one, picks in zip(plans, chosen, strict=True)]
        tables = self._read_each(reads, threads=sum(len(one) for _, one in wanted) >= THREADS_ROWS)
        parts = [_take_rows(table, picks) for table, picks in zip(tables, chosen, strict=True)]
        if len(parts) == 1:
            return parts[0]
        columns = {
            number: column
            for numbers, part in zip(classes.values(), parts, strict=True)
            for number, column in zip(numbers, part.columns, strict=True)
        }
        rows = sum(len(one) for _, one in wanted)
        return plan.gather(columns, rows)

    def take_few(self, plan: Plan, rows: Sequence[int]) -> pa.Table | None:
        """As ``take``, for a few rows anywhere: their pages are kept, each by itself, for who comes back to one.

        None where a column has no pages that are known by their rows.
        """
        leaves = {number: node for number, node in enumerate(plan.nodes) if node is not None}
        if not all(node.flat for node in leaves.values()):
            return None
        starts: list[int] = self._starts.tolist()
        where = [(group := bisect_right(starts, row) - 1, row - starts[group]) for row in rows]
        groups = sorted({group for group, _ in where})
        self._indexes.load(groups, [node.leaf for node in leaves.values()])
        columns: dict[int, list[tuple[int, int, int]]] = {}  # (group, page, row of it) of each row, by column
        for number, node in leaves.items():
            firsts = {}
            for group in groups:
                layout = self.layout(group, node.leaf)
                if layout is None:
                    return None
                firsts[group] = layout.firsts
            columns[number] = [
                (group, page := bisect_right(firsts[group], row) - 1, row - firsts[group][page]) for group, row in where
            ]
        kept = self._kept_pages(plan, columns)
        found = {
            number: pa.chunked_array(
                [pa.concat_arrays([kept[number, group, page].slice(row, 1) for group, page, row in at])]
            )
            for number, at in columns.items()
        }
        return plan.gather(found, len(where))

    def _kept_pages(
        self, plan: Plan, columns: Mapping[int, Sequence[tuple[int, int, int]]]
    ) -> dict[tuple[int, int, int], pa.Array]:
        """Pages by column, row group and number; those that are not kept are read with one request, and kept."""
        plans = {number: self._indexes.plan((plan.fields[number],)) for number in columns}
        found: dict[tuple[int, int, int], pa.Array] = {}
        lacking: dict[tuple[tuple[int, int], ...], list[int]] = {}  # columns, by the pages that they lack
        for number, at in columns.items():
            missing = set()
            for group, page, _ in at:
                table = self._cache.get((plans[number], group, page))
                if table is None:
                    missing.add((group, page))
                else:
                    found[number, group, page] = table.column(0).chunk(0)
            if missing:
                lacking.setdefault(tuple(sorted(missing)), []).append(number)
        wanted = [(pages_, same) for pages_, numbers in lacking.items() for same in self._alike(plan, pages_, numbers)]
        reads = [
            (self._indexes.plan([plan.fields[number] for number in same]), self._picks(plan, pages_, same[0]))
            for pages_, same in wanted
        ]
        for (pages_, same), (_, picks), table in zip(wanted, reads, self._read_each(reads), strict=True):
            start = 0
            for (group, page), count in zip(pages_, [one for pick in picks for one in pick.counts], strict=True):
                rows = pa.array(np.arange(start, start + count))
                start += count
                for place, number in enumerate(same):
                    page_rows = plans[number].join([table.column(place).take(rows).combine_chunks()], count)
                    self._cache.put((plans[number], group, page), page_rows)
                    found[number, group, page] = page_rows.column(0).chunk(0)
        return found

    def _alike(self, plan: Plan, pages_: Sequence[tuple[int, int]], numbers: Sequence[int]) -> Iterable[list[int]]:
        """Columns whose pages hold the same rows."""
        alike: dict[tuple[int, ...], list[int]] = {}
        for number in numbers:
            node = plan.nodes[number]
            key = tuple(id(self.layout(group, node.leaf)) if node is not None else 0 for group, _ in pages_)
            alike.setdefault(key, []).append(number)
        return alike.values()

    def _picks(self, plan: Plan, pages_: Sequence[tuple[int, int]], number: int) -> list[Pick]:
        node = plan.nodes[number]
        picks: list[Pick] = []
        for group, some in groupby(pages_, lambda one: one[0]):
            layout = None if node is None else self.layout(group, node.leaf)
            if layout is not None:
                chosen, first = [page for _, page in some], self._groups[group].start
                starts = [first + layout.firsts[page] for page in chosen]
                picks.append(Pick(group, chosen, starts, [layout.counts[page] for page in chosen]))
        return picks

    def _choose(self, group: int, rows: np.ndarray, layout: Layout | None) -> tuple[Pick, np.ndarray]:
        """The pages that hold some rows of a row group, and where among their rows these are."""
        if layout is None:
            return self.all_of(group), rows
        # Where each page would begin among the rows: they are in order, and there may be many more of them than pages.
        edges = np.searchsorted(rows, np.append(layout.first_rows, self._groups[group].rows))
        hits = np.diff(edges)
        chosen = np.flatnonzero(hits)
        pick = self.pages_of(group, chosen.tolist(), layout)
        if pick.pages is None:
            return pick, rows
        moved = np.cumsum(pick.counts) - pick.counts - layout.first_rows[chosen]
        return pick, rows + np.repeat(moved, hits[chosen])

    def _read_each(self, reads: Sequence[tuple[Plan, Sequence[Pick]]], *, threads: bool = False) -> list[pa.Table]:
        """Several reads with one request."""
        names = [_page_key(*one) for one in reads]
        tables = [None if name is None else self._cache.get(name) for name in names]
        excerpts = {
            number: _Excerpt(self._source, self._indexes, *reads[number])
            for number, table in enumerate(tables)
            if table is None
        }
        ranges = [one for excerpt in excerpts.values() for one in excerpt.ranges]
        parts = iter(self._source.fetch_whole(ranges) if ranges else ())
        for number, excerpt in excerpts.items():
            tables[number] = table = excerpt.table(parts, threads=threads)
            name = names[number]
            if name is not None:
                self._cache.put(name, table)
        return tables


class _Column(NamedTuple):
    """What an excerpt has of one column chunk."""

    leaf: int
    piece: Piece
    offsets: Index | None  # None: all pages
    kept: bytes  # its dictionary, where it need not be fetched


class _Excerpt:
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

    def table(self, fetched: Iterator[bytes], *, threads: bool) -> pa.Table:
        """The rows, of the next of ``fetched``."""
        plan, name = self._plan, self._source.key
        if not plan.leaves:
            return plan.fill(sum(sum(pick.counts) for pick in self._picks))
        groups = []
        rows = 0
        for pick, parts in zip(self._picks, self._parts, strict=True):
            count = sum(pick.counts)
            rows += count
            groups.append((count, [(part.piece, self._bytes(pick, part, fetched)) for part in parts]))
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


def _page_key(plan: Plan, picks: Sequence[Pick]) -> PageKey | None:
    """The name in the cache of a read of a single page; None for other reads."""
    if len(picks) != 1 or picks[0].pages is None or len(picks[0].pages) != 1:
        return None
    return plan, picks[0].group, picks[0].pages[0]


def row_numbers(places: np.ndarray, picks: Sequence[Pick]) -> np.ndarray:
    """The numbers in the file of rows that are at some places among all picked ones."""
    starts = [start for pick in picks for start in pick.starts]
    if len(starts) == 1:
        return places + starts[0]
    counts = [count for pick in picks for count in pick.counts]
    before = np.cumsum(counts) - counts
    runs = np.searchsorted(before, places, "right") - 1
    return np.asarray(np.array(starts)[runs] + places - before[runs])


def _take_rows(table: pa.Table, picks: Sequence[tuple[Pick, np.ndarray]]) -> pa.Table:
    if sum(len(rows) for _, rows in picks) == table.num_rows:
        return table
    if len(picks) == 1:
        places = picks[0][1]
    else:
        counts = [sum(pick.counts) for pick, _ in picks]
        before = np.cumsum(counts) - counts
        places = np.concatenate([start + rows for start, (_, rows) in zip(before, picks, strict=True)])
    if 2 * len(places) > table.num_rows and places[-1] - places[0] == len(places) - 1:
        return table.slice(places[0], len(places))
    return table.take(pa.array(places))
