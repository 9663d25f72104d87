"""A store whose create-if-absent is a lie: found by the probe, told by the witness, harmless with a commit store."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import siltstone as ss
from clone_worlds import SCHEMA, content, numbered, rows_of
from siltstone.commit.memory import MemoryRegistry, MemoryService
from siltstone.env import Env
from siltstone.errors import AlreadyExistsError, CorruptionError, SiltstoneError, UnsafeStoreError
from siltstone.ids import SystemIds
from siltstone.log import open_log
from siltstone.store import probe as probe_module
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.store.probe import probe
from siltstone.store.wrapper import StoreWrapper
from siltstone.testing.s3server import Faults
from siltstone.testing.script import Fault
from siltstone.testing.stores import FaultStore, Interleaves
from worlds import World


class Gateway(StoreWrapper):
    """Looks whether the object is there, and writes a moment later: the window that two writers fit through."""

    def __init__(self, inner, width: int = 2):
        super().__init__(inner)
        self._window = threading.Barrier(width, timeout=0.05)

    def create(self, key, data):
        if self.inner.head(key) is not None:
            raise AlreadyExistsError(f"{key} is there", object=key)
        try:
            self._window.wait()
        except threading.BrokenBarrierError:
            self._window.reset()
        self.inner.put(key, data)


def liar(bucket=None):
    store = FaultStore(MemoryStore(bucket=bucket or MemoryBucket()))
    store.uri = f"memory://{SystemIds().new()}"  # a probe's verdict is remembered by place
    store.traits = store.traits._replace(known_good=False)
    store.on("create", Fault.LIE, times=10**6)
    return store


def test_probe__store_always_lies__is_refused_with_the_remedy():
    report = probe(liar())
    assert not report.safe
    with pytest.raises(UnsafeStoreError, match="second create was accepted") as caught:
        report.require()
    assert "commits=" in caught.value.hint


def test_probe__gateway_that_checks_then_puts__is_refused():
    report = probe(Gateway(MemoryStore(bucket=MemoryBucket())))
    assert not report.safe
    assert any(finding.check.startswith("race") and not finding.ok for finding in report.findings)


def test_probe__honest_store__is_safe_and_leaves_nothing():
    store = MemoryStore(bucket=MemoryBucket())
    assert probe(store).safe
    assert list(store.list()) == []


def test_open_log__store_lies__nothing_but_the_probe_is_written():
    store = liar()
    with pytest.raises(UnsafeStoreError):
        open_log(store, create=True)
    assert list(store.list()) == []


def test_open_log__store_began_to_lie_after_the_log_was_made__first_write_is_refused():
    bucket = MemoryBucket()
    open_log(MemoryStore(bucket=bucket), create=True, probe=False).add(b"one")
    with pytest.raises(UnsafeStoreError):
        open_log(liar(bucket)).add(b"two")
    assert [entry.body for entry in open_log(MemoryStore(bucket=bucket)).entries()] == [b"one"]


# Where the rival's whole append comes: before our create overwrites it, or after it, around our witness.
POINTS = {
    "before the entry": ("create", "entries/"),
    "before the witness": ("put", "witness/"),
    "before the look": ("list", "witness/"),
}


@pytest.mark.parametrize("point", POINTS)
def test_append__store_lets_two_win__at_most_one_is_acknowledged(point):
    world = World("witness").seeded()

    def lying():
        store = FaultStore(world.store())
        store.on("create", Fault.LIE, key=f"entries/{3:020d}", times=10**6)
        return store

    store = Interleaves(lying())
    one, two = world.open(store), world.open(lying())
    tip = one.tip()
    verb, key = POINTS[point]
    store.before(verb, lambda: world.append(two, tip, b"rival"), key=key)
    told = world.append(one, tip, b"mine")
    acknowledged = [mark for mark in world.acknowledged.values() if mark.position == 4]
    loud = [error for error in world.refused.values() if isinstance(error, UnsafeStoreError)]
    assert len(acknowledged) <= 1
    assert len(acknowledged) + len(loud) == 2
    assert isinstance(told, UnsafeStoreError)
    # Whoever opens the log next is told too, before anything is put on top of it.
    with pytest.raises(UnsafeStoreError):
        world.open().add(b"next")


def test_add__store_lies_to_many_threads_behind_witnesses__acknowledged_or_loud():
    bucket = MemoryBucket()
    env = Env(patience_s=2)
    open_log(MemoryStore(bucket=bucket), create=True, probe=False, guard="witness")
    acknowledged, loud = [], []

    def work(writer):
        store = Gateway(MemoryStore(bucket=bucket))
        log = open_log(store, probe=False, env=env)
        for number in range(5):
            try:
                acknowledged.append((log.add(b"%d-%d" % (writer, number)), b"%d-%d" % (writer, number)))
            except SiltstoneError as error:
                loud.append(error)
                return

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    positions = [mark.position for mark, _ in acknowledged]
    assert len(positions) == len(set(positions)), "two writers were told that one place is theirs"
    assert acknowledged or loud


@pytest.mark.parametrize("lie", ["always", "gateway"])
def test_add__store_lies_but_a_commit_store_decides__nothing_is_lost(lie):
    bucket, service = MemoryBucket(), MemoryService()

    def store():
        plain = liar(bucket)
        plain.script.clear()
        if lie == "gateway":
            return Gateway(plain)
        plain.on("create", Fault.LIE, times=10**9)
        return plain

    def open_one():
        registry = MemoryRegistry(service, ids=SystemIds())
        return open_log(store(), commits=registry, create=True, env=Env(patience_s=60))

    open_one()

    def work(writer):
        log = open_one()
        return [log.add(b"%d-%d" % (writer, number)) for number in range(10)]

    with ThreadPoolExecutor(4) as pool:
        marks = [mark for found in pool.map(work, range(4)) for mark in found]
    log = open_one()
    assert log.identity.publish == "fork"
    assert [entry.end for entry in log.entries()] == sorted(marks)
    assert len(marks) == 40


def test_check_receipt__entry_was_overwritten_later__holder_is_told():
    world = World("conditional").seeded()
    log = world.open()
    mark = world.add(log, b"mine")
    key = f"entries/{mark.position - 1:020d}"
    world.store().put(key, world.store().get(f"entries/{0:020d}"))
    with pytest.raises((UnsafeStoreError, CorruptionError)):
        log.close()


def test_clone__the_tables_store_lies_by_now__names_the_table_and_nothing_is_begun(places, tmp_path):
    server = places.fault_server(Faults())
    reach = {"storage_options": server.storage_options}
    ss.create("s3://bkt/table", schema=SCHEMA, key="id", **reach).append(rows_of(numbered(0, 3)))
    server.set(Faults(lie="always"))
    probe_module._probed.clear()  # another process would find out
    table = ss.open("s3://bkt/table", **reach)
    before = server.objects()
    with pytest.raises(UnsafeStoreError, match="s3://bkt/table can't decide") as caught:
        table.clone("s3://bkt/clone", commits=f"sqlite:{tmp_path}/claims.db", **reach)
    assert "docs/how-to/recover.md" in caught.value.hint
    assert server.objects() == before
    copy = ss.create("s3://bkt/copy", schema=table.schema, key="id", commits=f"sqlite:{tmp_path}/claims.db", **reach)
    copy.append(table.scan().to_batches())
    assert content(copy) == content(table) == numbered(0, 3)
