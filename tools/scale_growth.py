"""How costs grow with a table's history and with its number of fragments.

What must hold: requests are those that the S3 server saw; times are of this machine and say so where they are shown.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import siltstone as ss
from scale_operations import ROWS, Case, Place, measure, rows
from scale_paper import grow, large, store_of, wide_schema
from siltstone import paths
from siltstone.format.packed import JSON_BYTES_MAX
from siltstone.format.records import BODY_BYTES_MAX
from siltstone.format.rollup import ROLLUP_BYTES_MAX, decode_rollup, from_columns
from siltstone.format.table import Change, encode_body, encode_change
from siltstone.table.history import ROLLUP_EVERY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from scale_server import Cost, RecordingServer

ENTRY_FRAGMENTS = 1_000
FLAT = 1.1  # a cost that grows less from the least history to the longest is constant


# -- history ---------------------------------------------------------------------------------------


def _opens(place: Place) -> Callable[[], object]:
    return lambda: place.open().version


def _appends(place: Place) -> Callable[[], object]:
    table = place.opened()
    return lambda: table.append(rows(ROWS))


def _reads_old(place: Place) -> Callable[[], object]:
    table = place.opened()
    return lambda: table.at(version=table.version // 2)


def _checkpoints(place: Place) -> Callable[[], object]:
    table = place.opened()
    return lambda: table.checkpoint("kept")


def _clones(place: Place) -> Callable[[], object]:
    table = place.opened()
    target = place.server.store(f"{place.name}-clone")
    return lambda: table.clone(target, guard="receipt", probe=False)


def _collects(place: Place) -> Callable[[], object]:
    table = place.opened()
    return lambda: table.gc(keep_days=0)


AFTER = {
    "open": _opens,
    "append": _appends,
    "an old version": _reads_old,
    "checkpoint": _checkpoints,
    "clone": _clones,
    "gc of all but the newest": _collects,
}


class Aged(NamedTuple):
    """What operations cost after so many versions."""

    versions: int
    log_bytes: int
    rollup_bytes: int
    costs: dict[str, Cost]

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {**self._asdict(), "costs": {name: cost.document() for name, cost in self.costs.items()}}


def measure_history(server: RecordingServer, versions: Sequence[int], *, repeats: int = 2) -> list[Aged]:
    """Costs after these many versions."""
    found = []
    for past in grow(versions):
        costs = {
            name: measure(server, Case(name, partial(_filled, past.objects, ready)), repeats=repeats)
            for name, ready in AFTER.items()
        }
        found.append(Aged(past.versions, past.log_bytes, past.rollup_bytes, costs))
    return found


def _filled(objects: dict[str, bytes], ready: Callable[[Place], Callable[[], object]], place: Place) -> Any:
    place.server.fill(objects, below=place.name)
    return ready(place)


def fit(sizes: Sequence[float], values: Sequence[float]) -> str:
    """How values grow with sizes: "constant", "log" or "linear", whichever simplest one comes near them all."""
    if max(values) <= FLAT * max(min(values), 1):
        return "constant"
    logs = [math.log10(size) for size in sizes]
    return "log" if _misses(logs, values) <= _misses(list(sizes), values) else "linear"


def _misses(xs: Sequence[float], ys: Sequence[float]) -> float:
    """How far values are from the straight line that comes nearest to them."""
    count, mean_x, mean_y = len(xs), sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
    return sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in zip(xs, ys, strict=True)) / count


# -- fragments -------------------------------------------------------------------------------------


class Sized(NamedTuple):
    """What metadata of so many fragments takes."""

    fragments: int
    columns: int
    rollup_bytes: int
    plain_bytes: int  # of the same in memory
    entry_bytes_each: float  # of a fragment in the entry that adds it
    json_bytes_each: float  # of the same before it is packed
    open: Cost
    open_ms: float
    plan_ms: float
    append_ms: float
    rollup_ms: float  # of the commit that writes all of it again

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {**self._asdict(), "open": self.open.document()}


def measure_size(server: RecordingServer, fragments: int, *, columns: int = 2) -> Sized:
    """Opening, planning and committing where there are so many fragments: times without any store's latency."""
    objects = large(fragments, columns=columns)
    rollup = paths.rollup(ROLLUP_EVERY)
    found = decode_rollup(objects[rollup], name=rollup)
    header = found.header
    entry_bytes, json_bytes = _entry_bytes(found.fragments.slice(0, ENTRY_FRAGMENTS))
    cost = measure(server, Case("open", partial(_filled, objects, _opens)), repeats=2)
    store = store_of(objects)
    empty = wide_schema(columns).empty_table()
    more = rows(fragments * ROWS, count=10).select(["id"])
    for field in list(empty.schema)[1:]:
        more = more.append_column(field, [["x"] * 10])
    open_ms, table = timed(lambda: _looked(store))
    plan_ms, _ = timed(lambda: table.scan(where="id < 0").to_arrow())
    plan_ms = min(plan_ms, timed(lambda: table.scan(where="id < -1").to_arrow())[0])
    append_ms, _ = timed(lambda: table.append(more))
    version = table.version
    rollup_ms = 0.0
    while version + 1 < 2 * ROLLUP_EVERY:
        rollup_ms, _ = timed(partial(table.set, {"number": str(version)}))
        version = table.version
    return Sized(
        fragments=fragments,
        columns=columns,
        rollup_bytes=len(objects[rollup]),
        plain_bytes=header.summary_bytes + header.fragments_bytes + header.versions_bytes,
        entry_bytes_each=entry_bytes,
        json_bytes_each=json_bytes,
        open=cost,
        open_ms=open_ms,
        plan_ms=plan_ms,
        append_ms=append_ms,
        rollup_ms=rollup_ms,
    )


def _entry_bytes(columns: pa.Table) -> tuple[float, float]:
    """The bytes of each of some fragments in one version's entry, packed and not."""
    raw = encode_change(Change(operation="append", add=tuple(live.fragment for live in from_columns(columns))))
    return len(encode_body(raw)) / columns.num_rows, len(raw) / columns.num_rows


def _looked(store: Any) -> Any:
    table = ss.open(store, probe=False)
    _ = table.version
    return table


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds of computing that a call took, whatever else the machine does, and what it gave."""
    began = time.process_time()
    given = work()
    return (time.process_time() - began) * 1000, given


class Limits(NamedTuple):
    """Where the format's own bounds are met."""

    columns: int
    fragments_in_rollup: int
    fragments_in_version: int


def limits_of(sized: Sized) -> Limits:
    """How many fragments fit where one takes as much as it did here."""
    in_version = min(BODY_BYTES_MAX / sized.entry_bytes_each, JSON_BYTES_MAX / sized.json_bytes_each)
    return Limits(sized.columns, int(ROLLUP_BYTES_MAX * sized.fragments / sized.plain_bytes), int(in_version))
