"""Tables with shards and checkpoints of them, and what each checkpoint must hold by the book of ``shard_models``."""

from __future__ import annotations

import functools

from shard_models import BEFORE, DAY_S, MERGE, World, _applied, append, content, number_of, plain, plain_rows
from siltstone.table.operations import Work

NAME = "before"


class Edit(Work):
    """Sets what a version says of checkpoints, as other parts of siltstone do."""

    operation = "checkpoint"

    def __init__(self, **retained):
        self._retained = retained

    def run(self, draft):
        draft.depends(kept=True)
        draft.retain(**self._retained)


@functools.cache
def _begun(keyed):
    world = World(keyed=keyed, shards=2)
    table = world.open()
    world.do(table, append(BEFORE))
    writers = writers_of(world, table)
    put(world, writers, {id_: 100 + id_ for id_ in range(20, 25)})
    world.do(table, MERGE)
    put(world, writers, {id_: 200 + id_ for id_ in range(25, 30)} | ({5: 1, 22: 1} if keyed else {}))
    for writer in writers:
        world.flush(writer)
    put(world, writers, {id_: 300 + id_ for id_ in range(30, 35)} | ({6: 2, 23: 2, 26: 2} if keyed else {}))
    if keyed:
        world.delete(writers[number_of(7, 2)], [7])
    world.clock.advance(DAY_S)
    return world


def begun(*, keyed=True):
    """Rows in the table, in fragments of two shards, and in their WALs; some are merged."""
    return _begun(keyed).copy()


def writers_of(world, table=None):
    table = table or world.open()
    if world.keyed:
        return world.writers(table)
    return [world.writer(name, table) for name in ("a", "b")]


def put(world, writers, values):
    """Put rows, each by the writer of its shard, or of any."""
    if world.keyed:
        world.put_all(writers, values)
        return
    ids = list(values)
    for number, writer in enumerate(writers):
        world.put(writer, {id_: values[id_] for id_ in ids[number :: len(writers)]})


def record_of(world, name=NAME):
    """What the newest version says of a checkpoint; None where there is none."""
    return world.open()._now().checkpoints.get(name)


def pins_of(world):
    """By shard, the pins that its manifest has; shards from before a split too."""
    table = world.open()
    state = table._now()
    names = {key.split("/")[1] for key in world.keys("shards/")}
    logs = {name: table._shards.reader(name, state).place.read() for name in names}
    return {name: set(one.manifest.read().pins) for name, one in logs.items() if one is not None}


def model_of(world, name=NAME):
    """The rows that a checkpoint must have: those of its version, and of shards what was captured beyond them."""
    table = world.open()
    record = table._now().checkpoints[name]
    rows = dict(world.expected(table)[0][record.version])
    cursors = table._history.at(record.version).shards
    assert record.shards.keys() <= cursors.keys()
    for shard, kept in record.shards.items():
        rows = _applied(rows, world.book.puts.get(shard, []), cursors[shard].position, kept.until.position)
    return rows


def check_whole(world, began, name=NAME):
    """A checkpoint has all that was acknowledged when it was asked for: ``began`` is what ``book.ends`` said then."""
    table = world.open()
    record = table._now().checkpoints[name]
    cursors = table._history.at(record.version).shards
    for shard, end in began.items():
        if shard not in cursors:
            continue  # the split that removed it took all rows of it into the table
        kept = record.shards.get(shard)
        covered = max(cursors[shard].position, 0 if kept is None else kept.until.position)
        assert covered >= end, f"shard {shard} is kept up to {covered}, and {end} were acknowledged"


def check_kept(world, began=None, name=NAME):
    """Every way to read a checkpoint agrees with the book; returns its rows."""
    check_whole(world, began or {}, name)
    rows = model_of(world, name)
    kept = world.open().at(checkpoint=name)
    assert content(kept.scan()) == plain(rows)
    assert kept.count() == len(rows)
    assert kept.count("n >= 200") == sum(n >= 200 for n in rows.values())
    if world.keyed:
        assert plain_rows(kept.get(sorted(rows))) == plain(rows)
    return rows


def age(world, writers=None):
    """Let everything go on that lets go of rows: flushes, merges, and time."""
    for writer in writers or ():
        world.flush(writer)
    for _ in range(3):
        world.open().merge_shards()
        world.clock.advance(DAY_S)
