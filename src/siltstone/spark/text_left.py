"""Builds of text indexes that nobody brought to their end: which of them a call can go on with.

What must hold: a build is gone on with only where all of its work is wanted: it makes the same index, of fragments that
are in the table now, none of which another segment has. A build that has its marker is never taken: what it became was
committed, or dropped since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from siltstone import paths
from siltstone.api.index_builds import IndexBuild
from siltstone.errors import CorruptionError, NotFoundError
from siltstone.index.build import open_build
from siltstone.index.planning import coverage

if TYPE_CHECKING:
    from collections.abc import Collection

    from siltstone.api import Table
    from siltstone.format.rollup import Live
    from siltstone.format.text import Analyzer, Plan
    from siltstone.table.state import State


class Wanted(NamedTuple):
    """An index as a call asks for it."""

    label: str
    field: int
    analyzer: Analyzer


def unindexed(table: Table, state: State, label: str) -> list[Live]:
    """The fragments of a version that no segment of an index has: all of them where there is no index."""
    index = state.indexes.get(label)
    if index is None:
        return state.fragments.select(None)
    return coverage(state, table._markers(state, index).values()).rest  # noqa: SLF001 - as its own optimization does


def left_build(table: Table, state: State, wanted: Wanted, *, but: Collection[str] = ()) -> IndexBuild | None:
    """The newest build that was begun for an index, has no end, and can be gone on with. ``but`` are left out."""
    began: set[str] = set()
    ended: set[str] = set()
    for info in table._log.store.list(paths.INDEXES):  # noqa: SLF001 - the objects of a table
        found = paths.parse_index(info.key)
        if found is not None:
            (ended if found[1] == paths.MARKER else began).add(found[0])
    for name in sorted(began - ended - set(but), reverse=True):
        try:
            build = open_build(table._log, name)  # noqa: SLF001
        except (NotFoundError, CorruptionError):  # it was never begun in truth, or is being collected
            continue
        if _fits(build.plan, table, state, wanted):
            return IndexBuild(table, build)
    return None


def _fits(plan: Plan, table: Table, state: State, wanted: Wanted) -> bool:
    if (plan.name, plan.field, plan.analyzer) != wanted:
        return False
    index = state.indexes.get(wanted.label)
    if plan.new != (index is None):
        return False
    if index is not None and (plan.index != index.id or not set(plan.replaces) <= set(index.segments)):
        return False
    rest = {live.fragment.name for live in unindexed(table, state, wanted.label)}
    texts = {one.name for item in plan.items if not item.sources for one in item.fragments}
    merged = {one.name for item in plan.items if item.sources for one in item.fragments}
    there = {paths.bare(live.fragment.name) for live in state.fragments.select(None)}
    return texts <= rest and all(paths.bare(one) in there for one in merged)
