"""The demo's second half: a keyed table, written by several processes, corrected, looked back at and compacted.

What must hold: each step counts what it claims, from the rows themselves and not from what a write said of itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from siltstone.api import create_table, open_table
from siltstone.cli.demo_rows import ROWS_EACH, SCHEMA, reviews
from siltstone.cli.demo_steps import Check
from siltstone.cli.demo_writers import TABLE_WORKER, Target, write_together
from siltstone.cli.table_check import check_tables
from siltstone.errors import DuplicateKeyError
from siltstone.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from siltstone.api import Table

WRITERS = 4
VERSIONS_EACH = 5
ROWS = WRITERS * VERSIONS_EACH * ROWS_EACH
CORRECTED = 500
ADDED = 100
TABLE = "reviews"


def _write(directory: Path) -> Iterator[Check]:
    uri = str(directory / TABLE)
    create_table(uri, schema=SCHEMA, key="id").close()
    acknowledged = write_together(Target(uri), writers=WRITERS, entries=VERSIONS_EACH, module=TABLE_WORKER)
    versions = {one.position for one in acknowledged}
    total = WRITERS * VERSIONS_EACH
    yield Check(
        f"{WRITERS} processes appended {VERSIONS_EACH} times {ROWS_EACH} rows, each in a version of its own",
        len(acknowledged) == total and versions == set(range(1, total + 1)),
    )
    with open_table(uri) as table:
        rows, keys = _counted(table)
        yield Check(f"the table has exactly {ROWS:,} rows, and as many keys", rows == keys == ROWS)
        try:
            table.append(reviews(0, 1))
            refused = False
        except DuplicateKeyError:
            refused = True
        yield Check("a key that is there is refused", refused and table.count() == ROWS)


def _correct(directory: Path) -> Iterator[Check]:
    with open_table(str(directory / TABLE)) as table:
        before = table.version
        table.tag("as-written")
        table.upsert(reviews(ROWS - CORRECTED, CORRECTED + ADDED, text="corrected"))
        rows, keys = _counted(table)
        yield Check(
            f"an upsert replaced {CORRECTED} rows and added {ADDED}",
            table.count("text = 'corrected'") == CORRECTED + ADDED and rows == keys == ROWS + ADDED,
        )
        poor = table.count("stars = 1")
        table.delete("stars = 1")
        yield Check(
            f"a delete took the {poor:,} rows with one star, and no other",
            table.count("stars = 1") == 0 and table.count() == ROWS + ADDED - poor,
        )
        old = table.at(tag="as-written")
        unchanged = old.version == before and old.count() == ROWS and old.count("text = 'corrected'") == 0
        yield Check(f"version {before} still has its {ROWS:,} rows, none of them corrected", unchanged)
        yield Check("one query joins both versions", _joined(table, old) == CORRECTED - CORRECTED // 5)


def _joined(table: Table, old: Table) -> int:
    query = f"select count(*) n from {TABLE} join old using (id) where {TABLE}.text <> old.text"  # noqa: S608 - a constant
    return int(table.sql(query, old=old).to_arrow().column("n")[0].as_py())


def _compact(directory: Path) -> Iterator[Check]:
    uri = str(directory / TABLE)
    with open_table(uri) as table:
        before = table.scan().to_arrow().sort_by("id")
        done = table.compact()
        yield Check(
            f"compaction made {done.fragments_after} of {done.fragments_before} fragments",
            done.fragments_after < done.fragments_before,
        )
        yield Check("the rows are the same", table.scan().to_arrow().sort_by("id").equals(before))
    reports = verify(uri)
    [found] = check_tables(uri, reports, deep=True, commits=None, storage_options={}, progress=lambda *_: None)
    yield Check("verify --deep finds nothing wrong", all(report.ok for report in reports) and found.ok)


def _feed(directory: Path) -> Iterator[Check]:
    with open_table(str(directory / TABLE)) as table:
        since = table.tags["as-written"]
        feed = table.changes(since).to_arrow()
        counts = {row["values"]: row["counts"] for row in pc.value_counts(feed.column("_change")).to_pylist()}
        yield Check(f"the change feed has {CORRECTED} updates", counts.get("update_after") == CORRECTED)
        gained = counts.get("insert", 0) - counts.get("delete", 0)
        yield Check("its inserts and deletes make up for the difference", table.count() - ROWS == gained)
        rewrites = {one.version for one in table.history() if one.operation == "compact"}
        told = set(pc.unique(feed.column("_version")).to_pylist())
        yield Check("the compaction, which changed no row, is not in it", bool(rewrites) and not rewrites & told)
        table.restore(tag="as-written")
        rows, keys = _counted(table)
        yield Check(
            "a restore brings the old rows back", rows == keys == ROWS and table.count("text = 'corrected'") == 0
        )


def _counted(table: Table) -> tuple[int, int]:
    ids = table.scan(["id"]).to_arrow().column("id")
    return len(ids), pc.count_distinct(ids).as_py()


TABLE_STEPS: tuple[tuple[str, Callable[[Path], Iterator[Check]]], ...] = (
    (f"{WRITERS} processes append to one table", _write),
    ("rows are corrected and deleted, and looked back at", _correct),
    ("the table is compacted", _compact),
    ("what changed is read, and undone", _feed),
)
