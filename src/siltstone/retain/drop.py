"""Dropping a table, or a clone that was begun and not ended.

What must hold:
- A table that others hold pins in is not dropped.
- Shards are sealed before the mark, and looked at once more behind it: nobody is told that a row was put into a table
  that is gone.
- The mark is an entry of the log. What this table pinned elsewhere goes only behind it, and only what this very table
  pinned; then its objects; then the log before the mark. Each step may be redone, and a drop that was cut off is ended
  by another one.
- What stays tells whoever comes late: the log's identity and floor, the mark, one rollup, and the sealed shards.
- Objects of a table that was made there since are not touched: their names begin with later versions.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from siltstone import paths
from siltstone.errors import ConflictError, NotFoundError, WrongWalStoreError
from siltstone.format.table import Origin
from siltstone.retain.birth import map_of, shard_names
from siltstone.retain.builds import in_order
from siltstone.retain.pins import claim_of, open_other_log, release
from siltstone.shard.manifest import DROP
from siltstone.shard.pins import remove_pins
from siltstone.shard.place import ShardPlace
from siltstone.shard.split import clear_shard, seal_lost, seal_shard
from siltstone.shard.together import together
from siltstone.table.commit import commit
from siltstone.table.history import History
from siltstone.table.operations import Work
from siltstone.table.tools import make_tools

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from siltstone.format.shard import ShardState
    from siltstone.log import Log
    from siltstone.shard.wal_store import OtherWal
    from siltstone.table.draft import Draft
    from siltstone.table.origins import OpensOthers
    from siltstone.table.state import State

ROUNDS_MAX = 100
NAMED_MAX = 5
BATCH = 1000


class Mark(Work):
    """The table is gone from here on."""

    operation = "drop"

    def __init__(self, sealed: frozenset[str]) -> None:
        self._sealed = sealed

    def run(self, draft: Draft) -> None:
        """Refused while clones hold it, and where shards came since some were sealed."""
        draft.depends(kept=True, rows=True, whole=True, shards=draft.state.shards.keys())
        check_free(draft.state, draft.tools.store.uri)
        if not draft.state.shards.keys() <= self._sealed:
            raise ConflictError("shards were made while the table was being dropped", hint="drop it again")
        draft.drop()


def check_free(state: State, uri: str) -> None:
    """Raise ConflictError where clones read from a table."""
    held = sorted({one.holder.uri for one in state.checkpoints.values() if one.holder is not None})
    if held:
        more = f" and {len(held) - NAMED_MAX} more" if len(held) > NAMED_MAX else ""
        raise ConflictError(
            f"the table at {uri} can't be dropped: clones read from it, at {', '.join(held[:NAMED_MAX])}{more}",
            hint="detach() or drop() those first; what one held that was dropped already goes with delete_checkpoint()",
            holders=held,
        )


def drop(log: Log, others: OpensOthers, other: OtherWal | None = None) -> None:
    """Drop the table whose log it is, or end a drop that was cut off; ``other`` is the store of its WALs.

    Raises:
        NotFoundError: there is none.
        ConflictError: clones read from it; nothing was changed.
        WrongWalStoreError: WALs of its shards are in a store that was not given.
    """
    history = History(log)
    state = history.newest()
    if not (state.exists or state.clone or state.dropped):
        raise NotFoundError(f"there is no table at {log.store.uri}", hint="check the URI")
    if not state.dropped:
        state = _mark(log, history, state, other)
    end_drop(log, state, others, other)
    _remove(log, state, other)


def _mark(log: Log, history: History, state: State, other: OtherWal | None) -> State:
    tools = make_tools(log.store, log.env)
    for _ in range(ROUNDS_MAX):
        check_free(state, log.store.uri)
        names = frozenset(state.shards)
        lost = _seal(log, names, other)
        try:
            return commit(tools, history, state, [Mark(names)], base=state.version).state
        except NotFoundError:
            state = history.newest()
            if state.dropped:  # by another
                return state
            raise
        except ConflictError:
            now = history.newest()
            try:
                check_free(now, log.store.uri)
            except ConflictError:
                _unseal(log, names, lost)
                raise
            if now.shards.keys() <= names and now.floor == state.floor:
                raise
            state = now
    raise ConflictError(f"shards were made {ROUNDS_MAX} times while the table was being dropped", hint="try again")


def _seal(log: Log, names: Iterable[str], other: OtherWal | None) -> frozenset[str]:
    """Seal shards; those whose WALs were given up."""
    if not _is_lost(log, other):
        together(lambda name: seal_shard(ShardPlace(log, name, None, other), DROP), list(names), log.store)
        return frozenset()

    def seal(name: str) -> bool:
        place = ShardPlace(log, name, None)  # the empty place stays empty: it is asked about once more
        try:
            seal_shard(place, DROP)
        except WrongWalStoreError:
            seal_lost(place, DROP)
            return True
        return False

    each = list(names)
    return frozenset(name for name, gone in zip(each, together(seal, each, log.store), strict=True) if gone)


def _is_lost(log: Log, other: OtherWal | None) -> bool:
    """Whoever names an empty place as the store of the WALs says that the one they were in was lost."""
    with contextlib.suppress(WrongWalStoreError):  # another table's: whoever needs it is told
        return other is not None and other.record(log) is None
    return False


def _unseal(log: Log, names: Iterable[str], lost: frozenset[str]) -> None:
    """Let writers have shards again: the table was not dropped after all, and no WAL was given up."""

    def edit(state: ShardState, *, given_up: bool) -> ShardState | None:
        if not state.sealed or state.writer != DROP:
            return None
        return msgspec.structs.replace(state, sealed=False, closed=None if given_up else state.closed)

    for name in names:
        manifest = ShardPlace(log, name, None).manifest()
        if manifest is not None:
            manifest.change(partial(edit, given_up=name in lost))


# -- behind the mark -------------------------------------------------------------------------------


def end_drop(log: Log, state: State, others: OpensOthers, other: OtherWal | None = None) -> None:
    """Seal what was not sealed, and let go of what a dropped table pinned elsewhere."""
    if log.first().position >= state.born:
        return  # the log before the mark goes last
    before = History(log).at(state.born - 1)
    _seal(log, before.shards, other)
    claim = claim_of(log, before)
    if before.exists:
        release(log, claim, ((int(number), one) for number, one in before.origins.items()), others)
    elif before.clone is not None:
        parent = Origin(table=before.clone.table, uri=before.clone.uri, version=before.clone.version)
        release(log, claim, _pinned_by(log, claim.name, parent, others), others)


def _pinned_by(log: Log, name: str, parent: Origin, others: OpensOthers) -> Iterator[tuple[int, Origin]]:
    """Where a clone that was not ended may hold pins; the parent comes last, since it tells of the others."""
    there = open_other_log(log, parent, 0, others)
    if there is not None:
        with there:
            history = History(there)
            pin = history.newest().checkpoints.get(name)
            if pin is not None:
                yield from ((0, one) for one in history.at(pin.version).origins.values())
        yield 0, parent


def _remove(log: Log, state: State, other: OtherWal | None) -> None:
    """Delete what a dropped table had."""
    history, born = History(log), state.born
    gone = history.at(born) if state.version != born else state
    history.write_anchor(gone)
    for folder in (paths.DATA, paths.VECTORS, paths.INDEXES):
        _delete(log, in_order(log, (info.key for info in log.store.list(folder) if _base_of(info.key) <= born)))
    _clear_shards(log, gone, other)
    floor = log.first()
    log.truncate(floor if floor.position >= born else history.at(born - 1).mark)
    rollups = ((paths.parse_rollup(info.key), info.key) for info in log.store.list(paths.ROLLUPS))
    _delete(log, (key for position, key in rollups if position is not None and position <= born))


def _clear_shards(log: Log, gone: State, other: OtherWal | None) -> None:
    """Let the sealed shards of a dropped table go of their rows, and not those that a split of a later one sealed."""
    places = [ShardPlace(log, name, None, other) for name in shard_names(log.store)]
    if not places:
        return
    sealed = together(_is_sealed, places, log.store)
    # Asked behind that: a shard of a later table that is sealed by then was known to it before.
    later = History(log).newest()
    doomed = [place for place, is_sealed in zip(places, sealed, strict=True) if is_sealed]
    together(_clear_shard, [place for place in doomed if not _is_of(later, place.name, gone)], log.store)


def _is_sealed(place: ShardPlace) -> bool:
    manifest = place.manifest()
    return manifest is not None and manifest.read().sealed


def _is_of(later: State, name: str, gone: State) -> bool:
    """Whether a shard is, or may have been before a split, one of a table that came after one that is gone."""
    if later.born == gone.born and later.dropped:
        return False
    last = -1 if gone.sharding is None else gone.sharding.map
    number = map_of(name)
    return name in later.shards or (number is not None and number > last)


def _clear_shard(place: ShardPlace) -> None:
    manifest = place.manifest()
    if manifest is not None:
        remove_pins(manifest, manifest.read().pins)
        clear_shard(place, keep_ms=0)


def _base_of(key: str) -> int:
    """The version that an object was written on; those that are none of ours come after all versions."""
    name = paths.parse_data(key) or paths.parse_vectors(key) or (paths.parse_index(key) or ("",))[0]
    found = paths.parse_name(name)
    return 2**63 if found is None else found[0]


def _delete(log: Log, keys: Iterable[str]) -> None:
    doomed = list(keys)
    for start in range(0, len(doomed), BATCH):
        log.store.delete(doomed[start : start + BATCH])
