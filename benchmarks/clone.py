"""What a checkpoint, a clone and a collection cost: time and requests, beside SlateDB's of the same keys.

``--only PART`` runs one of: clones, collection. ``--rows N`` makes the tables of the first part smaller.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common import Target, alternate, seconds, tell
from shard_peers import SCHEMA, Slate, rows
from slatedb.uniffi import (
    AdminBuilder,
    CheckpointOptions,
    CloneSourceSpec,
    FlushOptions,
    FlushType,
    ObjectStore,
    WriteBatch,
)

import siltstone as ss
from siltstone import paths
from siltstone.store.memory import MemoryStore

if TYPE_CHECKING:
    from siltstone.api import Table
    from siltstone.store.meter import MeteredStore, Usage

ROWS = 1_000_000
FEW, MANY = 10, 10_000
ROUNDS = 5
GARBAGE = 100_000
_numbers = itertools.count()


def table_of(where: Path, total: int, fragments: int) -> Path:
    """A table with so many rows in so many fragments."""
    each = total // fragments
    with ss.create(where, schema=SCHEMA, key="id", sync=False) as table:
        for start in range(0, fragments, 1000):
            with table.transaction() as tx:
                for number in range(start, min(start + 1000, fragments)):
                    tx.append(rows(number * each, each))
        assert table.count() == each * fragments
    return where


class Ours:
    """Checkpoints and clones of one table; each clone is of a checkpoint of its own, and is dropped afterwards."""

    def __init__(self, where: Path, clones: Path) -> None:
        self._table = ss.open(where, sync=False)
        self._clones = clones
        self.spent: dict[str, Usage] = {}

    def checkpoint(self) -> float:
        return seconds(self._checkpoint)

    def _checkpoint(self) -> ss.Checkpoint:
        return self._table.checkpoint(f"number-{next(_numbers)}")

    def clone(self) -> float:
        made = self._checkpoint()
        place = self._clones / str(next(_numbers))
        took = seconds(lambda: self._table.clone(place, at=made, sync=False))
        self._table.delete_checkpoint(made)
        return took

    def cost(self) -> dict[str, float]:
        """Requests, and bytes that were written, of one of each; what a clone wrote that is data."""
        mine: MeteredStore = self._table._log.store  # type: ignore[assignment]  # noqa: SLF001 - it counts
        mine.reset()
        made = self._checkpoint()
        checkpoint = mine.usage()
        mine.reset()
        clone = self._table.clone(self._clones / str(next(_numbers)), at=made, sync=False)
        theirs: MeteredStore = clone._log.store  # type: ignore[assignment]  # noqa: SLF001 - it counts
        parent, own = mine.usage(), theirs.usage()
        data = sum(info.size for folder in (paths.DATA, paths.VECTORS) for info in theirs.list(folder))
        assert clone.count() == self._table.count()
        return {
            "checkpoint, requests": checkpoint.total,
            "clone, requests at the parent": parent.total,
            "clone, requests at the clone": own.total,
            "clone, bytes written": parent.bytes_out + own.bytes_out,
            "clone, data bytes": data,
        }


class Theirs:
    """The same keys in SlateDB, flushed."""

    def __init__(self, where: Path, total: int) -> None:
        self._where, self._slate = where, Slate(where)
        self._slate.wait(self._fill(total))
        self._store = ObjectStore.resolve("file:///")
        self._admin = AdminBuilder(str(where / "slate"), self._store).build()

    async def _fill(self, total: int) -> None:
        for start in range(0, total, 10_000):
            batch = WriteBatch()
            for number in range(start, min(start + 10_000, total)):
                batch.put(f"{number:012d}".encode(), f"name-{number:015d}{number:0100d}".encode())
            await self._slate.db.write(batch)
        await self._slate.db.flush_with_options(FlushOptions(flush_type=FlushType.MEM_TABLE))

    def checkpoint(self) -> float:
        return seconds(self._checkpoint)

    def _checkpoint(self) -> Any:
        return self._slate.wait(
            self._admin.create_detached_checkpoint(CheckpointOptions(lifetime_ms=None, source=None, name=None))
        )

    def clone(self) -> float:
        made = self._checkpoint()
        source = CloneSourceSpec(path=str(self._where / "slate"), checkpoint=made.id, projection_range=None)

        def work() -> None:
            builder = self._admin.create_clone_builder_from_source(source)
            builder.with_clone_path(str(self._where / f"slate-clone-{next(_numbers)}"))
            builder.with_object_store(self._store)
            self._slate.wait(builder.build())

        return seconds(work)


def clones(where: Path, total: int) -> tuple[dict[str, Any], list[Target]]:
    """Tables that differ in rows and in fragments."""
    kinds = {
        f"{total // 10} rows, {FEW} fragments": (total // 10, FEW),
        f"{total} rows, {FEW} fragments": (total, FEW),
        f"{total} rows, {MANY} fragments": (total, MANY),
    }
    made = {
        name: Ours(table_of(where / f"table-{number}", *kind), where / f"clones-{number}")
        for number, (name, kind) in enumerate(kinds.items())
    }
    theirs = Theirs(where, total)
    figures: dict[str, Any] = {}
    works: dict[str, Any] = {}
    for name, one in made.items():
        works |= {f"checkpoint, {name}": one.checkpoint, f"clone, {name}": one.clone}
    works |= {"checkpoint, slatedb": theirs.checkpoint, "clone, slatedb": theirs.clone}
    took = alternate(ROUNDS, works)
    figures["ms"] = {name: one * 1000 for name, one in took.items()}
    costs = {name: one.cost() for name, one in made.items()}
    figures |= costs
    small, large, many = kinds
    both = {name: took[f"checkpoint, {name}"] + took[f"clone, {name}"] for name in (*kinds, "slatedb")}

    def requests(name: str) -> float:
        return sum(value for label, value in costs[name].items() if "requests" in label)

    return figures, [
        Target(f"checkpoint and clone / SlateDB, {FEW} fragments", both[large] / both["slatedb"], 2),
        Target(f"checkpoint and clone / SlateDB, {MANY} fragments", both[many] / both["slatedb"], 2),
        Target("requests, ten times the rows / as few", requests(large) / requests(small), 1),
        Target("time, ten times the rows / as few", both[large] / both[small], 1.25),
        Target("data bytes copied", max(one["clone, data bytes"] for one in costs.values()), 0),
    ]


def collection(where: Path, total: int) -> tuple[dict[str, Any], list[Target]]:
    """A table in memory with many objects that nobody names."""
    del where, total
    store = MemoryStore(f"collected-{next(_numbers)}")
    table: Table = ss.create(store, schema=SCHEMA, key="id")
    for number in range(3):
        table.append(rows(number * 100, 100))
    for number in range(GARBAGE):
        store.put(paths.data(paths.name(number % 2, f"{number:032x}")), b"x")
    meter: MeteredStore = table._log.store  # type: ignore[assignment]  # noqa: SLF001 - it counts
    meter.reset()
    done: list[ss.Collected] = []
    took = seconds(lambda: done.append(table.gc(keep_days=0)))
    used = meter.usage().requests
    assert done[0].deleted >= GARBAGE
    assert table.count() == 300
    pages = GARBAGE // 1000
    figures = {
        "seconds": took,
        "objects deleted": done[0].deleted,
        **{f"requests, {verb}": n for verb, n in used.items()},
    }
    return {f"collection of {GARBAGE} objects": figures}, [
        Target("listing requests / pages of objects", used["list"] / pages, 1.25),
        Target("delete requests / pages of objects", used["delete"] / pages, 1.1),
    ]


PARTS = {"clones": clones, "collection": collection}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=list(PARTS))
    parser.add_argument("--rows", type=int, default=ROWS)
    arguments = parser.parse_args()
    figures: dict[str, Any] = {}
    targets: list[Target] = []
    with tempfile.TemporaryDirectory() as directory:
        for name in arguments.only or PARTS:
            (Path(directory) / name).mkdir()
            found, promised = PARTS[name](Path(directory) / name, arguments.rows)
            figures |= found
            targets += promised
    tell("clone", figures, targets)


if __name__ == "__main__":
    main()
