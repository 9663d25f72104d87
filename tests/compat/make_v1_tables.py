"""Writes the tables of `tests/compat/v1/tables`: format 1, one for each part of the format that tables have.

``python tests/compat/make_v1_tables.py DIRECTORY`` wrote those that are committed, with what they hold in
``expected.json``. It is not run again for this format: what an older siltstone wrote must stay readable as it is.

Tables are made in memory, at places that no machine has, and written out as files; whoever reads them says where the
tables and WAL stores beside them are.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

import siltstone as ss
from siltstone.store.local import LocalStore
from siltstone.store.memory import MemoryStore
from siltstone.testing.manual import ManualClock, manual_env

TABLES = ("keyed", "sharded", "parent", "clone", "elsewhere", "text")
WAL_STORE = "elsewhere-wal"
QUERY = "late delivery"
WORDS = ("slow", "late", "delivery", "refund", "colour", "kind")
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])
WIDE = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("n", pa.int32()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(10, 2)),
        ("tags", pa.list_(pa.string())),
        ("pair", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ("gone", pa.int8()),
    ]
)


class Maker:
    """Stores by name, and one clock."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = ManualClock()
        self._seed = seed

    def store(self, name: str) -> MemoryStore:
        return MemoryStore(f"siltstone-v1/{name}", clock=self.clock)

    def env(self):
        self._seed += 1
        return manual_env(self._seed, clock=self.clock)

    def create(self, name: str, **options):
        return ss.create(self.store(name), probe=False, env=self.env(), **options)


def wide(number: int) -> dict[str, object]:
    return {
        "id": number,
        "name": None if number % 5 == 4 else f"name {number} \u00fc",
        "n": number - 3,
        "at": dt.datetime(2023, 11, 14, 22, 13, 20, number, tzinfo=dt.UTC),
        "price": Decimal(number * 100 + 25) / 100,
        "tags": [] if number % 3 == 0 else ["a", f"b{number}"],
        "pair": None if number % 4 == 1 else {"a": number, "b": "x"},
        "gone": 1,
    }


def later(number: int, **values: object) -> dict[str, object]:
    """A row of the columns that there are in the end."""
    return {name: value for name, value in wide(number).items() if name not in {"name", "gone"}} | values


def rows(*ids: int) -> list[dict[str, object]]:
    return [{"id": id_, "note": f"note {id_}"} for id_ in ids]


def text(number: int) -> str:
    return " ".join(WORDS[(number * step + step) % len(WORDS)] for step in range(1, 4 + number % 3))


def make_keyed(maker: Maker) -> None:
    """Every operation on rows, every change of columns, a rollup, a deletion vector, tags and settings."""
    table = maker.create("keyed", schema=WIDE, key="id", settings={"owner": "compat"})

    def turn(times: int) -> None:
        for number in range(times):
            table.set({"turn": str(number)})

    # Schemas are long, and an entry repeats those before it in its block of eight: each comes at the end of one.
    table.append([wide(number) for number in range(12)])
    table.tag("first")
    table.delete("id = 3 or id = 9")
    table.upsert([wide(20), {**wide(2), "name": "upserted"}])
    turn(2)
    table.add_column("added", pa.int32(), default=7)
    turn(7)
    table.rename_column("name", "title")
    turn(7)
    table.drop_column("gone")
    with table.transaction(once="load/1", message="two at once") as tx:
        tx.update({"title": "'updated'"}, where="id = 5")
        tx.append([later(30, title="tx")])
    table.compact()
    table.delete("id = 0")
    turn(4)
    table.widen_column("n", pa.int64())
    turn(2)
    table.append([later(40, title="last", added=1)])


def make_sharded(maker: Maker) -> None:
    """Rows in the table, in fragments of shards, and in their WALs alone; tombstones; a merge; a split."""
    table = maker.create("sharded", schema=SCHEMA, key="id", shards=2)
    table.append(rows(*range(10)))
    with table.writer() as writer:
        writer.put(rows(*range(10, 16)))
        writer.delete([3])
        writer.flush()
    table.merge_shards()
    with table.writer() as writer:
        writer.put(rows(*range(16, 22)))
        writer.flush()
        writer.put([{"id": 5, "note": "newer"}, {"id": 17, "note": "newer"}])
        writer.delete([6, 16])
    with table.writer() as writer:
        writer.put(rows(50, 51))


def make_kept(maker: Maker) -> None:
    """Checkpoints of both scopes, and a clone that has rows of its parent and of its own."""
    parent = maker.create("parent", schema=SCHEMA, key="id", shards=2)
    parent.append(rows(*range(10)))
    with parent.writer() as writer:
        writer.put(rows(100, 101))
        parent.checkpoint("durable", scope="durable")
    parent.checkpoint("all")
    clone = parent.clone(maker.store("clone"), at="all", probe=False)
    clone.append(rows(200))
    clone.delete("id = 1")
    parent.delete("id >= 5")


def make_elsewhere(maker: Maker) -> None:
    """WALs in another store."""
    table = maker.create("elsewhere", schema=SCHEMA, key="id", shards=1, wal=maker.store(WAL_STORE))
    with table.writer() as writer:
        writer.put(rows(*range(5)))
        writer.flush()
        writer.put(rows(5, 6))
    table.merge_shards()
    with table.writer() as writer:
        writer.put(rows(7, 8))


def make_text(maker: Maker) -> None:
    """An index of two segments with rows that are in neither, and another one in the middle of its build."""
    table = maker.create("text", schema=SCHEMA, key="id")
    for start in (0, 10, 20):
        table.append([{"id": id_, "note": text(id_)} for id_ in range(start, start + 10)])
    table.create_text_index("note", language="english")
    table.append([{"id": id_, "note": text(id_)} for id_ in range(30, 40)])
    table.optimize_index("note")
    table.delete("id = 7")
    table.append([{"id": 40, "note": "a late delivery"}])
    build = table.begin_text_index("note", name="second", items=2, stem=False)
    build.run(0)


def plain(table: pa.Table) -> list[dict[str, object]]:
    """Rows as JSON has them, in the order of their ids."""
    return json.loads(json.dumps(table.sort_by("id").to_pylist(), default=str))


def opened(directory: Path, name: str, **options):
    """A table of a directory that has them all."""
    beside = {
        "clone": {"origins": {1: str(directory / "parent")}},
        "elsewhere": {"wal": str(directory / WAL_STORE)},
    }
    return ss.open(directory / name, sync=False, **beside.get(name, {}), **options)


def unfinished(directory: Path) -> str:
    """The name of the build that was left."""
    [found] = [one.name for one in (directory / "text" / "indexes").iterdir() if not (one / "metadata").exists()]
    return found


def held(directory: Path, name: str) -> dict[str, object]:
    """What a table holds, as JSON can say it."""
    table = opened(directory, name)
    found = {
        "version": table.version,
        "schema": [f"{one.name}: {one.type}" for one in table.schema],
        "tags": table.tags,
        "settings": table.settings,
        "rows": plain(table.scan().to_arrow()),
        "fresh": plain(table.scan(fresh=True).to_arrow()),
        "counts": {str(one.version): table.at(version=one.version).count() for one in table.history()},
        "operations": [one.operation for one in table.history()],
        "changes": table.changes(table.history()[-1].version).to_arrow().num_rows,
        "checkpoints": {
            one.name: plain(table.at(checkpoint=one.name).scan().to_arrow())
            for one in table.checkpoints()
            if one.holder is None
        },
    }
    if name == "text":
        hits = table.search("note", QUERY, index="note", limit=None).to_arrow().to_pylist()
        found["hits"] = sorted([hit["id"], round(hit["_score"], 5)] for hit in hits)
        found["missing"] = table.index_build(unfinished(directory)).missing()
    return found


def main(directory: Path) -> None:
    directory.mkdir(parents=True)
    maker = Maker()
    for make in (make_keyed, make_sharded, make_kept, make_elsewhere, make_text):
        make(maker)
    for name in (*TABLES, WAL_STORE):
        source, target = maker.store(name), LocalStore(directory / name, sync=False)
        for info in source.list():
            target.put(info.key, source.get(info.key))
    expected = {name: held(directory, name) for name in TABLES}
    (directory / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
