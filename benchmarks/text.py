"""Text search beside Lance's, tantivy and bm25s, on English prose: builds, sizes, queries, S3, Spark, fresh rows.

Prints one JSON document, and a table for people on stderr. The corpus is made of documentation packages of Debian's,
fetched once by their names into a cache directory. Options: ``--case NAME,NAME`` for some cases; ``--quick`` or
``--rows N`` for fewer rows, whose figures are no claim; ``--corpus FILE`` for another corpus (Parquet, with columns
``path`` and ``text``); ``--peers`` for some of the peers.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common import seconds, tell
from text_cases import CASES, Setting, prepare
from text_child import alone
from text_corpus import MEGABYTES, corpus
from text_far import measure_cold, measure_spark
from text_peers import CORES, PEERS, Siltstone

if TYPE_CHECKING:
    from common import Target

ALL = CASES | {"cold": measure_cold, "spark": measure_spark}
QUICK_ROWS = 20_000
FRESH_ROWS = 100_000


def main() -> None:
    options = parsed()
    if hasattr(os, "sched_setaffinity"):  # before any pool of threads looks how many there are
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    path = options.corpus or corpus(options.cache, options.megabytes)
    figures: dict[str, Any] = {}
    targets: list[Target] = []
    took: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="siltstone-bench-", dir=options.work) as directory:
        setting = Setting(
            directory=Path(directory),
            corpus=path,
            rows=QUICK_ROWS if options.quick and options.rows is None else options.rows,
            rounds=options.rounds,
            queries=options.queries,
            fresh_rows=options.fresh_rows,
            peers=(Siltstone.name, *(name for name in options.peers if name != Siltstone.name)),
        )
        megabytes = alone(prepare, setting).value
        figures["corpus"] = {"MB of text": megabytes, "rows": len(setting.load()), "cores": CORES}
        for name in options.case:
            print(f"{name} ...", file=sys.stderr)
            found: list[Any] = []
            took[name] = seconds(lambda name=name, into=found: into.append(ALL[name](setting, megabytes)))
            measured, goals = found[0]
            figures[name] = measured
            targets += goals
    figures["seconds that the cases took"] = took
    tell("text", figures, targets)


def parsed() -> argparse.Namespace:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "siltstone-bench"
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", type=_names(ALL), default=list(ALL), metavar="NAME,...", help=", ".join(ALL))
    parser.add_argument("--peers", type=_names(PEERS), default=list(PEERS), metavar="NAME,...", help=", ".join(PEERS))
    parser.add_argument("--quick", action="store_true", help="few rows; its figures are no claim")
    parser.add_argument("--rows", type=int, help="so many rows from all over the corpus")
    parser.add_argument("--rounds", type=int, default=3, help="how often builds and queries are repeated")
    parser.add_argument("--queries", type=int, default=200, help="of each class")
    parser.add_argument("--fresh-rows", type=int, default=FRESH_ROWS, help="that are not flushed")
    parser.add_argument("--megabytes", type=int, default=MEGABYTES, help="of text that the corpus has")
    parser.add_argument("--cache", type=Path, default=cache, help="where the corpus is kept")
    parser.add_argument("--corpus", type=Path, help="a Parquet file to take instead")
    parser.add_argument("--work", type=Path, help="where tables are written; a temporary directory without it")
    return parser.parse_args()


def _names(known: dict[str, Any]) -> Any:
    def names(text: str) -> list[str]:
        found = text.split(",")
        if unknown := [name for name in found if name not in known]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: there are {', '.join(known)}")
        return found

    return names


if __name__ == "__main__":
    main()
