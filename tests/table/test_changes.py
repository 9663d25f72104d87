"""The change feed: applied to the rows of one version, it gives those of another."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from row_tables import COLUMNS, RowTable, numbered
from siltstone import paths
from siltstone.errors import InvalidInputError, MissingObjectError, NotFoundError, TruncatedError
from siltstone.table.changes import Changes
from siltstone.table.operations import Append, Delete


def changes(table, since=0, until=None, columns=None):
    return Changes(table.tools, table.history, table.state, since=since, until=until, columns=columns)


def feed(table, since=0, until=None):
    """(version, change, id, text) of each change."""
    rows = changes(table, since, until).to_arrow().to_pylist()
    return [(row["_version"], row["_change"], row["id"], row["text"]) for row in rows]


# -- what operations give ----------------------------------------------------------------------------------


def test_changes__append__are_inserts():
    table = RowTable()
    table.append(numbered(1, 2))
    table.append(numbered(3))
    assert feed(table) == [(1, "insert", 1, "a1"), (1, "insert", 2, "a2"), (2, "insert", 3, "a3")]
    assert feed(table, 1) == [(2, "insert", 3, "a3")]
    assert feed(table, 0, 1) == [(1, "insert", 1, "a1"), (1, "insert", 2, "a2")]


@pytest.mark.parametrize("key", [None, "id"])
def test_changes__delete__are_deletes_of_rows_that_were_left(key):
    table = RowTable(key=key)
    table.append(numbered(1, 2, 3, 4))
    table.delete("id = 1")
    table.delete("id < 3")
    table.delete(None)
    assert feed(table, 1, 3) == [(2, "delete", 1, "a1"), (3, "delete", 2, "a2")]
    assert feed(table, 3) == [(4, "delete", 3, "a3"), (4, "delete", 4, "a4")]


def test_changes__upsert__are_updates_and_inserts():
    table = RowTable(key="id")
    table.append(numbered(1, 2, 3))
    table.upsert([{"id": 2, "text": "new"}, {"id": 4, "text": "new"}])
    assert feed(table, 1) == [
        (2, "update_before", 2, "a2"),
        (2, "update_after", 2, "new"),
        (2, "insert", 4, "new"),
    ]


def test_changes__upsert_of_the_same_row__is_an_update():
    table = RowTable(key="id")
    table.append(numbered(1, 2))
    table.upsert(numbered(2))
    assert feed(table, 1) == [(2, "update_before", 2, "a2"), (2, "update_after", 2, "a2")]


def test_changes__rows_given_twice_in_one_upsert__only_the_last_one_counts(monkeypatch):
    monkeypatch.setattr("siltstone.table.inserts.GATHERED_ROWS", 1)
    table = RowTable(key="id")
    rows = [{"id": 1, "text": "first"}, {"id": 2, "text": "second"}, {"id": 1, "text": "last"}]
    table.upsert(pa.concat_tables(pa.Table.from_pylist([row], schema=COLUMNS) for row in rows))
    assert sorted(feed(table)) == [(1, "insert", 1, "last"), (1, "insert", 2, "second")]


@pytest.mark.parametrize(("key", "kinds"), [("id", ("update_before", "update_after")), (None, ("delete", "insert"))])
def test_changes__update__is_told_by_keys_where_there_are(key, kinds):
    table = RowTable(key=key)
    table.append(numbered(1, 2, 3))
    table.update({"text": "'new'"}, "id > 1")
    before, after = kinds
    assert feed(table, 1) == [(2, before, 2, "a2"), (2, before, 3, "a3"), (2, after, 2, "new"), (2, after, 3, "new")]


def test_changes__overwrite__are_deletes_updates_and_inserts():
    table = RowTable(key="id")
    table.append(numbered(1, 2))
    table.overwrite(numbered(2, 3, text="b"))
    assert feed(table, 1) == [
        (2, "delete", 1, "a1"),
        (2, "update_before", 2, "a2"),
        (2, "update_after", 2, "b2"),
        (2, "insert", 3, "b3"),
    ]


def test_changes__compaction_and_columns__are_none():
    table = RowTable(key="id")
    table.append(numbered(1))
    table.append(numbered(2))
    table.compact()
    table.add_column(pa.field("stars", pa.int8()))
    assert feed(table, 2) == []


def test_changes__compaction_that_carried_deletes_over__is_none():
    table = RowTable(key="id")
    table.append(numbered(1, 2))
    table.append(numbered(3, 4))
    work = table.rewritten()
    table.other().delete("id = 3")
    table.do(work)
    assert feed(table, 2) == [(3, "delete", 3, "a3")]
    table.upsert(numbered(4, text="b"))
    assert feed(table, 4) == [(5, "update_before", 4, "a4"), (5, "update_after", 4, "b4")]


@pytest.mark.parametrize("key", [None, "id"])
def test_changes__restore__are_the_rows_that_came_back_and_went(key):
    table = RowTable(key=key)
    table.append(numbered(1, 2, 3))
    table.append(numbered(4))
    table.delete("id in (1, 4)")
    table.append(numbered(5))
    table.restore(2)
    assert feed(table, 4) == [(5, "delete", 5, "a5"), (5, "insert", 4, "a4"), (5, "insert", 1, "a1")]


def test_changes__restore_over_an_upsert__is_an_update():
    table = RowTable(key="id")
    table.append(numbered(1, 2))
    table.upsert(numbered(1, text="b"))
    table.restore(1)
    assert feed(table, 2) == [(3, "update_before", 1, "b1"), (3, "update_after", 1, "a1")]


def test_changes__no_version_between__are_none():
    table = RowTable()
    table.append(numbered(1))
    assert feed(table, 1) == feed(table, 0, 0) == []
    assert changes(table, 1).to_arrow().schema == changes(table, 1).schema


def test_changes__transaction__is_one_version():
    table = RowTable(key="id")
    table.append(numbered(1, 2, 3))
    table.do(Delete("id = 1", table.state.schema), Append(table.inserted(numbered(1, 9, text="b"))))
    assert feed(table, 1) == [(2, "update_before", 1, "a1"), (2, "update_after", 1, "b1"), (2, "insert", 9, "b9")]


# -- columns -------------------------------------------------------------------------------------------------


def test_changes__columns_changed_since__are_those_of_the_last_version():
    table = RowTable(pa.schema([("id", pa.int32()), ("text", pa.string()), ("old", pa.string())]), key="id")
    table.append([{"id": 1, "text": "a", "old": "x"}])
    table.drop_column("old")
    table.add_column(pa.field("stars", pa.int8(), nullable=False), 5)
    table.rename_column("text", "words")
    table.widen_column("id", pa.int64())
    table.upsert([{"id": 1, "words": "b", "stars": 1}])
    found = changes(table)
    assert found.schema.names == ["id", "words", "stars", "_change", "_version"]
    assert found.schema.field("id").type == pa.int64()
    assert [tuple(row.values()) for row in found.to_arrow().to_pylist()] == [
        (1, "a", 5, "insert", 1),
        (1, "a", 5, "update_before", 6),
        (1, "b", 1, "update_after", 6),
    ]
    assert changes(table, 0, 1).schema.names == ["id", "text", "old", "_change", "_version"]


def test_changes__some_columns__are_read_in_the_order_asked_for():
    table = RowTable(key="id")
    table.append(numbered(1))
    table.upsert(numbered(1, text="b"))
    found = changes(table, columns=["text"]).to_arrow()
    assert found.column_names == ["text", "_change", "_version"]
    assert found.column("_change").to_pylist() == ["insert", "update_before", "update_after"]
    assert changes(table, columns=["text", "id"]).schema.names[:2] == ["text", "id"]


def test_changes__column_made_narrower_by_a_restore__is_read_where_it_fits():
    table = RowTable(pa.schema([("id", pa.int32()), ("text", pa.string())]), key="id")
    table.append(numbered(1))
    table.widen_column("id", pa.int64())
    table.append(numbered(7))
    table.restore(1)
    assert feed(table, 1) == [(3, "insert", 7, "a7"), (4, "delete", 7, "a7")]


def test_changes__column_made_narrower_by_a_restore__is_refused_where_it_does_not_fit():
    table = RowTable(pa.schema([("id", pa.int32()), ("text", pa.string())]))
    table.append(numbered(1))
    table.widen_column("id", pa.int64())
    table.append(numbered(2**40))
    table.restore(1)
    with pytest.raises(InvalidInputError, match=r"column 'id' has values in version 3 that don't fit its type int32"):
        changes(table, 1).to_arrow()
    assert changes(table, 1, columns=["text"]).to_arrow().num_rows == 2
    assert changes(table, 1, 3).to_arrow().num_rows == 1


# -- ways out ------------------------------------------------------------------------------------------------


@pytest.fixture
def small():
    table = RowTable(key="id")
    table.append(numbered(*range(5)))
    table.upsert(numbered(3, text="b"))
    return table


def test_changes__every_way_out__gives_the_same_rows(small):
    found = changes(small)
    rows = found.to_arrow().to_pylist()
    assert len(rows) == 7
    assert pa.Table.from_batches(found.to_batches()).to_pylist() == rows
    assert pa.Table.from_batches(list(found)).to_pylist() == rows
    assert found.to_reader().read_all().to_pylist() == rows
    assert found.to_pandas().to_dict("records") == rows
    assert found.to_polars().to_dicts() == rows
    assert pl.DataFrame(found).to_dicts() == rows
    assert pa.table(found).to_pylist() == rows


def test_changes__schema__has_the_two_columns_last(small):
    assert changes(small).schema == pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("text", pa.string()),
            pa.field("_change", pa.string(), nullable=False),
            pa.field("_version", pa.int64(), nullable=False),
        ]
    )
    assert changes(small).to_arrow().schema == changes(small).schema


def test_changes__repr__says_which(small):
    assert repr(changes(small)) == "Changes(versions 1 to 2, id, text)"
    assert (changes(small).since, changes(small).until) == (0, 2)


def test_changes__made_before_others_commit__stay_as_they_were(small):
    found = changes(small)
    before = found.to_arrow()
    small.other().append(numbered(100))
    assert found.to_arrow().equals(before)
    assert found.until == 2


def test_changes__small_versions__share_batches():
    table = RowTable()
    for number in range(20):
        table.append(numbered(number))
    assert [batch.num_rows for batch in changes(table).to_batches()] == [20]


def test_changes__nothing_asked_for__nothing_is_read(small):
    deleted = [info.key for info in small.log.store.list("data")]
    found = changes(small)
    small.log.store.delete(deleted)
    assert found.schema.names[0] == "id"
    with pytest.raises(MissingObjectError, match=r"data/.*parquet"):
        found.to_arrow()


# -- many rows -------------------------------------------------------------------------------------------------


def test_changes__many_rows_in_many_lots__are_paired_all_the_same(monkeypatch):
    monkeypatch.setattr("siltstone.table.changes_rows.KEYS_BYTES", 20_000)
    monkeypatch.setattr("siltstone.table.changes_rows.TAKEN_TOGETHER", 700)
    monkeypatch.setattr("siltstone.table.tasks.SMALL_ROWS", 10)
    monkeypatch.setattr("siltstone.table.layout.GROUP_ROWS", 1500)
    table = RowTable(key="id")
    random = np.random.default_rng(3)
    first = random.permutation(20_000)[:12_000]
    second = random.permutation(20_000)[:9_000]
    texts = pa.array(np.char.add("text ", np.arange(20_000).astype(str)))
    for ids in np.array_split(first, 5):
        table.append(pa.table({"id": ids, "text": texts.take(pa.array(ids))}))
    table.upsert(pa.table({"id": second, "text": pa.repeat("new", len(second))}))
    found = changes(table, 5).to_arrow()
    both = np.intersect1d(first, second)
    kinds = Counter(found.column("_change").to_pylist())
    assert kinds == {
        "update_before": len(both),
        "update_after": len(both),
        "insert": len(second) - len(both),
    }
    frame = found.to_pandas()
    for kind, expected in (
        ("update_before", both),
        ("update_after", both),
        ("insert", np.setdiff1d(second, first)),
    ):
        part = frame[frame["_change"] == kind]
        assert np.array_equal(np.sort(part["id"]), expected)
        assert (part["text"] == ("text " + part["id"].astype(str) if kind == "update_before" else "new")).all()


def test_changes__many_fragments_go_at_once__all_their_rows_are_deletes():
    table = RowTable()
    for number in range(40):
        table.append(numbered(number, 1000 + number))
    table.delete("id = 1005")
    table.delete(None)
    found = feed(table, 41)
    assert Counter(kind for _, kind, _, _ in found) == {"delete": 79}
    assert {one for _, _, one, _ in found} == {*range(40), *range(1000, 1040)} - {1005}


def test_changes__more_versions_than_are_held_at_once__all_come(monkeypatch):
    monkeypatch.setattr("siltstone.table.changes.STEPS_TOGETHER", 3)
    table = RowTable()
    for number in range(20):
        table.append(numbered(number))
    assert [(version, one) for version, _, one, _ in feed(table, 4, 17)] == [(n + 1, n) for n in range(4, 17)]


# -- bad input -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["1", 1.0, True, b"1", np.int64(1), [1]])
@pytest.mark.parametrize("name", ["since", "until"])
def test_changes__version_of_another_type__is_refused(small, name, value):
    with pytest.raises(InvalidInputError, match=f"{name} must be a whole number, got"):
        changes(small, **{"since": 0, name: value})


def test_changes__since_none__is_refused(small):
    with pytest.raises(InvalidInputError, match="since must be a whole number, got NoneType"):
        changes(small, None)


@pytest.mark.parametrize("name", ["since", "until"])
def test_changes__negative_version__is_refused(small, name):
    with pytest.raises(InvalidInputError, match=f"{name} must not be negative, got -1"):
        changes(small, **{"since": 0, name: -1})


@pytest.mark.parametrize("name", ["since", "until"])
def test_changes__version_beyond_the_newest__is_not_found(small, name):
    with pytest.raises(NotFoundError, match=r"there is no version 3 \(the newest version is 2\)"):
        changes(small, **{"since": 0, name: 3})


def test_changes__since_after_until__is_refused(small):
    with pytest.raises(InvalidInputError, match="since must not be after until, got 2 and 1"):
        changes(small, 2, 1)


@pytest.mark.parametrize("columns", ["id", [], ["nothing"], ["id", "id"], 5])
def test_changes__bad_columns__are_refused(small, columns):
    with pytest.raises(InvalidInputError):
        changes(small, columns=columns)


def test_changes__versions_collected__are_truncated(small):
    for number in range(40):
        small.append(numbered(100 + number))
    small.log.truncate(small.history.at(35).mark)
    assert len(feed(small, 36)) == 6
    with pytest.raises(TruncatedError):
        changes(small, 3)


def test_changes__versions_collected_while_they_are_read__are_truncated(small):
    found = changes(small, 0)
    for number in range(40):
        small.append(numbered(100 + number))
    small.log.truncate(small.history.at(35).mark)
    with pytest.raises(TruncatedError):
        found.to_arrow()


def test_changes__fragment_gone__names_it(small):
    name = next(iter(small.state.fragments)).fragment.name
    small.log.store.delete([paths.data(name)])
    with pytest.raises(MissingObjectError, match=name):
        changes(small.other()).to_arrow()
