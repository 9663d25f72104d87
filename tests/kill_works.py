"""What someone does with a table when the process is killed: prepared before, done by a child and again by a test.

Each work is a class: ``prepare`` is done by whoever lives, ``do`` by the one that dies and then by another one, and
``after`` is what the rows are once it is done. Numbers of rounds make ids, so that each round has rows of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

import siltstone as ss
from siltstone.errors import AlreadyExistsError

if TYPE_CHECKING:
    from pathlib import Path

    from siltstone.store.base import Store

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])
WORDS = ("silt", "sand", "clay", "loam", "marl")
IDS = 100  # of one round
Rows = dict[int, str]


def rows_of(number: int, count: int = 5) -> Rows:
    return {number * IDS + one: f"{WORDS[one % len(WORDS)]} {number}" for one in range(count)}


def as_table(rows: Rows) -> pa.Table:
    return pa.table({"id": list(rows), "note": list(rows.values())}, schema=SCHEMA)


def read(table: ss.Table) -> Rows:
    """All rows that are durable, those in shards too; a key that is there twice fails."""
    found = table.scan(fresh=True).to_arrow()
    rows = dict(zip(found["id"].to_pylist(), found["note"].to_pylist(), strict=True))
    assert len(rows) == found.num_rows, "a key is in two rows"
    return rows


class Work:
    """One kind of it."""

    makes_clone: ClassVar[bool] = False
    in_parts: ClassVar[bool] = False

    def __init__(self, number: int, home: Path) -> None:
        self.number = number
        self.clone = home / f"clone-{number}"

    def prepare(self, table: ss.Table) -> None:
        """What must be there before."""

    def do(self, table: ss.Table, clone: Store | str) -> None:
        """Do it; where it was done before, nothing changes."""
        raise NotImplementedError

    def after(self, rows: Rows) -> Rows:
        """The rows that there are when it is done."""
        return rows

    def check(self, table: ss.Table, rows: Rows) -> None:
        """What else must be so when it is done."""


class Append(Work):
    def do(self, table, clone):
        with table.transaction(once=f"append {self.number}") as tx:
            tx.append(as_table(rows_of(self.number)))

    def after(self, rows):
        return rows | rows_of(self.number)


class Upsert(Work):
    def do(self, table, clone):
        table.upsert(as_table(rows_of(self.number) | {0: f"upserted {self.number}"}))

    def after(self, rows):
        return rows | rows_of(self.number) | {0: f"upserted {self.number}"}


class Change(Work):
    """Several operations in one version."""

    def do(self, table, clone):
        with table.transaction(once=f"change {self.number}") as tx:
            tx.delete("id % 100 = 1")
            tx.append(as_table(rows_of(self.number)))
            tx.update({"note": f"'changed {self.number}'"}, where="id = 0")

    def after(self, rows):
        return (
            {n: note for n, note in rows.items() if n % 100 != 1} | rows_of(self.number) | {0: f"changed {self.number}"}
        )


class Compact(Work):
    def prepare(self, table):
        table.delete(f"id < {(self.number - 20) * IDS} and id > 0")
        table.append(as_table(rows_of(self.number)))

    def do(self, table, clone):
        table.compact()


class Put(Work):
    """One put, which is a put at each of two shards: one of them may be there without the other."""

    in_parts = True

    def do(self, table, clone):
        with table.writer() as writer:
            writer.put(as_table(rows_of(self.number)))

    def after(self, rows):
        return rows | rows_of(self.number)


class Merge(Work):
    def prepare(self, table):
        with table.writer() as writer:
            writer.put(as_table(rows_of(self.number)))
            writer.delete(pa.table({"id": [self.number * IDS]}))

    def do(self, table, clone):
        table.merge_shards()

    def check(self, table, rows):
        assert table.count() == len(rows)


class Split(Work):
    def prepare(self, table):
        Put(self.number, self.clone.parent).do(table, "")

    def do(self, table, clone):
        table.split_shards(1 + self.number % 3)

    def check(self, table, rows):
        assert len(table.shards()) == 1 + self.number % 3


class Keep(Work):
    """A checkpoint of everything, which needs no WAL."""

    def prepare(self, table):
        Put(self.number, self.clone.parent).do(table, "")

    def do(self, table, clone):
        try:
            table.checkpoint(f"kept-{self.number}", scope="all")
        except AlreadyExistsError:
            assert f"kept-{self.number}" in {one.name for one in table.checkpoints()}

    def check(self, table, rows):
        found = table.at(checkpoint=f"kept-{self.number}").scan().to_arrow()
        assert sorted(found["id"].to_pylist()) == sorted(rows)
        table.delete_checkpoint(f"kept-{self.number}")


class Clone(Work):
    makes_clone = True

    def do(self, table, clone):
        table.clone(clone, probe=False).close()

    def check(self, table, rows):
        assert read(ss.open(self.clone, probe=False)) == rows
        ss.drop(self.clone, probe=False)


class Detach(Clone):
    def prepare(self, table):
        super().do(table, self.clone)

    def do(self, table, clone):
        with ss.open(clone, probe=False) as opened:
            opened.detach()


class Drop(Detach):
    def do(self, table, clone):
        ss.drop(clone, missing_ok=True, probe=False)

    def check(self, table, rows):
        table.gc(keep_days=0)  # nothing holds what the clone needed


class Collect(Work):
    def prepare(self, table):
        table.append(as_table(rows_of(self.number)))
        table.upsert(as_table(rows_of(self.number)))

    def do(self, table, clone):
        table.gc(keep_days=0)


class Index(Work):
    """A text index is built, from nothing or onto what is there, and brought to its end."""

    def prepare(self, table):
        table.append(as_table(rows_of(self.number)))
        if table.indexes() and self.number % 4 == 0:
            table.drop_index("note")

    def do(self, table, clone):
        if table.indexes():
            table.optimize_index("note")
        else:
            table.create_text_index("note")

    def check(self, table, rows):
        assert [one.unindexed_rows for one in table.indexes()] == [0]
        for word in ("silt", "marl"):
            found = table.search("note", word, columns=["id"], limit=None).to_arrow()["id"].to_pylist()
            assert sorted(found) == sorted(n for n, note in rows.items() if word in note.split())


class Restore(Work):
    def prepare(self, table):
        table.merge_shards()
        table.tag("before")
        table.append(as_table(rows_of(self.number)))

    def do(self, table, clone):
        table.restore(tag="before")

    def after(self, rows):
        return {n: note for n, note in rows.items() if n // IDS != self.number}


WORKS = {
    kind.__name__.lower(): kind
    for kind in (
        Append,
        Upsert,
        Change,
        Compact,
        Put,
        Merge,
        Split,
        Keep,
        Clone,
        Detach,
        Drop,
        Collect,
        Index,
        Restore,
    )
}
