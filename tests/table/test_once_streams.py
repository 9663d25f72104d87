"""The batches of a stream are applied once each, in their order, whoever brings them and how often."""

from __future__ import annotations

import json
import random
import uuid
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pyarrow as pa
import pytest

from siltstone.api import create_table, open_table
from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.format.rollup import decode_rollup
from siltstone.format.table import decode_body, decode_change
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.table.history import ROLLUP_EVERY
from siltstone.testing.stores import Interleaves

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])


@pytest.fixture
def table():
    return create_table(f"memory://streams-{uuid.uuid4().hex}", schema=SCHEMA, key="id")


def bring(table, batch, *, stream="orders", ids=None, note=""):
    """Append the rows of a batch; what it was told."""
    with table.transaction(stream=stream, batch=batch) as transaction:
        transaction.append([{"id": id_, "note": note} for id_ in ids or [batch]])
    return transaction.result


def ids(table):
    return sorted(table.scan(["id"]).to_arrow()["id"].to_pylist())


def state_of(table):
    """What an own look at the store gives."""
    return open_table(table._log.store)._now()


# -- which are applied ---------------------------------------------------------------------------------------------


def test_transaction__batch_is_brought_again__changes_nothing(table):
    first = bring(table, 0)
    assert (first.version, first.operation, first.inserted) == (1, "append", 1)
    again = bring(table, 0, ids=[0, 1, 2])
    assert (again.version, again.operation, again.inserted) == (1, "none", 0)
    bring(table, 1)
    assert bring(table, 0).operation == "none", "a batch below the last one"
    assert ids(table) == [0, 1]
    assert table.version == 2


def test_transaction__batches_with_gaps__are_applied_and_those_between_are_not_any_more(table):
    for batch in (5, 2**62, 7, 4, 2**63 - 1, 2**63 - 1):
        bring(table, batch)
    assert ids(table) == [5, 2**62, 2**63 - 1]
    assert state_of(table).batches == {"orders": 2**63 - 1}


def test_transaction__two_streams_and_an_id_of_the_same_name__know_nothing_of_each_other(table):
    bring(table, 3, ids=[1])
    bring(table, 1, stream="returns", ids=[2])
    with table.transaction(once="orders") as transaction:
        transaction.append([{"id": 3, "note": ""}])
    bring(table, 2, stream="returns", ids=[4])
    assert ids(table) == [1, 2, 3, 4]
    assert state_of(table).batches == {"orders": 3, "returns": 2}
    assert state_of(table).once == {"orders": 3}


def test_transaction__batch_that_was_applied__writes_no_rows(table):
    bring(table, 0)
    before = [info.key for info in table._log.store.list("data/")]
    bring(table, 0)
    assert [info.key for info in table._log.store.list("data/")] == before


def test_transaction__batch_that_changes_no_row__is_noted_all_the_same(table):
    with table.transaction(stream="orders", batch=0) as transaction:
        transaction.delete("id = 7")
    assert transaction.result.version == 1
    assert bring(table, 0).operation == "none"
    assert table.version == 1


def test_transaction__ended_by_an_error__its_batch_is_still_to_come(table):
    bring(table, 0)
    with pytest.raises(InvalidInputError):
        bring(table, 1, ids=[5, 0])
    assert state_of(table).batches == {"orders": 0}
    bring(table, 1, ids=[5])
    assert ids(table) == [0, 5]


def test_transaction__several_operations__are_applied_together_once(table):
    for _ in range(2):
        for batch in range(3):
            with table.transaction(stream="orders", batch=batch, message=f"batch {batch}") as transaction:
                transaction.delete(f"id = {batch - 1}")
                transaction.upsert([{"id": batch, "note": "x"}, {"id": 100, "note": str(batch)}])
    assert ids(table) == [2, 100]
    assert table.get(100)["note"].to_pylist() == ["2"]
    assert [one.message for one in table.history()] == ["batch 2", "batch 1", "batch 0", ""]


def test_transaction__table_was_restored__batches_stay_applied(table):
    bring(table, 0)
    bring(table, 1)
    table.restore(version=1)
    assert bring(table, 1).operation == "none"
    assert ids(table) == [0]


# -- at the same time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theirs", [0, 1, 2, 3])
def test_transaction__another_brings_a_batch_right_before__the_order_decides(theirs):
    bucket = MemoryBucket()
    rival = create_table(MemoryStore(bucket=bucket), schema=SCHEMA, key="id")
    bring(rival, 1, note="first")
    store = Interleaves(MemoryStore(bucket=bucket))
    mine = open_table(store)
    store.before("create", lambda: bring(rival, theirs, ids=[50], note="theirs"), key="entries/")
    result = bring(mine, 2, note="mine")
    assert store.pending == 0
    assert result.operation == ("none" if theirs >= 2 else "append")
    assert ids(rival) == ([1, 2] if theirs < 2 else [1, 50])
    assert rival._now().batches == {"orders": max(2, theirs)}


def test_transaction__ten_writers_bring_the_same_batches_at_once__each_is_applied_once(tmp_path):
    uri = str(tmp_path / "table")
    create_table(uri, schema=SCHEMA, key="id")
    barrier = Barrier(10, timeout=60)

    def run(worker):
        with open_table(uri) as table:
            told = []
            for batch in range(6):
                barrier.wait()
                told.append(bring(table, batch, ids=range(10 * batch, 10 * batch + 10), note=str(worker)))
            return told

    with ThreadPoolExecutor(10) as pool:
        told = list(pool.map(run, range(10)))
    table = open_table(uri)
    assert table.version == 6
    assert ids(table) == list(range(60))
    for batch in range(6):
        made = [one for one in told if one[batch].operation == "append"]
        assert len(made) == 1
        [worker] = [number for number, one in enumerate(told) if one is made[0]]
        notes = table.scan(["note"], where=f"id >= {10 * batch} and id < {10 * batch + 10}").to_arrow()
        assert set(notes["note"].to_pylist()) == {str(worker)}, "rows of one writer only"


def test_transaction__threads_share_a_handle__each_batch_is_applied_once_or_was_overtaken(table):
    chance = random.Random(4)
    batches = [batch for batch in range(30) for _ in range(3)]
    chance.shuffle(batches)
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda batch: (batch, bring(table, batch)), batches))
    made = [(one.version, batch) for batch, one in told if one.operation == "append"]
    assert sorted(batch for _, batch in made) == ids(table)
    assert [batch for _, batch in sorted(made)] == ids(table), "in their order"
    assert ids(table)[-1] == 29


# -- where they are kept -----------------------------------------------------------------------------------------------


def test_batches__many_versions__rollups_give_what_the_entries_give(table):
    chance = random.Random(7)
    last = {}
    for number in range(3 * ROLLUP_EVERY):
        stream = f"stream {chance.randrange(5)}"
        last[stream] = last.get(stream, -1) + chance.randrange(1, 4)
        bring(table, last[stream], stream=stream, ids=[number])
        if number % 10 == 0:
            table.set({"owner": str(number)})
    store = table._log.store
    rollups = [info.key for info in store.list("rollups/")]
    assert len(rollups) >= 3
    found = [decode_rollup(store.get(key), name=key).summary.batches for key in rollups]
    assert all(found)
    assert state_of(table).batches == last
    store.delete(rollups)
    assert state_of(table).batches == last
    for stream, batch in last.items():
        assert bring(open_table(store), batch, stream=stream, ids=[1]).operation == "none"


def test_batches__rollup_of_a_stretch_without_any__keeps_those_of_before(table):
    bring(table, 41)
    for number in range(3 * ROLLUP_EVERY):
        table.set({"owner": str(number)})
    keys = [info.key for info in table._log.store.list("rollups/")]
    assert decode_rollup(table._log.store.get(keys[0]), name=keys[0]).header.position == 3 * ROLLUP_EVERY
    assert state_of(table).batches == {"orders": 41}
    assert bring(open_table(table._log.store), 41).operation == "none"


def test_batches__in_an_entry__stand_as_the_page_says(table):
    bring(table, 12)
    table.append([{"id": 1, "note": ""}])
    [_, entry, plain] = table._log.entries()
    change = json.loads(bytes(decode_body(entry.body, name="entry").change))
    assert change["batches"] == {"orders": 12}
    assert "once" not in change
    assert "batches" not in json.loads(bytes(decode_body(plain.body, name="entry").change))
    assert decode_change(json.dumps(change).encode(), name="entry").batches == {"orders": 12}


# -- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"once": "a", "stream": "b", "batch": 1}, "once= and stream= are both given"),
        ({"stream": "b"}, "stream= and batch= belong together"),
        ({"batch": 0}, "stream= and batch= belong together"),
        ({"once": "a", "batch": 0}, "stream= and batch= belong together"),
        ({"stream": "b", "batch": -1}, "batch must be a whole number from 0 on, got -1"),
        ({"stream": "b", "batch": 2**63}, "batch must be a whole number"),
        ({"stream": "b", "batch": True}, "batch must be a whole number"),
        ({"stream": "b", "batch": 1.0}, "batch must be a whole number"),
        ({"stream": "b", "batch": "1"}, "batch must be a whole number"),
        ({"stream": "", "batch": 1}, "stream must not be empty"),
        ({"stream": " ", "batch": 1}, "stream must not be empty"),
        ({"stream": 7, "batch": 1}, "stream must be a string, got int"),
        ({"stream": "\ud800", "batch": 1}, "not valid UTF-8"),
    ],
)
def test_transaction__bad_stream_or_batch__is_refused(table, given, words):
    with pytest.raises(InvalidInputError) as refused:
        table.transaction(**given)
    assert words in refused.value.message
    assert refused.value.hint
    assert table.version == 0


def test_transaction__long_name_of_a_stream__is_refused(table):
    with pytest.raises(LimitExceededError):
        table.transaction(stream="x" * 257, batch=0)
    bring(table, 0, stream="x" * 256)
    assert state_of(table).batches == {"x" * 256: 0}
