"""The operations whose requests are counted, each on a small table of its own.

What must hold: preparing is not measured; what is measured does the same each time it is run, so that its requests are
a fact about the code and not about a machine. The number of dependent rounds is the least that was seen: a machine that
stumbles can make two requests look as if one waited for the other, and never the reverse.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

import siltstone as ss
from scale_server import LATENCY_MS, Cost, RecordingServer, cost_of
from siltstone.format.records import TRUST_MS
from siltstone.table.history import ROLLUP_EVERY
from siltstone.testing.manual import ManualClock, manual_env

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from siltstone.store.base import Store

SCHEMA = pa.schema([("id", pa.int64()), ("body", pa.string())])
ROWS = 1_000  # of an append
FRAGMENTS = 10  # of the table that is read
LARGER_ROWS = 17_000
INTERLEAVED_ROWS = 3_000  # enough for a bloom filter
REPLAYED = 100  # entries of a WAL
SHARDS = 4
ITEMS = 4  # of an index build
WORDS = ("late", "colour", "refund", "parcel", "slow", "kind", "letter", "answer")


def rows(start: int, *, count: int = ROWS) -> pa.Table:
    """Rows of consecutive keys, each with a few words."""
    texts = [" ".join(WORDS[(number * step) % len(WORDS)] for step in (1, 3, 5)) for number in range(count)]
    return pa.table({"id": range(start, start + count), "body": texts}, schema=SCHEMA)


@dataclass(frozen=True)
class Place:
    """Where the table of one measurement is."""

    server: RecordingServer
    name: str

    @cached_property
    def store(self) -> Store:
        """Its store."""
        return self.server.store(self.name)

    def create(self, *, key: str | None = None, appends: int = 0, **options: Any) -> Any:
        """A table after some appends of rows with keys of their own."""
        table = ss.create(self.store, schema=SCHEMA, key=key, **{"guard": "receipt", "probe": False, **options})
        for number in range(appends):
            table.append(rows(number * ROWS))
        return table

    def open(self) -> Any:
        """Another handle, which knows nothing yet."""
        return ss.open(self.server.store(self.name), probe=False)

    def opened(self) -> Any:
        """Another handle, which knows the newest version."""
        table = self.open()
        _ = table.version
        return table


class Case(NamedTuple):
    """An operation: what it is called, and what makes it ready."""

    name: str
    ready: Callable[[Place], Callable[[], object]]


# -- tables ----------------------------------------------------------------------------------------


def _open(place: Place) -> Callable[[], object]:
    place.create(appends=FRAGMENTS).close()
    return lambda: place.open().version


def _append(place: Place, *, key: str | None = None, start: int = FRAGMENTS * ROWS, **options: Any) -> Any:
    table = place.create(key=key, appends=FRAGMENTS, **options)
    return lambda: table.append(rows(start))


def _append_with_rollup(place: Place) -> Callable[[], object]:
    table = place.create()
    while table.version < ROLLUP_EVERY - 2:
        table.append(rows(0, count=1))
    return lambda: table.append(rows(0, count=1))


def _append_later(place: Place) -> Callable[[], object]:
    """By a handle that looked for the log's floor longer ago than a look is trusted."""
    clock = ManualClock()
    table = place.create(env=manual_env(clock=clock))
    table.append(rows(0, count=1))
    clock.advance(TRUST_MS / 1000 + 1)
    return lambda: table.append(rows(0, count=1))


def _append_among(place: Place) -> Callable[[], object]:
    """Keys that lie between those of a fragment: its bounds don't tell that they are new."""
    table = place.create(key="id", appends=FRAGMENTS)
    apart = pa.table({"id": range(10**6, 10**6 + 20 * ROWS, 20), "body": ["x"] * ROWS}, schema=SCHEMA)
    table.append(apart)
    return lambda: table.append(rows(10**6 + 1, count=10))


def _upsert(place: Place) -> Callable[[], object]:
    place.create(key="id", appends=FRAGMENTS).close()
    table = place.opened()
    return lambda: table.upsert(rows(ROWS // 2, count=100))


def _delete(place: Place, where: str) -> Callable[[], object]:
    place.create(key="id", appends=FRAGMENTS).close()
    table = place.opened()
    return lambda: table.delete(where)


def _scan_larger(place: Place) -> Callable[[], object]:
    """Fragments that are too large to be read whole together with others."""
    table = place.create(key="id")
    for number in range(FRAGMENTS):
        table.append(rows(number * LARGER_ROWS, count=LARGER_ROWS))
    table = place.opened()
    return lambda: table.scan().to_arrow()


def _scan(place: Place, where: str | None = None) -> Callable[[], object]:
    place.create(key="id", appends=FRAGMENTS).close()
    table = place.opened()
    return lambda: table.scan(where=where).to_arrow()


def _get(place: Place, *, hot: bool) -> Callable[[], object]:
    place.create(key="id", appends=FRAGMENTS).close()
    table = place.opened()
    if hot:
        table.get([ROWS + 1])
    return lambda: table.get([ROWS + 2])


def _interleaved(place: Place) -> Any:
    """A table each of whose fragments may hold any key, by its bounds."""
    table = place.create(key="id")
    for number in range(FRAGMENTS):
        ids = range(number, number + INTERLEAVED_ROWS * FRAGMENTS, FRAGMENTS)
        table.append(pa.table({"id": ids, "body": ["x"] * INTERLEAVED_ROWS}, schema=SCHEMA))
    return place.opened()


def _get_anywhere(place: Place) -> Callable[[], object]:
    table = _interleaved(place)
    return lambda: table.get([12_345])


def _upsert_anywhere(place: Place) -> Callable[[], object]:
    table = _interleaved(place)
    return lambda: table.upsert(rows(12_345, count=100))


def _refresh(place: Place) -> Any:
    writing = place.create(appends=FRAGMENTS)
    table = place.opened()
    writing.append(rows(FRAGMENTS * ROWS))
    return table.refresh


def _compact(place: Place) -> Any:
    return place.create(key="id", appends=FRAGMENTS).compact


def _checkpoint(place: Place) -> Callable[[], object]:
    table = place.create(key="id", appends=FRAGMENTS)
    return lambda: table.checkpoint("kept")


def _clone(place: Place) -> Callable[[], object]:
    table = place.create(key="id", appends=FRAGMENTS)
    target = place.server.store(f"{place.name}-clone")
    return lambda: table.clone(target, guard="receipt", probe=False)


def _gc(place: Place) -> Callable[[], object]:
    table = place.create(key="id", appends=FRAGMENTS)
    table.compact()
    return lambda: table.gc(keep_days=0)


TABLES = (
    Case("open", _open),
    Case("refresh, one version behind", _refresh),
    Case("append", _append),
    Case(f"append, every {ROLLUP_EVERY}nd: with a rollup", _append_with_rollup),
    Case(f"append, {TRUST_MS // 1000} s after the last one", _append_later),
    Case("append, key ranges apart", partial(_append, key="id")),
    Case("append, key ranges overlap", _append_among),
    Case("append, store not known to keep its word", partial(_append, guard="witness")),
    Case("upsert of 100 rows of one fragment", _upsert),
    Case("upsert of 100 rows, all 10 key ranges overlap", _upsert_anywhere),
    Case("delete by a range of keys", partial(_delete, where="id < 100")),
    Case("delete by another column, no row matches", partial(_delete, where="body = 'none'")),
    Case("scan, planned only", partial(_scan, where="id < 0")),
    Case("scan of 10 fragments of 1,000 rows", _scan),
    Case("scan of 10 fragments of 17,000 rows", _scan_larger),
    Case("get by key, cold", partial(_get, hot=False)),
    Case("get by key, cold, all 10 key ranges overlap", _get_anywhere),
    Case("get by key, hot", partial(_get, hot=True)),
    Case("compact 10 fragments into 1", _compact),
    Case("checkpoint", _checkpoint),
    Case("clone", _clone),
    Case("gc, 12 versions", _gc),
)


# -- shards ----------------------------------------------------------------------------------------


def _sharded(place: Place, *, shards: int = 1, **knobs: Any) -> tuple[Any, Any]:
    table = place.create(key="id", shards=shards)
    return table, table.writer(ss.ShardWriterConfig(**knobs))


def _put(place: Place, **knobs: Any) -> Callable[[], object]:
    _, writer = _sharded(place, **knobs)
    writer.put(rows(0, count=1))
    return lambda: writer.put(rows(1, count=1))


def _flush(place: Place) -> Callable[[], object]:
    table = place.create(key="id", shards=1)
    writer = table.shard(0).writer()
    writer.put(rows(0))

    def flush() -> None:
        writer.freeze()
        writer.flush_memtables()

    return flush


def _merge(place: Place, *, shards: int, puts: int = FRAGMENTS) -> Any:
    table, writer = _sharded(place, shards=shards)
    for number in range(puts):
        writer.put(rows(number * 100, count=100))
    writer.close()
    return table.merge_shards


def _replay(place: Place, *, entries: int) -> Callable[[], object]:
    table, writer = _sharded(place)
    for number in range(entries):
        writer.put(rows(number, count=1))
    writer.close()
    return lambda: table.shard(0).writer()


def _fresh_get(place: Place) -> Callable[[], object]:
    _, writer = _sharded(place)
    for number in range(10):
        writer.put(rows(number, count=1))
    table = place.opened()
    return lambda: table.get([3], fresh=True)


SHARDED = (
    Case("shard: open a writer, empty WAL", partial(_replay, entries=0)),
    Case(f"shard: open a writer, replay of {REPLAYED} entries", partial(_replay, entries=REPLAYED)),
    Case("shard: put", _put),
    Case("shard: put, WAL only", partial(_put, enable_memtable=False)),
    Case("shard: flush a memtable", _flush),
    Case("shard: merge of 1 shard, 10 entries", partial(_merge, shards=1)),
    Case("shard: merge of 1 shard, 50 entries", partial(_merge, shards=1, puts=50)),
    Case("shard: merge of 4 shards, 10 entries each", partial(_merge, shards=SHARDS)),
    Case("shard: fresh get, 10 entries not merged", _fresh_get),
)


# -- text ------------------------------------------------------------------------------------------


def _begin(place: Place) -> Callable[[], object]:
    table = place.create(key="id", appends=FRAGMENTS)
    return lambda: table.begin_text_index("body", items=ITEMS)


def _item(place: Place) -> Callable[[], object]:
    build = place.create(key="id", appends=FRAGMENTS).begin_text_index("body", items=ITEMS)
    return lambda: build.run(0, threads=1)


def _finalize(place: Place) -> Any:
    build = place.create(key="id", appends=FRAGMENTS).begin_text_index("body", items=ITEMS)
    for item in range(build.items):
        build.run(item, threads=1)
    return build.commit


def _search(place: Place, *, hot: bool) -> Callable[[], object]:
    place.create(key="id", appends=FRAGMENTS).create_text_index("body")
    table = place.opened()
    if hot:
        table.search("body", "refund").to_arrow()
    return lambda: table.search("body", "late colour").to_arrow()


TEXT = (
    Case("text index: begin a build", _begin),
    Case("text index: one item", _item),
    Case("text index: finalize and commit", _finalize),
    Case("search, cold", partial(_search, hot=False)),
    Case("search, hot, other words", partial(_search, hot=True)),
)

CASES = (*TABLES, *SHARDED, *TEXT)
QUICK = (
    "open",
    "append",
    "append, key ranges apart",
    "scan, planned only",
    "get by key, cold",
    "get by key, hot",
    "checkpoint",
    "shard: put",
    "shard: put, WAL only",
    "search, cold",
)


def measure(server: RecordingServer, case: Case, *, repeats: int) -> Cost:
    """What a case asks of the store, from the repeat with the fewest rounds."""
    found = []
    for number in range(repeats):
        operation = case.ready(Place(server, f"case-{next(_numbers)}-{number}"))
        server.take()
        server.slow_down(LATENCY_MS)
        try:
            operation()
        finally:
            server.slow_down(0)
        found.append(cost_of(server.take()))
        server.empty()
    return min(found, key=lambda cost: (cost.rounds, cost.total))


_numbers = itertools.count()


def measure_all(server: RecordingServer, cases: Sequence[Case] = CASES, *, repeats: int = 3) -> dict[str, Cost]:
    """The costs of cases by name."""
    return {case.name: measure(server, case, repeats=repeats) for case in cases}
