"""The fault kit does what it is told to, and nothing else."""

from __future__ import annotations

import pytest

from siltstone.commit.memory import MemoryRegistry, MemoryService
from siltstone.commit.registry import Claim
from siltstone.errors import (
    AlreadyExistsError,
    InvalidInputError,
    PermissionDeniedError,
    StoreFullError,
    UnavailableError,
)
from siltstone.ids import SystemIds
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.testing.expect import raises
from siltstone.testing.registries import FaultRegistry
from siltstone.testing.script import Crashed, Fault
from siltstone.testing.store_suite import StoreSuite
from siltstone.testing.stores import FaultStore, Interleaves


@pytest.fixture
def store():
    return FaultStore(MemoryStore(bucket=MemoryBucket()))


class _Unpickled(StoreSuite):
    """A wrapper is made where it is used; it has no way to another process."""

    def test_pickle__handle__reaches_the_same_objects(self):
        assert self.make()


class TestFaultStoreWithoutScript(_Unpickled):
    def make(self):
        return FaultStore(MemoryStore(bucket=MemoryBucket()))


class TestInterleavesWithoutScript(_Unpickled):
    def make(self):
        return Interleaves(MemoryStore(bucket=MemoryBucket()))


@pytest.mark.parametrize(
    ("fault", "error", "happened"),
    [
        (Fault.REFUSE, UnavailableError, False),
        (Fault.LOSE, UnavailableError, True),
        (Fault.FAIL_AFTER, UnavailableError, True),
        (Fault.EXISTS_OWN, AlreadyExistsError, True),
        (Fault.EXISTS_NOTHING, AlreadyExistsError, False),
        (Fault.CRASH_BEFORE, Crashed, False),
        (Fault.CRASH_AFTER, Crashed, True),
        (Fault.DELAY, UnavailableError, False),
        (Fault.DENY, PermissionDeniedError, False),
        (Fault.FULL, StoreFullError, False),
    ],
)
def test_on__each_fault__raises_its_error_with_or_without_the_effect(store, fault, error, happened):
    store.on("create", fault)
    with pytest.raises(error):
        store.create("a", b"1")
    assert (store.inner.head("a") is not None) is happened
    store.create("b", b"2")
    assert store.get("b") == b"2"


def test_release__delayed_calls__take_effect_in_order(store):
    store.on("put", Fault.DELAY, times=2)
    for data in (b"1", b"2"):
        with pytest.raises(UnavailableError):
            store.put("a", data)
    assert store.head("a") is None
    assert store.release() == 2
    assert store.get("a") == b"2"
    assert store.release() == 0


def test_on__lie__replaces_and_says_yes(store):
    store.create("a", b"1")
    store.on("create", Fault.LIE)
    store.create("a", b"2")
    assert store.get("a") == b"2"
    with pytest.raises(AlreadyExistsError):
        store.create("a", b"3")


def test_on__stale_listing__leaves_out_the_newest(store):
    for key in ("a", "b"):
        store.put(key, b"")
    store.on("list", Fault.STALE)
    assert [info.key for info in store.list()] == ["a"]
    assert [info.key for info in store.list()] == ["a", "b"]


def test_on__nth_of_a_key__hits_that_call_only(store):
    store.on("put", Fault.REFUSE, key="x/", nth=2, times=2)
    outcomes = []
    for key in ("x/1", "y/1", "x/2", "y/2", "x/3", "x/4"):
        try:
            store.put(key, b"")
            outcomes.append("ok")
        except UnavailableError:
            outcomes.append("hit")
    assert outcomes == ["ok", "ok", "hit", "ok", "hit", "ok"]
    assert [call.key for call in store.calls] == ["x/1", "y/1", "x/2", "y/2", "x/3", "x/4"]


@pytest.mark.parametrize(
    ("verb", "fault", "options"),
    [
        ("creat", Fault.LOSE, {}),
        ("get", Fault.LIE, {}),
        ("put", Fault.STALE, {}),
        ("get", Fault.FULL, {}),
        ("put", Fault.EXISTS_OWN, {}),
        ("put", Fault.LOSE, {"nth": 0}),
        ("put", Fault.LOSE, {"times": 0}),
    ],
)
def test_on__what_can_not_happen__is_refused(store, verb, fault, options):
    with pytest.raises(InvalidInputError):
        store.on(verb, fault, **options)


def test_interleaves__before_and_after__run_once_around_the_call():
    inner = MemoryStore(bucket=MemoryBucket())
    store = Interleaves(inner)
    seen = []
    store.before("put", lambda: seen.append(inner.head("a")), key="a")
    store.after("put", lambda: seen.append(inner.head("a").size), key="a")
    store.put("b", b"")
    assert store.pending == 2
    store.put("a", b"123")
    store.put("a", b"1")
    assert seen == [None, 3]
    assert store.pending == 0


def test_interleaves__action_uses_the_same_handle__is_not_counted():
    store = Interleaves(MemoryStore(bucket=MemoryBucket()))
    store.before("create", lambda: store.create("b", b"rival"), nth=2)
    store.create("a", b"1")
    with pytest.raises(AlreadyExistsError):
        store.create("b", b"mine")
    assert store.get("b") == b"rival"
    assert [call.verb for call in store.calls] == ["create", "create", "get"]


def test_interleaves__no_such_verb__is_refused():
    with pytest.raises(InvalidInputError):
        Interleaves(MemoryStore(bucket=MemoryBucket())).before("creat", lambda: None)


def test_fault_registry__claims__go_wrong_as_told():
    claim = Claim("scope", 0, "ab" * 32, "", "x")
    registry = FaultRegistry(MemoryRegistry(MemoryService(), ids=SystemIds()))
    order = []
    registry.before("claim", lambda: order.append(registry.inner.lookup("scope", 0)))
    registry.after("claim", lambda: order.append(registry.inner.lookup("scope", 0)))
    registry.on("claim", Fault.LOSE)
    with pytest.raises(UnavailableError):
        registry.claim(claim)
    assert order == [None, claim]
    assert registry.claim(claim) == claim
    registry.on("claim", Fault.REFUSE, key="/1")
    with pytest.raises(UnavailableError):
        registry.claim(Claim("scope", 1, "cd" * 32, claim.digest, "y"))
    assert registry.lookup("scope", 1) is None


def test_raises__nothing_raised_or_something_else__is_told():
    with pytest.raises(AssertionError, match="KeyError"), raises(KeyError):
        pass
    with pytest.raises(ZeroDivisionError), raises(KeyError):
        _ = 1 / 0
    with raises(KeyError) as caught:
        raise KeyError("x")
    assert caught.error.args == ("x",)
