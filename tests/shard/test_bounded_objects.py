"""A shard that runs for a long time keeps a bounded number of objects, and of bytes in its manifest.

Time stands in for rate here: each put takes five seconds, so that what may be removed after some minutes is removed
while the test runs.
"""

from __future__ import annotations

import pytest

from shard_models import MERGE, World, ids_of, plain_rows, rows_of

PUT_S = 5.0
ROUNDS = 180
PUTS = 5  # in each round
OBJECTS_MAX = 120  # entries of a manifest are removed by the dozen, and those of a WAL after a minute


def live(world, writer, *, flush_every, merge_every):
    """Some puts a round, with flushes and merges; how many objects the shard has after each round."""
    table = world.open()
    ids = [id_ for _, id_ in zip(range(7), ids_of(0, 1), strict=False)]
    sizes = []
    for number in range(ROUNDS):
        for n in range(number * PUTS, (number + 1) * PUTS):
            world.clock.advance(PUT_S)
            writer.put(rows_of({ids[n % 7]: n}))
        if flush_every and number % flush_every == 0:
            writer.freeze()
            writer.flush_memtables()
        if merge_every and number % merge_every == 0:
            world.do(table, MERGE)
        sizes.append(len(world.shard_keys("0000-0000")))
    newest = {ids[n % 7]: n for n in range(ROUNDS * PUTS)}
    assert {id_: n for id_, n, _ in plain_rows(table.scan(fresh=True).to_arrow())} == newest
    return sizes


@pytest.mark.parametrize("merge_every", [1, 3], ids=["often", "seldom"])
@pytest.mark.parametrize("flush_every", [0, 2], ids=["no flushes", "flushes"])
def test_put__very_many_with_merges_in_between__the_shard_keeps_few_objects(flush_every, merge_every):
    world = World(shards=1)
    sizes = live(world, world.writer(0), flush_every=flush_every, merge_every=merge_every)
    assert max(sizes) < OBJECTS_MAX < ROUNDS * PUTS / 5, sizes


def test_put__very_many_to_a_wal_only_writer_with_merges__the_shard_keeps_few_objects():
    world = World(shards=1)
    sizes = live(world, world.writer(0, enable_memtable=False), flush_every=0, merge_every=2)
    assert max(sizes) < OBJECTS_MAX < ROUNDS * PUTS / 5, sizes


def test_put__very_many_without_a_merge__the_shard_keeps_its_fragments_and_few_other_objects():
    world = World(shards=1)
    sizes = live(world, world.writer(0), flush_every=2, merge_every=0)
    assert len(world.shard_keys("0000-0000", "data/")) == ROUNDS // 2
    assert max(size - number // 2 for number, size in enumerate(sizes)) < OBJECTS_MAX, sizes


def test_merge_shards__writers_come_and_go__old_fences_and_manifests_are_removed():
    world = World(shards=1)
    table = world.open()
    sizes = []
    for number in range(100):
        writer = world.writer(0, table)
        world.put(writer, {number % 5: number})
        if number % 3 == 0:
            world.flush(writer)
        if number % 4 == 0:
            world.do(table, MERGE)
        writer.close()
        world.clock.advance(60)
        sizes.append(len(world.shard_keys("0000-0000")))
    assert max(sizes) < OBJECTS_MAX, sizes
    world.check()


def test_merge_shards__many_of_them__the_manifest_does_not_grow():
    world = World(shards=1)
    writer, table = world.writer(0), world.open()
    lengths = []
    for number in range(60):
        world.put(writer, {number % 5: number})
        world.flush(writer)
        world.do(table, MERGE)
        world.clock.advance(60)
        newest = world.shard_keys("0000-0000", "manifest/entries/")[-1]
        lengths.append(len(world.bucket.objects[newest][0]))
    assert max(lengths[30:]) <= max(lengths[:30]) + 64, lengths
    world.check()


def test_split_shards__again_and_again__old_shards_keep_a_handful_of_objects_each():
    world = World(shards=2)
    for number in range(8):
        table = world.open()
        writers = world.writers(table)
        world.put_all(writers, dict.fromkeys(range(10), number))
        for writer in writers:
            world.flush(writer)
        world.put_all(writers, dict.fromkeys(range(5, 15), number))
        table.split_shards(2)
        world.clock.advance(3600)
    world.open().merge_shards()
    world.clock.advance(3600)
    world.open().merge_shards()
    for number in range(8):
        for shard in range(2):
            assert len(world.shard_keys(f"{number:04d}-{shard:04d}")) < 20
    world.check()
