"""What a collection may remove: which version becomes the floor, which objects are needed, and why others are not.

What must hold:
- Needed is what a version from the floor on names, and what a tagged or checkpointed version names.
- An object may go only where it was written on top of a version below the floor and nothing names it. No clock and no
  age counts for that.
- All that a build of an index has goes with the build, whose name says what it was begun on. Of one that is named only
  what was staged may go: its parts, its marker and its log stay.
- What has no name of ours is not ours: it is never removed.
- Which version becomes the floor is a matter of days kept, by the clock of the store.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from siltstone import paths
from siltstone.errors import TruncatedError
from siltstone.log.truncate import CLOCK_GRAIN_MS
from siltstone.table.history import to_step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from siltstone.format.table import Origin
    from siltstone.format.text import TextIndex
    from siltstone.log import Log, Mark
    from siltstone.store.base import ObjectInfo, Store
    from siltstone.table.history import History
    from siltstone.table.state import State, Step

STEPS_TOGETHER = 512  # versions whose entries are held at once
NEAR = 64  # versions that are so close are reached by the changes between them, not from a rollup

FRAGMENT, VECTORS, INDEX, ROLLUP, ENTRY = "fragment", "vectors", "index", "rollup", "entry"
SHARD_FRAGMENT, STAGED, UNFINISHED, PROBE = "shard fragment", "staged", "unfinished", "probe"


@dataclass(frozen=True)
class Doomed:
    """An object that may go."""

    key: str
    kind: str
    why: str
    bytes: int
    base: int = field(default=-1, repr=False)  # the version that it was written on top of


@dataclass
class Names:
    """Names of objects, as versions have them."""

    fragments: set[str] = field(default_factory=set)
    vectors: set[str] = field(default_factory=set)
    builds: set[str] = field(default_factory=set)  # of indexes

    def take(self, state: State) -> None:
        """Add all that a version names."""
        self._take(state.fragments.folded().base.table)
        self.builds |= builds_of(state.indexes.values())

    def _take(self, columns: pa.Table) -> None:
        self.fragments.update(columns.column("name").to_pylist())
        self.vectors.update(pc.drop_null(columns.column("vector")).to_pylist())

    def add(self, step: Step) -> None:
        """Add what a version names that the one before it did not."""
        change = step.said
        if step.columns is not None:
            self._take(step.columns)
        if change is not None:
            self.fragments.update(one.name for one in change.add)
            self.vectors.update(one.name for one in change.mask.values())
            self.builds |= builds_of(change.indexes.values())

    @property
    def origins(self) -> frozenset[str]:
        """The numbers of other tables that have some of them."""
        names = (*self.fragments, *self.vectors, *self.builds)
        return frozenset(str(number) for name in names if (number := paths.origin_of(name)))


def builds_of(indexes: Iterable[TextIndex | None]) -> set[str]:
    """The builds that indexes are made of."""
    return {segment.build for index in indexes if index is not None for segment in index.segments}


@dataclass
class Survey:
    """What was found out about the versions of a table, as a state and a floor have them."""

    floor: int
    needed: Names = field(default_factory=Names)
    was: Names = field(default_factory=Names)  # what versions named that the floor is to pass, where that was asked
    passes: bool = False  # whether it passes versions that did something
    let_go: dict[str, Origin] = field(default_factory=dict)  # other tables that are named no more, by number


def survey(history: History, state: State, *, floor: int, explain: bool = False) -> Survey:
    """Look at the versions that are there, for a floor at or above the present one.

    Raises:
        TruncatedError: another collection went further meanwhile; look at the table again.
    """
    found = Survey(floor)
    start = _at(history, state, state.floor)
    found.let_go = {number: one for number, one in start.origins.items() if number not in state.origins}
    found.passes = any(_did_something(history, version) for version in range(floor, state.floor, -1))
    if explain:
        found.was.take(start)
        for step in _steps(history, start.mark, end=floor + 1):
            found.was.add(step)
    at = start if floor == state.floor else _at(history, state, floor)
    found.needed.take(at)
    for step in _steps(history, at.mark, end=state.mark.position):
        found.needed.add(step)
    for version in _states(history, sorted(one for one in state.kept if one < floor)):
        found.needed.take(version)
    return found


def _at(history: History, state: State, version: int) -> State:
    return state if version == state.version else history.at(version)


def _did_something(history: History, version: int) -> bool:
    """Whether a version is more than the mark of a collection."""
    data = history.log.published(version)
    if data is None:
        raise TruncatedError(f"version {version} was collected meanwhile", hint="look again", version=version)
    change = to_step(history.log.read(data, version)).said
    return change is not None and change.operation != "collect"


def _steps(history: History, mark: Mark, *, end: int) -> Iterator[Step]:
    """The steps from a mark on, few of them held at once."""
    while mark.position < end:
        for step in history.steps(mark, until=min(end, mark.position + STEPS_TOGETHER)):
            mark = step.end
            yield step


def _states(history: History, versions: list[int]) -> Iterator[State]:
    """The states at some versions, ascending."""
    state: State | None = None
    for version in versions:
        if state is None or version - state.version > NEAR:
            state = history.at(version)
        else:
            for step in _steps(history, state.mark, end=version + 1):
                state = state.step(step)
        yield state


# -- the floor -------------------------------------------------------------------------------------


def choose_floor(log: Log, state: State, *, keep_ms: int, keep_versions: int, now_ms: int) -> int:
    """The newest version that is older than ``keep_ms`` by the store's clock, and has so many at or behind it.

    It was the newest one when that time began, so it stays.
    """
    low, high = state.floor, state.version - keep_versions + 1
    if high <= low or not keep_ms:
        return max(low, high)
    until_ms = now_ms - keep_ms - CLOCK_GRAIN_MS
    while low < high:  # the floor itself stays, however old it is
        middle = (low + high + 1) // 2
        made_ms = _made_ms(log, middle)
        low, high = (middle, high) if made_ms is not None and made_ms <= until_ms else (low, middle - 1)
    return low


def _made_ms(log: Log, position: int) -> int | None:
    """When an entry was published, by the store's clock."""
    key = paths.entry(log.root, position)
    if log.identity.publish == "create":
        info = log.store.head(key)
        return None if info is None else info.modified_ms
    found = [one.modified_ms for one in log.store.list(key) if paths.parse_entry(log.root, one.key) is not None]
    return max(found, default=None)


# -- what may go -----------------------------------------------------------------------------------


def unneeded(store: Store, found: Survey) -> Iterator[Doomed]:
    """Fragments, deletion vectors and objects of indexes that may go; each folder is listed once."""
    for info in store.list(paths.DATA):
        name = paths.parse_data(info.key)
        if name is not None and is_unneeded(name, found.needed.fragments, floor=found.floor):
            yield _doomed(info, FRAGMENT, name, found, named=name in found.was.fragments)
    for info in store.list(paths.VECTORS):
        name = paths.parse_vectors(info.key)
        if name is not None and is_unneeded(name, found.needed.vectors, floor=found.floor):
            yield _doomed(info, VECTORS, name, found, named=name in found.was.vectors)
    for info in store.list(paths.INDEXES):
        build, rest = paths.parse_index(info.key) or ("", "")
        if build and is_unneeded(build, found.needed.builds, floor=found.floor):
            yield _doomed(info, INDEX, build, found, named=build in found.was.builds)
        elif build and _is_staged(build, rest, floor=found.floor):
            why = f"build {build} is part of the table, and what was staged for it was copied"
            yield Doomed(info.key, STAGED, why, info.size, _base(build))


def is_unneeded(name: str, needed: set[str], *, floor: int) -> bool:
    """Whether nothing names an object, and nothing ever will."""
    return _base(name) < floor and name not in needed


def _is_staged(build: str, rest: str, *, floor: int) -> bool:
    """Whether an object of a build is only of use before its end."""
    return rest.startswith(f"{paths.STAGING}/") and _base(build) < floor


def still_unneeded(doomed: Doomed, found: Survey) -> bool:
    """Whether an object may go by another look."""
    if doomed.kind == STAGED:  # a build that is named has its end for good
        return _is_staged(*(paths.parse_index(doomed.key) or ("", "")), floor=found.floor)
    if doomed.kind == INDEX:
        name, needed = (paths.parse_index(doomed.key) or ("",))[0], found.needed.builds
    elif doomed.kind == FRAGMENT:
        name, needed = paths.parse_data(doomed.key) or "", found.needed.fragments
    else:
        name, needed = paths.parse_vectors(doomed.key) or "", found.needed.vectors
    return is_unneeded(name, needed, floor=found.floor)


def _doomed(info: ObjectInfo, kind: str, name: str, found: Survey, *, named: bool) -> Doomed:
    base = _base(name)
    if named:
        why = f"only versions below {found.floor} name it, and none of them is kept"
    else:
        why = f"no version names it: it was written on top of version {base}, and versions below {found.floor} are over"
    return Doomed(info.key, kind, why, info.size, base)


def _base(name: str) -> int:
    found = paths.parse_name(name)
    return 2**63 if found is None else found[0]
