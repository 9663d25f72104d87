"""A WAL in a store of its own, which is wiped behind a checkpoint: what a clone and the table itself then show.

What must hold:
- Rows are acknowledged, the checkpoint is made while the writer is at work, and then the writer is killed.
- With the WAL left alone the same steps give every row.
"""

from __future__ import annotations

from typing import Any

import obstore
from obstore.store import S3Store
from peers_fault_crowd import Row, ask, counted
from peers_fault_products import SCHEMA, Place, Product, Siltstone, Slate, ids_of, rows_of
from slatedb.uniffi import (
    AdminBuilder,
    CheckpointOptions,
    CloneSourceSpec,
    DbBuilder,
    FlushOptions,
    FlushType,
    ObjectStore,
)

import siltstone as ss
from siltstone.testing.s3server import FaultServer

WAL = "wal-bkt"
CHECKPOINT = "before"


class WalSlate(Slate):
    """SlateDB with an object store for its WAL, and a checkpoint of what is durable."""

    def builder(self) -> DbBuilder:
        built = super().builder()
        built.with_wal_object_store(ObjectStore.resolve(f"s3://{WAL}"))
        return built

    def fill(self, appends: int) -> str:
        for number in range(appends):
            self.put(ids_of(0, number))
        self.before_checkpoint()
        options = CheckpointOptions(lifetime_ms=None, source=None, name=CHECKPOINT)
        return str(self.wait(self._admin().create_detached_checkpoint(options)).id)

    def before_checkpoint(self) -> None:
        """Nothing: what is durable is durable."""

    def clone(self, checkpoint: str) -> None:
        source = CloneSourceSpec(path=self.place.name, checkpoint=checkpoint, projection_range=None)
        builder = self._admin().create_clone_builder_from_source(source)
        builder.with_clone_path("clone")
        builder.with_object_store(ObjectStore.resolve("s3://bkt"))
        builder.with_wal_object_store(ObjectStore.resolve(f"s3://{WAL}"))
        self.wait(builder.build())

    def _admin(self) -> Any:
        builder = AdminBuilder(self.place.name, ObjectStore.resolve("s3://bkt"))
        builder.with_wal_object_store(ObjectStore.resolve(f"s3://{WAL}"))
        return builder.build()


class FlushedSlate(WalSlate):
    """The same, with its memtable flushed first."""

    def before_checkpoint(self) -> None:
        self.wait(self._db.flush_with_options(FlushOptions(flush_type=FlushType.MEM_TABLE)))


class WalSiltstone(Siltstone):
    """A table whose shard has its WAL in a store of its own, and a checkpoint of everything."""

    knobs = {"key": "id", "shards": 1}  # noqa: RUF012 - read only
    scope: Any = "all"

    def _reach(self) -> dict[str, Any]:
        # A WAL store belongs to one table.
        wal = {"wal": f"s3://{WAL}/{self.place.name}", "wal_options": self.place.options}
        return super()._reach() | wal

    def fill(self, appends: int) -> str:
        writer = ss.create(self.place.uri, schema=SCHEMA, **self.knobs, **self._reach()).shard(0).writer()
        for number in range(appends):
            writer.put(rows_of(ids_of(0, number)))
        self.table.checkpoint(CHECKPOINT, scope=self.scope)
        return CHECKPOINT

    def clone(self, checkpoint: str) -> None:
        there = self.place._replace(name="clone")
        reach = {"wal": f"s3://{WAL}/{there.name}", "wal_options": there.options, "storage_options": there.options}
        self.table.clone(there.uri, at=checkpoint, **reach)


class DurableSiltstone(WalSiltstone):
    """The same with the scope that merges nothing, and so needs the WAL."""

    scope = "durable"


PRODUCTS: dict[str, type[Product]] = {
    "slatedb, checkpoint": WalSlate,
    "slatedb, flush and checkpoint": FlushedSlate,
    "siltstone, checkpoint": WalSiltstone,
    "siltstone, checkpoint of scope durable": DurableSiltstone,
}


def call(name: str, place: Place, verb: str, *arguments: Any) -> Any:
    """One call of a product, for a process of its own."""
    return getattr(PRODUCTS[name](place), verb)(*arguments)


def wipe(server: FaultServer) -> int:
    """Remove every object of the WAL's bucket; how many there were."""
    store = S3Store.from_url(f"s3://{WAL}", **server.obstore_options)
    keys = [info["path"] for page in obstore.list(store) for info in page]
    obstore.delete(store, keys)
    return len(keys)


def run(name: str, *, wiped: bool, appends: int) -> list[Row]:
    """Fill, checkpoint, kill the writer, perhaps wipe; then a clone of the checkpoint, and the table opened again."""
    rows = []
    what = "WAL wiped" if wiped else "WAL left alone"
    for then in ("clone of the checkpoint", "opened again"):
        with FaultServer(buckets=("bkt", WAL)) as server:
            place = Place("table", server.storage_options, "")
            checkpoint, failed = ask(call, name, place, "fill", appends)
            if failed:
                raise RuntimeError(f"{name} could not be filled: {failed}")
            gone = wipe(server) if wiped else 0
            told, read = "", place
            if then != "opened again":
                _, told = ask(call, name, place, "clone", checkpoint)
                read = place._replace(name="clone")
            found, told = (None, told) if told else ask(call, name, read, "ids")
        answers = {(0, number): "" for number in range(appends)}
        facts = counted(answers, found, "") | {"reader_told": told, "fault_hits": gone}
        rows.append(Row(name, PRODUCTS[name].version(), f"{what}, {then}", appends=appends, **facts))
    return rows
