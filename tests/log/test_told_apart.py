"""Logs whose surroundings are not what they say: another commit store or none, two identities, a floor of elsewhere."""

from __future__ import annotations

import pytest

from siltstone import paths
from siltstone.commit.registry import Claim
from siltstone.errors import CommitUnknownError, CorruptionError, SplitHistoryError, WrongCommitStoreError
from siltstone.log import open_log
from worlds import World


def test_open__identity_was_published_twice__is_a_split_history():
    world = World("fork").seeded(1)
    [key] = [info.key for info in world.store().list(paths.IDENTITY)]
    world.store().put(f"{paths.IDENTITY}/{'ab' * 16}", world.store().get(key))
    with pytest.raises(SplitHistoryError, match="was published 2 times"):
        world.open(create=False)


def test_open__commit_store_given_for_a_log_that_its_store_decides__is_refused():
    world = World("conditional").seeded(1)
    with pytest.raises(WrongCommitStoreError, match="decided by its object store, not by memory"):
        open_log(world.store(), commits=world.registry(), probe=False, env=world.env())


def test_open__commit_store_of_another_kind__is_refused_with_the_one_to_give(tmp_path):
    world = World("external").seeded(1)
    with pytest.raises(WrongCommitStoreError, match="decided by a memory commit store, not by sqlite"):
        open_log(world.store(), commits=f"sqlite:///{tmp_path}/claims.db", probe=False, env=world.env())


@pytest.mark.parametrize(
    "call",
    [
        lambda registry, _: registry.identity(),
        lambda registry, claim: registry.claim(claim),
        lambda registry, claim: registry.restore(claim),
        lambda registry, claim: registry.newest(claim.scope),
        lambda registry, claim: registry.truncate(claim.scope, below=1, digest=claim.digest),
        lambda registry, _: registry.adopt("a" * 32),
    ],
    ids=["identity", "claim", "restore", "newest", "truncate", "adopt"],
)
def test_no_commit_store_given__whatever_would_decide__is_refused_and_reading_is_not(call):
    world = World("external").seeded(2)
    log = open_log(world.store(), probe=False, env=world.env())
    assert len(list(log.entries())) == 2
    with pytest.raises(WrongCommitStoreError, match="none was given"):
        call(log.commits.registry, Claim(log.scope, 2, "a" * 64, log.tip().digest, "staged/x"))


def test_first__the_floor_is_that_of_another_position__is_damage_and_not_a_beginning():
    world = World("conditional").seeded(4)
    log = world.open()
    ends = [entry.end for entry in log.entries()]
    log.truncate(ends[1])
    world.store().put(paths.floor("", 3), world.store().get(paths.floor("", 2)))
    with pytest.raises(CorruptionError, match="is the floor 2 of log"):
        world.open().first()
    assert log.floor_mark(0) == log.start


def test_add__run_again_and_its_entry_goes_once_it_was_found__is_unknown_and_not_acknowledged(monkeypatch):
    world = World("witness").seeded(2)
    op = world.new_op()
    end = world.open().add(b"mine", op=op)
    log = world.open()
    search = log._search

    def found_and_gone(*arguments):
        found = search(*arguments)
        world.store().delete([paths.entry("", end.position - 1)])
        return found

    monkeypatch.setattr(log, "_search", found_and_gone)
    with pytest.raises(CommitUnknownError, match="gone again") as caught:
        log.add(b"mine", op=op)
    assert caught.value.facts["op"] == op
