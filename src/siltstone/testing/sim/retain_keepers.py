"""Users of checkpoints: those who make them, read them again, keep them longer, delete them, and get in the way.

What must hold: a checkpoint that was acknowledged is in the log, for as long as was promised, and has all that was
acknowledged before; as long as it is there, it can be read.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from siltstone.errors import AlreadyExistsError, SiltstoneError
from siltstone.testing.sim.retain_agents import NAMES, OUTAGES, RetainUser, Stage, compare, days
from siltstone.testing.sim.retain_book import RetainShardBook
from siltstone.testing.sim.shard_agents import ShardHand

if TYPE_CHECKING:
    from siltstone.api.table import Table
    from siltstone.format import table as records
    from siltstone.shard.writer import ShardWriter
    from siltstone.table.checkpoints import Checkpoint
    from siltstone.testing.sim.retain_truth import Rows
    from siltstone.testing.sim.world import Process

LOOKS_MAX = 12


class Keeper(RetainUser):
    """Makes checkpoints, reads them again, keeps them longer, deletes them."""

    def __init__(self, scenario: Stage, name: str, count: int) -> None:
        super().__init__(scenario, name, count)
        self._made: list[tuple[str, Checkpoint]] = []

    def work(self, process: Process, uri: str) -> None:
        """One thing about one checkpoint."""
        draw = self.world.random
        chance = draw.random()
        mine = [one for one in self._made if one[0] == uri]
        if chance < 0.45 or not mine:
            self._keep(self.handle(process, uri), uri)
            return
        made = draw.choice(mine)
        table = self.handle(process, uri)
        if chance < 0.7:
            self._look(process, table, uri, made[1])
        elif chance < 0.85:
            keep_s, began_ms = self._promise_s(), self.book.retention.now_ms(uri)
            self._promised(uri, keep_s, table.refresh_checkpoint(made[1], keep_days=days(keep_s)), began_ms)
        elif chance < 0.93:
            self._made.remove(made)
            table.delete_checkpoint(made[1])
            self.world.counters["deleted checkpoints"] += 1
        else:  # whatever is there, also what another is making
            for one in table.checkpoints()[:1]:
                table.delete_checkpoint(one)

    def _promise_s(self) -> float | None:
        """How long a checkpoint is to be kept; None for ever."""
        draw = self.world.random
        return None if draw.random() < 0.4 else self.world.between(0.5, self.stage.promise_s)

    def _keep(self, table: Table, uri: str) -> None:
        draw = self.world.random
        scope, keep_s = draw.choice(self.stage.scopes), self._promise_s()
        version = None
        if scope == "all" and draw.random() < 0.3:
            version = self.pick_version(table)
        began_ms, until = self.book.retention.now_ms(uri), self._acknowledged()
        made = table.checkpoint(draw.choice(NAMES), scope=scope, keep_days=days(keep_s), version=version)
        self._made.append((uri, made))
        self.world.counters[f"checkpoints of {scope}"] += 1
        self._promised(uri, keep_s, made, began_ms)
        if version is None:
            self._check_whole(uri, made, until)

    def _acknowledged(self) -> dict[str, int]:
        return dict(self.book.reading().until) if isinstance(self.book, RetainShardBook) else {}

    def _records(self, uri: str, made: Checkpoint) -> list[records.Checkpoint]:
        """What versions say of a checkpoint."""
        each = (one.checkpoints.get(made.name) for one in self.truth(uri).versions)
        return [one for one in each if one is not None and one.pin == made.id]

    def _promised(self, uri: str, keep_s: float | None, made: Checkpoint, began_ms: int) -> None:
        """What was promised must be what the log says, at least once."""
        found = self._records(uri, made)
        if not found or found[-1].pending:
            self.book.violation(f"checkpoint {made.name} of {uri} was acknowledged, and is in no version")
        elif keep_s is not None:
            least = began_ms + keep_s * 1000 - 1000  # a store tells time in whole seconds
            if all(one.expires_ms is not None and one.expires_ms < least for one in found):
                self.book.violation(f"checkpoint {made.name} of {uri} is over {keep_s} s too early")

    def _check_whole(self, uri: str, made: Checkpoint, until: dict[str, int]) -> None:
        """All that was acknowledged before must belong to it."""
        found = self._records(uri, made)
        if not found or found[-1].pending:
            return
        cursors = self.truth(uri).versions[found[-1].version].cursors
        for shard, end in until.items():
            kept = found[-1].shards[shard].until.position if shard in found[-1].shards else 0
            if shard in cursors and max(cursors[shard], kept) < end:
                self.book.violation(f"checkpoint {made.name} ends at {kept} of {shard}, and {end} were acknowledged")

    def _look(self, process: Process, table: Table, uri: str, made: Checkpoint) -> None:
        """Read a checkpoint, twice."""
        self.world.counters["looks"] += 1

        def rows() -> Rows | None:
            record = self.truth(uri).newest.checkpoints.get(made.name)
            return None if record is None or record.pin != made.id else self.truth(uri).rows_of(record)

        before = rows()
        try:
            held = table.at(checkpoint=made)
            compare(self.book, f"checkpoint {made.name} of {uri}", held, before)
            process.wait(self.world.between(0.01, self.stage.hold_s))
            compare(self.book, f"checkpoint {made.name} of {uri}, again,", held, before)
        except OUTAGES:
            raise
        except SiltstoneError as error:
            if rows() is not None:
                self.book.violation(f"checkpoint {made.name} of {uri} can't be read: {error.kind}: {error.message}")


class Spoiler(RetainUser):
    """Deletes checkpoints that others are just making."""

    def work(self, process: Process, uri: str) -> None:
        """One of them, if there is one in time."""
        table = self.handle(process, uri)
        for _ in range(LOOKS_MAX):
            pending = [one for one in table.checkpoints() if one.pending]
            if pending:
                table.delete_checkpoint(pending[0])
                self.world.counters["spoiled"] += 1
                return
            process.wait(self.world.between(0.001, 10 * self.world.latency))


class KeepingHand(ShardHand):
    """Writes a shard, and makes checkpoints of what it wrote."""

    def _act(self, process: Process, table: Table, writer: ShardWriter, keys: tuple[int, ...]) -> None:
        draw = self.world.random
        if draw.random() < 0.85:
            super()._act(process, table, writer, keys)
            return
        with contextlib.suppress(AlreadyExistsError):
            writer.checkpoint(
                draw.choice(NAMES), scope=draw.choice(("all", "durable")), keep_days=days(draw.choice((None, 5.0)))
            )
            self.world.counters["checkpoints of writers"] += 1
