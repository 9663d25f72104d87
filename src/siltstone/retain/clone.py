"""Clones: tables that begin as a version of another one and name its objects.

What must hold:
- A clone is whole or is not there. Its first entry says what it is to be; then it pins each table that it is to name
  objects of; its second entry brings all of it at once. Before that there is no table to be opened.
- Each step may be redone, by anyone and by several at once: they race for the same entries and for pins of the same
  name, and whoever loses finds it done. What was begun as one clone is never ended as another.
- No object is copied, also none of an index: its segments name builds of the other tables, whose markers name fragments
  as those tables do. Rows that a checkpoint keeps in shards are settled into fragments of the clone's own, strictly:
  an entry of a WAL that is not there is an error, never a smaller clone. So a clone needs no WAL of its parent's.
- Its shards begin empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from siltstone import paths
from siltstone.errors import AlreadyExistsError, ConflictError, SiltstoneError
from siltstone.format.table import Change, Counts, Origin
from siltstone.retain.birth import be_born, cursors_of, new_sharding
from siltstone.retain.capture import kept_snapshots
from siltstone.retain.drop import end_drop
from siltstone.retain.pins import claim_of, pin_origin, release
from siltstone.retain.plan import builds_of
from siltstone.shard.merge import put_rows, write_taken
from siltstone.table.commit import commit
from siltstone.table.history import History, to_step
from siltstone.table.named import origins_in, renumbered
from siltstone.table.operations import Filtered, Work
from siltstone.table.origins import with_origins
from siltstone.table.tools import make_tools

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from siltstone.format.table import Checkpoint, CloneOf, Cursor, Sharding, WalStore
    from siltstone.log import Log
    from siltstone.shard.merge import Taken
    from siltstone.shard.shards import Shards
    from siltstone.shard.snapshot import Snapshot
    from siltstone.shard.wal_store import OtherWal
    from siltstone.table.draft import Draft
    from siltstone.table.origins import OpensOthers
    from siltstone.table.state import State

PARENT = 1  # the number of the table that was cloned


class Parent(NamedTuple):
    """The table that is cloned, as its pin keeps it."""

    log: Log
    state: State
    pin: Checkpoint
    shards: Shards
    others: OpensOthers


# -- the first entry -------------------------------------------------------------------------------


def begin(log: Log, wanted: CloneOf, others: OpensOthers, other: OtherWal | None = None) -> State:
    """Say what the clone is to be, unless it was said before; the state of its log.

    Raises:
        AlreadyExistsError: another table is there, or one that is to be another clone.
    """
    there = be_born(
        log,
        lambda _: Change(operation="clone", clone=wanted),
        clear=lambda state: end_drop(log, state, others, other),
    )
    state = there or History(log).newest()
    if state.clone is None:
        raise AlreadyExistsError(
            f"there is a table at {log.store.uri} already, and it is no clone", hint="choose another URI"
        )
    if not is_same(state.clone, wanted):
        begun = "there is" if state.exists else "someone began to make"
        raise AlreadyExistsError(
            f"{begun} another clone at {log.store.uri}: {_shown(state.clone)}, not {_shown(wanted)}",
            hint="choose another URI, or drop() that one first",
        )
    if state.exists and not is_untouched(log, state):
        raise AlreadyExistsError(
            f"there is that clone at {log.store.uri} already, and it was written to since",
            hint="open it, or choose another URI",
        )
    return state


def is_same(one: CloneOf, other: CloneOf) -> bool:
    """Whether two were asked to be the same. A parent may have been opened under another name."""
    if (one.table, one.where, one.newest) != (other.table, other.where, other.newest):
        return False
    return one.newest or (one.version, one.pin) == (other.version, other.pin)


def is_untouched(log: Log, state: State) -> bool:
    """Whether nothing was committed to a clone since it was made."""
    data = log.published(state.version)
    change = None if data is None else to_step(log.read(data, state.version)).said
    return change is not None and change.operation == "clone"


def _shown(clone: CloneOf) -> str:
    what = f"checkpoint {clone.checkpoint!a}" if clone.checkpoint else f"version {clone.version}"
    what = "the newest version" if clone.newest else what
    where = f" where {clone.where!a}" if clone.where else ""
    return f"{what} of {clone.uri}{where}"


# -- the second entry ------------------------------------------------------------------------------


def end(log: Log, state: State, parent: Parent, others: OpensOthers, *, wal: WalStore | None = None) -> State | None:
    """Bring what the pin in the parent keeps; the state that it made, or None where another who makes the clone did.

    Raises:
        ConflictError: a version of a table that objects are named of is not kept there any more, or the clone was
            dropped meanwhile and another table is there.
        MissingObjectError: a table is not there, or an entry of a WAL is gone that belongs to the checkpoint.
        NotFoundError: the clone was dropped meanwhile.
    """
    claim = claim_of(log, state)
    numbers = _numbers(parent.state)
    origins = _origins(parent, numbers)
    named = [(old, origins[str(new)]) for old, new in numbers.items() if old]
    try:
        for old, origin in named:
            pin_origin(log, claim, origin, old, parent.others)
        made = _bring(log, state, parent, others, origins=origins, numbers=numbers, wal=wal)
    except SiltstoneError:
        _loosen(log, state, named, parent.others)
        raise
    if made is None:
        _loosen(log, state, named, parent.others)
    return made


def _loosen(log: Log, begun: State, named: Sequence[tuple[int, Origin]], others: OpensOthers) -> None:
    """Release pins where the clone was dropped, or made and detached, by someone who did not see them."""
    loose = [(old, origin) for old, origin in named if not needs(log, begun, origin.table)]
    release(log, claim_of(log, begun), loose, others)


def needs(log: Log, begun: State, table: str) -> bool:
    """Whether what was begun is a clone that names objects of a table, or may still become one."""
    now = History(log).newest()
    if now.born != begun.born:
        return False
    return not now.exists or any(one.table == table for one in now.origins.values())


def _bring(
    log: Log,
    state: State,
    parent: Parent,
    others: OpensOthers,
    *,
    origins: Mapping[str, Origin],
    numbers: Mapping[int, int],
    wal: WalStore | None,
) -> State | None:
    """The state that this one made, or None where it was another."""
    if state.clone is None:
        raise ConflictError(f"what was begun at {log.store.uri} is not there any more", hint="run it again")
    tools = make_tools(with_origins(log.store, origins, others), log.env)
    sharding = parent.state.sharding
    spread = None if sharding is None else new_sharding(log.store, state, sharding.count)
    works: list[Work] = [Seed(parent.state, origins, numbers, spread, wal)]
    if parent.pin.shards:
        snapshots = kept_snapshots(parent.shards, parent.state, parent.pin)
        works.append(Captured(snapshots, parent.state.shards))
    if state.clone.where:
        works.append(Only(state.clone.where, parent.state.schema))
    history = History(log)
    try:
        return commit(tools, history, state, works, base=state.version).state
    except ConflictError as error:
        newest = history.newest()
        if newest.born != state.born:
            raise dropped_meanwhile(log.store.uri) from error
        if not newest.exists:
            raise
        return None


def dropped_meanwhile(uri: str) -> ConflictError:
    """The error for a clone at whose place there is something else by now."""
    return ConflictError(
        f"the clone at {uri} was dropped by another while it was made, and something else was made there since",
        hint="choose another URI, or drop() what is there first",
    )


def _numbers(state: State) -> dict[int, int]:
    """The numbers that tables have in the clone, by those in the parent, which is 0 itself."""
    used = {0} | origins_in(state.fragments.folded().base.table)
    used |= {paths.origin_of(name) for name in builds_of(state.indexes.values())}
    return {old: new for new, old in enumerate(sorted(used), PARENT)}


def _origins(parent: Parent, numbers: Mapping[int, int]) -> dict[str, Origin]:
    own = Origin(table=parent.log.identity.log, uri=parent.log.store.uri, version=parent.pin.version)
    return {str(new): parent.state.origins[str(old)] if old else own for old, new in numbers.items()}


class Seed(Work):
    """All that a version of another table says, under the names that it has here."""

    operation = "clone"

    def __init__(
        self,
        source: State,
        origins: Mapping[str, Origin],
        numbers: Mapping[int, int],
        sharding: Sharding | None,
        wal: WalStore | None,
    ) -> None:
        self._source = source
        self._origins = origins
        self._numbers = numbers
        self._sharding = sharding
        self._wal = wal

    def run(self, draft: Draft) -> None:
        """Nothing is read and nothing is copied."""
        if draft.begun.exists:
            raise ConflictError("the clone was made by another at the same time", hint="open it")
        draft.depends(whole=True, columns=True, kept=True, numbered=True)
        source = self._source
        draft.set_schema(source.schema)
        draft.set_labels(settings=source.settings)
        draft.seed(renumbered(source.fragments.folded().base.table, self._numbers))
        for name, index in source.indexes.items():
            segments = tuple(msgspec.structs.replace(one, build=self._name(one.build)) for one in index.segments)
            draft.set_index(name, msgspec.structs.replace(index, segments=segments))
        draft.remember(once=source.once, batches=source.batches)
        # There is no version before this one.
        draft.retain(floor=draft.begun.version + 1, origins=self._origins, wal=self._wal)
        if self._sharding is not None:
            draft.set_shards(cursors_of(self._sharding), self._sharding)
        draft.count(inserted=source.fragments.rows)

    def _name(self, name: str) -> str:
        return paths.foreign(paths.bare(name), self._numbers[paths.origin_of(name)])


class Captured(Work):
    """Rows that a checkpoint keeps in shards, as fragments of the clone's own."""

    operation = "clone"
    accompanies = True

    def __init__(self, snapshots: Sequence[Snapshot], merged: Mapping[str, Cursor]) -> None:
        self._snapshots = snapshots
        self._merged = merged
        self._taken: dict[str, Taken] = {}

    def run(self, draft: Draft) -> None:
        """What was written is put again where it is run again."""
        written: set[str] = set()
        for one in self._snapshots:
            if one.until is None:
                continue
            if one.shard not in self._taken:
                self._taken[one.shard] = write_taken(draft, one, one.until, self._merged[one.shard])
            put_rows(draft, self._taken[one.shard], written)


class Only(Filtered):
    """The rows go that a filter does not choose. Fragments that have none of the others go by their statistics."""

    operation = "clone"
    accompanies = True

    def run(self, draft: Draft) -> None:
        """Masks what is not chosen."""
        chosen = {live.fragment.name: rows for live, rows in self.chosen(draft)}
        lives = list(draft.state.fragments)
        draft.remove(live.fragment.name for live in lives if live.fragment.name not in chosen)
        for live in lives:
            if live.fragment.name in chosen:
                others = np.ones(live.fragment.rows, np.bool_)
                others[chosen[live.fragment.name]] = False
                draft.delete(live, np.flatnonzero(others))
        draft.counts = Counts(inserted=sum(map(len, chosen.values())))
