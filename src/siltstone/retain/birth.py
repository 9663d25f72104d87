"""The first entry of a table, where there is none yet or where another one was dropped.

What must hold:
- A table that comes where another was dropped goes on in the same log, behind the mark that says so: whoever slept
  through it finds the mark, and wins no place.
- Its shards have names that no shard had before: those of the dropped one stay sealed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.errors import ConflictError, LimitExceededError
from siltstone.format.table import Cursor, Sharding, encode_body, encode_change
from siltstone.paths import shard_name
from siltstone.shard.split import MAPS_MAX
from siltstone.table.history import History

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.format.table import Change
    from siltstone.log import Log
    from siltstone.store.base import Store
    from siltstone.table.state import State

TRIES_MAX = 100


def is_free(state: State) -> bool:
    """Whether a table may be made here: nothing was ever, or what was is dropped."""
    return state.dropped or (not state.exists and state.clone is None)


def be_born(log: Log, make: Callable[[State], Change], *, clear: Callable[[State], None]) -> State | None:
    """Put the first entry of a table; the state of the one that is there, where it was not put.

    ``clear`` ends what is left to do of a drop before.
    """
    history = History(log)
    is_new = not log.floors() and log.published(0) is None  # as it is for nearly every table
    state = history.base if is_new else history.newest()
    for _ in range(TRIES_MAX):
        if not is_free(state):
            return state
        if state.dropped:
            clear(state)
        try:
            log.append(encode_body(encode_change(make(state))), after=state.mark)
        except ConflictError:
            state = history.newest()
            continue
        return None
    raise ConflictError(f"tables came and went {TRIES_MAX} times while one was made", hint="try again")


def new_sharding(store: Store, state: State, count: int) -> Sharding:
    """How the keys of a new table are spread over shards that nobody used."""
    used = [-1 if state.sharding is None else state.sharding.map]
    if state.born:
        used += [number for name in shard_names(store) if (number := map_of(name)) is not None]
    if max(used) >= MAPS_MAX:
        raise LimitExceededError(
            f"shards were named anew {MAPS_MAX} times at {store.uri}, and have no names left", hint="use another URI"
        )
    return Sharding(count=count, map=max(used) + 1)


def cursors_of(sharding: Sharding | None) -> dict[str, Cursor | None]:
    """The shards of a new table."""
    if sharding is None:
        return {}
    return {shard_name(sharding.map, number): Cursor() for number in range(sharding.count)}


def shard_names(store: Store) -> list[str]:
    """Shards that have objects."""
    names: dict[str, None] = {}
    for info in store.list(paths.SHARDS):
        names[info.key.removeprefix(f"{paths.SHARDS}/").partition("/")[0]] = None
    return list(names)


def map_of(name: str) -> int | None:
    """The map that a shard belongs to; None where it was named freely."""
    head, _, tail = name.partition("-")
    numbered = len(head) == 4 == len(tail) and (head + tail).isascii() and (head + tail).isdigit()
    return int(head) if numbered else None
