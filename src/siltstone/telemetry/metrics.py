"""Every metric that siltstone tells. Names, units and attributes stay as they are; docs/observe.md lists them."""

from __future__ import annotations

from siltstone.telemetry.seams import Metric

ALL: dict[str, Metric] = {}


def _counter(name: str, unit: str, attributes: str, about: str) -> Metric:
    ALL[name] = Metric(name, "counter", unit, tuple(attributes.split()), about)
    return ALL[name]


def _seconds(name: str, attributes: str, about: str) -> Metric:
    ALL[name] = Metric(name, "histogram", "s", tuple(attributes.split()), about)
    return ALL[name]


STORE_REQUESTS = _counter("siltstone.store.requests", "{request}", "store verb outcome", "Requests to object stores.")
STORE_SECONDS = _seconds(
    "siltstone.store.request.duration", "store verb outcome", "How long a request to an object store took."
)
STORE_BYTES = _counter("siltstone.store.bytes", "By", "store direction", "Bytes of objects that were read or written.")
DECIDER_REQUESTS = _counter(
    "siltstone.commit_store.requests", "{request}", "store verb outcome", "Requests to commit stores."
)
DECIDER_SECONDS = _seconds(
    "siltstone.commit_store.request.duration", "store verb outcome", "How long a request to a commit store took."
)

COMMITS = _counter("siltstone.commits", "{commit}", "table operation outcome", "Commits, with what became of them.")
COMMIT_SECONDS = _seconds("siltstone.commit.duration", "table operation outcome", "How long a commit took.")
COMMIT_CONFLICTS = _counter("siltstone.commit.conflicts", "{conflict}", "table", "Versions that another was first at.")
COMMIT_RETRIES = _counter(
    "siltstone.commit.retries",
    "{retry}",
    "table",
    "Changes that were worked out anew, on top of what others committed.",
)
LOST_ANSWERS = _counter(
    "siltstone.commit.lost_answers", "{answer}", "", "Writes whose answer was lost and that were found to be there."
)
UNKNOWN = _counter(
    "siltstone.commits.unknown", "{commit}", "", "Commits and puts of which nobody can tell what became of them."
)
ALARMS = _counter(
    "siltstone.alarms", "{alarm}", "kind", "Stores that broke their word, and objects that are lost or damaged."
)

SHARD_PUTS = _counter("siltstone.shard.puts", "{put}", "table outcome", "Calls of put and delete of shards' writers.")
SHARD_ROWS = _counter("siltstone.shard.rows", "{row}", "table", "Rows, and deletions, that shards' writers took.")
SHARD_PUT_SECONDS = _seconds(
    "siltstone.shard.put.duration", "table outcome", "How long a put took, durable where it waits for that."
)
SHARD_FLUSHES = _counter(
    "siltstone.shard.flushes",
    "{flush}",
    "table into outcome",
    "Flushes: of rows into the WAL, of memtables into files.",
)
SHARD_FLUSH_SECONDS = _seconds("siltstone.shard.flush.duration", "table into outcome", "How long a flush took.")
BACKPRESSURE_WAITS = _counter("siltstone.shard.backpressure.waits", "{wait}", "table", "Puts that waited for room.")
BACKPRESSURE_SECONDS = _seconds("siltstone.shard.backpressure.duration", "table", "How long a put waited for room.")
REPLAYED = _counter("siltstone.shard.replayed", "{entry}", "table", "Entries of WALs that were read at a takeover.")
REPLAY_SECONDS = _seconds("siltstone.shard.replay.duration", "table outcome", "How long a replay took.")
TAKEOVERS = _counter("siltstone.shard.takeovers", "{takeover}", "table", "Shards that were taken from another writer.")
FENCED = _counter("siltstone.shard.fenced", "{writer}", "table", "Writers that ended because another took over.")
MERGES = _counter("siltstone.shard.merges", "{merge}", "table outcome", "Merges of shards into their table.")
MERGE_SECONDS = _seconds("siltstone.shard.merge.duration", "table outcome", "How long a merge took.")

GC_REMOVED = _counter("siltstone.gc.removed", "{object}", "table kind", "Objects that collections removed.")
GC_BYTES = _counter("siltstone.gc.removed.bytes", "By", "table kind", "Bytes of the objects that collections removed.")
GC_SECONDS = _seconds("siltstone.gc.duration", "table outcome", "How long a collection took.")

INDEX_ITEMS = _counter("siltstone.index.items", "{item}", "table outcome", "Items of index builds that were worked on.")
INDEX_ITEM_SECONDS = _seconds("siltstone.index.item.duration", "table outcome", "How long an item took.")
INDEX_FINALIZE_SECONDS = _seconds(
    "siltstone.index.finalize.duration", "table outcome", "How long it took to bring a build to its end."
)
SEARCH_SECONDS = _seconds("siltstone.index.search.duration", "table outcome", "How long a search took, with its rows.")
GET_SECONDS = _seconds("siltstone.get.duration", "table outcome", "How long a look-up by key took.")
SCAN_SECONDS = _seconds("siltstone.scan.duration", "table outcome", "How long a scan took that gave all of its rows.")
