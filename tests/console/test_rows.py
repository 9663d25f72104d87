"""Rows and searches: what is shown, what is cut, and what hostile contents can't do."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from console_worlds import NOTES
from siltstone.api import create_table
from siltstone.console.budget import Budget
from siltstone.console.cells import CELL_CHARACTERS_MAX, cells
from siltstone.console.root import Given, Root
from siltstone.errors import InvalidInputError, PermissionDeniedError, UnavailableError

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>\x1b[31m\u202e\0\r\n"


def test_rows__where_limit_and_version__give_the_rows_of_a_scan(ask, notes):
    notes.append([{"id": 4, "body": None}])
    found = ask.until(lambda page: page["version"] == 2, "rows", table="notes", where="id > 1", limit=2)
    assert found["rows"] == [["2", "Refund came at once."], ["3", "The colour is fine."]]
    assert [one["name"] for one in found["columns"]] == ["id", "body"]
    assert ask("rows", table="notes", where="id = 4")["rows"] == [["4", None]]
    assert ask("rows", table="notes", version=0)["rows"] == []
    assert ask("rows", table="notes", where="id = 4", version=1)["rows"] == []


@pytest.mark.parametrize("where", ["nope = 1", "id =", "1; drop table notes", "id = (select 1)", "\0"])
def test_rows__condition_that_is_wrong__is_refused_with_a_hint(ask, where):
    reply = ask.get("rows", table="notes", where=where)
    assert reply.error == (400, "invalid-input")
    assert reply.json["error"]["hint"]


def test_rows__fresh_and_a_version__is_refused(ask):
    assert ask.get("rows", table="notes", fresh=1, version=1).error == (400, "invalid-input")


def test_rows__huge_and_hostile_cells__come_whole_or_say_how_much_is_cut(ask, notes):
    notes.append([{"id": 10, "body": EVIL}, {"id": 11, "body": "x" * 1_000_000}])
    ask.until(lambda table: table["version"] == 2, "table", table="notes")
    found = ask("rows", table="notes", where="id >= 10")
    assert found["rows"] == [
        ["10", EVIL],
        ["11", {"text": "x" * CELL_CHARACTERS_MAX, "characters": 1_000_000}],
    ]
    reply = ask.get("rows", table="notes", where="id >= 10")
    assert reply.headers["content-type"].startswith("application/json")
    assert len(reply.body) < 5000


def test_rows__more_than_an_answer_holds__are_cut_and_it_is_said(ask, monkeypatch):
    monkeypatch.setattr("siltstone.console.rows.ANSWER_CHARACTERS_MAX", 70)
    found = ask("rows", table="notes")
    assert len(found["rows"]) == 2
    assert "the first 2 of 3 rows" in found["notes"][0]


def test_rows__more_columns_than_are_shown__says_so(start, tmp_path):
    schema = pa.schema([(f"c{number}", pa.int64()) for number in range(70)])
    with create_table(tmp_path / "wide", schema=schema) as table:
        table.append([{f"c{number}": number for number in range(70)}])
    found = start(tmp_path)("rows", table="wide")
    assert (len(found["columns"]), found["columns_total"]) == (60, 70)
    assert found["notes"] == ["the first 60 of 70 columns"]


def test_cells__every_kind_of_value__is_text_or_null():
    moment = datetime(2026, 11, 14, 9, 30, tzinfo=UTC)
    columns = {
        "float": pa.array([1.5, float("nan"), None]),
        "bool": pa.array([True, False, None]),
        "time": pa.array([moment, None, moment], pa.timestamp("us", "UTC")),
        "decimal": pa.array([Decimal("1.20"), None, Decimal("3.00")]),
        "bytes": pa.array([b"\x00\xff", b"", b"z" * 1000]),
        "list": pa.array([["a", None], [], None]),
        "struct": pa.array([{"a": 1}, None, {"a": None}]),
        "word": pa.array(["a", "b", "a"]).dictionary_encode(),
    }
    table = pa.table(columns)
    found = {name: list(cells(table.column(name))) for name in columns}
    assert found["float"] == ["1.5", "nan", None]
    assert found["bool"] == ["true", "false", None]
    assert found["time"] == ["2026-11-14T09:30:00.000000Z", None, "2026-11-14T09:30:00.000000Z"]
    assert found["decimal"] == ["1.20", None, "3.00"]
    assert found["bytes"] == ["00ff", "", {"text": "7a" * (CELL_CHARACTERS_MAX // 2), "characters": 2000}]
    assert found["list"] == ['["a",null]', "[]", None]
    assert found["struct"] == ['{"a":1}', None, '{"a":null}']
    assert found["word"] == ["a", "b", "a"]


# -- search ----------------------------------------------------------------------------------------


@pytest.fixture
def searched(ask, notes):
    notes.create_text_index("body")
    ask.until(lambda table: table["indexes"] == 1, "table", table="notes")
    return ask


def test_search__words__finds_rows_with_marked_snippets(searched):
    found = searched("search", table="notes", index="body", query="late refund -colour")
    assert {tuple(hit["facts"]) for hit in found["hits"]} == {("1",), ("2",)}
    first = next(hit for hit in found["hits"] if hit["facts"] == ["1"])
    assert "".join(piece["text"] for piece in first["snippet"]) == "A slow, late delivery."
    assert [piece["text"] for piece in first["snippet"] if piece["match"]] == ["late"]
    assert [hit["score"] for hit in found["hits"]] == sorted((hit["score"] for hit in found["hits"]), reverse=True)


def test_search__where_and_rows_not_indexed_yet__are_the_searchs_own(searched, notes):
    notes.append([{"id": 9, "body": "late again"}])
    searched.until(lambda table: table["version"] == 3, "table", table="notes")
    found = searched("search", table="notes", index="body", query="late", where="id > 5")
    assert [hit["facts"] for hit in found["hits"]] == [["9"]]
    assert " rows are not in the index, and are read: siltstone index optimize " in found["not_indexed"]
    notes.optimize_index("body")
    searched.until(lambda table: table["version"] == 4, "table", table="notes")
    assert searched("search", table="notes", index="body", query="late")["not_indexed"] == ""


def test_search__hostile_text_with_marks_of_its_own__only_matches_are_marked(searched, notes):
    notes.append([{"id": 20, "body": f"\0\0late\0 {EVIL} needle **needle**"}])
    searched.until(lambda table: table["version"] == 3, "table", table="notes")
    (hit,) = searched("search", table="notes", index="body", query="needle")["hits"]
    assert [piece["text"] for piece in hit["snippet"] if piece["match"]] == ["needle", "needle"]
    assert "<script>" in "".join(piece["text"] for piece in hit["snippet"])


@pytest.mark.parametrize(
    ("index", "query", "status"),
    [("nope", "x", 404), ("id", "x", 404), ("body", '"open', 400), ("body", "(", 400), ("body", "^", 400)],
)
def test_search__index_or_query_that_is_wrong__is_refused(searched, index, query, status):
    reply = searched.get("search", table="notes", index=index, query=query)
    assert reply.status == status
    assert reply.json["error"]["message"]


# -- names, secrets, budgets -----------------------------------------------------------------------


def test_calls__hostile_names_of_columns_tags_and_messages__come_as_they_are(start, tmp_path):
    schema = pa.schema([("<b>id</b>", pa.int64()), ('"; drop --', pa.string()), ("constructor", pa.string())])
    with create_table(tmp_path / "lake" / "o'brien & <i>", schema=schema) as table:
        table.append([{"<b>id</b>": 1, '"; drop --': EVIL, "constructor": "__proto__"}])
        with table.transaction(message=EVIL.replace("\0", "")) as tx:
            tx.append([{"<b>id</b>": 2, '"; drop --': None, "constructor": None}])
    ask = start(tmp_path / "lake" / "o'brien & <i>")
    assert [one["name"] for one in ask("table", table="")["columns"]] == schema.names
    assert ask("history", table="")["versions"][0]["message"] == EVIL.replace("\0", "")
    assert len(ask("rows", table="")["rows"]) == 2


def test_errors__that_repeat_a_secret__are_masked_as_the_command_line_masks_them(start, tmp_path):
    create_table(tmp_path / "t", schema=NOTES).close()
    ask = start(tmp_path, secrets=("s3cret-key",))
    reply = ask.get("rows", table="t", where="nope = 's3cret-key'")
    assert reply.status == 400
    assert b"s3cret-key" not in reply.body
    assert b"***" in reply.body


def test_given__shown_as_text__has_no_options_and_no_commit_store():
    given = Given(
        "s3://b", {"aws_secret_access_key": "s3cret-key"}, "postgresql://me:s3cret-key@db/x", secrets=("s3cret-key",)
    )
    assert "s3cret-key" not in repr(given)


def test_budget__work_that_takes_too_long__is_answered_and_keeps_its_place():
    go, begun = threading.Event(), threading.Event()

    def slow(deadline):
        begun.set()
        go.wait(60)
        return deadline.is_over

    budget = Budget(places=1, seconds=0.05, wait_s=0.01)
    with pytest.raises(UnavailableError, match="given up"):
        budget.run(slow)
    assert begun.is_set()
    with pytest.raises(UnavailableError, match="running already"):
        budget.run(slow)
    go.set()
    assert _place_again(budget) == "done"


def test_budget__work_that_takes_too_long__is_told_with_what_came_to_light():
    go, learned = threading.Event(), []

    def slow(_):
        learned.append("optimize it")
        go.wait(60)

    with pytest.raises(UnavailableError) as refused:
        Budget(places=1, seconds=0.5).run(slow, hint=lambda: next(iter(learned), ""))
    go.set()
    assert refused.value.hint == "optimize it"


def _place_again(budget):
    for _ in range(1000):
        try:
            return budget.run(lambda _: "done")
        except UnavailableError:
            continue
    return "never"


def test_budget__work_that_raises__raises_it():
    with pytest.raises(InvalidInputError, match="wrong"):
        Budget().run(lambda _: (_ for _ in ()).throw(InvalidInputError("wrong")))


def test_rows__budget_used_up__says_so_with_what_to_do(start, notes, tmp_path):
    budget = Budget(places=1, seconds=60, wait_s=0.01)
    ask = start(tmp_path / "lake", budget=budget)
    held, over = threading.Event(), threading.Event()
    holder = threading.Thread(target=budget.run, args=(lambda _: held.set() or over.wait(60),))
    holder.start()
    try:
        assert held.wait(60)
        reply = ask.get("rows", table="notes")
        assert reply.error == (503, "unavailable")
        assert "wait for them" in reply.json["error"]["hint"]
    finally:
        over.set()
        holder.join()
    assert ask.get("rows", table="notes").status == 200


def test_root__its_store__refuses_to_be_written(tmp_path):
    root = Root(Given(str(tmp_path)))
    for call in (
        lambda: root.store.put("k", b""),
        lambda: root.store.create("k", b""),
        lambda: root.store.copy("k", "l"),
        lambda: root.store.delete(["k"]),
        lambda: root.store.sweep(before_ms=0, remove=True),
    ):
        with pytest.raises(PermissionDeniedError):
            call()
    root.close()


def test_root__more_tables_than_handles__keeps_those_used_last_and_closes_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr("siltstone.console.root.HANDLES_MAX", 2)
    for number in range(4):
        create_table(tmp_path / f"t{number}", schema=NOTES, sync=False).close()
    root = Root(Given(str(tmp_path)))
    with root.lease("t0") as kept:
        for path in ("t1", "t2", "t3"):
            with root.lease(path) as held:
                last = held
        assert kept.table.version == 0, "one in use stays open"
    assert set(root._held) == {"t0", "t3"}
    root.close()
    assert last.table._closed
    assert kept.table._closed
