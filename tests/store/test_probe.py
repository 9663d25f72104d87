"""The probe asks each store once, believes no one else's answer, and leaves nothing behind."""

from __future__ import annotations

import pytest

from siltstone.env import Env
from siltstone.errors import PermissionDeniedError, UnavailableError, UnsafeStoreError
from siltstone.store.connect import open_store
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.store.probe import probe, probe_once
from siltstone.testing.s3server import Faults
from siltstone.testing.script import Fault
from siltstone.testing.stores import FaultStore


def test_probe__honest__says_what_was_asked():
    report = probe(MemoryStore(bucket=MemoryBucket()))
    assert report.safe
    report.require()
    assert [finding.check for finding in report.findings][:2] == ["read after write", "create twice"]


def test_probe__store_forgets_what_was_written__is_unsafe():
    class Forgetful(MemoryStore):
        def create(self, key, data):
            super().create(key, data)
            if key.endswith("twice") and data == b"first":
                self.delete([key])

    with pytest.raises(Exception) as caught:
        probe(Forgetful(bucket=MemoryBucket())).require()
    assert caught.value.kind in {"unsafe-store", "not-found"}


def test_probe__listing_lags__is_unsafe():
    store = FaultStore(MemoryStore(bucket=MemoryBucket()))
    store.on("list", Fault.STALE)
    report = probe(store)
    assert not report.safe
    with pytest.raises(UnsafeStoreError, match="listing"):
        report.require()


@pytest.mark.parametrize(("fault", "kind"), [(Fault.DENY, PermissionDeniedError), (Fault.REFUSE, UnavailableError)])
def test_probe__store_can_not_be_tried__says_so_and_not_that_it_lies(fault, kind):
    store = FaultStore(MemoryStore(bucket=MemoryBucket()))
    store.on("create", fault, times=10**6)
    with pytest.raises(kind):
        probe(store, env=Env(patience_s=0.05))
    assert list(store.inner.list()) == []


@pytest.mark.parametrize("lie", ["always", "check-then-put"])
def test_probe__lying_server__is_found_out_every_time_and_left_clean(places, lie):
    server = places.fault_server(Faults(lie=lie))
    for _ in range(5):
        assert not probe(open_store("s3://bkt/x", server.storage_options)).safe
    assert server.objects() == []


def test_probe_once__same_bucket_name_at_another_endpoint__is_asked_itself(places):
    honest, liar = places.fault_server(), places.fault_server(Faults(lie="always"))
    assert probe_once(open_store("s3://bkt/x", honest.storage_options)).safe
    assert not probe_once(open_store("s3://bkt/x", liar.storage_options)).safe
    before = honest.stats().requests
    assert probe_once(open_store("s3://bkt/other", honest.storage_options)).safe
    assert honest.stats().requests == before


def test_probe_once__two_buckets_without_a_name__each_is_asked_itself():
    class Liar(MemoryStore):
        def create(self, key, data):
            self.put(key, data)

    assert not probe_once(Liar(bucket=MemoryBucket())).safe
    assert probe_once(MemoryStore(bucket=MemoryBucket())).safe
    assert probe_once(MemoryStore()).safe


def test_probe__winner_of_a_race_is_gone__is_unsafe():
    class Losing(MemoryStore):
        def create(self, key, data):
            super().create(key, data)
            if "-race" in key:
                self.delete([key])

    report = probe(Losing(bucket=MemoryBucket()), writers=1)
    assert not report.safe
    assert any("gone" in finding.detail for finding in report.findings if not finding.ok)
