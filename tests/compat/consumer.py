"""A program of somebody else: it uses the public names, and a strict type checker reads it against the wheel alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa

import siltstone as ss


def load(place: Path) -> ss.Table:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("body", pa.string())])
    table = ss.create(
        str(place), schema=schema, key="id", shards=2, shard_config=ss.ShardWriterConfig(durable_write=True)
    )
    table.append([{"id": 1, "body": "a late delivery"}])
    with table.transaction(once="load/1") as tx:
        tx.upsert([{"id": 2, "body": "a refund"}])
        tx.delete("id > 100")
    with table.writer() as writer:
        writer.put([{"id": 3, "body": "late"}])
    return table


def look(table: ss.Table) -> list[int]:
    kept: ss.Checkpoint = table.checkpoint("before", keep_days=1.0)
    table.create_text_index("body", language="english")
    found = table.search("body", ss.query.Match("late") | ss.query.Fuzzy("refnd"), limit=5).to_arrow()
    ids: list[int] = sorted(found.column("id").to_pylist())
    count: int = table.at(checkpoint=kept).count()
    removed: ss.Collected = table.gc(keep_days=7, dry_run=True)
    print(count, removed is not None, table.version, table.tags)
    return ids


def main(place: Path) -> None:
    try:
        ss.open(str(place / "absent"))
    except ss.errors.NotFoundError as error:
        hint: str = error.hint
        print(hint)
    ids = look(load(place / "table"))
    with ss.open_log(str(place / "log"), create=True) as log:
        mark: ss.Mark = log.add(b"hello")
        entries: list[ss.Entry] = list(log.entries())
    if ids != [1, 2, 3] or mark.position != 1 or len(entries) != 1:
        sys.exit(f"{ids} {mark}")
    print("consumed", ss.__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
