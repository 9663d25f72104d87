"""What tests of telemetry listen with, and work that makes every metric and event be told."""

from __future__ import annotations

import itertools
import json
import logging
import threading

import pyarrow as pa
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import siltstone as ss
from shard_worlds import ShardWorld, rows
from siltstone import telemetry
from siltstone.env import Env
from siltstone.errors import BackpressureError, CommitUnknownError, FencedError, UnsafeStoreError
from siltstone.store.connect import open_store
from siltstone.testing.manual import ManualClock, manual_env
from siltstone.testing.s3server import Faults, FaultServer
from siltstone.testing.script import Fault
from siltstone.testing.stores import FaultStore, Interleaves
from worlds import FOR_EVER

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])
ENTRIES = "log/entries/"
_numbers = itertools.count(1)


class Records(logging.Handler):
    """Keeps the records of siltstone's loggers, and how they look as JSON."""

    def __init__(self):
        super().__init__()
        self.found = []
        self.setFormatter(telemetry.JsonFormatter())

    def emit(self, record):
        self.found.append((record, self.format(record)))


class Ears:
    """Providers that keep what they are told."""

    def __init__(self):
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider(metric_readers=[self.reader])
        self.spans = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.records = Records()

    def enable(self, **options):
        telemetry.enable(self.tracers, self.meters, **options)

    def points(self):
        """Every metric that was told: (name, unit, attributes, value or (count, sum))."""
        data = self.reader.get_metrics_data()
        return [
            (
                metric.name,
                metric.unit,
                dict(point.attributes),
                getattr(point, "value", None) or (point.count, point.sum),
            )
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
        ]

    def count(self, name, **attributes):
        """The sum of a counter, or how many values a histogram has, over points with these attributes."""
        found = 0
        for metric, _, have, value in self.points():
            if metric == name and attributes.items() <= have.items():
                found += value[0] if isinstance(value, tuple) else value
        return found

    def names(self):
        return {name for name, *_ in self.points()}

    def finished(self, name=None):
        return [span for span in self.spans.get_finished_spans() if name in {None, span.name}]

    def events(self, name=None):
        """Records of events, as their JSON says them."""
        found = [json.loads(line) for _, line in self.records.found]
        return [one for one in found if name in {None, one["event"]}]

    def everything(self):
        """All that was told, as one text."""
        spans = "\n".join(span.to_json() for span in self.finished())
        lines = "\n".join(line + str(vars(record)) + record.getMessage() for record, line in self.records.found)
        return f"{self.points()}\n{spans}\n{lines}"


@pytest.fixture
def ears():
    """Telemetry is on, and all of siltstone's logs are kept."""
    made, logger = Ears(), logging.getLogger("siltstone")
    before = logger.level
    logger.addHandler(made.records)
    logger.setLevel(logging.DEBUG)
    made.enable()
    yield made
    telemetry.disable()
    logger.removeHandler(made.records)
    logger.setLevel(before)
    made.meters.shutdown()
    made.tracers.shutdown()


# -- tables ----------------------------------------------------------------------------------------


def fresh_uri(name="orders"):
    return f"memory://telemetry-{next(_numbers)}/{name}"


def new_table(uri=None, **options):
    return ss.create(uri or fresh_uri(), schema=SCHEMA, **{"key": "id", "probe": False, **options})


def note(*ids):
    return [{"id": one, "note": f"note of {one}"} for one in ids]


def faulty_table(**options):
    """A table whose store misbehaves as told, and whose clock is the test's."""
    store = FaultStore(open_store(fresh_uri()).inner)
    env = manual_env(next(_numbers), clock=ManualClock(), patience_s=5.0)
    return new_table(store, env=env, **options), store


# -- what may happen -------------------------------------------------------------------------------


def commits_and_reads(tmp_path):
    """Versions decided by a commit store, a text index, look-ups, scans, a clone, and a collection."""
    table = new_table(commits=f"sqlite:{tmp_path}/claims.db", shards=2)
    table.append(note(1, 2))
    table.upsert(note(2, 3))
    table.update({"note": "'changed'"}, where="id = 1")
    table.delete("id = 1")
    table.create_text_index("note")
    assert table.search("note", "note").count() == 2
    assert table.search("note", "note").to_arrow().num_rows == 2
    assert table.get([2]).num_rows == 1
    assert table.scan().to_arrow().num_rows == 2
    with table.writer() as writer:
        writer.put(note(4, 5))
        writer.delete([4])
    with table.writer() as writer:  # takes over, and replays
        writer.put(note(6))
    table.merge_shards()
    table.compact()
    table.checkpoint("kept")
    table.delete_checkpoint("kept")
    table.overwrite(note(7))
    table.overwrite(note(8))
    table.gc(keep_days=0)
    with table.clone(fresh_uri("copy"), commits=f"sqlite:{tmp_path}/claims.db") as copy:
        copy.detach()
    return table


def conflicts():
    """A writer whose place is taken twice, by changes that concern it."""
    uri = fresh_uri()
    rival = new_table(uri)
    store = Interleaves(open_store(uri).inner)
    table = ss.open(store, probe=False, env=manual_env(next(_numbers), clock=ManualClock()))
    table.append(note(1))
    rival.refresh()
    store.before("create", lambda: rival.append(note(2)), key=ENTRIES)
    store.before("create", lambda: rival.append(note(3)), key=ENTRIES, nth=2)
    table.delete("id > 0")
    assert store.pending == 0
    return table


def lost_answer():
    table, store = faulty_table()
    store.on("create", Fault.LOSE, key=ENTRIES)
    table.append(note(1))
    assert table.count() == 1
    return table


def unknown_commit():
    """A commit of which nobody can tell what became of it."""
    table, store = faulty_table()
    store.on("create", Fault.LOSE, key=ENTRIES, times=FOR_EVER)
    store.on("get", Fault.REFUSE, key=ENTRIES, times=FOR_EVER)
    with pytest.raises(CommitUnknownError):
        table.append(note(1))


def fenced():
    """A writer of a shard that is taken over; returns what it was told."""
    world = ShardWorld()
    first = world.writer(name="first")
    world.put(first, 1)
    second = world.writer(name="second")
    with pytest.raises(FencedError) as told:
        first.put(rows(2))
    world.put(second, 3)
    second.freeze()
    second.flush_memtables()
    return told.value


def failed_flush():
    """A memtable whose fragment can't be written."""
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store)
    world.put(writer, 1)
    writer.freeze()
    store.on("create", Fault.DENY, key="data/")
    store.on("put", Fault.DENY, key="data/")
    with pytest.raises(ss.errors.PermissionDeniedError):
        writer.flush_memtables()


def lying_store():
    with FaultServer(Faults(lie="always"), in_thread=True) as server, pytest.raises(UnsafeStoreError):
        ss.create("s3://bkt/lied", schema=SCHEMA, storage_options=server.storage_options)


def waits_for_room():
    """A put that waits until a memtable is flushed; how many bytes were put before."""
    with FaultServer(in_thread=True) as server:
        options = server.storage_options
        table = ss.create("s3://bkt/full", schema=SCHEMA, storage_options=options, env=Env(patience_s=30.0))
        config = ss.ShardWriterConfig(max_unflushed_memtable_bytes=300, max_memtable_rows=5, max_wal_append_attempts=1)
        writer = table.shard("a").writer(config)
        server.set(hold="/data/")
        number = 0
        while True:
            try:
                writer.put(rows(number), wait=False).wait()
            except BackpressureError:
                break
            number += 1
        thread = threading.Thread(target=writer.put, args=(rows(number),))
        thread.start()
        while writer.stats().backpressure_waits == 0:
            thread.join(0.005)
        server.set(Faults())
        server.release()
        thread.join(60)
        writer.close()
        return writer.stats()


def all_of_it(tmp_path):
    """Everything above."""
    commits_and_reads(tmp_path)
    for work in (conflicts, lost_answer, unknown_commit, fenced, failed_flush, lying_store, waits_for_room):
        work()
