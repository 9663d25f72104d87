"""Create-if-absent as the judge: "refused" does not say who won, and a lost answer never becomes a "no"."""

from __future__ import annotations

import pytest

from siltstone.commit.base import Place
from siltstone.commit.conditional import ConditionalPut
from siltstone.errors import CommitUnknownError, PermissionDeniedError, StoreFullError
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.testing.manual import manual_env
from siltstone.testing.script import Fault
from siltstone.testing.stores import FaultStore

PLACE = Place("entries/7", "log", 7)
FOR_EVER = 10**6


@pytest.fixture
def store():
    return FaultStore(MemoryStore(bucket=MemoryBucket()))


@pytest.fixture
def judge(store):
    return ConditionalPut(store, manual_env(patience_s=3))


def test_decide__free__is_mine(judge, store):
    assert judge.decided(PLACE) is None
    assert judge.decide(PLACE, b"mine") == b"mine"
    assert judge.decided(PLACE) == b"mine"


def test_decide__taken__is_theirs(judge, store):
    store.inner.create(PLACE.key, b"theirs")
    assert judge.decide(PLACE, b"mine") == b"theirs"


@pytest.mark.parametrize("fault", [Fault.LOSE, Fault.FAIL_AFTER, Fault.REFUSE, Fault.EXISTS_OWN, Fault.EXISTS_NOTHING])
def test_decide__first_answer_goes_wrong__is_mine(judge, store, fault):
    store.on("create", fault)
    assert judge.decide(PLACE, b"mine") == b"mine"
    assert store.inner.get(PLACE.key) == b"mine"


@pytest.mark.parametrize(("fault", "kind"), [(Fault.DENY, PermissionDeniedError), (Fault.FULL, StoreFullError)])
def test_decide__refused_for_good_at_once__is_said_as_it_is(judge, store, fault, kind):
    store.on("create", fault)
    with pytest.raises(kind):
        judge.decide(PLACE, b"mine")
    assert judge.decided(PLACE) is None


@pytest.mark.parametrize("then", [Fault.DENY, Fault.FULL])
@pytest.mark.parametrize("first", [Fault.LOSE, Fault.DELAY, Fault.REFUSE])
def test_decide__refused_for_good_after_a_lost_answer__is_unknown(judge, store, first, then):
    store.on("create", first)
    store.on("create", then, nth=2, times=FOR_EVER)
    with pytest.raises(CommitUnknownError) as caught:
        judge.decide(PLACE, b"mine")
    assert caught.value.facts["position"] == 7


@pytest.mark.parametrize("first", [Fault.LOSE, Fault.EXISTS_OWN])
def test_decide__place_may_not_be_read_after_a_refusal__is_unknown(judge, store, first):
    store.on("create", first)
    store.on("get", Fault.DENY, times=FOR_EVER)
    with pytest.raises(CommitUnknownError):
        judge.decide(PLACE, b"mine")
    assert store.inner.get(PLACE.key) == b"mine"


@pytest.mark.parametrize("fault", [Fault.REFUSE, Fault.LOSE, Fault.DELAY, Fault.EXISTS_NOTHING])
def test_decide__store_stays_away__is_unknown_in_bounded_time(judge, store, fault):
    store.on("create", fault, times=FOR_EVER)
    store.on("get", Fault.REFUSE, times=FOR_EVER)
    with pytest.raises(CommitUnknownError):
        judge.decide(PLACE, b"mine")
    assert 2 <= sum(call.verb == "create" for call in store.calls) < 200


def test_decide__tried_again__sends_the_same_bytes_to_the_same_key(judge, store):
    sent = []
    inner = store.inner.create
    store.inner.create = lambda key, data: (sent.append((key, data)), inner(key, data))
    store.on("create", Fault.LOSE, times=3)
    assert judge.decide(PLACE, b"mine") == b"mine"
    assert set(sent) == {(PLACE.key, b"mine")}


def test_decide__first_put_arrives_late__place_keeps_its_bytes(judge, store):
    store.on("create", Fault.DELAY)
    assert judge.decide(PLACE, b"mine") == b"mine"
    assert store.release() == 1
    assert store.inner.get(PLACE.key) == b"mine"
