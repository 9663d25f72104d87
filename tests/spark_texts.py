"""Tables of texts for indexes that Spark builds, what a build left in its files, and tasks that die at a point.

Imported by the workers of a cluster. ``faults`` is what a driver does there; answers are JSON lines.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pyarrow as pa

import siltstone as ss
from siltstone import paths
from siltstone.spark import text
from spark_cluster import driver_session
from spark_faults import happen

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("body", pa.string()), ("stars", pa.int64())])
WORDS = ("slow", "late delivery", "refund", "colour", "the delivery was late", "fast", "box", None)
FRAGMENTS, EACH = 6, 40
ITEMS = 3
QUERY = 'slow "late delivery" -refund colour^2 deliv*'


def rows(first: int, count: int = EACH) -> pa.Table:
    ids = list(range(first, first + count))
    bodies = [one if (one := WORDS[n % 8]) is None else f"{one} {WORDS[n * 3 % 7]} w{n % 9}" for n in ids]
    return pa.table({"id": ids, "body": bodies, "stars": [n % 5 for n in ids]}, schema=SCHEMA)


def make(uri, **options):
    """A table of several fragments, with rows that are gone."""
    table = ss.create(uri, schema=SCHEMA, key="id", **options)
    for number in range(FRAGMENTS):
        table.append(rows(number * EACH))
    table.delete("id in (3, 41, 100)")
    return table


def finals(uri, build: str) -> dict[str, bytes]:
    """The files of a build, but for its log and what is staged."""
    root = Path(str(uri).removeprefix("file://")) / paths.INDEXES / build
    return {one.name: one.read_bytes() for one in root.iterdir() if one.is_file()}


def hits(table, query: str = QUERY, **options) -> list[tuple[int, float]]:
    found = table.search("body", query, limit=None, **options).to_arrow()
    return list(zip(found["id"].to_pylist(), found["_score"].to_pylist(), strict=True))


# -- in tasks and drivers --------------------------------------------------------------------------


def faulty_item(fault: str, marker: str, handle: bytes, build: str, item: int) -> None:
    """What a task does, with a fault at a point of it."""
    happen(fault, marker, "task begins")
    run_item(handle, build, item)
    happen(fault, marker, "task staged")


run_item = text.run_item


def say(**facts) -> None:
    print(json.dumps(facts), flush=True)


def faults(job: dict) -> None:
    """Go on with a build that is begun at each place, with a fault in a task of each."""
    spark = driver_session()
    for uri, fault in zip(job["uris"], job["faults"], strict=True):
        marker = f"{uri}.met"
        text.run_item = partial(faulty_item, fault, marker)
        done = ss.spark.build_text_index(spark, uri, "body")
        say(fault=fault, met=Path(marker).exists(), build=done.build, rows=done.rows, items=done.items)
    text.run_item = run_item
