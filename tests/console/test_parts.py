"""Fragments, shards, indexes, checkpoints, clones and health, of real tables."""

from __future__ import annotations

import pytest

from console_worlds import NOTES
from siltstone.api import create_table
from siltstone.store.connect import open_store
from siltstone.testing.s3server import FaultServer
from unchanged import unchanged


def events(tmp_path, **options):
    return create_table(tmp_path / "events", schema=NOTES, key="id", sync=False, **options)


# -- the table -------------------------------------------------------------------------------------


def test_table__its_facts__are_those_of_the_handle(ask, notes):
    notes.create_text_index("body", name="words")
    notes.tag("t")
    notes.set({"owner": "x"})
    notes.delete("id = 1")
    found = ask.until(lambda table: table["version"] == notes.version, "table", table="notes")
    assert (found["rows"], found["deleted"], found["fragments"]) == (2, 1, 1)
    assert [(one["name"], one["type"], one["key"], one["indexes"]) for one in found["columns"]] == [
        ("id", "int64", True, []),
        ("body", "string", False, ["words"]),
    ]
    assert found["tags"] == [{"name": "t", "version": 2}]
    assert found["settings"] == [{"name": "owner", "value": "x"}]
    assert found["uri"] == notes.uri


# -- fragments -------------------------------------------------------------------------------------


def test_fragments__with_deletes__have_rows_bytes_and_shares(ask, notes):
    notes.append([{"id": number, "body": "x" * 500} for number in range(10, 20)])
    notes.delete("id in (1, 12, 13)")
    found = ask.until(lambda page: page["deleted"] == 3, "fragments", table="notes", sort="name")
    lives = sorted(notes._now().fragments, key=lambda live: live.fragment.name)
    assert [(one["name"], one["rows"], one["deleted"], one["bytes"]) for one in found["fragments"]] == [
        (live.fragment.name, live.fragment.rows, live.vector.rows, live.fragment.bytes) for live in lives
    ]
    assert [(one["low"], one["high"]) for one in found["fragments"]] == [("1", "3"), ("10", "19")]
    assert (found["total"], found["rows"], found["key"]) == (2, 13, "id")


@pytest.mark.parametrize("sort", ["rows", "-rows", "bytes", "-bytes", "deleted", "-deleted", "name", "-name"])
def test_fragments__each_order__is_kept_across_pages(ask, notes, sort):
    for start in (10, 20, 30):
        notes.append([{"id": number, "body": "x"} for number in range(start, start + start // 10)])
    notes.delete("id in (20, 30)")
    ask.until(lambda page: page["total"] == 4, "fragments", table="notes")
    found = [ask("fragments", table="notes", sort=sort, offset=at, limit=1)["fragments"][0] for at in range(4)]
    assert len({one["name"] for one in found}) == 4
    by = sort.lstrip("-")
    values = [one["deleted"] / one["rows"] if by == "deleted" else one[by] for one in found]
    assert values == sorted(values, reverse=sort.startswith("-"))


def test_fragments__unknown_order__is_refused(ask):
    assert ask.get("fragments", table="notes", sort="sha256").error == (400, "invalid-input")


# -- shards ----------------------------------------------------------------------------------------


def test_shards__rows_not_merged__are_counted_where_they_are(start, tmp_path):
    with events(tmp_path, shards=1) as table:
        ask = start(tmp_path)
        (never,) = ask("shards", table="events")["shards"]
        assert (never["state"], never["epoch"]) == ("never written", 0)
        writer = table.shard(0).writer(name="feeder")
        writer.put([{"id": 1, "body": "a"}, {"id": 2, "body": "b"}])
        (one,) = ask("shards", table="events")["shards"]
        assert (one["state"], one["epoch"], one["writer"]) == ("claimed", 1, "feeder")
        assert (one["tail_rows"], one["flushed_rows"], one["unmerged_rows"]) == (2, 0, 2)
        assert one["lag"] == one["wal_end"] - one["replay_from"] > 0
        writer.freeze()
        writer.flush_memtables()
        flushed = ask("shards", table="events")
        (one,) = flushed["shards"]
        assert (one["tail_rows"], one["flushed_rows"], one["lag"]) == (0, 2, 0)
        assert [made["rows"] for made in one["generations"]] == [2]
        assert (flushed["waiting_rows"], flushed["waiting_entries"]) == (2, 0)
        writer.close()
        table.merge_shards()
        (one,) = ask.until(lambda page: page["waiting_rows"] == 0, "shards", table="events")["shards"]
        assert (one["merged_until"], one["unmerged_rows"]) == (one["wal_end"], 0)


def test_shards__wal_in_a_store_that_was_not_given__has_its_error_and_the_page_works(start, tmp_path):
    with events(tmp_path, shards=2, wal=str(tmp_path / "wal")) as table:
        writer = table.writer()
        writer.put([{"id": 1, "body": "a"}])
        ask = start(tmp_path)
        found = ask("shards", table="events")
        assert {one["error"]["kind"] for one in found["shards"] if "error" in one} == {"wrong-wal-store"}
        given = start(tmp_path, wal=str(tmp_path / "wal"))("shards", table="events")
        assert sum(one.get("tail_rows", 0) for one in given["shards"]) == 1
        writer.close()


def test_shards__many__come_in_pages(start, tmp_path):
    events(tmp_path, shards=12).close()
    ask = start(tmp_path)
    page = ask("shards", table="events", offset=10, limit=5)
    assert (page["total"], [one["name"] for one in page["shards"]]) == (12, ["0000-0010", "0000-0011"])


# -- indexes ---------------------------------------------------------------------------------------


def test_indexes__rows_behind_the_index__are_not_covered(ask, notes):
    notes.create_text_index("body")
    notes.append([{"id": 10, "body": "late"}, {"id": 11, "body": "later"}])
    (one,) = ask.until(lambda page: page["version"] == 3, "indexes", table="notes")["indexes"]
    assert (one["indexed_rows"], one["unindexed_rows"], one["unindexed_fragments"]) == (3, 2, 1)
    assert (one["segments"], one["column"], one["analyzer"]["language"]) == (1, "body", "english")


# -- checkpoints and clones ------------------------------------------------------------------------


def test_checkpoints__kept_expiring_and_held__are_listed_newest_first(ask, notes, tmp_path):
    notes.checkpoint("for-ever")
    notes.checkpoint("a-week", keep_days=7)
    notes.clone(str(tmp_path / "lake" / "trial")).close()
    found = ask.until(lambda page: page["total"] == 3, "checkpoints", table="notes")["checkpoints"]
    assert [one["version"] for one in found] == sorted((one["version"] for one in found), reverse=True)
    held = next(one for one in found if one["holder"])
    assert held["holder"] == f"{open_store(tmp_path / 'lake').uri}/trial"
    by_name = {one["name"]: one for one in found}
    assert by_name["for-ever"]["expires"] is None
    assert by_name["a-week"]["expires"] > by_name["a-week"]["created"]


def test_lineage__clone_of_a_clone_and_one_outside__is_one_graph_from_each_of_them(ask, notes, tmp_path):
    lake = open_store(tmp_path / "lake").uri
    with notes.clone(f"{lake}/first") as first, first.clone(f"{lake}/second"):
        notes.clone(str(tmp_path / "elsewhere")).close()
    outside = open_store(tmp_path / "elsewhere").uri
    ask.until(lambda found: found["total"] == 3, "tables")

    def related(table):
        found = ask("lineage", table=table)
        clones = {(one["parent"], one["child"]) for one in found["edges"] if one.get("clone")}
        return {one["uri"]: one["state"] for one in found["nodes"]}, clones

    for table in ("notes", "first", "second"):
        nodes, clones = ask.until(lambda found: len(found["nodes"]) == 4, "lineage", table=table), related(table)[1]
        assert {one["uri"]: one["state"] for one in nodes["nodes"]} == {
            f"{lake}/notes": "open",
            f"{lake}/first": "open",
            f"{lake}/second": "open",
            outside: "outside",
        }
        assert {(f"{lake}/notes", f"{lake}/first"), (f"{lake}/first", f"{lake}/second")} <= clones


def test_lineage__more_tables_than_are_drawn__says_that_it_is_cut(ask, notes, tmp_path, monkeypatch):
    monkeypatch.setattr("siltstone.console.lineage.NODES_MAX", 2)
    for name in ("a", "b"):
        notes.clone(str(tmp_path / "lake" / name)).close()
    found = ask.until(lambda graph: graph["cut"], "lineage", table="notes")
    assert len(found["nodes"]) == 2


# -- health ----------------------------------------------------------------------------------------


def test_health__object_store_decides__is_reachable_and_timed(ask):
    found = ask("health", table="notes")
    assert (found["decides"], found["guard"], found["commits"]) == ("the object store", "receipt", None)
    assert found["store"]["ok"] is True
    assert found["store"]["read_ms"] >= 0
    assert found["store"]["kind"] == "file"


def test_health__commit_store__is_compared_with_the_newest_version(start, tmp_path):
    with events(tmp_path, commits=f"sqlite:{tmp_path}/claims.db") as table:
        table.append([{"id": 1, "body": "a"}])
        unknown = start(tmp_path)("health", table="events")
        assert (unknown["decides"], unknown["commits"]["ok"]) == ("sqlite", None)
        found = start(tmp_path, commits=f"sqlite:{tmp_path}/claims.db")("health", table="events")["commits"]
        assert (found["ok"], found["says"]) == (True, "it knows version 1 as it is published")


def test_health__commit_store_that_is_gone_or_another__is_told_and_not_made(start, tmp_path):
    events(tmp_path, commits=f"sqlite:{tmp_path}/claims.db").close()
    gone = start(tmp_path, commits=f"sqlite:{tmp_path}/other.db")("health", table="events")["commits"]
    assert (gone["ok"], gone["error"]["kind"]) == (False, "not-found")
    assert not (tmp_path / "other.db").exists()
    create_table(tmp_path / "x", schema=NOTES, commits=f"sqlite:{tmp_path}/other.db").close()
    other = start(tmp_path, commits=f"sqlite:{tmp_path}/other.db")("health", table="events")["commits"]
    assert other["ok"] is False
    assert "does not know version 0" in other["says"]


# -- reading only ----------------------------------------------------------------------------------

CALLS = (
    "about",
    "tables",
    "table",
    "history",
    "fragments",
    "shards",
    "indexes",
    "checkpoints",
    "lineage",
    "health",
    "rows",
)


def test_every_call__on_a_table_that_has_everything__writes_nothing(start, tmp_path):
    with events(tmp_path, shards=2) as table:
        table.append([{"id": 1, "body": "late delivery"}])
        table.create_text_index("body")
        table.delete("id = 1")
        with table.writer() as writer:
            writer.put([{"id": 2, "body": "late"}])
        table.clone(str(tmp_path / "trial")).close()
    ask = start(tmp_path)
    with unchanged(open_store(tmp_path)):
        for call in CALLS:
            assert ask.get(call, **({} if call in {"about", "tables"} else {"table": "events"})).status == 200
        ask("version", table="events", version=2)
        assert len(ask("search", table="events", index="body", query="late", fresh=1)["hits"]) == 1
        assert ask("rows", table="events", fresh=1)["rows"] == [["2", "late"]]


def test_history__entry_claimed_and_not_published__is_left_to_writers(start, tmp_path):
    commits = f"sqlite:{tmp_path}/claims.db"
    with events(tmp_path / "lake", commits=commits) as table:
        table.append([{"id": 1, "body": "a"}])
    # As where a writer died between its claim and its entry. Who reads with the commit store closes the place.
    (tmp_path / "lake" / "events" / "log" / "entries" / f"{1:020}").unlink()
    ask = start(tmp_path / "lake", commits=commits)
    with unchanged(open_store(tmp_path / "lake")):
        assert ask("history", table="events")["newest"] == 0


def test_every_call__over_s3_with_keys__works_and_repeats_no_key(start):
    secret = "k3y-of-a-bucket"
    with FaultServer(in_thread=True) as server:
        options = server.storage_options | {"aws_secret_access_key": secret}
        with create_table("s3://bkt/lake/events", schema=NOTES, key="id", shards=2, storage_options=options) as table:
            table.append([{"id": 1, "body": "late"}])
            with table.writer() as writer:
                writer.put([{"id": 2, "body": "later"}])
            table.clone("s3://bkt/lake/trial", storage_options=options).close()
        ask = start("s3://bkt/lake", storage_options=options, secrets=(secret,))
        assert [one["path"] for one in ask("tables")["tables"]] == ["events", "trial"]
        bodies = [ask.get(call, **({} if call in {"about", "tables"} else {"table": "events"})) for call in CALLS]
        assert {reply.status for reply in bodies} == {200}
        assert not [reply.body for reply in bodies if secret.encode() in reply.body]
