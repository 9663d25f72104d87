"""Eight processes add to one log at the same time: nothing is lost, nothing is there twice, nobody is turned away."""

from __future__ import annotations

import pytest

import crowd
import figures
from places import REGISTRIES, STORES, StorePlace
from siltstone.errors import SiltstoneError, UnsafeStoreError
from siltstone.log import open_log
from siltstone.testing.s3server import Faults
from siltstone.verify import verify

WRITERS = 8
ADDS = 25
SERVED = [name for name in STORES if name != "memory"]
EXTERNAL = [name for name in REGISTRIES if name != "memory"]


def compete(place, commits=None, **options):
    """Make the log, let eight writers loose on it, and return what they were told and what is there."""
    made = open_log(place.uri, storage_options=place.options or None, commits=commits, create=True, **options)
    made.close()
    asked = {"uri": place.uri, "options": place.options, "commits": commits, "adds": ADDS, "open": options}
    told = crowd.run(asked, writers=WRITERS)
    figures.record("acknowledged under load", len(told.acknowledged))
    return told, made


def check_all_there(told, log):
    assert told.errors == []
    found = [tuple(entry.end)[::2] for entry in log.entries()]
    assert len(found) == WRITERS * ADDS
    assert told.ends == found


@pytest.mark.parametrize("name", SERVED)
def test_add__many_processes_and_the_store_decides__each_is_there_once(places, name):
    check_all_there(*compete(places.store(name)))


@pytest.mark.parametrize("name", EXTERNAL)
def test_add__many_processes_and_a_commit_store_decides__each_is_there_once(places, name):
    check_all_there(*compete(places.store("file"), places.commits_uri(name)))


@pytest.mark.parametrize("faults", [{}, {"status_after_effect": 503}], ids=["no answer", "503"])
def test_add__many_processes_and_answers_are_lost__each_is_there_once(places, faults):
    server = places.fault_server()
    place = StorePlace("s3://bkt/log", server.storage_options)
    open_log(place.uri, storage_options=place.options, create=True, probe=False)
    server.set(Faults(lose_answer_every=7, **faults))
    told, log = compete(place, probe=False)
    server.set(Faults())
    check_all_there(told, log)


@pytest.mark.parametrize(
    ("lie", "commits"),
    [*(("always", name) for name in EXTERNAL), ("check-then-put", "sqlite"), ("check-then-put", "redis")],
)
def test_add__many_processes_on_a_lying_store_behind_a_commit_store__each_is_there_once(places, lie, commits):
    server = places.fault_server(Faults(lie=lie))
    place = StorePlace("s3://bkt/log", server.storage_options)
    told, log = compete(place, places.commits_uri(commits))
    assert log.identity.publish == "fork"
    check_all_there(told, log)


@pytest.mark.parametrize("lie", ["always", "check-then-put"])
def test_open_log__lying_store_without_a_commit_store__is_refused_and_left_empty(places, lie):
    server = places.fault_server(Faults(lie=lie))
    for _ in range(5):
        with pytest.raises(UnsafeStoreError) as caught:
            open_log("s3://bkt/log", storage_options=server.storage_options, create=True)
        assert "commits=" in caught.value.hint
    assert server.objects() == []


@pytest.mark.parametrize("lie", ["always", "check-then-put"])
def test_add__many_processes_on_a_lying_store_behind_witnesses__kept_or_told_aloud(places, lie):
    server = places.fault_server(Faults(lie=lie))
    place = StorePlace("s3://bkt/log", server.storage_options)
    told, log = compete(place, probe=False, guard="witness")
    positions = [position for position, _ in told.ends]
    assert len(positions) == len(set(positions)), "two writers were told that one place is theirs"
    try:
        there = {tuple(entry.end)[::2] for entry in log.entries()}
    except SiltstoneError:
        there = set()
    lost = set(told.ends) - there
    loud = {line["error"] for line in told.errors} & {"unsafe-store", "corruption"}
    assert loud or not lost, "an acknowledged operation is gone and nobody was told"
    if lost:
        [report] = verify(place.uri, storage_options=place.options)
        assert report.problems
