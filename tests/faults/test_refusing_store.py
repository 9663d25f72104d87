"""A store that refuses create-if-absent: told with the remedy; with a commit store and an option it holds tables."""

from __future__ import annotations

import pytest

import crowd
import siltstone as ss
from clone_worlds import SCHEMA, numbered, rows_of
from siltstone.errors import InvalidInputError, UnsafeStoreError
from siltstone.log import open_log
from siltstone.testing.s3server import Faults
from siltstone.verify import verify

WRITERS, ADDS = 4, 5


@pytest.fixture(params=[501, 400])
def refusing(request, places):
    return places.fault_server(Faults(refuse_conditions=request.param))


def options(server, **more):
    return {**server.storage_options, **more}


def test_create__store_refuses_conditions__says_what_to_pass_and_leaves_nothing(refusing, tmp_path):
    for commits in (None, f"sqlite:{tmp_path}/claims.db"):
        with pytest.raises(UnsafeStoreError, match="refuses to create only what is absent") as caught:
            ss.create("s3://bkt/table", schema=SCHEMA, storage_options=refusing.storage_options, commits=commits)
        assert "conditional_create" in caught.value.hint
        assert "commits=" in caught.value.hint
    assert refusing.objects() == []


@pytest.mark.parametrize("probe", [True, False])
def test_create__conditions_are_off_without_a_commit_store__is_refused(places, probe):
    server = places.fault_server(Faults())
    with pytest.raises(UnsafeStoreError, match="can't decide who wins"):
        ss.create(
            "s3://bkt/table", schema=SCHEMA, storage_options=options(server, conditional_create="false"), probe=probe
        )
    assert server.objects() == []


def test_append__table_that_its_store_decides_with_conditions_off__is_refused(places):
    server = places.fault_server(Faults())
    ss.create("s3://bkt/table", schema=SCHEMA, storage_options=server.storage_options)
    other = ss.open("s3://bkt/table", storage_options=options(server, conditional_create="false"), probe=False)
    with pytest.raises(UnsafeStoreError, match="can't decide who wins"):
        other.append(rows_of(numbered(0, 3)))
    assert other.version == 0


def test_conditional_create__neither_true_nor_false__is_refused():
    with pytest.raises(InvalidInputError, match="conditional_create must be 'true' or 'false'"):
        ss.open_store("s3://bkt/x", {"conditional_create": "no", "access_key_id": "a", "secret_access_key": "b"})


def test_table__conditions_are_off_and_a_commit_store_decides__everything_works(refusing, tmp_path):
    reach = {
        "storage_options": options(refusing, conditional_create="false"),
        "commits": f"sqlite:{tmp_path}/claims.db",
    }
    table = ss.create("s3://bkt/table", schema=SCHEMA, key="id", shards=2, **reach)
    table.append(rows_of(numbered(0, 40)))
    table.upsert(rows_of(numbered(30, 50)))
    table.delete("id < 5")
    with table.writer() as writer:
        writer.put(rows_of(numbered(50, 60)))
    table.merge_shards()
    table.checkpoint("kept")
    clone = table.clone("s3://bkt/clone", at="kept", **reach)
    table.compact()
    table.gc(keep_days=0)
    assert ss.open("s3://bkt/table", **reach).count() == clone.count() == 55
    assert all(report.ok for report in verify("s3://bkt/table", **reach))


def test_add__many_processes_with_conditions_off_and_a_commit_store__each_is_there_once(refusing, tmp_path):
    reach = {"options": options(refusing, conditional_create="false"), "commits": f"sqlite:{tmp_path}/claims.db"}
    log = open_log("s3://bkt/log", storage_options=reach["options"], commits=reach["commits"], create=True)
    assert log.identity.publish == "fork"
    told = crowd.run({"uri": "s3://bkt/log", "adds": ADDS, "open": {}, **reach}, writers=WRITERS)
    assert told.errors == []
    assert [tuple(entry.end)[::2] for entry in log.entries()] == told.ends
    assert len(told.ends) == WRITERS * ADDS
