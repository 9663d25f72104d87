"""The writer of a shard in a task, without Spark: others take the shard from it, at any point."""

from __future__ import annotations

import pyarrow as pa
import pytest

import siltstone as ss
from siltstone.errors import FencedError, SchemaMismatchError, UnavailableError
from siltstone.spark import pen as module
from siltstone.spark.ingest import _config
from siltstone.spark.pen import Pen
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.table.once import Once
from siltstone.testing.script import Fault
from siltstone.testing.stores import FaultStore

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.int64())])
JOB = Once(id="job")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(module, "WAIT_FIRST_S", 0.0)


@pytest.fixture
def table(tmp_path):
    with ss.create(tmp_path / "table", schema=SCHEMA, key="id", shards=1) as made:
        yield made


def rows(first: int, count: int = 10, x: int = 0) -> pa.RecordBatch:
    ids = list(range(first, first + count))
    return pa.record_batch([pa.array(ids), pa.array([x] * count, pa.int64())], schema=SCHEMA)


def pen(table, *, once: Once = JOB, name: str = "spark job") -> Pen:
    return Pen(ss.open(table.uri), 0, once=once, config=_config(None, {}), name=name)


def ids(table) -> list[int]:
    return sorted(table.scan(["id"], fresh=True).to_arrow().column("id").to_pylist())


def entries(table) -> int:
    return table.shards()[0].wal_end


def test_pen__put_and_ended__all_rows_are_durable(table):
    with pen(table) as writer:
        for first in range(0, 50, 10):
            writer.put(rows(first))
        assert writer.end() == (50, False)
        assert ids(ss.open(table.uri)) == list(range(50))


def test_pen__its_job_was_done_before__puts_nothing(table):
    for before in (False, True):
        with pen(table) as writer:
            writer.put(rows(0))
            writer.put(rows(10))
            assert writer.end() == (20, before)
            if not before:
                end = entries(table)
    assert entries(table) == end + 1  # the fence of the second
    assert ids(table) == list(range(20))


def test_pen__its_batch_or_a_later_one_was_done__puts_nothing(table):
    for batch, x, before in ((3, 1, False), (3, 2, True), (2, 3, True), (4, 4, False)):
        with pen(table, once=Once(stream="s", batch=batch)) as writer:
            writer.put(rows(0, x=x))
            assert writer.end() == (10, before)
    assert set(table.scan(["x"], fresh=True).to_arrow()["x"].to_pylist()) == {4}


def test_pen__no_rows__takes_nothing_over(table):
    with pen(table) as writer:
        writer.put(rows(0, 0))
        assert writer.end() == (0, False)
    assert entries(table) == 0


@pytest.mark.parametrize("at", ["begin", "middle", "end"])
def test_pen__another_writer_takes_the_shard__rows_of_both_are_there(table, at):
    with pen(table) as writer:
        if at == "begin":
            other = _other(table, 100)
        writer.put(rows(0))
        writer.put(rows(10))
        if at == "middle":
            other = _other(table, 100)
        writer.put(rows(20))
        writer.put(rows(30))
        if at == "end":
            other = _other(table, 100)
        assert writer.end() == (40, False)
    assert ids(table) == [*range(40), *range(100, 110)]
    with pytest.raises(FencedError):
        other.put(rows(0))


def _other(table, first: int):
    other = ss.open(table.uri).shard(0).writer(name="other")
    other.put(rows(first))
    return other


def test_pen__two_attempts_of_one_task_in_turns__one_ends_and_the_other_stops(table):
    one, other = pen(table), pen(table)
    with one, other:
        for first in range(0, 40, 10):
            one.put(rows(first))
            other.put(rows(first))
        assert one.end() == (40, False)
        end = entries(table)
        later = _other(table, 0)  # newer rows of another, which the second attempt must not cover
        later.put(rows(0, x=7))
        assert other.end() == (40, False)
    assert entries(table) == end + 4  # two fences, two puts of the other
    assert ids(table) == list(range(40))
    assert table.count("x = 7", fresh=True) == 10


class Fought(Pen):
    """A pen whose shard is taken by another whenever it has it."""

    by = ""

    def _take_over(self):
        writer = super()._take_over()
        ss.open(self._table.uri).shard(0).writer(name=self.by).put(rows(100))
        return writer


@pytest.mark.parametrize(("by", "error"), [("other", FencedError), ("spark job", UnavailableError)])
def test_pen__fenced_without_end__the_job_fails_or_the_attempt_where_it_was_its_own_job(table, monkeypatch, by, error):
    monkeypatch.setattr(module, "FIGHTS_MAX", 3)
    monkeypatch.setattr(Fought, "by", by)
    with Fought(ss.open(table.uri), 0, once=JOB, config=_config(None, {}), name="spark job") as writer:
        writer.put(rows(0))
        with pytest.raises(error, match="shard 0 was taken over 4 times by others") as caught:
            writer.end()
    assert "one job at a time" in caught.value.hint
    assert ids(table) == list(range(100, 110))


def test_pen__its_writer_was_stopped__the_task_is_to_run_again():
    store = FaultStore(MemoryStore(bucket=MemoryBucket()))
    table = ss.create(store, schema=SCHEMA, key="id", shards=1, probe=False)
    with Pen(table, 0, once=JOB, config=_config(None, {}), name="spark job") as writer:
        writer.put(rows(0))
        writer.put(rows(10))  # the writer is open
        store.on("create", Fault.DENY, key="/wal/entries/", times=1000)
        with pytest.raises(UnavailableError, match="the writer was stopped"):
            writer.end()
    store.script.clear()
    with Pen(table, 0, once=JOB, config=_config(None, {}), name="spark job") as writer:
        writer.put(rows(0, 20))
        assert writer.end() == (20, False)
    assert ids(table) == list(range(20))


def test_pen__rows_that_do_not_fit__are_refused(table):
    with pen(table) as writer:
        writer.put(pa.record_batch([pa.array([1])], names=["wrong"]))
        with pytest.raises(SchemaMismatchError):
            writer.end()
    assert ids(table) == []
