"""Compaction by many processes: which rows each of them rewrites, and how their work becomes a version.

What must hold:
- The slices of a group together hold each of its rows once: they are cut by the key's first column, and rows
  with the same value there are in one slice.
- Rows that others delete meanwhile are found again in the new fragments, by their keys; without a key by their places.
- A process holds the rows of one slice in memory: about those of one fragment, and where the key's first column does
  not tell more rows apart than a compaction in one process holds, groups are cut as small as there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.format.rollup import Live
from siltstone.log.marks import Mark
from siltstone.table.compact import Compact, Rewritten, Source, rewrite
from siltstone.table.compact_plan import GROUP_FILE_BYTES, GROUP_ROWS, Limits, Plan, Worth, left_bytes
from siltstone.table.compact_ranges import KeyRanges
from siltstone.table.fragment import BYTES_PER_FRAGMENT, FragmentWriter
from siltstone.table.fragments import Fragments
from siltstone.table.keys import sort_order
from siltstone.table.lookup import candidates, find_keys
from siltstone.table.masking import masked
from siltstone.table.schema import arrow_schema, arrow_type, key_fields
from siltstone.table.state import State
from siltstone.table.stream import in_order, pace_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.format.table import Field, Fragment, Schema
    from siltstone.table.compact_ranges import Range
    from siltstone.table.files import FileLike
    from siltstone.table.staged import Site
    from siltstone.table.stream import Turn
    from siltstone.table.tools import Tools
    from siltstone.table.vectors import Deleted

SPREAD_ROWS = 2**40  # of a group: it is cut into slices, so memory is no limit
SPREAD_FRAGMENTS = 2**20
SPREAD_BYTES = 2**60
SLICE_ROWS = GROUP_ROWS
SLICE_BYTES = GROUP_FILE_BYTES
FULL = 0.95  # of what a fragment may hold: slices are cut at pages, and may be a little longer

End = int | float | str | None  # in the terms of the log's statistics; None: no end


class Slice(NamedTuple):
    """The rows of some fragments whose key's first column is at least ``low`` and below ``high``."""

    group: int
    lives: tuple[Live, ...]
    rows_target: int
    fewer: bool  # the group is to be rewritten only if fewer fragments come out than went in
    low: End = None
    high: End = None


def plan_slices(tools: Tools, state: State, *, rows_target: int) -> list[Slice]:
    """What is worth rewriting, in slices of about a fragment each."""
    lives, limits = list(state.fragments), Limits(rows_target)
    if not state.schema.key:
        return _whole_groups(lives, limits, None, first=0)
    ranges = KeyRanges(tools).of(state)
    field = key_fields(state.schema)[0]
    spread = Limits(rows_target, group_rows=SPREAD_ROWS, group_fragments=SPREAD_FRAGMENTS, group_bytes=SPREAD_BYTES)
    plan = Plan(lives, spread, ranges)
    found: list[Slice] = []
    number = 0
    for group in plan.groups():
        cuts = _cuts(tools, group, field, rows_target)
        if cuts is None:
            found += _whole_groups(group, limits, ranges, first=number)
        else:
            fewer = plan.worth(group) is Worth.IF_FEWER
            ends = zip(_near(group, field, cuts), [None, *cuts], [*cuts, None], strict=True)
            found += [Slice(number, near, rows_target, fewer, low, high) for near, low, high in ends]
        number = found[-1].group + 1 if found else 0
    return found


def _whole_groups(lives: Sequence[Live], limits: Limits, ranges: dict[str, Range] | None, *, first: int) -> list[Slice]:
    """Groups that one process can hold, each a slice of its own."""
    plan = Plan(lives, limits, ranges)
    return [
        Slice(number, tuple(map(_lean, group)), limits.rows_target, plan.worth(group) is Worth.IF_FEWER)
        for number, group in enumerate(plan.groups(), first)
    ]


class _Pages(NamedTuple):
    """The pages of a column: the least value of each, and about how many rows and bytes are left in it."""

    lows: list[End]
    sizes: np.ndarray


@dataclass(frozen=True)
class _Look:
    """A look at the page index of a file."""

    tools: Tools
    live: Live
    field: Field
    nbytes: int = 1024 * 1024

    def run(self, turn: Turn) -> _Pages | None:
        """Read it; None where there is none."""
        file = self.tools.files.open(self.live.fragment)
        lows: list[End] = []
        counts: list[np.ndarray] = []
        for group in range(len(file.groups)):
            pages = file.page_bounds(group, self.field)
            if pages is None:
                return None
            lows += pages[1].tolist()
            counts.append(np.diff(pages[0], append=file.groups[group].rows))
        left = np.array([self.live.rows, left_bytes(self.live)]) / self.live.fragment.rows
        return _Pages(lows, np.concatenate(counts)[:, np.newaxis] * left)


def _pages(tools: Tools, lives: Sequence[Live], field: Field) -> _Pages | None:
    """Those of some fragments, in the order of their least values; None where they are not known of all."""
    found: list[_Pages] = []
    looks = in_order((_Look(tools, live, field) for live in lives), pace_for(tools.store))
    with closing(looks):
        for one in looks:
            if one is None:
                return None
            found.append(one)
    lows = [low for one in found for low in one.lows]
    order = sorted(range(len(lows)), key=lows.__getitem__)  # type: ignore[arg-type]
    return _Pages([lows[place] for place in order], np.concatenate([one.sizes for one in found])[order])


def _cuts(tools: Tools, lives: Sequence[Live], field: Field, rows_target: int) -> list[End] | None:
    """Values that cut the rows of some fragments into slices of about a fragment; None where they can't be cut so."""
    if Limits(rows_target).results(lives) == 1:
        return []
    pages = _pages(tools, lives, field)
    if pages is None:
        return None
    count = Limits(max(1, int(FULL * rows_target))).results(lives)
    shares = (pages.sizes / pages.sizes.sum(axis=0)).max(axis=1)  # wide rows are as good a reason to cut as many
    before = np.cumsum([0.0, *shares])
    places = np.searchsorted(before, before[-1] * np.arange(1, count) / count)
    # Rows below the least value are none: a cut there would make an empty slice.
    wanted = dict.fromkeys(pages.lows[place] for place in places if place < len(pages.lows))
    cuts = [one for one in wanted if one != pages.lows[0]]
    edges = [0, *(bisect_left(pages.lows, one) for one in cuts)]
    largest = np.add.reduceat(pages.sizes, edges).max(axis=0)
    return None if largest[0] > SLICE_ROWS or largest[1] > SLICE_BYTES else cuts


def _near(lives: Sequence[Live], field: Field, cuts: list[End]) -> list[tuple[Live, ...]]:
    """For each slice the fragments that may have rows in it."""
    near: list[list[Live]] = [[] for _ in range(len(cuts) + 1)]
    for live in lives:
        bounds = live.fragment.bounds.get(str(field.id))
        low, high = (None, None) if bounds is None else (bounds.low, bounds.high)
        first = 0 if low is None else bisect_right(cuts, low)  # type: ignore[type-var]
        last = len(cuts) if high is None else bisect_right(cuts, high)  # type: ignore[type-var]
        lean = _lean(live)
        for one in near[first : last + 1]:
            one.append(lean)
    return [tuple(one) for one in near]


def _lean(live: Live) -> Live:
    """Without what the log says of its columns: slices are many, and each is sent with all its fragments."""
    return live._replace(fragment=msgspec.structs.replace(live.fragment, bounds={}))


def _is_apart(least: End, greatest: End, low: End, high: End) -> bool:
    """Whether no value from ``least`` to ``greatest`` is in a slice."""
    below = low is not None and greatest is not None and greatest < low  # type: ignore[operator]
    above = high is not None and least is not None and least >= high  # type: ignore[operator]
    return bool(below or above)


# -- in a process ----------------------------------------------------------------------------------


class Done(NamedTuple):
    """The fragments that a slice became, in the order of their rows."""

    group: int
    fragments: tuple[Fragment, ...]


def rewrite_slice(site: Site, part: Slice) -> Done:
    """Write the rows of a slice anew, in the order of their keys."""
    if part.low is None and part.high is None:
        return Done(part.group, tuple(_rewrite_whole(site, part)))
    tools, schema = site.tools(), site.schema
    table = _read(tools, schema, part)
    order = sort_order(table, [one.name for one in key_fields(schema)])
    if order is not None:
        table = table.take(pa.array(order))
    pieces = max(1, -(-table.num_rows // part.rows_target), -(-table.nbytes // BYTES_PER_FRAGMENT))
    each = max(1, -(-table.num_rows // pieces))
    with FragmentWriter(
        tools.store, schema, base=site.base, env=tools.env, rows_per_fragment=each, threads=1
    ) as writer:
        for start in range(0, table.num_rows, each):
            writer.write(table.slice(start, each))
        return Done(part.group, tuple(one.fragment for one in writer.finish()))


def _rewrite_whole(site: Site, part: Slice) -> list[Fragment]:
    """Rewrite fragments, as many at a time as fit in memory."""
    tools, lives = site.tools(), part.lives
    written: list[Fragment] = []
    while lives:
        done = rewrite(tools, site.schema, lives, base=site.base, rows_target=part.rows_target)
        written += done.fragments
        lives = lives[len(done.sources) :]
    return written


def _read(tools: Tools, schema: Schema, part: Slice) -> pa.Table:
    field = key_fields(schema)[0]
    found = [arrow_schema(schema).empty_table()]
    for live in part.lives:
        file = tools.files.open(live.fragment)
        deleted = None if live.vector is None else tools.vectors.read(live.vector, live.fragment)
        for number, group in enumerate(file.groups):
            bounds = file.group_bounds(number, field)
            if bounds is not None and _is_apart(bounds.low, bounds.high, part.low, part.high):
                continue
            table = _in_slice(file, number, schema, field, part)
            found.append(_masked(table[0], table[1], deleted, group.start, group.rows))
    return pa.concat_tables(found)


def _in_slice(
    file: FileLike, number: int, schema: Schema, field: Field, part: Slice
) -> tuple[pa.Table, np.ndarray | None]:
    """A row group, and which of its rows are in the slice; None where all are."""
    table = file.read(number, schema.fields)
    column = table.column(field.name)
    inside = None
    for end, holds in ((part.low, pc.greater_equal), (part.high, pc.less)):
        if end is not None:
            found = holds(column, _scalar(end, arrow_type(field))).to_numpy()
            inside = found if inside is None else inside & found
    return table, inside


def _masked(table: pa.Table, inside: np.ndarray | None, deleted: Deleted | None, start: int, rows: int) -> pa.Table:
    keep = inside
    if deleted is not None:
        left = ~deleted.slice(start, rows)
        keep = left if keep is None else keep & left
    return table if keep is None or keep.all() else masked(table, keep)


def _scalar(end: End, kind: pa.DataType) -> pa.Scalar:
    """A value of the log's statistics as one of a column."""
    if isinstance(end, str):
        return pa.scalar(end, kind)
    width = {32: pa.int32(), 64: pa.int64()}.get(kind.bit_width, pa.int64()) if pa.types.is_temporal(kind) else kind
    return pa.array([end], width).cast(kind)[0]


# -- putting it together ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Spread(Rewritten):
    """Fragments that several processes wrote; where rows went is found by their keys."""

    tools: Tools

    @cached_property
    def _written(self) -> State:
        """What was written, as a version of its own."""
        fragments = Fragments(extra={one.name: Live(one, None) for one in self.fragments})
        return State(Mark(0, 0, ""), Mark(0, 0, ""), self.schema, fragments)

    def find(self, source: Source, rows: np.ndarray, deleted: Deleted) -> list[tuple[Fragment, np.ndarray]]:
        """The new fragments that hold some rows of a source, and their rows."""
        del deleted  # rows are told by their keys, not by their places
        if not len(rows):
            return []
        keys = self.tools.files.open(source.live.fragment).take(rows, key_fields(self.schema))
        found = find_keys(self.tools, candidates(self._written, keys), keys, self.schema)
        return [(one.live.fragment, one.rows) for one in found]


def to_works(tools: Tools, schema: Schema, slices: Sequence[Slice], done: Sequence[Done]) -> list[Compact]:
    """The operations that put new fragments in the place of old ones, one for each group that is better for it."""
    parts: dict[int, list[Slice]] = defaultdict(list)
    written: dict[int, list[Fragment]] = defaultdict(list)
    for part in slices:
        parts[part.group].append(part)
    for one in done:
        written[one.group] += one.fragments
    works = []
    for group, some in parts.items():
        lives = list({live.fragment.name: live for part in some for live in part.lives}.values())
        fragments = tuple(written[group])
        if some[0].fewer and len(fragments) >= len(lives):
            continue
        starts = np.cumsum([0, *(live.rows for live in lives)]).tolist()
        sources = tuple(map(Source, lives, starts))
        if schema.key:
            works.append(Compact(Spread(schema, sources, fragments, None, tools)))
        else:
            works.append(Compact(Rewritten(schema, sources, fragments, None)))
    return works
