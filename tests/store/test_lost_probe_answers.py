"""A probe whose own create took effect without an answer does not take its object for another's."""

from __future__ import annotations

import pytest

from siltstone.errors import SiltstoneError, UnavailableError
from siltstone.log import open_log
from siltstone.store.connect import open_store
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.store.probe import probe
from siltstone.testing.s3server import Faults
from siltstone.testing.script import Fault
from siltstone.testing.stores import FaultStore
from worlds import attempt


@pytest.mark.parametrize("status", [0, 500, 503])
def test_probe__answer_of_one_create_is_lost__store_is_safe(places, status):
    faults = Faults(lose_answer_match="_siltstone_probe", lose_answer_max=1, status_after_effect=status)
    server = places.fault_server(faults)
    store = open_store("s3://bkt/x", server.storage_options)
    assert probe(store).safe
    assert server.objects() == []


def test_open_log__answer_of_the_probes_create_is_lost__log_is_made(places):
    server = places.fault_server(
        Faults(lose_answer_match="_siltstone_probe", lose_answer_max=1, status_after_effect=500)
    )
    log = open_log("s3://bkt/log", create=True, storage_options=server.storage_options)
    assert log.add(b"x").position == 1


@pytest.mark.parametrize("fault", [Fault.LOSE, Fault.FAIL_AFTER, Fault.EXISTS_OWN])
@pytest.mark.parametrize("nth", [1, 2, 3, 11])
def test_probe__any_create_met_a_lost_answer__is_safe_or_could_not_be_tried(fault, nth):
    store = FaultStore(MemoryStore(bucket=MemoryBucket()))
    store.on("create", fault, nth=nth)
    told = attempt(probe, store)
    assert isinstance(told, UnavailableError) if isinstance(told, SiltstoneError) else told.safe
    assert list(store.inner.list()) == []
