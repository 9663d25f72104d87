"""Which puts that are to count once are in a shard, or on their way there.

What must hold:
- A put that was queued counts from that moment on: whoever puts it again waits for the first one.
- What was applied by entries that may be removed is told to the manifest first (``before``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.shard.rows import ids_of

if TYPE_CHECKING:
    from siltstone.format.shard import ShardState, WalHeader
    from siltstone.table.once import Once

DURABLE = 0  # the turn of a put that was durable when the writer was opened


class Ledger:
    """Not safe by itself: the writer's lock guards it."""

    def __init__(self, state: ShardState) -> None:
        self._ids: dict[str, int] = dict.fromkeys(state.once, DURABLE)  # with the turn of the put
        self._streams = {stream: (batch, DURABLE) for stream, batch in state.batches.items()}
        self._written: list[tuple[int, Once]] = []  # with the position; not in the manifest yet

    def turn_of(self, once: Once) -> int | None:
        """The put that makes this one needless; None where it is to be done."""
        if once.stream:
            batch, turn = self._streams.get(once.stream, (-1, DURABLE))
            return turn if batch >= once.batch else None
        return self._ids.get(once.id)

    def promise(self, once: Once, turn: int) -> None:
        """Note a put that was queued."""
        if once.stream:
            self._streams[once.stream] = (once.batch, turn)
        elif once.id:
            self._ids[once.id] = turn

    def written(self, once: Once, position: int) -> None:
        """Note a put that is in the WAL."""
        self._written.append((position, once))

    def replayed(self, header: WalHeader, position: int) -> None:
        """Note what an entry says that was in the WAL when the writer was opened."""
        for once in ids_of(header):
            if self.turn_of(once) is None:
                self.promise(once, DURABLE)
            self.written(once, position)

    def before(self, position: int) -> list[Once]:
        """What entries before a position applied, and the manifest may not know yet."""
        return [one for place, one in self._written if place < position]

    def forget(self, position: int) -> None:
        """The manifest knows what entries before a position applied."""
        self._written = [(place, one) for place, one in self._written if place >= position]
