"""A table with shards that is about to be split, places where something else may happen, and what must hold after."""

from __future__ import annotations

import functools
import random

from shard_models import (
    BEFORE,
    World,
    append,
    number_of,
    rows_of,
    stages,
    told,
    watched,
)
from siltstone.errors import InvalidInputError

PLACES = 18  # that a test looks at, of about 80


@functools.cache
def begun(shards=2):
    """Rows in the table, in fragments of shards, and in their WALs."""
    world = World(shards=shards)
    table = world.open()
    world.do(table, append(BEFORE))
    writers = world.writers(table)
    world.put_all(writers, {id_: id_ + 100 for id_ in range(8, 16)})
    for writer in writers:
        world.flush(writer)
    world.put_all(writers, {id_: id_ + 200 for id_ in range(12, 20)})
    world.delete(writers[number_of(3, shards)], [3])
    return world


@functools.cache
def calls():
    """The store calls of a split."""
    store, table = watched(begun().copy())
    table.split_shards(3)
    return store.calls


def places(seed):
    """Some of the places of a split where something else may happen."""
    found = stages(calls())
    return sorted(random.Random(seed).sample(found, PLACES))


def go_on(world, count):
    """The new shards can be written, each key goes to the right one, and nobody can have an old one."""
    table = world.open()
    assert table._now().sharding.count == count
    assert [one.sealed for one in table.shards()] == [False] * count
    writers = world.writers(table)
    world.put_all(writers, {id_: id_ + 900 for id_ in range(0, 30, 2)})
    wrong = next(id_ for id_ in range(100) if number_of(id_, count) != 0) if count > 1 else None
    if wrong is not None:
        assert isinstance(told(lambda: writers[0].put(rows_of({wrong: 1}))), InvalidInputError)
    return world.check(merge=False)
