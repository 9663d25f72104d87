"""Stage, claim, publish: what each step leaves behind, and who may finish it."""

from __future__ import annotations

import pytest

from siltstone import paths
from siltstone.commit.base import Place
from siltstone.commit.external import External, abort_entry, aborts
from siltstone.commit.memory import MemoryRegistry, MemoryService
from siltstone.commit.registry import Claim
from siltstone.errors import CommitUnknownError, CorruptionError, SplitHistoryError
from siltstone.format.frame import digest
from siltstone.format.records import decode_entry
from siltstone.ids import SystemIds
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.testing.manual import manual_env
from siltstone.testing.registries import FaultRegistry
from siltstone.testing.script import Fault
from siltstone.testing.stores import FaultStore

LOG = "ab" * 16
MODES = ["create", "fork"]


def place(position=0, prev=""):
    return Place(paths.entry("", position), LOG, position, prev, "", LOG, 0)


class Parties:
    """One store and one service, and as many deciders as a test wants."""

    def __init__(self, publish):
        self.publish = publish
        self.store = FaultStore(MemoryStore(bucket=MemoryBucket()))
        self.service = MemoryService()
        self.registry = FaultRegistry(MemoryRegistry(self.service, ids=SystemIds()))

    def decider(self, seed):
        return External(self.store, self.registry, publish=self.publish, env=manual_env(seed, patience_s=3))

    def keys(self, prefix=""):
        return [info.key for info in self.store.inner.list(prefix)]


@pytest.fixture(params=MODES)
def parties(request):
    return Parties(request.param)


def test_decide__free__is_published_and_the_staged_bytes_are_gone(parties):
    judge = parties.decider(1)
    assert judge.decided(place()) is None
    assert judge.decide(place(), b"mine") == b"mine"
    assert judge.decided(place()) == b"mine"
    assert parties.keys("staged") == []
    [key] = parties.keys("entries")
    assert key == paths.entry("", 0) + (f"/{digest(b'mine')[:32]}" if parties.publish == "fork" else "")


def test_decide__taken__is_theirs_and_the_losers_bytes_are_gone(parties):
    one, two = parties.decider(1), parties.decider(2)
    one.decide(place(), b"one")
    assert two.decide(place(), b"two") == b"one"
    assert parties.keys("staged") == []
    assert len(parties.keys("entries")) == 1


def test_decide__claimed_by_one_that_died__is_published_for_it(parties):
    one, two = parties.decider(1), parties.decider(2)
    staged = paths.staged("", 0, "c" * 32)
    parties.store.inner.put(staged, b"one")
    parties.registry.inner.claim(Claim(LOG, 0, digest(b"one"), "", staged))
    assert two.decide(place(), b"two") == b"one"
    assert one.decided(place()) == b"one"
    assert parties.keys("staged") == []


def test_decide__staged_bytes_are_not_what_was_claimed__is_refused(parties):
    staged = paths.staged("", 0, "c" * 32)
    parties.store.inner.put(staged, b"other bytes")
    parties.registry.inner.claim(Claim(LOG, 0, digest(b"one"), "", staged))
    with pytest.raises(CorruptionError, match="digest"):
        parties.decider(2).decide(place(), b"two")
    assert parties.keys("entries") == []


@pytest.mark.parametrize("fault", [Fault.DENY, Fault.FULL, Fault.REFUSE])
def test_decide__published_by_nobody_after_the_claim__is_unknown_never_a_no(parties, fault):
    verb = "create" if parties.publish == "create" else "put"
    parties.store.on(verb, fault, key="entries/", times=10**6)
    with pytest.raises(CommitUnknownError):
        parties.decider(1).decide(place(), b"mine")
    parties.store.script.clear()
    assert parties.decider(2).decided(place()) == b"mine"


@pytest.mark.parametrize("fault", [Fault.LOSE, Fault.FAIL_AFTER, Fault.REFUSE, Fault.DELAY])
def test_decide__answer_to_the_claim_is_lost__is_mine(parties, fault):
    parties.registry.on("claim", fault)
    assert parties.decider(1).decide(place(), b"mine") == b"mine"
    parties.registry.release()
    assert parties.decider(2).decide(place(), b"two") == b"mine"


def test_decide__claim_refused_for_good_after_a_lost_answer__is_unknown(parties):
    parties.registry.on("claim", Fault.LOSE)
    parties.registry.on("claim", Fault.DENY, nth=2, times=10**6)
    with pytest.raises(CommitUnknownError):
        parties.decider(1).decide(place(), b"mine")
    assert parties.keys("staged"), "staged bytes must stay while their claim may stand"


def test_decide__staging_fails__nothing_is_claimed(parties):
    parties.store.on("put", Fault.DENY)
    with pytest.raises(Exception, match="scripted"):
        parties.decider(1).decide(place(), b"mine")
    assert not parties.service.claims


def test_published__two_by_fork__is_loud():
    parties = Parties("fork")
    for nonce in ("a" * 32, "b" * 32):
        parties.store.inner.put(paths.entry("", 0, nonce), nonce.encode())
    with pytest.raises(SplitHistoryError, match="2 times"):
        parties.decider(1).decided(place())


def test_decide__another_published_by_fork_meanwhile__is_loud_and_not_acknowledged():
    parties = Parties("fork")
    parties.store.inner.put(paths.entry("", 0, "a" * 32), b"from a registry that forgot")
    with pytest.raises(SplitHistoryError):
        parties.decider(1).decide(place(), b"mine")


def test_abort_entry__made_by_anyone__is_the_same_bytes_and_names_its_claim():
    claim = Claim(LOG, 4, "ef" * 32, "cd" * 32, paths.staged("", 4, "a" * 32))
    spot = place(4, "cd" * 32)
    data = abort_entry(spot, claim)
    assert data == abort_entry(spot, claim)
    header, _ = decode_entry(data, name="it")
    assert (header.kind, header.position, header.prev) == ("abort", 4, "cd" * 32)
    assert aborts(data, claim)
    assert not aborts(data, Claim(LOG, 4, "00" * 32, "cd" * 32, claim.value))
