"""Collection on the stores that people have, with a commit store, and beside work that many processes prepare."""

from __future__ import annotations

import os
import time
import uuid

import pytest

import siltstone as ss
from gc_models import DAY_S, told
from row_tables import in_order
from shard_models import SCHEMA, content, plain, rows_of
from siltstone import paths
from siltstone.api.staging import Staging
from siltstone.cli import main
from siltstone.commit.memory import MemoryRegistry, MemoryService
from siltstone.errors import ConflictError
from siltstone.ids import SystemIds
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.table.history import History
from siltstone.table.operations import Append
from siltstone.table.staged import gather, stage_rows
from siltstone.testing.manual import ManualClock, manual_env


def fill(table):
    """Versions with something to let go of; what the newest has."""
    table.append(rows_of({id_: id_ for id_ in range(10)}))
    table.tag("first")
    table.upsert(rows_of({3: 30, 11: 11}))
    table.compact()
    table.overwrite(rows_of({1: 1, 2: 2}))
    table.delete("id = 2")
    return {1: 1}


def check(table, again):
    """A collection leaves what is kept, and nothing else of what it may remove."""
    before = content(table.at(tag="first").scan())
    told_ = table.gc(keep_days=0, dry_run=True)
    done = table.gc(keep_days=0)
    assert done.left == ()
    assert done.objects["fragment"] == told_.objects["fragment"] > 0
    other = again()
    assert content(other.scan()) == plain({1: 1})
    assert content(other.at(tag="first").scan()) == before
    other.upsert(rows_of({9: 9}))
    assert content(table.scan()) == plain({1: 1, 9: 9})
    assert table.gc(keep_days=0).left == ()
    assert content(again().scan()) == plain({1: 1, 9: 9})


@pytest.mark.parametrize("store", ["memory", "file", "seaweedfs"])
def test_gc__on_a_store__removes_what_it_may(places, store):
    place = places.store(store)
    options = {"storage_options": place.options or None}
    with ss.create(place.uri, schema=SCHEMA, key="id", **options) as table:
        fill(table)
        check(table, lambda: ss.open(place.uri, **options))
        found = {info.key for info in table._log.store.list() if info.key.startswith(("data/", "vectors/"))}
        history, state = table._history, table._now()
        needed = set()
        for version in (*range(state.floor, state.version + 1), *state.kept):
            for live in history.at(version).fragments:
                needed.add(paths.data(live.fragment.name))
                needed |= {paths.vectors(live.vector.name)} if live.vector else set()
        assert found == needed
    reports = ss.verify(place.uri, **options)
    assert all(report.ok for report in reports)


class Decided:
    """A table whose versions a commit store decides, in memory."""

    def __init__(self, *, known_good):
        self.bucket, self.service, self.clock = MemoryBucket(), MemoryService(), ManualClock()
        self.known_good = known_good
        self.number = 0

    def store(self):
        store = MemoryStore(bucket=self.bucket, clock=self.clock)
        store.traits = store.traits._replace(known_good=self.known_good)
        return store

    def options(self):
        self.number += 1
        commits = MemoryRegistry(self.service, ids=SystemIds())
        return {"commits": commits, "probe": False, "env": manual_env(self.number, clock=self.clock)}


@pytest.mark.parametrize("known_good", [True, False], ids=["published by create", "published by fork"])
def test_gc__versions_decided_by_a_commit_store__are_collected_too(known_good):
    world = Decided(known_good=known_good)
    table = ss.create(world.store(), schema=SCHEMA, key="id", **world.options())
    assert table._log.identity.publish == ("create" if known_good else "fork")
    fill(table)
    world.clock.advance(8 * DAY_S)
    newest = table.version
    assert table.gc(keep_days=7, dry_run=True).floor == newest
    check(table, lambda: ss.open(world.store(), **world.options()))
    table.untag("first")
    for _ in range(3):
        world.clock.advance(8 * DAY_S)
        assert table.gc(keep_days=0).left == ()
    state = table._now()
    positions = {int(key.split("/")[2]) for key in world.bucket.keys if key.startswith("log/entries/")}
    assert min(positions) == state.oldest > 5
    other = ss.open(world.store(), **world.options())
    assert other.append(rows_of({50: 50})).version == state.version + 1
    assert table.count() == 3


def test_gc__proposals_that_were_left_behind__go_after_a_day_once_their_place_is_published():
    world = Decided(known_good=True)
    table = ss.create(world.store(), schema=SCHEMA, key="id", **world.options())
    fill(table)
    end = table._now().mark.position
    decided, ahead = (paths.staged(paths.LOG, position, "ab" * 16) for position in (end - 1, end + 1))
    for key in (decided, ahead, f"{paths.PROBE}/x-twice"):
        world.store().put(key, b"x")
    table.gc()
    assert world.store().head(decided)
    world.clock.advance(1.5 * DAY_S)
    told_ = table.gc(dry_run=True)
    assert {one.kind for one in told_.doomed} == {"staged", "probe"}
    table.gc()
    assert not world.store().head(decided)
    assert not world.store().head(f"{paths.PROBE}/x-twice")
    assert world.store().head(ahead)


def test_gc__unfinished_files__go_after_a_day(tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA, key="id")
    fill(table)
    old, young = (tmp_path / "t" / "data" / f".siltstone-{name}" for name in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"half a file")
    past = time.time() - 2 * DAY_S
    os.utime(old, (past, past))
    doomed = table.gc(dry_run=True).doomed
    assert [(one.key, one.kind) for one in doomed] == [("data/.siltstone-old", "unfinished")]
    assert old.exists()
    assert table.gc().objects == {"unfinished": 1}
    assert not old.exists()
    assert young.exists()


def test_staged_write__outlived_the_floor__is_refused_and_names_nothing(tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA, key="id")
    fill(table)
    staging = Staging(ss.open(tmp_path / "t"))
    inserted = gather(
        staging.tools, staging.state.schema, [stage_rows(staging.site, rows_of({70: 70}), twice="refuse")]
    )
    table.append(rows_of({80: 80}))
    table.gc(keep_days=0)
    result = told(lambda: staging.commit([Append(inserted)]))
    assert isinstance(result, ConflictError), result
    assert result.facts["floor"] > staging.state.version
    assert in_order(table.scan(["id"]).to_arrow().to_pylist()) == [{"id": 1}, {"id": 80}]
    table.append(rows_of({81: 81}))
    table.gc(keep_days=0)
    names = {live.fragment.name for live in History(table._log).newest().fragments}
    assert not {one.name for one in inserted.fragments} & names
    assert not {paths.data(one.name) for one in inserted.fragments} & {one.key for one in table._log.store.list("data")}


def test_verify__log_without_its_beginning__is_content():
    name, clock = f"gc-{uuid.uuid4().hex}", ManualClock()
    table = ss.create(MemoryStore(name, clock=clock), schema=SCHEMA, key="id", probe=False, env=manual_env(clock=clock))
    for number in range(80):
        table.upsert(rows_of({number % 7: number}))
    table.compact()
    for _ in range(3):
        clock.advance(8 * DAY_S)
        table.gc(keep_days=0)
    assert table._log.first().position > 70
    assert main(["verify", f"memory://{name}", "--deep"]) == 0
    table._log.store.delete([key for key in MemoryStore(name).bucket.keys if key.startswith("data/")])
    assert main(["verify", f"memory://{name}"]) == 1
