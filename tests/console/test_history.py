"""Versions in pages, and what each one changed."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from console_worlds import NOTES
from paper_tables import grow, new_table
from siltstone.api import create_table, open_table
from siltstone.store.connect import open_store


def changes(ask, version, table="notes"):
    """What is said of a version: for each kind the signs and names, with what is said of them."""
    found = ask("version", table=table, version=version)["changes"]
    return {group["kind"]: [(one["sign"], one["name"], one["detail"]) for one in group["items"]] for group in found}


def test_version__create_and_append__columns_and_fragments_are_added(ask, notes):
    assert changes(ask, 0) == {"columns": [("+", "id", "int64 not null, key"), ("+", "body", "string")]}
    ((sign, name, detail),) = changes(ask, 1)["fragments"]
    fragment = next(iter(notes._now().fragments)).fragment
    assert (sign, name) == ("+", fragment.name)
    assert detail == f"3 rows, {fragment.bytes:,} bytes"


def test_version__delete__says_how_many_rows_of_which_fragment(ask, notes):
    notes.delete("id = 2")
    name = next(iter(notes._now().fragments)).fragment.name
    assert changes(ask, 2) == {"deleted rows": [("~", name, "0 → 1 of 3 rows deleted")]}
    shown = ask("version", table="notes", version=2)
    assert (shown["operation"], shown["deleted"], shown["inserted"]) == ("delete", 1, 0)


def test_version__compact__removes_what_it_rewrote(ask, notes):
    old = {live.fragment.name for live in notes._now().fragments}
    notes.append([{"id": 4, "body": "x"}])
    old |= {live.fragment.name for live in notes._now().fragments}
    notes.compact()
    found = changes(ask, 3)["fragments"]
    assert {name for sign, name, _ in found if sign == "-"} == old
    assert [detail.split(",")[0] for sign, _, detail in found if sign == "+"] == ["4 rows"]
    assert ask("version", table="notes", version=3)["flags"] == ["the same rows in other files"]


def test_version__columns_changed__says_before_and_after(ask, notes):
    notes.add_column(pa.field("stars", pa.int32()), default=3)
    notes.rename_column("stars", "rank")
    notes.widen_column("rank", pa.int64())
    notes.drop_column("rank")
    assert changes(ask, 2) == {"columns": [("+", "stars", "int32, 3 in earlier rows")]}
    assert changes(ask, 3) == {"columns": [("~", "rank", "stars int32 → int32")]}
    assert changes(ask, 4) == {"columns": [("~", "rank", "int32 → int64")]}
    assert changes(ask, 5) == {"columns": [("-", "rank", "int64")]}


def test_version__tags_settings_and_checkpoints__are_named_with_what_they_were(ask, notes):
    notes.tag("good")
    notes.tag("good", version=0)
    notes.set({"owner": "a"})
    notes.set({"owner": "b"})
    notes.set({"owner": None})
    notes.checkpoint("kept")
    assert changes(ask, 2)["tags"] == [("+", "good", "version 1")]
    assert changes(ask, 3)["tags"] == [("~", "good", "version 1 → version 0")]
    assert changes(ask, 4)["settings"] == [("+", "owner", "a")]
    assert changes(ask, 5)["settings"] == [("~", "owner", "a → b")]
    assert changes(ask, 6)["settings"] == [("-", "owner", "b")]
    assert changes(ask, 7)["checkpoints"] == [("+", "kept", "version 7, all, for ever")]
    named = {one["version"]: one for one in ask("history", table="notes")["versions"]}
    assert (named[0]["tags"], named[7]["checkpoints"]) == (["good"], ["kept"])


def test_version__indexes__say_segments_and_rows(ask, notes):
    notes.create_text_index("body")
    notes.append([{"id": 4, "body": "more"}])
    notes.optimize_index("body")
    notes.drop_index("body")
    assert changes(ask, 2)["indexes"] == [("+", "body", "1 segment, 3 rows")]
    ((sign, _, detail),) = changes(ask, 4)["indexes"]
    assert sign == "~"
    assert detail.startswith("1 segment, 3 rows → ")
    assert changes(ask, 5)["indexes"][0][:2] == ("-", "body")


def test_version__merge_of_shards__says_from_where_to_where(start, tmp_path):
    with create_table(tmp_path / "events", schema=NOTES, key="id", shards=1) as table:
        with table.writer() as writer:
            writer.put([{"id": 1, "body": "a"}])
            writer.put([{"id": 2, "body": "b"}])
        table.merge_shards()
    ask = start(tmp_path)
    assert changes(ask, 0, "events")["shards"] == [("+", "0000-0000", "a new shard")]
    ((sign, name, detail),) = changes(ask, 1, "events")["shards"]
    assert (sign, name) == ("~", "0000-0000")
    assert detail.startswith("merged 0 → ")
    (merge,) = [one for one in ask("history", table="events")["versions"] if one["operation"] == "merge"]
    assert (merge["inserted"], merge["shards"]) == (2, ["0000-0000"])


def test_version__once_stream_and_message__are_shown(ask, notes):
    with notes.transaction(once="job/1", message="nightly") as tx:
        tx.append([{"id": 9, "body": "n"}])
    with notes.transaction(stream="feed", batch=3) as tx:
        tx.append([{"id": 10, "body": "m"}])
    shown = ask("version", table="notes", version=2)
    assert (shown["once"], shown["message"]) == (["job/1"], "nightly")
    assert changes(ask, 2)["table"] == [("+", "applied once", "job/1")]
    assert changes(ask, 3)["streams"] == [("+", "feed", "batch 3")]


@pytest.mark.parametrize("version", ["-1", "x", "1e3", "", "9" * 30])
def test_version__no_number__is_refused(ask, version):
    assert ask.get("version", table="notes", version=version).error == (400, "invalid-input")


def test_version__not_there_yet__is_not_found(ask):
    assert ask.get("version", table="notes", version=99).error == (404, "not-found")


def test_history__in_pages__every_version_is_there_once(ask, notes):
    for number in range(4, 10):
        notes.append([{"id": number, "body": "x"}])
    seen, before = [], ""
    while before is not None:
        page = ask("history", table="notes", limit=3, before=before)
        seen += [one["version"] for one in page["versions"]]
        before = page["before"]
    assert seen == list(range(7, -1, -1))


def test_history__another_handle_appends__shows_it(ask, tmp_path):
    assert ask("history", table="notes")["newest"] == 1
    with open_table(tmp_path / "lake" / "notes") as other:
        other.append([{"id": 7, "body": "new"}])
    found = ask.until(lambda page: page["newest"] == 2, "history", table="notes")
    assert (found["versions"][0]["operation"], found["versions"][0]["inserted"]) == ("append", 1)


def test_history__collected_versions__those_that_are_kept_stay_and_the_rest_is_refused(ask, notes):
    notes.tag("old", version=1)
    for number in range(4, 7):
        notes.append([{"id": number, "body": "x"}])
    notes.gc(keep_days=0)
    newest = notes.version
    page = ask.until(lambda page: page["newest"] == newest, "history", table="notes")
    versions = [one["version"] for one in page["versions"]]
    assert versions == [one.version for one in notes.history()]
    assert versions[-1] == 1
    gone = next(number for number in range(newest) if number not in versions)
    assert ask.get("version", table="notes", version=gone).error == (404, "truncated")
    assert ask.get("version", table="notes", version=1).status == 200


def test_history__many_versions__a_page_reads_its_own_entries_once(start):
    store = open_store(f"memory://console-{uuid.uuid4().hex}")
    grow(*new_table(store), 150)
    ask = start(store.uri)
    ask("table", table="")
    with ask.console.root.lease("") as held:
        held.log.store.reset()
        page = ask("history", table="", limit=10, before=60)
        assert [one["version"] for one in page["versions"]] == list(range(59, 49, -1))
        first = held.log.store.usage().requests["get"]
        ask("history", table="", limit=10, before=60)
        again = held.log.store.usage().requests["get"] - first
    assert first <= 10 + 2
    assert again <= 2


def test_fragments__many__a_page_has_its_own_alone(start):
    store = open_store(f"memory://console-{uuid.uuid4().hex}")
    state = grow(*new_table(store), 90)
    page = start(store.uri)("fragments", table="", sort="name", offset=85, limit=10)
    names = sorted(live.fragment.name for live in state.fragments)
    assert (page["total"], [one["name"] for one in page["fragments"]]) == (90, names[85:])
