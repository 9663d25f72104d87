"""Spark's numbers, each beside what Spark does with plain Parquet in the same session: reads, appends, upserts, shards.

Prints one JSON document, and a table for people on stderr. Options: ``--quick`` for a smaller run, whose figures are
no claim; ``--only NAME`` for one part, and again for another.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common import tell
from spark_ingest import Shards
from spark_read import QUICK, Scale

if TYPE_CHECKING:
    from common import Target

NAMES = ("near", "far", "masked", "append", "upsert", "ingest", "fresh")


def main() -> None:
    parser = argparse.ArgumentParser(description="Spark's numbers beside those of plain Parquet.")
    parser.add_argument("--quick", action="store_true", help="a smaller run; its figures are no claim")
    parser.add_argument("--only", choices=NAMES, action="append", metavar="NAME", help=", ".join(NAMES))
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    targets: list[Target] = []
    with tempfile.TemporaryDirectory(prefix="siltstone-bench-") as directory:
        parts = Shards(Path(directory), QUICK if options.quick else Scale())
        for name in options.only or NAMES:
            print(f"{name} ...", file=sys.stderr)
            for title, (found, goals) in parts.run(name).items():
                figures[title] = found
                targets += goals
        parts.spark.stop()
    tell("spark", figures, targets)


if __name__ == "__main__":
    main()
