"""Eight processes write to one table at the same time: no row is lost, none is there twice, nobody is turned away."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import figures
from places import StorePlace
from siltstone.api import create_table
from siltstone.testing.s3server import Faults

WRITERS = 8
APPENDS = 25
ROWS = 100
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("worker", pa.int64())])
KEYED = pa.schema([pa.field("id", pa.int64(), nullable=False), ("score", pa.int64()), ("note", pa.string())])


def asked(place, commits=None, **job):
    return {"uri": place.uri, "options": place.options, "commits": commits, **job}


def compete(crew, place, commits=None, key=None):
    """Make a table, let eight writers append to it, and check that each row of each of them is there once."""
    table = create_table(place.uri, schema=SCHEMA, key=key, storage_options=place.options or None, commits=commits)
    told = crew.run([asked(place, commits, role="appender", count=APPENDS, rows=ROWS)] * WRITERS)
    assert [one.facts for one in told if one.error] == []
    assert sorted(one.version for one in told) == list(range(1, WRITERS * APPENDS + 1))
    assert table.version == WRITERS * APPENDS
    figures.record("acknowledged under load", len(told))
    rows = table.scan().to_arrow()
    expected = [one.operation["many"] for one in told]
    ids = sorted(id_ for many in expected for id_ in range(many["first"], many["first"] + many["count"]))
    assert len(ids) == WRITERS * APPENDS * ROWS == table.count()
    assert sorted(rows["id"].to_pylist()) == ids
    assert pc.all(pc.equal(pc.divide(rows["id"], 1_000_000), rows["worker"])).as_py()
    table.close()


@pytest.mark.parametrize("key", [None, "id"], ids=["no key", "key"])
def test_append__many_processes_in_a_directory__each_row_is_there_once(places, crew, key):
    compete(crew, places.store("file"), key=key)


@pytest.mark.parametrize("name", ["seaweedfs", "ministack", "faulty"])
def test_append__many_processes_on_s3__each_row_is_there_once(places, crew, name):
    compete(crew, places.store(name))


@pytest.mark.parametrize(
    ("lie", "commits"),
    [("always", "sqlite"), ("always", "redis"), ("always", "postgresql"), ("check-then-put", "sqlite")],
)
def test_append__many_processes_on_a_lying_store_behind_a_commit_store__each_row_is_there_once(
    places, crew, lie, commits
):
    server = places.fault_server(Faults(lie=lie))
    compete(crew, StorePlace("s3://bkt/table", server.storage_options), places.commits_uri(commits))


@pytest.mark.parametrize("writers", [2, 8])
def test_upsert__many_processes_bring_the_same_new_key__it_is_there_once(places, crew, writers):
    rounds = 20
    place = places.store("file")
    table = create_table(place.uri, schema=KEYED, key="id")
    told = crew.run([asked(place, role="same_key", do="upsert")] * writers, rounds=rounds)
    assert [one.facts for one in told if one.error] == []
    assert sorted(one.version for one in told) == list(range(1, writers * rounds + 1))
    last = {}
    for one in sorted(told, key=lambda one: one.version):
        [row] = one.operation["rows"]
        last[row["id"]] = row["score"]
    rows = table.scan().to_arrow()
    assert sorted(zip(rows["id"].to_pylist(), rows["score"].to_pylist(), strict=True)) == sorted(last.items())


def test_append__many_processes_bring_the_same_new_key__one_has_it_and_the_others_are_told(places, crew):
    rounds = 20
    place = places.store("file")
    table = create_table(place.uri, schema=KEYED, key="id")
    told = crew.run([asked(place, role="same_key", do="append")] * 4, rounds=rounds)
    assert {one.error for one in told} == {"", "duplicate-key"}
    winners = {one.operation["rows"][0]["id"]: one.worker for one in told if one.made}
    assert len(winners) == sum(one.made for one in told) == rounds == table.version
    rows = table.scan().to_arrow()
    assert dict(zip(rows["id"].to_pylist(), rows["score"].to_pylist(), strict=True)) == winners
    assert table.count() == rounds


def test_append__threads_of_several_processes_share_handles__each_row_is_there_once(places, crew):
    place = places.store("file")
    table = create_table(place.uri, schema=KEYED, key="id")
    told = crew.run([asked(place, role="threads", count=10, number=number) for number in (1, 2, 3)])
    assert {one.error for one in told} == {"", "duplicate-key"}
    made = [one for one in told if one.made]
    assert [one.facts["counts"] for one in made] == [[len(one.operation["rows"]), 0, 0] for one in made]
    rows = [row for one in made for row in one.operation["rows"]]
    assert len(rows) == 3 * 8 * 10 * 10 + 10
    there = table.scan().to_arrow().to_pylist()
    assert sorted(there, key=lambda row: row["id"]) == sorted(rows, key=lambda row: row["id"])
    assert table.version < len(made), "threads share versions"
    assert set(range(1, table.version + 1)) == {one.version for one in made}
    for one in made:
        first = one.operation["rows"][0]["id"]
        assert table.at(version=one.version).get([first]).num_rows == 1
        assert table.at(version=one.version - 1).get([first]).num_rows == 0
