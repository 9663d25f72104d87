"""The tables of docs/scale.md, and how they get into it.

What must hold: what stands between two marks of the page was made from measurements by this module, and nothing else of
the page is touched.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scale_growth import AFTER, fit, limits_of
from scale_model import LATENCIES_MS, MILLION, seconds_of
from scale_server import GET, KINDS, LIST, PUT
from siltstone.errors import InvalidInputError
from siltstone.table.fragment import ROWS_PER_FRAGMENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scale_crowd import Crowd
    from scale_growth import Aged, Sized
    from scale_model import Load, Way
    from scale_prices import Prices
    from scale_race import Race
    from scale_server import Cost


TRILLION = 10**12
FRAGMENTS_A_VERSION = 1_000
ROW_BYTES = 50


def replaced(page: str, blocks: Mapping[str, str]) -> str:
    """A page with other blocks. Raises InvalidInputError where it has no place for one."""
    for name, block in blocks.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise InvalidInputError(f"the page has no place for {name!a}", hint=f"add {begin} and {end}")
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}\n{block.strip()}\n{end}{rest.partition(end)[2]}"
    return page


def block_of(page: str, name: str) -> str:
    """What stands between two marks."""
    found = re.search(f"<!-- {name}: begin -->\n(.*?)\n<!-- {name}: end -->", page, re.DOTALL)
    if found is None:
        raise InvalidInputError(f"the page has no block {name!a}")
    return found.group(1)


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; numbers to the right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


# -- what numbers look like ------------------------------------------------------------------------


def shown(value: float) -> str:
    """A number as people read it: three digits that count."""
    if value == 0:
        return "0"
    if value >= 100:
        digits = max(0, len(str(int(value))) - 3)
        return f"{round(value, -digits):,.0f}"
    return f"{value:.3g}"


def dollars(value: float) -> str:
    """Money."""
    if value >= 100:
        return f"${value:,.0f}"
    # No exponents: a price is compared with others.
    return f"${value:.2f}" if value >= 0.1 else f"${value:.7f}".rstrip("0")


def size(count: float) -> str:
    """Bytes."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{shown(count / factor)} {unit}"
    return f"{count:.0f} B"


def power(count: float) -> str:
    """A number too large to read."""
    digits, _, exponent = f"{count:.1e}".partition("e+")
    return f"{digits} x 10^{int(exponent)}"


def span(seconds: float) -> str:
    """A time."""
    return f"{shown(seconds)} s" if seconds >= 1 else f"{shown(seconds * 1000)} ms"


def counts(requests: Mapping[str, float]) -> list[str]:
    """Requests by kind, for the columns of a table."""
    return [str(requests[kind]) if requests.get(kind) else "" for kind in KINDS]


# -- the tables ------------------------------------------------------------------------------------


def operation_line(name: str, cost: Cost) -> list[str]:
    """The counts of an operation: what a test compares with a run of its own."""
    return [name, *counts(cost.requests), str(cost.rounds)]


def operations(costs: Mapping[str, Cost], prices: Prices) -> str:
    """What every operation asks of the store."""
    head = ["operation", *KINDS, "rounds", "sent", "received", "a million of them"]
    lines = (
        (
            *operation_line(name, cost),
            size(cost.sent_bytes),
            size(cost.received_bytes),
            dollars(prices.of(cost.requests) * MILLION),
        )
        for name, cost in costs.items()
    )
    return table(head, lines)


def price_list(all_prices: Sequence[Prices], cost: Cost) -> str:
    """The assumptions, and what they come to for a million appends."""
    head = ["kind of store", "1,000 PUT or LIST", "1,000 GET or HEAD", "GB-month", "a million appends", "as listed in"]
    lines = (
        (
            one.name,
            dollars(one.put_per_1000),
            dollars(one.get_per_1000),
            dollars(one.gb_month),
            dollars(one.of(cost.requests) * MILLION),
            one.source,
        )
        for one in all_prices
    )
    return table(head, lines)


def races(found: Sequence[Race], prices: Prices) -> str:
    """Writers with handles of their own, simulated."""
    head = ["writers", "store", "versions/s", "rounds a version", "requests a version", "p50", "p99", "gave up"]
    head.append("a million versions")
    lines = []
    for one in found:
        each = {kind: count / max(one.commits, 1) for kind, count in one.requests.items()}
        lines.append(
            (
                f"{one.writers:,}",
                f"{one.latency_ms:g} ms",
                shown(one.commits_per_s),
                f"{one.rounds_per_commit:.1f}",
                shown(one.requests_per_commit),
                span(one.commit_ms_p50 / 1000),
                span(one.commit_ms_p99 / 1000),
                f"{one.gave_up / (one.writers * one.appends_each):.0%}",
                dollars(prices.of(each) * MILLION),
            )
        )
    return table(head, lines)


def check(measured: Crowd, simulated: Race) -> str:
    """The small end of the simulation beside the same thing done for real."""
    kinds = [kind for kind in KINDS if measured.requests.get(kind) or simulated.requests.get(kind)]
    head = [f"{measured.writers} writers, {measured.latency_ms:g} ms, one append", *kinds, "all requests", "rounds"]
    real = [measured.requests.get(kind, 0) / measured.appends for kind in kinds]
    virtual = [simulated.requests.get(kind, 0) / simulated.commits for kind in kinds]
    real += [measured.requests_per_append, measured.rounds_per_append]
    virtual += [simulated.requests_per_commit, simulated.rounds_per_commit]
    sides = {"threads on an S3 server": real, "simulated": virtual}
    return table(head, ((name, *(f"{one:.1f}" for one in figures)) for name, figures in sides.items()))


def ways(found: Sequence[Way], prices: Prices) -> str:
    """Ways in for many writers."""
    head = [
        "way in",
        "writers",
        *(f"{one} ms: a second" for one in LATENCIES_MS),
        "requests each, 10 ms",
        "a million of them",
    ]
    lines = []
    for name, writers in dict.fromkeys((way.name, way.writers) for way in found):
        same = {way.latency_ms: way for way in found if (way.name, way.writers) == (name, writers)}
        shown_ways = [_rate(same.get(one)) for one in LATENCIES_MS]
        some = same.get(10) or next(iter(same.values()))
        asked, cost = shown(sum(some.requests.values())), dollars(prices.of(some.requests) * MILLION)
        lines.append([name, f"{writers:,}", *shown_ways, asked, cost])
    return table(head, lines)


def _rate(way: Way | None) -> str:
    if way is None:
        return ""
    return shown(way.per_s) + (f" ({way.note})" if way.note else "")


def load_table(found: Sequence[Load]) -> str:
    """A million rows by rows in an operation."""
    head = ["rows in each", "a million rows by append", "a million rows by a shard's put, merged"]
    return table(head, ([f"{one.rows:,}", dollars(one.appends), dollars(one.puts)] for one in found))


def sizes(found: Sequence[Sized]) -> str:
    """Metadata of many fragments."""
    head = ["fragments", "columns", "rows, at most", "rollup", "in memory", "open: requests", "rounds", "CPU"]
    head += ["on 10 ms", "on 100 ms", "plan: CPU", "append: CPU", "a new rollup of all: CPU"]
    lines = []
    for one in found:
        opens = [seconds_of(one.open, latency_ms=latency, cpu_ms=one.open_ms) for latency in (10, 100)]
        lines.append(
            [f"{one.fragments:,}", str(one.columns), power(one.fragments * ROWS_PER_FRAGMENT), size(one.rollup_bytes)]
            + [size(one.plain_bytes), str(one.open.total), str(one.open.rounds), span(one.open_ms / 1000)]
            + [span(one) for one in opens]
            + [span(ms / 1000) for ms in (one.plan_ms, one.append_ms, one.rollup_ms)]
        )
    return f"{table(head, lines)}\n\n{_per_fragment(found)}"


def _per_fragment(found: Sequence[Sized]) -> str:
    """What one fragment adds, by the straight line through the least and the largest table of the same columns."""
    same = [one for one in found if one.columns == found[0].columns]
    few, many = same[0], same[-1]
    more = many.fragments - few.fragments
    if not more:
        return ""
    stored = (many.rollup_bytes - few.rollup_bytes) / more
    held = (many.plain_bytes - few.plain_bytes) / more
    took_us = (many.open_ms - few.open_ms) / more * 1000
    return (
        f"Everything but the requests grows in a straight line: with {few.columns} columns, a fragment more is "
        f"{stored:.0f} bytes of rollup, {held:.0f} bytes in memory and {took_us:.1f} microseconds of opening."
    )


def limits(found: Sequence[Sized]) -> str:
    """Where the format ends."""
    head = [
        "columns with statistics",
        "fragments of a table, at most",
        "rows of a table, at most",
        "fragments of a version, at most",
    ]
    known = [limits_of(one) for one in found]
    return table(
        head,
        (
            (
                str(one.columns),
                shown(one.fragments_in_rollup),
                power(one.fragments_in_rollup * ROWS_PER_FRAGMENT),
                shown(one.fragments_in_version),
            )
            for one in known
        ),
    )


def trillion(sized: Sized, prices: Prices) -> str:
    """What 10^12 rows come to, by what was measured of nearly as many fragments."""
    count = -(-TRILLION // ROWS_PER_FRAGMENT)
    share = count / sized.fragments
    versions = -(-count // FRAGMENTS_A_VERSION)
    stored = TRILLION * ROW_BYTES
    reads = prices.of({GET: count})
    lines: list[tuple[str, str, float]] = [
        ("fragments, full", f"{count:,}", 0),
        (
            f"written, {FRAGMENTS_A_VERSION:,} fragments a version",
            f"{count + versions:,} PUT",
            prices.of({PUT: count + versions}),
        ),
        (f"stored, at {ROW_BYTES} bytes a row (assumed), a month", size(stored), prices.of_storage(stored)),
        ("metadata, read at each opening", size(sized.rollup_bytes * share), prices.of(sized.open.requests)),
        ("a scan of all, at least", f"{count:,} GET", reads),
        ("a key, where key ranges are apart", "1 LIST, 1 GET", prices.of({LIST: 1, GET: 1})),
        ("a key, where every key range overlaps all others", f"1 LIST, {count:,} GET", prices.of({LIST: 1}) + reads),
    ]
    head = ["10^12 rows", "how much", "dollars"]
    return table(head, ((name, much, dollars(cost) if cost else "") for name, much, cost in lines))


def history(aged: Sequence[Aged]) -> str:
    """What operations cost after many versions, and how that grows."""
    sizes_ = [one.versions for one in aged]
    head = ["", *(f"{one:,} versions" for one in sizes_), "grows"]
    lines: list[list[str]] = []
    for name in AFTER:
        costs = [one.costs[name] for one in aged]
        totals = [cost.total for cost in costs]
        told = [f"{cost.total} in {cost.rounds} rounds" for cost in costs]
        lines.append([f"{name}: requests", *told, fit(sizes_, totals)])
    for name in ("open", "gc of all but the newest"):
        moved = [one.costs[name].received_bytes + one.costs[name].sent_bytes for one in aged]
        lines.append([f"{name}: bytes", *map(size, moved), fit(sizes_, moved)])
    logs, rollups = [one.log_bytes for one in aged], [one.rollup_bytes for one in aged]
    lines.append(["log, in the store", *map(size, logs), fit(sizes_, logs)])
    lines.append(["rollups, in the store", *map(size, rollups), fit(sizes_, rollups)])
    return table(head, lines)


def search(costs: Mapping[str, Cost], prices: Prices) -> str:
    """What search costs."""
    head = ["", "requests", "rounds", "on 10 ms", "on 100 ms", "a million of them"]
    names = [name for name in costs if name.startswith(("text index", "search"))]
    lines = (
        [name, str(costs[name].total), str(costs[name].rounds)]
        + [span(costs[name].rounds * latency / 1000) for latency in (10, 100)]
        + [dollars(prices.of(costs[name].requests) * MILLION)]
        for name in names
    )
    return table(head, lines)
