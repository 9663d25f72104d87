"""Users of a table with shards: those who write shards, merge, split, change the table itself, and read.

What must hold: each behaves as the documentation tells users to. A writer that was fenced or stopped is dropped, and
the shard opened again; an edit in doubt is run again only under its ``once`` id. No threads are started: who writes a
shard flushes by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from siltstone.errors import CommitUnknownError, SiltstoneError, UnavailableError, WriterStoppedError
from siltstone.table.once import Once
from siltstone.testing.sim.agents import OPENINGS_MAX, TRIES_MAX, Agent
from siltstone.testing.sim.ledger import ALARMS
from siltstone.testing.sim.shard_book import AT_TABLE, Edit
from siltstone.testing.sim.shard_truth import KEY, LABEL, Row

if TYPE_CHECKING:
    from siltstone.api.table import Table
    from siltstone.shard.writer import Ack, ShardWriter
    from siltstone.testing.sim.shard_scenario import ShardScenario
    from siltstone.testing.sim.world import Process


class ShardUser(Agent):
    """Someone who works with the table."""

    def __init__(self, scenario: ShardScenario, name: str, count: int) -> None:
        super().__init__(scenario, name)
        self.stage = scenario
        self.book = scenario.book
        self.left = count
        self._edits = 0

    def live(self, process: Process) -> None:
        table = self._table(process)
        while table is not None and self.left > 0:
            self.left -= 1
            process.wait(self.world.between(0.01, self.stage.pauses_s[type(self).__name__]))
            try:
                self.work(process, table)
            except ALARMS as error:
                self.book.alarm(error)
                return
            except SiltstoneError as error:
                self.world.note(f"{process.name} stops: {error.kind}: {error.message}")
                if self.world.random.random() < 0.2:
                    table = self._table(process)

    def work(self, process: Process, table: Table) -> None:
        """One piece of the task."""
        raise NotImplementedError

    def _table(self, process: Process) -> Table | None:
        for _ in range(OPENINGS_MAX):
            try:
                return self.stage.table(process)
            except ALARMS as error:
                self.book.alarm(error)
                return None
            except SiltstoneError as error:
                self.world.note(f"{process.name} can't open: {error.kind}")
                self.think(process, 2.0)
        return None

    def _edit(self, keys: tuple[int, ...], shard: str, *, deleted: bool) -> Edit:
        self._edits += 1
        return Edit(f"{self.name}-{self._edits}", keys=keys, deleted=deleted, shard=shard)


# -- writers -------------------------------------------------------------------------------------


class ShardHand(ShardUser):
    """Takes a shard over, puts and deletes, flushes now and then, and goes away with or without closing."""

    def __init__(self, scenario: ShardScenario, name: str, count: int) -> None:
        super().__init__(scenario, name, count)
        self._doubts: list[Edit] = []
        self._held: list[ShardWriter] = []

    def live(self, process: Process) -> None:
        self._held = []
        super().live(process)

    def work(self, process: Process, table: Table) -> None:
        """One reign over a shard."""
        draw = self.world.random
        shard, began = self.stage.pick_shard(table), self.book.reading()
        writer = self.stage.writer(table, shard, process)
        self._held.append(writer)  # a handle finds its writers as long as someone holds them
        self.world.counters["claims"] += 1
        if writer.knobs.enable_memtable and draw.random() < 0.3:  # it knows all that those before it put
            self.book.saw(began, read_rows(writer.scan().to_arrow()), fresh=True)
        keys = self.stage.keys_of(writer)
        for edit in [one for one in self._doubts if one.shard == writer.place.name]:
            self._doubts.remove(edit)
            self._put(writer, edit)
        for _ in range(draw.randint(2, 6)):
            self._act(process, table, writer, keys)
            process.wait(self.world.between(0.001, self.stage.rest_s))
        if writer.knobs.enable_memtable and draw.random() < 0.5:  # nothing is between what it replayed and what it put
            self.book.saw(began, read_rows(writer.scan().to_arrow()), fresh=True)
        if draw.random() < 0.3:  # by a handle whose writer may have been fenced since
            process.wait(self.world.between(0.001, self.stage.pauses_s["ShardHand"]))
            look(self.stage, process, table)
        if draw.random() < 0.6:
            writer.close()

    def _act(self, process: Process, table: Table, writer: ShardWriter, keys: tuple[int, ...]) -> None:
        chance = self.world.random.random()
        if chance < 0.5:
            self._put(writer, self._new(writer, keys))
        elif chance < 0.7:
            self._put_several(writer, [self._new(writer, keys) for _ in range(self.world.random.randint(2, 3))])
        elif chance < 0.9 and writer.knobs.enable_memtable:
            self._flush(writer, freeze=chance < 0.85)
        else:
            look(self.stage, process, table)

    def _flush(self, writer: ShardWriter, *, freeze: bool) -> None:
        """Flush memtables; what could not be flushed is tried again, now, later, or by the next writer."""
        if freeze:
            writer.freeze()
        for number in range(TRIES_MAX):
            try:
                self.world.counters["flushes"] += writer.flush_memtables()
            except (UnavailableError, CommitUnknownError, WriterStoppedError) as error:
                self.world.note(f"{self.name} can't flush: {error.kind}")
                if self.world.random.random() < 0.2 or number == TRIES_MAX - 1:
                    raise
            else:
                return
            if self.world.random.random() < 0.4:
                return

    def _new(self, writer: ShardWriter, keys: tuple[int, ...]) -> Edit:
        draw = self.world.random
        keys = self.stage.pick_keys(keys)
        return self._edit(keys, writer.place.name, deleted=self.stage.keyed and draw.random() < 0.25)

    def _send(self, writer: ShardWriter, edit: Edit, *, wait: bool | None) -> Ack:
        self.book.begin(edit)
        once = Once(id=edit.op)
        if edit.deleted:
            return writer.delete(list(edit.keys), wait=wait, once=once)
        return writer.put(rows_of(edit), wait=wait, once=once)

    def _put(self, writer: ShardWriter, edit: Edit) -> None:
        try:
            self._send(writer, edit, wait=None)
        except SiltstoneError as error:
            self._failed(edit, error)
            raise
        self.book.done(edit)

    def _put_several(self, writer: ShardWriter, edits: list[Edit]) -> None:
        """Puts that nobody waits for at first; then for one of them, then for all."""
        draw = self.world.random
        acks: list[tuple[Edit, Ack]] = []
        for edit in edits:
            acks.append((edit, self._send(writer, edit, wait=False)))
            if writer.knobs.enable_memtable and draw.random() < 0.3:
                writer.freeze()
        failed: SiltstoneError | None = None
        told: set[str] = set()
        for edit, ack in [draw.choice(acks), *acks]:
            try:
                ack.wait()
            except SiltstoneError as error:
                failed = failed or error
                if edit.op not in told:
                    self._failed(edit, error)
                told.add(edit.op)
            for one, other in acks:
                if other.done and one.op not in told:
                    self.book.done(one)
                    told.add(one.op)
        if failed is not None:
            raise failed

    def _failed(self, edit: Edit, error: SiltstoneError) -> None:
        if self.book.told(edit.op, error) != "alarm" and self.world.random.random() < 0.8:
            if not self._doubts:
                self.left += 1  # to run it again
            self._doubts.append(edit)


# -- at the table --------------------------------------------------------------------------------


class Merger(ShardUser):
    """Takes what is in the shards into the table."""

    def work(self, process: Process, table: Table) -> None:
        """One merge."""
        done = table.merge_shards()
        self.book.told_of(done.version)
        self.world.counters["merges"] += bool(done.shards)


class Splitter(ShardUser):
    """Spreads the keys anew."""

    def work(self, process: Process, table: Table) -> None:
        """One split."""
        done = table.split_shards(self.world.random.randint(1, 3))
        self.book.told_of(done.version)
        self.world.counters["splits"] += 1


class TableHand(ShardUser):
    """Changes the table past its shards."""

    def work(self, process: Process, table: Table) -> None:
        """One transaction, run again while its outcome is not known."""
        draw = self.world.random
        chance = draw.random()
        if chance < 0.15:
            table.compact()
            return
        if chance < 0.3:
            self._change_columns(table)
            return
        keys = self.stage.pick_keys(self.stage.keys)
        edit = self._edit(keys, AT_TABLE, deleted=self.stage.keyed and draw.random() < 0.4)
        edit.overwrites = not edit.deleted and draw.random() < 0.3
        for _ in range(TRIES_MAX):
            self.book.begin(edit)
            try:
                version = self._commit(table, edit)
            except SiltstoneError as error:
                if self.book.told(edit.op, error) != "unknown":
                    raise
            else:
                self.book.done(edit)
                self.book.told_of(version)
                return

    def _change_columns(self, table: Table) -> None:
        """Add a column that no row has a value of, or drop one."""
        spare = [name for name in table.schema.names if name not in {KEY, LABEL}]
        if spare:
            table.drop_column(spare[0])
        else:
            table.add_column(f"spare{self._edits}", pa.int64())

    def _commit(self, table: Table, edit: Edit) -> int:
        transaction = table.transaction(once=edit.op)
        if edit.deleted:
            transaction.delete(f"{KEY} in ({', '.join(map(str, edit.keys))})")
        elif edit.overwrites:
            transaction.overwrite(rows_of(edit))
        elif self.stage.keyed:
            transaction.upsert(rows_of(edit))
        else:
            transaction.append(rows_of(edit))
        return transaction.commit().version


# -- readers -------------------------------------------------------------------------------------


class FreshReader(ShardUser):
    """Reads again and again, through one handle."""

    def work(self, process: Process, table: Table) -> None:
        """One read."""
        look(self.stage, process, table)


def look(stage: ShardScenario, process: Process, table: Table) -> None:
    """Read in one of the ways there are, and compare it with what must be there."""
    draw, book = stage.world.random, stage.book
    chance = draw.random()
    began = book.reading()
    stage.world.note(f"{process.name} begins to read")
    stage.world.counters["reads"] += 1
    if chance < 0.3 and stage.keyed:
        keys = draw.sample(stage.keys, draw.randint(1, len(stage.keys)))
        book.saw(began, read_rows(table.get(keys, fresh=True)), fresh=True, keys=keys)
    else:
        fresh = chance < 0.85
        book.saw(began, read_rows(table.scan(fresh=fresh).to_arrow()), fresh=fresh)


def rows_of(edit: Edit) -> list[dict[str, object]]:
    """An edit's rows as users hand them in."""
    return [{KEY: key, LABEL: edit.op} for key in edit.keys]


def read_rows(table: pa.Table) -> list[Row]:
    """Rows as the book has them."""
    return [Row(row[KEY], row[LABEL]) for row in table.select([KEY, LABEL]).to_pylist()]
