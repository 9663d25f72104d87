"""A transaction with ``once`` is applied once, whoever runs it, how often, at the same time or after a kill."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from siltstone.api import create_table, open_table
from siltstone.errors import InvalidInputError
from siltstone.table.history import ROLLUP_EVERY

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("score", pa.int64()), ("note", pa.string())])
ROUNDS = 8
KILLS = 20
ROWS = 20


@pytest.mark.parametrize("key", [None, "id"], ids=["no key", "key"])
def test_transaction__ten_processes_commit_the_same_id_at_once__it_is_applied_once(places, crew, key):
    place = places.store("file")
    table = create_table(place.uri, schema=SCHEMA, key=key)
    told = crew.run([{"uri": place.uri, "role": "transactions"}] * 10, rounds=ROUNDS)
    assert [one.facts for one in told if one.error] == []
    for turn in range(ROUNDS):
        mine = [one for one in told if one.operation["once"] == f"job-{turn}"]
        assert len(mine) == 10
        assert {one.version for one in mine} == {turn + 1}, "all are told the one version it became"
        [winner] = [one for one in mine if one.made]
        rows = table.at(version=turn + 1).scan(where=f"id >= {turn * 100}").to_arrow()
        assert sorted(rows["id"].to_pylist()) == list(range(turn * 100, turn * 100 + ROWS))
        assert set(rows["score"].to_pylist()) == {winner.worker}, "rows of one writer only"
    assert table.version == ROUNDS


def test_transaction__process_is_killed_and_another_runs_it_again__it_is_applied_once(places, crew):
    place = places.store("file")
    table = create_table(place.uri, schema=SCHEMA, key="id")
    chance = random.Random(5)
    whole_s = 0.5
    for turn in range(1 + KILLS):
        first = turn * 100
        job = {"uri": place.uri, "role": "again_and_again", "once": f"job-{turn}", "first": first, "number": 1}
        told = crew.run_and_kill(job, after_s=chance.uniform(0, 2 * whole_s) if turn else 2)
        if turn == 0:
            whole_s = told[0].ended - told[0].begun  # so that about half of the kills come before the end
        assert not [one.facts for one in told if one.error]
        again = open_table(place.uri)
        with again.transaction(once=f"job-{turn}") as transaction:
            transaction.append([{"id": first + number, "score": 2, "note": ""} for number in range(ROWS)])
        assert transaction.result.version == turn + 1
        assert {one.version for one in told if one.facts} <= {turn + 1}
        rows = again.scan(where=f"id >= {first}").to_arrow()
        assert sorted(rows["id"].to_pylist()) == list(range(first, first + ROWS))
        assert len(set(rows["score"].to_pylist())) == 1
        again.close()
    assert table.version == 1 + KILLS
    assert table.count("score = 1") > ROWS, "none but the first was killed after its commit"
    assert table.count("score = 2") > 0, "none was killed before its commit"


def test_transaction__id_was_applied_as_another_kind_of_work__is_refused_where_that_is_known(tmp_path):
    table = create_table(str(tmp_path / "t"), schema=SCHEMA, key="id")
    row = [{"id": 1, "score": 1, "note": ""}]
    with table.transaction(once="x") as transaction:
        transaction.upsert(row)
    told = r"once='x' was applied as an upsert in version 1, and this is an append \(.*an id of its own"
    with pytest.raises(InvalidInputError, match=told), table.transaction(once="x") as transaction:
        transaction.append(row)
    with pytest.raises(InvalidInputError, match="and this is a delete"), table.transaction(once="x") as transaction:
        transaction.delete(None)
    with table.transaction(once="x") as transaction:  # several kinds have no name to compare
        transaction.delete("id = 7")
        transaction.append(row)
    assert transaction.result.operation == "none"
    for _ in range(2):
        with table.transaction(once="x") as transaction:
            transaction.upsert([])
        assert (transaction.result.version, transaction.result.operation) == (1, "none")
    assert table.version == 1


def test_transaction__id_of_another_kind_is_committed_meanwhile__is_refused_and_changes_nothing(tmp_path):
    table = create_table(str(tmp_path / "t"), schema=SCHEMA, key="id")
    row = [{"id": 1, "score": 1, "note": ""}]
    late = table.transaction(once="x")
    late.append(row)
    with open_table(table.uri).transaction(once="x") as transaction:
        transaction.overwrite(row)
    with pytest.raises(InvalidInputError, match="applied as an overwrite in version 1, and this is an append"):
        late.commit()
    assert table.version == 1


def test_transaction__ids_that_a_clone_or_a_rollup_took_over__change_nothing_in_silence(tmp_path):
    table = create_table(str(tmp_path / "t"), schema=SCHEMA, key="id")
    row = [{"id": 1, "score": 1, "note": ""}]
    with table.transaction(once="x") as transaction:
        transaction.upsert(row)
    clone = table.clone(str(tmp_path / "clone"))
    for number in range(ROLLUP_EVERY + 2):
        table.set({"number": str(number)})
    for one in (clone, open_table(table.uri)):
        assert not [step for step in one._now().recent if step.change and step.change.operation == "upsert"]
        with one.transaction(once="x") as transaction:
            transaction.append(row)
        assert transaction.result.operation == "none"
