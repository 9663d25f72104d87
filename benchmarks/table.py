"""The table's numbers, each beside the best peer of the same run: commits, scans, upserts, lookups, memory.

Prints one JSON document, and a table for people on stderr. Options: ``--quick`` for a smaller run, whose figures are
no claim; ``--only NAME`` for one part, and again for another.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from common import Target, seconds, tell
from table_commits import measure_contended, measure_opening, measure_requests, measure_sequence
from table_long import roomy_memory, served, write_long_table
from table_peers import SILTSTONE, Place
from table_reads import Keyed, fill, measure_memory, measure_scans

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))


class Scale(NamedTuple):
    """How much is done."""

    contended_rounds: int = 3
    requests_appends: int = 100
    sequence_appends: int = 1_000
    opening_rounds: int = 9
    long_appends: int = 100_000
    scan_rows: int = 2_000_000
    scan_rounds: int = 21
    keyed_rows: int = 1_000_000
    keyed_rounds: int = 3
    lookups: int = 200


QUICK = Scale(
    contended_rounds=1,
    requests_appends=20,
    sequence_appends=300,
    opening_rounds=3,
    long_appends=10_000,
    scan_rows=400_000,
    scan_rounds=3,
    keyed_rows=200_000,
    keyed_rounds=1,
    lookups=50,
)

Measured = tuple[dict[str, float], list[Target]]


class Parts:
    """The parts of the benchmark. What two of them need is made once, by the first."""

    def __init__(self, directory: Path, scale: Scale) -> None:
        self.directory = directory
        self.scale = scale

    def run(self, name: str) -> dict[str, Measured]:
        """The figures and targets of one part, by what they are called."""
        return getattr(self, name)()  # type: ignore[no-any-return]

    def contended(self) -> dict[str, Measured]:
        measured = measure_contended(self.directory / "contended", rounds=self.scale.contended_rounds)
        return {"8 processes x 25 appends of 100 rows to one table on a disk": measured}

    def requests(self) -> dict[str, Measured]:
        from services import Services  # noqa: PLC0415 - drivers of all servers; worker processes need none of them

        services = Services()
        try:
            measured = measure_requests(services, self.directory / "requests", appends=self.scale.requests_appends)
        finally:
            services.close()
        return {"requests of an append of 100 rows on S3": measured}

    def sequence(self) -> dict[str, Measured]:
        return {f"{self.scale.sequence_appends:,} appends of 100 rows": self._sequence}

    @cached_property
    def _sequence(self) -> Measured:
        return measure_sequence(self.directory / "sequence", appends=self.scale.sequence_appends)

    def open(self) -> dict[str, Measured]:
        rounds, some, many = self.scale.opening_rounds, self.scale.sequence_appends, self.scale.long_appends
        _ = self._sequence
        ours, lance_uri = self.directory / "sequence" / "ours", str(self.directory / "sequence" / "lance")
        place = Place(SILTSTONE, str(ours))
        with served(ours) as on_s3:
            short = measure_opening(place, on_s3, lance_uri=lance_uri, appends=some, rounds=rounds, ms_max=20)
        with tempfile.TemporaryDirectory(prefix="siltstone-bench-", dir=roomy_memory()) as name:
            place = write_long_table(Path(name), appends=many)
            with served(Path(name)) as on_s3:
                long = measure_opening(place, on_s3, appends=many, rounds=rounds, ms_max=200)
        return {
            f"opening and planning after {some:,} appends": short,
            f"opening and planning after {many:,} appends": long,
        }

    @cached_property
    def _scanned(self) -> Place:
        place = Place(SILTSTONE, str(self.directory / "scanned"), key="id")
        fill(place, rows=self.scale.scan_rows)
        return place

    def scan(self) -> dict[str, Measured]:
        rows = self.scale.scan_rows
        return {f"scans of {rows:,} rows": measure_scans(self._scanned, rows=rows, rounds=self.scale.scan_rounds)}

    def memory(self) -> dict[str, Measured]:
        rows = self.scale.scan_rows
        return {f"memory of a scan of {rows:,} rows by batches": measure_memory(self._scanned, rows=rows)}

    @cached_property
    def _keyed(self) -> Keyed:
        return Keyed(self.directory / "keyed", rows=self.scale.keyed_rows, rounds=self.scale.keyed_rounds)

    def upsert(self) -> dict[str, Measured]:
        return {f"upsert of 10 % of {self.scale.keyed_rows:,} rows": self._keyed.measure_upsert()}

    def lookup(self) -> dict[str, Measured]:
        measured = self._keyed.measure_lookup(lookups=self.scale.lookups)
        return {f"lookups by key in {self.scale.keyed_rows:,} rows, around that upsert": measured}


NAMES = ("contended", "requests", "sequence", "open", "scan", "memory", "upsert", "lookup")


def main() -> None:
    parser = argparse.ArgumentParser(description="The table's numbers beside its peers'.")
    parser.add_argument("--quick", action="store_true", help="a smaller run; its figures are no claim")
    parser.add_argument("--only", choices=NAMES, action="append", metavar="NAME", help=", ".join(NAMES))
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    targets: list[Target] = []
    took: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="siltstone-bench-") as directory:
        parts = Parts(Path(directory), QUICK if options.quick else Scale())
        for name in options.only or NAMES:
            print(f"{name} ...", file=sys.stderr)
            measured: dict[str, Measured] = {}
            took[name] = seconds(lambda name=name, into=measured: into.update(parts.run(name)))
            for title, (found, goals) in measured.items():
                figures[title] = found
                targets += goals
    figures["seconds that the parts took"] = took
    tell("table", figures, targets)


if __name__ == "__main__":
    main()
