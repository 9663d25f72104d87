"""Compaction: the same rows in fewer fragments, without the deleted ones, and in keyed tables clustered by key.

What must hold:
- The rows of the table are the same before and after, also where others deleted some while they were rewritten:
  where each row went is known, so those deletes are carried over to the new fragments.
- Each group of fragments becomes a version of its own: what is done stays done, whatever happens to the next one.
- Memory is bounded by one group: ``GROUP_ROWS`` rows and ``GROUP_BYTES`` of Arrow memory (or one fragment, where that
  is more), and twice the size of the fragments that are being written.
- Key ranges that overlap in more rows than a group holds are merged group by group, in several passes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.errors import ConflictError, InvalidInputError
from siltstone.table.commit import commit
from siltstone.table.compact_plan import GROUP_ROWS, Limits, Plan, Worth, plan_compaction
from siltstone.table.compact_ranges import KeyRanges
from siltstone.table.evolve import still_reads
from siltstone.table.fragment import BYTES_PER_FRAGMENT, ROWS_PER_FRAGMENT, FragmentWriter
from siltstone.table.keys import sort_order
from siltstone.table.operations import Work
from siltstone.table.reading import Reading
from siltstone.table.schema import key_fields
from siltstone.table.stream import in_order, pace_for
from siltstone.table.tasks import tasks
from siltstone.table.vectors import Deleted
from siltstone.telemetry import seams

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from siltstone.format.rollup import Live
    from siltstone.format.table import Fragment, Schema
    from siltstone.table.draft import Draft
    from siltstone.table.fragment import Written
    from siltstone.table.fragments import Fragments
    from siltstone.table.history import History
    from siltstone.table.state import State
    from siltstone.table.tools import Tools

__all__ = ["Compact", "Compacted", "Rewritten", "compact", "plan_compaction", "rewrite"]

GROUP_BYTES = 512 * 1024 * 1024  # of Arrow memory
PASSES_MAX = 8
CONFLICTS_MAX = 3  # passes in which all that was tried came too late


class Source(NamedTuple):
    """A fragment that was read, without the rows that its vector said were deleted."""

    live: Live
    start: int  # the place of its first row among all rows that were read


@dataclass(frozen=True)
class Rewritten:
    """Fragments that were written, and where the rows of their sources are in them."""

    schema: Schema  # that they were read and written with
    sources: tuple[Source, ...]
    fragments: tuple[Fragment, ...]
    places: np.ndarray | None  # for each row that was read, its place among those that were written; None: the same

    def find(self, source: Source, rows: np.ndarray, deleted: Deleted) -> list[tuple[Fragment, np.ndarray]]:
        """The new fragments that hold some rows of a source, and their rows; ``deleted`` were not read."""
        read = source.start + rows - np.searchsorted(deleted.numbers(), rows)
        written = np.sort(read if self.places is None else self.places[read])
        ends = np.cumsum([one.rows for one in self.fragments])
        edges = np.searchsorted(written, [0, *ends])
        return [
            (fragment, written[edges[number] : edges[number + 1]] - (ends[number] - fragment.rows))
            for number, fragment in enumerate(self.fragments)
            if edges[number] < edges[number + 1]
        ]


class Compact(Work):
    """Fragments are replaced by others with the same rows. Alone in its transaction."""

    operation = "compact"

    def __init__(self, rewritten: Rewritten) -> None:
        self._rewritten = rewritten

    def run(self, draft: Draft) -> None:
        """Replaces them, without the rows that were deleted since they were read."""
        done = self._rewritten
        if not still_reads(done.schema, draft.schema):
            raise ConflictError(
                "the columns were changed in a way that rewritten fragments don't fit",
                hint="nothing was changed; run it again",
            )
        draft.depends(columns=True, rewrites=True)
        draft.rewrite = True
        gone = [found for source in done.sources for found in self._deleted_since(draft, source)]
        draft.remove(source.live.fragment.name for source in done.sources)
        draft.add(done.fragments)
        for fragment, rows in gone:
            live = draft.state.fragments.get(fragment.name)
            if live is not None:  # else its last row went with another source
                draft.delete(live, rows)

    def _deleted_since(self, draft: Draft, source: Source) -> list[tuple[Fragment, np.ndarray]]:
        live = draft.state.fragments.get(source.live.fragment.name)
        if live is None:
            raise _replaced("was replaced, or lost its last row,", source)
        now = draft.deleted(live)
        if live.vector == source.live.vector and now is None:
            return []
        nothing = Deleted.none(rows=live.fragment.rows)
        then = source.live.vector
        before = nothing if then is None else draft.tools.vectors.read(then, live.fragment)
        now = now or nothing
        if before.minus(now).count:
            raise _replaced("got deleted rows back", source)
        return self._rewritten.find(source, now.minus(before).numbers(), before)


def _replaced(what: str, source: Source) -> ConflictError:
    return ConflictError(
        f"fragment {source.live.fragment.name} {what} while it was rewritten", hint="nothing was changed; run it again"
    )


# -- reading and writing a group -----------------------------------------------------------------------


class _Rows(NamedTuple):
    """What was read of a group."""

    sources: tuple[Source, ...]
    table: pa.Table

    def results(self, rows_target: int) -> int:
        """How many fragments its rows are cut into, about evenly."""
        return max(1, -(-self.table.num_rows // rows_target), -(-self.table.nbytes // BYTES_PER_FRAGMENT))


def rewrite(
    tools: Tools, schema: Schema, lives: Sequence[Live], *, base: int, rows_target: int = ROWS_PER_FRAGMENT
) -> Rewritten:
    """Write the rows of some fragments anew: of the first ones, as many as fit in memory."""
    return _write(tools, schema, _read(tools, schema, lives), base=base, rows_target=rows_target)[0]


def _read(tools: Tools, schema: Schema, lives: Sequence[Live]) -> _Rows:
    ends = np.cumsum([live.rows for live in lives])
    tables: list[pa.Table] = []
    rows = size = 0
    reading = Reading(tools, schema, schema.fields)
    results: Any = in_order(tasks(reading, lives), pace_for(tools.store))
    try:
        for table in results:
            tables.append(table)
            rows, size = rows + table.num_rows, size + table.nbytes
            if size >= GROUP_BYTES and rows >= ends[0]:
                break
    finally:
        results.close()
    whole = int(np.searchsorted(ends, rows, "right"))
    sources = tuple(Source(live, int(end) - live.rows) for live, end in zip(lives[:whole], ends, strict=False))
    table = pa.concat_tables([*tables, reading.arrow.empty_table()])
    return _Rows(sources, table.slice(0, int(ends[whole - 1])))


def _write(
    tools: Tools, schema: Schema, rows: _Rows, *, base: int, rows_target: int
) -> tuple[Rewritten, list[Written]]:
    table, count = rows.table, rows.table.num_rows
    key = [one.name for one in key_fields(schema)]
    order = sort_order(table, key) if key else None
    places = None
    if order is not None:
        places = np.empty(count, np.int32)
        places[order] = np.arange(count, dtype=np.int32)
    each = max(1, -(-count // rows.results(rows_target)))
    with FragmentWriter(tools.store, schema, base=base, env=tools.env, rows_per_fragment=each) as writer:
        for start in range(0, count, each):
            part = table.slice(start, each) if order is None else table.take(pa.array(order[start : start + each]))
            writer.write(part)
        written = writer.finish()
    return Rewritten(schema, rows.sources, tuple(one.fragment for one in written), places), written


# -- the whole of it -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compacted:
    """What a compaction did to the table. ``rows`` were written anew, in so many ``versions``."""

    state: State = field(repr=False)
    versions: int
    rows: int
    fragments_before: int
    fragments_after: int
    bytes_before: int
    bytes_after: int

    @property
    def version(self) -> int:
        """The version of the table afterwards."""
        return self.state.version


@seams.traced("siltstone.compact", about=lambda tools, *_, **__: {"table": tools.store.uri})
def compact(
    tools: Tools,
    history: History,
    state: State,
    *,
    rows_target: int = ROWS_PER_FRAGMENT,
    progress: Callable[[int, int], None] | None = None,
) -> Compacted:
    """Rewrite the fragments that are worth it, a version for each group; no version where none is.

    ``progress`` is told how many rows are done, and of how many.

    Raises ConflictError (other compactions were first all the time, and nothing was done), InvalidInputError.
    """
    if type(rows_target) is not int or not 1 <= rows_target <= GROUP_ROWS:
        raise InvalidInputError(
            f"rows_target must be a whole number from 1 to {GROUP_ROWS}, got {ascii(rows_target)[:60]}",
            hint="it is how many rows a fragment has at most; leave it out",
        )
    run = _Run(tools, history, history.refresh(state), Limits(rows_target), progress or (lambda *_: None))
    conflicts = 0
    for _ in range(PASSES_MAX):
        did, conflict = run.do_pass()
        if not did and conflict is None:
            break
        conflicts += not did
        if conflict is not None and conflicts > CONFLICTS_MAX:
            if not run.versions:
                raise conflict
            break
    return run.summary()


class _Run:
    """A compaction under way."""

    def __init__(
        self, tools: Tools, history: History, state: State, limits: Limits, progress: Callable[[int, int], None]
    ) -> None:
        self._tools = tools
        self._history = history
        self._begun = self._state = state
        self._limits = limits
        self._progress = progress
        self._ranges = KeyRanges(tools)
        self._rows = 0
        self.versions = 0

    def do_pass(self) -> tuple[bool, ConflictError | None]:
        """Plan, and rewrite every group: whether one was, and why another was not."""
        state = self._state
        plan = Plan(list(state.fragments), self._limits, self._ranges.of(state) if state.schema.key else None)
        groups = deque(plan.groups())
        left = sum(live.rows for group in groups for live in group)
        did, conflict = False, None
        while groups:
            self._progress(self._rows, self._rows + left)
            group = groups.popleft()
            now = (self._state.fragments.get(live.fragment.name) for live in group)
            lives = [live for live in now if live is not None]
            left -= sum(live.rows for live in group)
            try:
                done, rest = self._do_group(plan, lives)
            except ConflictError as error:
                self._state = self._history.refresh(self._state)
                conflict = error
                continue
            did = did or done
            if rest:
                groups.appendleft(rest)
                left += sum(live.rows for live in rest)
        return did, conflict

    def _do_group(self, plan: Plan, lives: list[Live]) -> tuple[bool, list[Live]]:
        """Whether a group was rewritten, and what of it is left to do since it did not fit in memory."""
        state, target = self._state, self._limits.rows_target
        if plan.worth(lives) is Worth.NO:
            return False, []
        rows = _read(self._tools, state.schema, lives)
        count = len(rows.sources)
        worth = plan.worth(lives[:count])
        if worth is Worth.NO or (worth is Worth.IF_FEWER and rows.results(target) >= count):
            return False, lives[count:]
        rewritten, written = _write(self._tools, state.schema, rows, base=state.version, rows_target=target)
        if worth is Worth.IF_FEWER and len(written) >= count:
            return False, lives[count:]
        work = Compact(rewritten)
        self._state = commit(self._tools, self._history, state, [work], base=state.version).state
        for one in written:
            if one.keys is not None:
                self._ranges.learn(one.fragment, one.keys)
        self._rows += rows.table.num_rows
        self.versions += 1
        return True, lives[count:]

    def summary(self) -> Compacted:
        """What was done."""
        self._progress(self._rows, self._rows)
        before, after = self._begun.fragments, self._state.fragments
        return Compacted(
            state=self._state,
            versions=self.versions,
            rows=self._rows,
            fragments_before=len(before),
            fragments_after=len(after),
            bytes_before=_bytes(before),
            bytes_after=_bytes(after),
        )


def _bytes(fragments: Fragments) -> int:
    return int(pc.sum(fragments.folded().base.table.column("bytes")).as_py() or 0)
