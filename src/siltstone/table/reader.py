"""Rows of one fragment, by row group, by page or by number.

What must hold:
- All bytes that a call needs, and that are not kept, come with one request for each batch of row groups.
- A batch is at most ``BATCH_BYTES`` of the file, or one row group where that is more.
- Columns whose pages align are decoded together; whether they do changes nothing in the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from siltstone.table.excerpt import Excerpt, Pick

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from siltstone.table.columns import Plan
    from siltstone.table.fragment_bytes import FragmentBytes
    from siltstone.table.indexes import Indexes, Layout
    from siltstone.table.page_cache import PageCache, PageKey

BATCH_BYTES = 32 * 1024 * 1024
MOST = 0.75  # of a row group's pages: where more are hit, all are read
PAGE_ROWS = 1024  # about; for estimates
THREADS_ROWS = 4096  # from here on, columns of single rows are decoded side by side


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
            number: Excerpt(self._source, self._indexes, *reads[number])
            for number, table in enumerate(tables)
            if table is None
        }
        ranges = [one for excerpt in excerpts.values() for one in excerpt.ranges]
        parts = iter(self._source.fetch_whole(ranges) if ranges else ())
        for number, excerpt in excerpts.items():
            tables[number] = table = excerpt.table(excerpt.checked(parts), threads=threads)
            name = names[number]
            if name is not None:
                self._cache.put(name, table, table.get_total_buffer_size())
        return tables


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
