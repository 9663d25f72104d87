"""Every store call of every operation on a table goes wrong once, in every way.

What must hold afterwards, to a reader that knows nothing of it: an acknowledged operation is there, a refused one is
not and never will be, one of unknown outcome is there whole or not at all, and the next writer goes on.
"""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

import siltstone as ss
from siltstone.errors import CommitUnknownError, SiltstoneError
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.testing.manual import ManualClock, manual_env
from siltstone.testing.script import ANY, Crashed
from siltstone.testing.stores import FaultStore
from worlds import FOR_EVER, ONCE

SCHEMA = pa.schema([("id", pa.int64()), ("stars", pa.int64())])
BASE = {n: n % 5 for n in range(20)} | dict.fromkeys(range(18, 24), 9)


def rows(pairs):
    return [{"id": key, "stars": stars} for key, stars in pairs.items()]


def transact(table):
    with table.transaction(once="job") as tx:
        tx.delete("stars = 1")
        tx.append(rows({50: 5}))


WORKFLOWS = {
    "append": (lambda table: table.append(rows({30: 1, 31: 2})), BASE | {30: 1, 31: 2}),
    "upsert": (lambda table: table.upsert(rows({3: 7, 40: 4})), BASE | {3: 7, 40: 4}),
    "delete": (lambda table: table.delete("stars = 2"), {k: v for k, v in BASE.items() if v != 2}),
    "update": (
        lambda table: table.update({"stars": "stars + 1"}, where="id < 5"),
        {k: v + 1 if k < 5 else v for k, v in BASE.items()},
    ),
    "overwrite": (lambda table: table.overwrite(rows({1: 1})), {1: 1}),
    "transaction": (transact, {k: v for k, v in BASE.items() if v != 1} | {50: 5}),
    "restore": (lambda table: table.restore(version=1), {n: n % 5 for n in range(20)}),
    "compact": (lambda table: table.compact(), BASE),
    "rename": (lambda table: table.rename_column("stars", "points"), BASE),
}


@pytest.fixture(scope="module")
def objects():
    """The objects of a table with two fragments, one of them masked, and a rollup due at the next commit."""
    bucket = MemoryBucket()
    table = ss.create(MemoryStore(bucket=bucket), schema=SCHEMA, key="id", probe=False)
    table.append(rows({n: n % 5 for n in range(20)}))
    table.upsert(rows(dict.fromkeys(range(18, 24), 9)))
    while table.version < 30:
        table.tag(f"t{table.version}")
    store = MemoryStore(bucket=bucket)
    return {info.key: store.get(info.key) for info in store.list()}


class World:
    """A copy of those objects, with a handle whose store fails as told."""

    def __init__(self, objects, seed):
        self.bucket, self.clock = MemoryBucket(), ManualClock()
        plain = self.plain()
        for key, data in objects.items():
            plain.put(key, data)
        self.store = FaultStore(self.plain())
        self.seed = seed
        self.table = ss.open(self.store, probe=False, env=manual_env(seed, clock=self.clock, patience_s=5))

    def plain(self):
        return MemoryStore(bucket=self.bucket, clock=self.clock)

    def fresh(self):
        return ss.open(self.plain(), probe=False, env=manual_env(self.seed + 1, clock=self.clock, patience_s=5))

    def content(self):
        table = self.fresh()
        found = table.scan().to_arrow().to_pylist()
        content = {row["id"]: row.get("stars", row.get("points")) for row in found}
        assert len(content) == len(found), "a key is there twice"
        return content, table.version


def attempt(world, call):
    """ "done", "refused", "unknown" or "crashed", and the error."""
    try:
        call(world.table)
    except CommitUnknownError as error:
        return "unknown", error
    except Crashed:
        return "crashed", None
    except SiltstoneError as error:
        return "refused", error
    return "done", None


def check(world, outcome, error, after):
    """What must hold; twice, since what was delayed may come late."""
    seen = None
    for _ in range(2):
        content, version = world.content()
        if outcome == "done":
            assert content == after
        elif outcome == "refused":
            assert (content, version) == (BASE, 30), f"refused with {error!r}, and there"
        else:
            assert content in (BASE, after)
        if outcome == "unknown":
            found = world.fresh().resolve(error.facts["op"])
            assert (found is not None) == (version > 30)
        assert seen in (None, (content, version))
        # A put that was sent and never answered may still land, and then its operation is there.
        seen = (content, version) if outcome in {"done", "refused"} else None
        world.store.script.clear()
        world.store.release()


@pytest.mark.parametrize("fault", ONCE, ids=lambda fault: fault.name)
@pytest.mark.parametrize("workflow", WORKFLOWS)
@pytest.mark.parametrize("times", [1, FOR_EVER], ids=["once", "for ever"])
def test_operation__a_store_call_goes_wrong__there_or_not_and_the_next_goes_on(objects, workflow, fault, times):
    call, after = WORKFLOWS[workflow]
    reached = 0
    for nth in itertools.count(1):
        world = World(objects, nth * 2)
        world.store.on(ANY, fault, nth=nth, times=times)
        before = len(world.store.calls)
        outcome, error = attempt(world, call)
        made = len(world.store.calls) - before
        check(world, outcome, error, after)
        fresh = world.fresh()
        column = fresh.schema.names[1]
        fresh.append([{"id": 99, column: 0}])
        assert fresh.get([99]).num_rows == 1
        if outcome != "crashed":
            assert world.table.get([99]).num_rows == 1, "the handle that met the fault goes on too"
        reached += made >= nth
        if made < nth:
            break
    assert reached
