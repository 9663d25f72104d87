"""What siltstone and its peers do on a store that lies, where answers get lost, and when a WAL is gone.

Each row is one table: how many appends were acknowledged, how many errors were told, and how many rows a fresh process
finds. ``--quick`` makes crowds smaller (4 processes of 5 appends, not 8 of 25); ``--only NAME`` runs one fault, or the
products whose names begin so, and may be repeated. No times are compared, so it may run beside other work.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import peers_fault_crowd as crowds
import peers_fault_wal as wals
from common import Target
from peers_fault_products import ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from peers_fault_crowd import Row

WRITERS, APPENDS = 8, 25
QUICK_WRITERS, QUICK_APPENDS = 4, 5
FAULTS = (*crowds.CASES, "wal")
CONTROLS = ("honest store", "WAL left alone")


def jobs(where: Path, *, writers: int, appends: int) -> Iterator[tuple[str, str, Callable[[], Row]]]:
    """Every product and fault, with what runs them."""
    for key in crowds.CASES:
        for name in crowds.PRODUCTS:
            yield name, key, lambda n=name, k=key: crowds.run(n, k, where, writers=writers, appends=appends)  # type: ignore[misc]
    for wiped in (False, True):
        for name, kind in wals.PRODUCTS.items():
            for way in kind.ways:
                yield name, "wal", lambda n=name, w=way, gone=wiped: wals.run(n, w, wiped=gone, appends=appends)  # type: ignore[misc]


def told_of(row: Row) -> str:
    """In a word, what the rows came to."""
    if row.unanswered:
        return f"{row.unanswered} appends without an answer"
    if row.rows_lost_silently or row.rows_doubled:
        return "rows lost" if row.rows_lost_silently else "rows doubled"
    if row.rows_found is None:
        return "refused, loudly"
    if row.failed_yet_there:
        return f"right, but {row.failed_yet_there} that failed are there"
    return "refused at the start" if row.errors_told and not row.acknowledged else "right"


def show(row: Row) -> None:
    found = "-" if row.rows_found is None else f"{row.rows_found:,}"
    counts = f"{row.acknowledged:>5}/{row.appends:<4} {row.errors_told:>6} {row.rows_acknowledged:>9,} {found:>9}"
    bad = f"{row.rows_lost_silently:>7,} {row.rows_doubled:>7,} {row.failed_yet_there:>7}"
    print(f"{row.fault:<42} {row.product:<38} {counts} {bad}  {told_of(row)}", file=sys.stderr)
    for told in filter(None, (row.told, row.reader_told)):
        print(f"{'':<42} {told}", file=sys.stderr)
    if row.rows_missing_after_repair is not None:
        told = f"verify names {row.lost_named_by_verify} operations as lost"
        print(f"{'':<42} {told}; rows missing after repair: {row.rows_missing_after_repair}", file=sys.stderr)


def unnamed(row: Row) -> int:
    """Appends that a reader misses in silence beyond the operations that ``verify`` names."""
    return max(0, -(-row.rows_lost_silently // ROWS) - (row.lost_named_by_verify or 0))


def targets(rows: list[Row]) -> list[Target]:
    """The harness is fair where every product is right without a fault; and siltstone keeps its word with one."""
    controls = [row for row in rows if row.fault.startswith(CONTROLS)]
    ours = [row for row in rows if row.product.startswith("siltstone")]
    # A commit store lets siltstone do without the create that lies, so it is peers who show that the fault is there.
    hits: dict[str, int] = {}
    for row in rows:
        if row not in controls and row not in ours:
            hits[row.fault] = hits.get(row.fault, 0) + row.fault_hits
    return [
        Target("controls that did not come out right", sum(not row.right for row in controls), 0),
        Target("faults that struck no peer", sum(not struck for struck in hits.values()), 0),
        Target("siltstone: rows lost silently", sum(row.rows_lost_silently for row in ours), 0),
        Target("siltstone: appends lost, and not named by verify", sum(map(unnamed, ours)), 0),
        Target("siltstone: rows doubled", sum(row.rows_doubled for row in ours), 0),
        Target("siltstone: appends without an answer", sum(row.unanswered for row in ours), 0),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", default=[], help="a product or a fault: " + ", ".join(FAULTS))
    arguments = parser.parse_args()
    writers, appends = (QUICK_WRITERS, QUICK_APPENDS) if arguments.quick else (WRITERS, APPENDS)
    os.environ["RUST_BACKTRACE"] = "0"  # a panic is counted as the error that it becomes
    heads = ("ack./appends", "errors", "rows ack.", "found", "lost", "doubled", "f.y.t.")
    print(f"{'fault':<42} {'product':<38}", *heads, "(f.y.t.: failed, yet there)", file=sys.stderr)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as directory:
        for name, fault, work in jobs(Path(directory), writers=writers, appends=appends):
            if not arguments.only or any(one == fault or name.startswith(one) for one in arguments.only):
                rows.append(work())
                show(rows[-1])
    kept = targets(rows)
    for target in kept:
        print(f"{target.name:<48} {target.measured:g} {'kept' if target.kept else 'MISSED'}", file=sys.stderr)
    settings = {"writers": writers, "appends of each": appends}
    figures = {"settings": settings, "rows": [row._asdict() | {"came to": told_of(row)} for row in rows]}
    documents = [target.document() for target in kept]
    print(json.dumps({"benchmark": "peers_under_fault", "figures": figures, "targets": documents}, indent=2))
    sys.exit(0 if all(target.kept for target in kept) else 1)


if __name__ == "__main__":
    main()
