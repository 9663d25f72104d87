"""Merges that come between a claim, its fence and an acknowledgement: nobody is alarmed for nothing, no row is lost."""

from __future__ import annotations

import msgspec
import pytest

from shard_worlds import ShardWorld
from siltstone.errors import CommitUnknownError, FencedError, UnavailableError
from siltstone.shard.manifest import to_cursor

WAL = "shards/a/wal/entries/"


def test_open__its_fence_is_merged_before_it_knows_of_it__claims_once_more_and_goes_on():
    world = ShardWorld()
    world.put(world.writer(), 1)
    store = world.interleaves()
    store.after("create", lambda: world.table().merge_shards(), key=WAL)
    writer = world.writer(store, name="mine")
    assert store.pending == 0
    assert writer.stats().epoch == 3
    world.put(writer, 2)
    assert world.acknowledged == [1, 2]
    assert world.check() == [1, 2]
    world.go_on()


def test_open__each_of_its_fences_is_merged__gives_up_and_the_next_writer_has_all_rows():
    world = ShardWorld()
    world.put(world.writer(), 1)
    store = world.interleaves()

    def merge():
        world.table().merge_shards()
        store.after("create", merge, key=WAL)

    store.after("create", merge, key=WAL)
    with pytest.raises(UnavailableError, match="merged all the time while it was opened"):
        world.writer(store)
    assert world.table().count() == 1
    world.go_on()


def test_open__the_manifest_counts_from_behind_the_end_of_the_wal__is_refused():
    world = ShardWorld()
    writer = world.writer()
    world.put(writer, 1)
    end = to_cursor(writer.chunks(world.table()._looked().schema)[2])
    ahead = msgspec.structs.replace(end, position=end.position + 7)
    writer._logs.manifest.change(lambda state: msgspec.structs.replace(state, replay_from=ahead))
    with pytest.raises(FencedError, match="counts from 8 on, behind this writer's fence at 1"):
        world.writer()


def test_put__merged_with_the_next_writers_fence_before_its_answer__is_not_known_and_there_once():
    world = ShardWorld()
    store = world.interleaves()
    writer = world.writer(store)
    world.put(writer, 1)
    world.clock.advance(60)  # a look at the floor is due

    def take_over_and_merge():
        world.writer(name="the next")
        world.table().merge_shards()

    store.after("create", take_over_and_merge, key=WAL)
    told = world.put(writer, 2)
    assert isinstance(told, FencedError | CommitUnknownError)
    assert world.unknown == [2]
    assert sorted(world.check()) == [1, 2]
    assert world.table().count() == 2
    world.go_on()
