"""What happens at 1,000 writers, a million fragments and 10^12 rows: the numbers of docs/scale.md.

``python tools/scale.py`` measures and prints JSON; with ``--write`` the tables of the page are made anew. ``--only
PART`` (and again) runs one of: operations, writers, fragments, history. ``--quick`` is a small run for tests, and
writes nothing.
Requests are counted by an S3 server of this package; races of many writers are simulated with the package's own code.
Prices are assumptions: ``--put-price``, ``--get-price`` (a thousand requests) and ``--storage-price`` (a GB-month).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import scale_page as page
import scale_prices
from scale_crowd import append_cpu_ms, crowd
from scale_growth import measure_history, measure_size
from scale_model import LATENCIES_MS, WRITERS, loads, one_handle, own_handles, shards
from scale_operations import CASES, QUICK, Case, measure_all
from scale_prices import REGIONAL, Prices
from scale_race import race
from scale_server import RecordingServer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scale_model import Way
    from scale_race import Race
    from scale_server import Cost

PAGE = Path(__file__).resolve().parent.parent / "docs" / "scale.md"
PARTS = ("operations", "writers", "fragments", "history")
HISTORY = (10, 1_000, 10_000, 50_000)
FRAGMENTS = ((1_000, 2), (10_000, 2), (100_000, 2), (100_000, 32), (1_000_000, 2))
CROWDS = ((1, 8), (8, 8), (100, 2), (1_000, 1))  # writers, and appends of each
RACES = [(*crowd, ms) for ms in (1, 10, 100) for crowd in CROWDS if (crowd, ms) != ((1_000, 1), 1)]
EIGHT = 8
ONE_HANDLE_THREADS = 64
NEEDED = ("append", "shard: put", "shard: merge of 1 shard, 10 entries", "shard: merge of 1 shard, 50 entries")


class Result(NamedTuple):
    """What a part found: for JSON, and for the page by block."""

    document: dict[str, Any]
    blocks: dict[str, str]


def cases(*names: str) -> list[Case]:
    """Cases by name."""
    return [case for case in CASES if case.name in names]


def told(text: str) -> None:
    """Say what goes on."""
    print(text, file=sys.stderr, flush=True)


def operations(server: RecordingServer, prices: Prices, *, quick: bool) -> Result:
    """Requests of every operation."""
    costs = measure_all(server, cases(*QUICK) if quick else CASES, repeats=2 if quick else 3)
    document = {name: {**cost.document(), "dollars": prices.of(cost.requests)} for name, cost in costs.items()}
    blocks = {"operations": page.operations(costs, prices)}
    if not quick:
        every = (prices, *(one for one in scale_prices.ALL if one is not REGIONAL))
        blocks |= {"search": page.search(costs, prices), "prices": page.price_list(every, costs["append"])}
        blocks["rows"] = page.load_table(loads(costs["append"], _shards(costs, writers=1, latency_ms=1), prices))
    return Result(document, blocks)


def _shards(costs: Mapping[str, Cost], *, writers: int, latency_ms: float) -> Way:
    _, put, fewer, more = (costs[name] for name in NEEDED)
    return shards(put, (fewer, more), writers=writers, latency_ms=latency_ms)


def writers(server: RecordingServer, prices: Prices, *, quick: bool) -> Result:
    """Many writers: a few for real, many in virtual time."""
    each = 3 if quick else 8
    # What else the machine does only adds to what threads take.
    tries = (crowd(server, f"own-{number}", writers=EIGHT, appends_each=each) for number in range(1 if quick else 3))
    measured = min(tries, key=lambda one: one.seconds)
    seeds = [race(writers=EIGHT, appends_each=each, latency_ms=measured.latency_ms, seed=seed) for seed in range(5)]
    simulated = sorted(seeds, key=lambda one: one.rounds_per_commit)[len(seeds) // 2]
    document: dict[str, Any] = {"measured": measured.document(), "simulated": simulated.document()}
    if quick:
        return Result(document, {})
    costs = measure_all(server, cases(*NEEDED), repeats=2)
    cpu_ms = append_cpu_ms(server)
    shared = crowd(server, "shared", writers=ONE_HANDLE_THREADS, appends_each=2, one_handle=True)
    found: list[Race] = []
    for count, appends_each, latency_ms in RACES:
        told(f"  {count} writers on {latency_ms} ms ...")
        found.append(race(writers=count, appends_each=appends_each, latency_ms=latency_ms))
    every: list[Way] = [own_handles(one) for one in found if one.writers in WRITERS]
    for count in WRITERS:
        every += [one_handle(shared, writers=count, latency_ms=one, cpu_ms=cpu_ms) for one in LATENCIES_MS]
    for count in WRITERS:
        every += [_shards(costs, writers=count, latency_ms=one) for one in LATENCIES_MS]
    document |= {"one handle": shared.document(), "append_cpu_ms": cpu_ms}
    document |= {"races": [one.document() for one in found]}
    document["ways"] = [way._asdict() for way in every]
    blocks = {
        "races": page.races(found, prices),
        "check": page.check(measured, simulated),
        "ways": page.ways(every, prices),
    }
    return Result(document, blocks)


def fragments(server: RecordingServer, prices: Prices, *, quick: bool) -> Result:
    """Metadata of many fragments."""
    found = []
    for count, columns in FRAGMENTS[:1] if quick else FRAGMENTS:
        told(f"  {count:,} fragments ...")
        found.append(measure_size(server, count, columns=columns))
    known = [one for one in found if one.fragments == 100_000]
    blocks = {"fragments": page.sizes(found), "limits": page.limits(known)}
    blocks["trillion"] = page.trillion(found[-1], prices)
    return Result({"sizes": [one.document() for one in found]}, blocks)


def history(server: RecordingServer, prices: Prices, *, quick: bool) -> Result:
    """Many versions."""
    del prices
    aged = measure_history(server, HISTORY[:2] if quick else HISTORY, repeats=1 if quick else 2)
    return Result({"history": [one.document() for one in aged]}, {"history": page.history(aged)})


def main(arguments: list[str] | None = None, *, path: Path = PAGE) -> int:
    """Measure, print, and write the page where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="a small run; its figures are no claim")
    parser.add_argument("--write", action="store_true", help="make the tables of docs/scale.md anew")
    parser.add_argument("--put-price", type=float, default=REGIONAL.put_per_1000, help="dollars for 1,000 PUT or LIST")
    parser.add_argument("--get-price", type=float, default=REGIONAL.get_per_1000, help="dollars for 1,000 GET or HEAD")
    parser.add_argument("--storage-price", type=float, default=REGIONAL.gb_month, help="dollars for a GB-month")
    asked = parser.parse_args(arguments)
    if asked.quick and asked.write:
        parser.error("--quick writes nothing: its figures are no claim")
    prices = REGIONAL._replace(put_per_1000=asked.put_price, get_per_1000=asked.get_price, gb_month=asked.storage_price)
    parts = {"operations": operations, "writers": writers, "fragments": fragments, "history": history}
    document: dict[str, Any] = {"prices": prices._asdict(), "as of": scale_prices.AS_OF}
    blocks: dict[str, str] = {}
    with RecordingServer() as server:
        for name in asked.only or PARTS:
            told(f"{name} ...")
            result = parts[name](server, prices, quick=asked.quick)
            document[name] = result.document
            blocks |= result.blocks
    if asked.write:
        path.write_text(page.replaced(path.read_text(encoding="utf-8"), blocks), encoding="utf-8")
    print(json.dumps(document, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
