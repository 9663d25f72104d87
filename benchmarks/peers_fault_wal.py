"""A WAL in a store of its own, which is wiped behind a checkpoint: what a clone and the table itself then show.

What must hold:
- Rows are acknowledged, a checkpoint is made while their writer is at work, and then the writer is killed.
- Each product is tried in ways only that give every row as long as the WAL is left alone.
"""

from __future__ import annotations

from typing import Any

import obstore
from obstore.store import S3Store
from peers_fault_crowd import Row, ask, counted
from peers_fault_products import Place, ids_of
from peers_fault_writers import SiltstoneShard, Slate
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


CLONED, OPENED, PLAIN = "clone of the checkpoint", "opened again", "read without its WAL"


class WalSlate(Slate):
    """SlateDB with an object store for its WAL; nothing is flushed, so what is durable is in the WAL alone."""

    ways = (OPENED,)  # a detached checkpoint has what the manifest knows, so of these rows none, wiped or not

    def builder(self) -> DbBuilder:
        built = super().builder()
        built.with_wal_object_store(ObjectStore.resolve(f"s3://{WAL}"))
        return built

    def fill(self, appends: int) -> str:
        """Put rows, and keep the writer at work; what a clone is to be made of."""
        for number in range(appends):
            self.put(ids_of(0, number))
        return ""


class FlushedSlate(WalSlate):
    """The same with its memtable flushed, and then a checkpoint: that has everything."""

    ways = (CLONED, OPENED)

    def fill(self, appends: int) -> str:
        super().fill(appends)
        self.wait(self._db.flush_with_options(FlushOptions(flush_type=FlushType.MEM_TABLE)))
        options = CheckpointOptions(lifetime_ms=None, source=None, name=CHECKPOINT)
        return str(self.wait(self._admin().create_detached_checkpoint(options)).id)

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


class DurableSiltstone(SiltstoneShard):
    """A table whose shard has its WAL in a store of its own, and a checkpoint that merges nothing."""

    ways = (CLONED, OPENED)
    scope: Any = "durable"

    def _reach(self) -> dict[str, Any]:
        # A WAL store belongs to one table.
        wal = {"wal": f"s3://{WAL}/{self.place.name}", "wal_options": self.place.options}
        return super()._reach() | wal

    def fill(self, appends: int) -> str:
        self.create()
        for number in range(appends):
            self.put(ids_of(0, number))
        self.table.checkpoint(CHECKPOINT, scope=self.scope)
        return CHECKPOINT

    def clone(self, checkpoint: str) -> None:
        there = DurableSiltstone(self.place._replace(name="clone"))
        self.table.clone(there.place.uri, at=checkpoint, **there._reach())


class WholeSiltstone(DurableSiltstone):
    """The same with a checkpoint of everything, which is the default."""

    ways = (CLONED, OPENED, PLAIN)
    scope = "all"

    def plain_ids(self) -> list[int]:
        """What is in the table itself."""
        with ss.open(self.place.uri, storage_options=self.place.options) as table:
            return table.scan(columns=["id"]).to_arrow()["id"].to_pylist()  # type: ignore[no-any-return]


PRODUCTS: dict[str, type[Any]] = {
    "slatedb, not flushed": WalSlate,
    "slatedb, flush and checkpoint": FlushedSlate,
    "siltstone, checkpoint of scope durable": DurableSiltstone,
    "siltstone, checkpoint": WholeSiltstone,
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


def run(name: str, way: str, *, wiped: bool, appends: int) -> Row:
    """Fill, checkpoint, kill the writer, perhaps wipe the WAL; then read what there is in this way."""
    with FaultServer(buckets=("bkt", WAL)) as server:
        place = Place("table", server.storage_options, "")
        checkpoint, failed = ask(call, name, place, "fill", appends)
        if failed:
            raise RuntimeError(f"{name} could not be filled: {failed}")
        gone = wipe(server) if wiped else 0
        _, told = ask(call, name, place, "clone", checkpoint) if way == CLONED else (None, "")
        read = place._replace(name="clone") if way == CLONED else place
        verb = "plain_ids" if way == PLAIN else "ids"
        found, told = (None, told) if told else ask(call, name, read, verb)
    facts = counted({(0, number): "" for number in range(appends)}, found, "")
    facts |= {"reader_told": told, "fault_hits": gone}
    fault = f"WAL {'wiped' if wiped else 'left alone'}, {way}"
    return Row(name, PRODUCTS[name].version(), fault, appends=appends, **facts)
