"""Turning telemetry on and off, at any time, with providers of any kind, in any process."""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import siltstone as ss
from siltstone import telemetry
from siltstone.commit.connect import open_registry
from siltstone.commit.observed import ObservedRegistry, observed_registry
from siltstone.errors import InvalidInputError
from siltstone.spark.workers import _packed
from siltstone.store.connect import open_store
from siltstone.store.memory import MemoryStore
from siltstone.store.meter import MeteredStore
from siltstone.store.observed import ObservedStore
from telemetry_worlds import Ears, fresh_uri, new_table, note

REQUESTS = "siltstone.store.requests"
ON_BY_ENVIRONMENT = """
import siltstone as ss, pyarrow as pa
from siltstone import telemetry
from told import reader
assert telemetry.is_enabled()
table = ss.create("memory://env/orders", schema=pa.schema([("id", pa.int64())]), probe=False)
table.append([{"id": 1}])
names = {m.name for r in reader.get_metrics_data().resource_metrics for s in r.scope_metrics for m in s.metrics}
assert {"siltstone.commits", "siltstone.store.requests"} <= names, names
"""
SET_UP = """
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
reader = InMemoryMetricReader()
def set_up():
    metrics.set_meter_provider(MeterProvider(metric_readers=[reader]))
"""
NOT_INSTALLED = """
import sys, warnings
sys.modules["opentelemetry"] = None
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    from siltstone import telemetry
    import siltstone.store.connect
assert [str(one.message) for one in told if one.category is RuntimeWarning] == [
    one for one in [str(one.message) for one in told] if "SILTSTONE_TELEMETRY" in one and "pip install" in one
]
assert len([one for one in told if one.category is RuntimeWarning]) == 1
assert not telemetry.is_enabled()
try:
    telemetry.enable()
except siltstone.errors.MissingDependencyError as error:
    assert "pip install 'siltstone[telemetry]'" in error.hint
else:
    raise AssertionError("enabled")
"""


def run(code, *, path="", **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(path), "PATH": "/usr/bin:/bin", **environment},
    )
    return done.returncode, done.stderr


# -- on and off ------------------------------------------------------------------------------------


def test_enable__twice__the_last_call_counts(ears):
    table = new_table()
    other = Ears()
    other.enable()
    table.append(note(1))
    assert other.count("siltstone.commits") == 1
    assert ears.count("siltstone.commits") == 0
    assert other.count(REQUESTS) > 0  # also of a store that was opened before


def test_enable__twice_with_the_same_providers__counts_once(ears):
    ears.enable()
    new_table().append(note(1))
    assert ears.count("siltstone.commits") == 1


def test_enable__after_a_table_was_opened__tells_all_but_its_requests():
    uri = fresh_uri()
    table = new_table(uri)
    ears = Ears()
    ears.enable()
    try:
        table.append(note(1))
        assert ears.count("siltstone.commits", outcome="ok") == 1
        assert [span.name for span in ears.finished()] == ["siltstone.commit", "siltstone.append"]
        assert ears.count(REQUESTS) == 0
        ss.open(uri, probe=False).append(note(2))
        assert ears.count(REQUESTS) > 0
    finally:
        telemetry.disable()


def test_disable__in_the_middle_of_a_call__ends_its_span_and_tells_no_more(ears):
    table = new_table()
    ears.spans.clear()
    with table.transaction() as transaction:
        transaction.append(note(1))
        telemetry.disable()
    telemetry.disable()
    assert table.count() == 1
    assert [span.name for span in ears.finished()] == ["siltstone.append"]
    before = ears.count(REQUESTS)
    table.append(note(2))
    assert (ears.count(REQUESTS), ears.count("siltstone.commits")) == (before, 0)


def test_disable__while_threads_commit__changes_nothing_for_them(ears):
    table = new_table()

    def work(number):
        if number % 10 == 5:
            telemetry.disable()
        elif number % 10 == 7:
            ears.enable()
        return table.append(note(number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(60)))
    assert table.count() == 60


def test_commits__of_threads__are_all_counted(ears):
    tables = [new_table() for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: tables[number % 4].upsert(note(number)), range(40)))
    assert ears.count("siltstone.commits", operation="upsert", outcome="ok") == 40
    spans = ears.finished("siltstone.commit")
    parents = {span.context.span_id: span for span in ears.finished("siltstone.upsert")}
    assert len({span.parent.span_id for span in spans} & parents.keys()) == 40


@pytest.mark.parametrize(
    "given",
    [{"tracer_provider": 7}, {"meter_provider": "global"}, {"requests": 1}],
    ids=["tracer", "meter", "requests"],
)
def test_enable__no_provider_and_no_flag__is_refused_and_changes_nothing(given):
    with pytest.raises(InvalidInputError):
        telemetry.enable(**given)
    assert not telemetry.is_enabled()


# -- what breaks -----------------------------------------------------------------------------------


class Broken:
    """Providers whose every instrument and span raises."""

    def get_meter(self, *_, **__):
        return self

    get_tracer = create_counter = create_histogram = get_meter

    def add(self, *_, **__):
        raise RuntimeError("the collector is gone")

    record = start_as_current_span = start_span = force_flush = add


def test_commits__providers_that_raise__go_on_and_it_is_logged_once(ears):
    telemetry.enable(Broken(), Broken())
    table = new_table(shards=1)
    table.append(note(1))
    with table.writer() as writer:
        writer.put(note(2))
    table.merge_shards()
    telemetry.flush()
    assert table.count() == 2
    assert [one["kind"] for one in ears.events("telemetry_failed")] == ["RuntimeError"]


# -- stores and registries -------------------------------------------------------------------------


def test_open_store__telemetry_is_on__is_wrapped_once_however_it_is_opened(ears):
    store = open_store(open_store(fresh_uri()))
    assert isinstance(store, MeteredStore)
    assert type(store.inner) is ObservedStore
    assert type(store.inner.inner) is MemoryStore
    assert type(MeteredStore(store).inner) is MeteredStore
    assert repr(store) == repr(store.inner.inner)


def test_pickle__of_a_store_and_a_registry__come_out_as_the_other_process_wants(ears, tmp_path):
    store = open_store(str(tmp_path))
    registry = observed_registry(open_registry(f"sqlite:{tmp_path}/claims.db"))
    assert observed_registry(registry) is registry
    sent = pickle.dumps((store, registry))
    there = pickle.loads(sent)
    assert (type(there[0].inner), type(there[1])) == (ObservedStore, ObservedRegistry)
    telemetry.disable()
    here = pickle.loads(sent)
    assert not isinstance(here[0].inner, ObservedStore)
    assert not isinstance(here[1], ObservedRegistry)


def test_pickle__of_a_table_from_a_process_without_telemetry__is_told_of_where_it_is_on():
    table = new_table()
    sent = pickle.dumps(table._log.store)
    ears = Ears()
    ears.enable()
    try:
        list(pickle.loads(sent).list())
        assert ears.count(REQUESTS, verb="list") == 1
    finally:
        telemetry.disable()


# -- processes that others start -------------------------------------------------------------------


def test_environment__names_a_function__is_called_first_and_telemetry_is_on(tmp_path):
    (tmp_path / "told.py").write_text(SET_UP)
    assert run(ON_BY_ENVIRONMENT, path=tmp_path, SILTSTONE_TELEMETRY="told:set_up") == (0, "")


def test_environment__opentelemetry_is_not_installed__warns_with_the_command_and_goes_on():
    assert run(NOT_INSTALLED, SILTSTONE_TELEMETRY="1") == (0, "")


def test_environment__names_nothing_that_is_there__warns_and_goes_on():
    code, told = run("import siltstone.store.connect", SILTSTONE_TELEMETRY="no_such_module:nothing")
    assert code == 0
    assert "SILTSTONE_TELEMETRY is set, and telemetry stays off" in told
    assert "package.module:function" in told


def test_task_of_spark__ends__hands_on_what_it_counted(ears):
    class Flushed(Ears):
        flushes = 0

        def force_flush(self, timeout_ms):
            Flushed.flushes += 1

        def get_meter(self, *given, **more):
            return self.meters.get_meter(*given, **more)

    telemetry.enable(ears.tracers, Flushed())
    _packed(lambda: 7)
    with pytest.raises(ss.errors.UnavailableError):
        _packed(lambda: (_ for _ in ()).throw(ss.errors.UnavailableError("away")))
    assert Flushed.flushes == 2
