"""What the simulator found in the real code, each by hand and without chance."""

from __future__ import annotations

import pyarrow as pa
import pytest

from siltstone import paths
from siltstone.api.opening import create_table, open_table
from siltstone.errors import CommitUnknownError, PermissionDeniedError, TruncatedError, UnavailableError
from siltstone.log import open_beside, open_log
from siltstone.store.memory import MemoryStore
from siltstone.testing.stores import Fault, Interleaves
from worlds import World

OP = "ab" * 16
OTHER = "cd" * 16


def ops(world: World) -> list[str]:
    return [entry.op for entry in world.open(create=False).entries()]


def truncated(world: World):
    """A world whose first three entries were folded and removed, and the mark behind the second of them."""
    log = world.seeded(3).open()
    marks = [entry.end for entry in log.entries()]
    assert log.truncate(marks[2]).deleted_below == 3
    return marks


def latecomer(world: World, mark) -> None:
    """Someone's entry arrives at a place that was truncated long ago."""
    other = World("conditional", trust_ms=0, bucket=world.bucket, clock=world.clock).open()
    with pytest.raises(CommitUnknownError):
        other.append(b"late", after=mark, op=OTHER)
    assert world.store().head(paths.entry("", mark.position)) is not None


# -- an entry that is written must not be reported as failed ------------------------------------------


def test_add__floor_is_denied_after_the_entry_was_written__is_unknown():
    world = World("conditional")
    log = world.open(store := world.fault_store())
    mark = log.tip()
    store.on("list", Fault.DENY, key="floor")
    with pytest.raises(CommitUnknownError):
        log.append(b"x", after=mark, op=OP)
    assert ops(world) == [OP]


def test_add__witness_is_denied_after_the_entry_was_written__is_unknown():
    world = World("witness")
    log = world.open(store := world.fault_store())
    store.on("put", Fault.DENY, key="witness/")
    with pytest.raises(CommitUnknownError):
        log.add(b"x", op=OP)
    assert ops(world) == [OP]


def test_add__own_put_refused_and_reading_back_denied__is_unknown():
    world = World("conditional")
    log = world.open(store := world.fault_store())
    mark = log.tip()
    store.on("create", Fault.EXISTS_OWN, key="entries/")
    store.on("get", Fault.DENY, key="entries/")
    with pytest.raises(CommitUnknownError):
        log.append(b"x", after=mark, op=OP)
    assert ops(world) == [OP]


@pytest.mark.parametrize(("mode", "verb"), [("external", "create"), ("fork", "put")])
def test_add__claimed_and_publishing_denied__is_unknown(mode, verb):
    world = World(mode)
    log = world.open(store := world.fault_store())
    store.on(verb, Fault.DENY, key="entries/")
    with pytest.raises(CommitUnknownError):
        log.add(b"x", op=OP)
    assert ops(world) == [OP]


def test_append__folded_while_waiting_and_the_state_unreachable__is_unknown():
    world = World("conditional")
    store = world.interleaves()

    def unreachable(op: str):
        raise UnavailableError(f"no state for {op}")

    def fold() -> None:
        log = world.open()
        log.truncate(log.tip())

    log = world.open(store, lookup=unreachable)
    mark = log.tip()
    store.after("create", fold, key="entries/")
    with pytest.raises(CommitUnknownError):
        log.append(b"x", after=mark, op=OP)


# -- an operation must not be there twice -----------------------------------------------------------------


def test_append__folded_while_waiting__returns_where_it_was():
    world = World("conditional")
    store = world.interleaves()
    folded = {}

    def fold() -> None:
        log = world.open()
        folded.update({entry.op: entry.end for entry in log.entries()})
        log.truncate(log.tip())

    log = world.open(store, lookup=folded.get)
    store.after("create", fold, key="entries/")
    assert log.add(b"x", op=OP) == folded[OP]
    assert ops(world) == []


def test_add__folded_before_it_runs_again__is_not_added():
    world = World("conditional")
    log = world.open()
    end = log.add(b"x", op=OP)
    log.truncate(end)
    again = world.open(lookup={OP: end}.get)
    assert again.add(b"x", op=OP) == end
    assert ops(world) == []


def test_add__own_late_put_lands_after_the_search__is_there_once():
    world = World("conditional")
    first = world.open(store := world.fault_store(), env=world.env(patience_s=0.0))
    store.on("create", Fault.DELAY, key="entries/", times=2)
    with pytest.raises(CommitUnknownError):
        first.add(b"x", op=OP)
    second = world.open(stepping := world.interleaves())
    stepping.after("get", store.release, key="entries/")
    end = second.add(b"x", op=OP)
    assert ops(world) == [OP]
    assert end.position == 1


# -- what a latecomer puts into a truncated place is not part of the log --------------------------------


def test_add__idle_writer_meets_a_latecomer_in_a_truncated_place__does_not_build_on_it():
    world = World("conditional")
    marks = truncated(world)
    idle = world.open()
    latecomer(world, marks[1])
    with pytest.raises(CommitUnknownError):
        idle.append(b"x", after=marks[1], op=OP)
    assert idle.add(b"x", op=OP).position == 4
    assert ops(world) == [OP]


def test_tip__from_a_truncated_mark_with_a_latecomer_behind_it__is_the_true_one():
    world = World("conditional")
    marks = truncated(world)
    latecomer(world, marks[1])
    assert world.open().tip(marks[1]) == marks[2]


def test_entries__from_a_truncated_mark_with_a_latecomer_behind_it__are_truncated_not_corrupt():
    world = World("conditional")
    marks = truncated(world)
    latecomer(world, marks[1])
    log = world.open()
    log.add(b"next")
    with pytest.raises(TruncatedError):
        list(log.entries(marks[1]))


def test_add__witness_comes_back_below_the_floor_beside_a_latecomer__is_no_alarm():
    world = World("witness")
    log = world.seeded(3).open()
    entries = list(log.entries())
    store = world.store()
    witness = paths.witness("", 2, entries[2].nonce)
    data = store.get(witness)
    log.truncate(entries[2].end)
    store.put(witness, data)  # a repetition of the request, late
    with pytest.raises(CommitUnknownError):
        world.open().append(b"late", after=entries[1].end, op=OTHER)
    assert world.open().add(b"x", op=OP).position == 4


# -- an operation that is found must have its witness -----------------------------------------------------


def test_add__found_without_its_witness__leaves_one():
    world = World("witness")
    log = world.open(store := world.fault_store())
    store.on("put", Fault.DENY, key="witness/")
    with pytest.raises(CommitUnknownError):
        log.add(b"x", op=OP)
    assert [*world.store().list("witness")] == []
    world.open().add(b"x", op=OP)
    assert len([*world.store().list("witness")]) == 1


def test_add__refused_before_anything_was_sent__is_a_definite_failure():
    world = World("conditional")
    log = world.open(store := world.fault_store())
    mark = log.tip()
    store.on("create", Fault.DENY, key="entries/")
    with pytest.raises(PermissionDeniedError):
        log.append(b"x", after=mark, op=OP)
    assert ops(world) == []


@pytest.mark.parametrize("mode", ["external", "fork"])
def test_append__beaten_then_stalled_until_all_was_truncated__is_no_alarm(mode):
    world = World(mode)
    winner = world.open()
    registry = world.fault_registry()
    marks = []
    registry.before("claim", lambda: marks.append(winner.add(b"first")))
    registry.after("claim", lambda: winner.truncate(marks[0]))
    late = world.open(registry=registry)
    with pytest.raises(CommitUnknownError):
        late.append(b"beaten", after=winner.start, op=OP)
    assert late.add(b"goes on").position == 2


# -- shards ---------------------------------------------------------------------------------------------------


def sharded():
    """A bucket with a table of one shard that nobody wrote to, and the table."""
    bucket = MemoryStore()
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    return bucket, create_table(bucket, schema=columns, key="id", shards=1)


def test_scan__shard_is_written_to_for_the_first_time_while_it_is_opened__is_no_alarm():
    bucket, table = sharded()
    store = Interleaves(bucket)
    reader = open_table(store)

    def put() -> None:
        with table.shard(0).writer() as writer:
            writer.put([{"id": 1, "name": "first"}])

    open_beside(open_log(bucket, root="log/"), "shards/0000-0000/manifest/", create=True)  # and its maker died
    store.after("list", put, key="manifest/floor")
    assert reader.scan(fresh=True).to_arrow().num_rows in {0, 1}
    assert store.pending == 0
    assert reader.count(fresh=True) == 1
