"""An update that is run again since others came first writes only what it had not written before."""

from __future__ import annotations

import random
import time

import pyarrow as pa
import pytest

import staged_jobs as jobs
from row_tables import RowTable, grown, numbered
from siltstone.errors import InvalidInputError
from siltstone.table.draft import Draft
from siltstone.table.update import Update

NEW = {"text": "concat(text, '!')"}
CLOCK = {"text": "CAST(CAST(now() AS BIGINT) AS VARCHAR)"}


class Again:
    """An update on one handle, which is run, and run again after each event on another."""

    def __init__(self, table, where=None, values=None):
        self.table = table
        self.work = Update(values or NEW, where, table.state.schema, base=table.state.version)
        self.wrote = []  # how many fragments each run wrote
        self.run()

    def run(self):
        before = jobs.data_objects(self.table)
        draft = Draft(self.table.tools, self.table.refresh().state)
        self.work.run(draft)
        self.wrote.append(len(jobs.data_objects(self.table) - before))
        return draft

    def then(self, event):
        event(self.table.other())
        return self.run()

    def commit(self):
        """Commit; the counts, and the texts of the rows."""
        done = self.table.do(self.work)
        return done.change.counts.updated, [row["text"] for row in self.table.rows()]


@pytest.mark.parametrize("key", [None, "id"])
def test_run__again_on_the_same_version__writes_nothing(key):
    again = Again(grown([1, 2], [3], key=key), "id > 1")
    again.run()
    assert again.wrote == [1, 0]
    assert again.commit() == (2, ["a1", "a2!", "a3!"])
    assert again.wrote == [1, 0]


@pytest.mark.parametrize("key", [None, "id"])
def test_run__rows_came_that_match__they_alone_are_written(key):
    again = Again(grown(range(10), key=key), "id > 1")
    again.then(lambda other: other.append(numbered(20)))
    again.then(lambda other: other.append(numbered(0 if key is None else -1)))
    assert again.wrote == [1, 1, 0]
    updated, texts = again.commit()
    assert updated == 9
    assert sum(text.endswith("!") for text in texts) == 9


@pytest.mark.parametrize("key", [None, "id"])
def test_run__rows_are_gone__their_copies_are_masked(key):
    again = Again(grown(range(10), range(10, 20), key=key))
    again.then(lambda other: other.delete("id in (3, 13, 14)"))
    assert again.wrote == [1, 0]
    updated, texts = again.commit()
    assert updated == 17
    assert sorted(texts) == sorted(f"a{one}!" for one in range(20) if one not in {3, 13, 14})


@pytest.mark.parametrize("key", [None, "id"])
def test_run__most_rows_are_gone__the_rest_is_written_anew(key):
    again = Again(grown(range(10), range(10, 20), key=key))
    again.then(lambda other: other.delete("id < 11"))
    assert again.wrote == [1, 1]
    draft = again.then(lambda other: other.delete("id = 12"))
    assert again.wrote == [1, 1, 0]
    [added] = draft.state.fragments
    assert added.fragment.rows == 9, "no row of it is wasted but the one that went last"
    assert again.commit() == (8, sorted(f"a{one}!" for one in range(11, 20) if one != 12))


@pytest.mark.parametrize("key", [None, "id"])
def test_run__all_rows_are_gone__nothing_is_changed(key):
    again = Again(grown([1, 2], [3], key=key), "id < 3")
    again.then(lambda other: other.delete("id < 3"))
    assert again.table.do(again.work).change is None
    assert [row["text"] for row in again.table.rows()] == ["a3"]


@pytest.mark.parametrize("key", [None, "id"])
def test_run__rows_come_back__their_copies_count_again(key):
    table = grown(range(10), key=key)
    version = table.state.version
    again = Again(table)
    again.then(lambda other: other.delete("id in (2, 3)"))
    again.then(lambda other: other.restore(version))
    assert again.wrote == [1, 0, 0]
    assert again.commit()[0] == 10


@pytest.mark.parametrize("key", [None, "id"])
def test_run__rows_that_were_never_there_come_back__they_alone_are_written(key):
    table = grown(range(10), key=key)
    version = table.state.version
    table.delete("id in (2, 3)")
    again = Again(table)
    again.then(lambda other: other.restore(version))
    assert again.wrote == [1, 1]
    assert again.commit() == (10, [f"a{one}!" for one in range(10)])


def test_run__others_upsert_the_same_keys__their_rows_get_the_new_values():
    again = Again(grown(range(10), key="id"), "id < 8")
    again.then(lambda other: other.upsert(numbered(3, 9, 4, text="b")))
    again.then(lambda other: other.upsert(numbered(4, text="c")))
    assert again.wrote == [1, 1, 1]
    updated, texts = again.commit()
    assert updated == 8
    assert texts == ["a0!", "a1!", "a2!", "b3!", "c4!", "a5!", "a6!", "a7!", "a8", "b9"]


@pytest.mark.parametrize("key", [None, "id"])
def test_run__fragments_were_compacted__rows_are_written_anew_and_old_copies_left_out(key):
    again = Again(grown(range(5), range(5, 10), key=key))
    again.then(lambda other: other.compact())
    assert again.commit() == (10, [f"a{one}!" for one in range(10)])
    assert len(again.table.state.fragments) == 1


@pytest.mark.parametrize(
    "event",
    [
        lambda other: other.add_column(pa.field("extra", pa.int64()), 7),
        lambda other: other.widen_column("id", pa.int64()),
        lambda other: (other.add_column(pa.field("extra", pa.int64()), 7), other.drop_column("extra")),
    ],
)
def test_run__columns_changed__rows_are_written_anew(event):
    table = RowTable(pa.schema([("id", pa.int32()), ("text", pa.string())]), key="id")
    table.append(numbered(1, 2))
    again = Again(table, "id = 2")
    again.then(event)
    assert again.wrote == [1, 1]
    assert again.commit() == (1, ["a1", "a2!"])
    for live in table.state.fragments:
        assert table.tools.files.open(live.fragment).fragment.rows > 0


@pytest.mark.parametrize("where", ["id = 2", "id = 7"])
def test_run__the_column_is_gone__is_refused_also_where_no_row_matches(where):
    again = Again(grown([1, 2]), where)
    again.table.other().rename_column("text", "words")
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="text"):
            again.run()
    again.table.other().rename_column("words", "text")
    again.run()
    assert again.wrote == [int(where == "id = 2"), 0]


def test_run__another_column_has_the_name_that_the_filter_reads__rows_are_found_anew():
    table = RowTable(pa.schema([("id", pa.int64()), ("text", pa.string()), ("a", pa.int64()), ("b", pa.int64())]))
    table.append([{"id": n, "text": f"a{n}", "a": n, "b": -n} for n in range(4)])
    again = Again(table, "a = 2")
    other = table.other()
    for name, to in (("a", "c"), ("b", "a"), ("c", "b")):
        other.rename_column(name, to)
    other.update({"a": "2"}, "id = 3")
    assert again.commit() == (1, ["a0", "a1", "a2", "a3!"])


# -- many fragments of copies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, "id", ["part", "id"]])
@pytest.mark.parametrize("seed", range(6))
def test_run__copies_lie_in_many_fragments__rows_are_those_of_a_dict(monkeypatch, key, seed):
    monkeypatch.setattr("siltstone.table.update.UPDATED_TOGETHER", 3)
    monkeypatch.setattr("siltstone.table.inserts.GATHERED_ROWS", 4)
    chance = random.Random(seed)
    table = RowTable(pa.schema([("part", pa.string()), ("id", pa.int64()), ("text", pa.string())]), key=key)
    model = {}

    def given(ids):
        model.update((id_, f"b{id_}") for id_ in ids)
        return [{"part": f"part {id_ % 3}", "id": id_, "text": f"b{id_}"} for id_ in ids]

    for start in range(0, 60, 20):
        table.append(given(chance.sample(range(start, start + 20), 15)))
    again = Again(table, "id % 4 != 1")
    again.table.refresh()
    for turn in range(5):
        gone = chance.sample(sorted(model), 4)
        model = {id_: text for id_, text in model.items() if id_ not in gone}
        fresh = [100 * (turn + 1) + one for one in range(3)]
        table.other().delete(f"id in ({', '.join(map(str, gone))})")
        again.then(lambda other, fresh=fresh: other.append(given(fresh)))
    again.commit()
    wanted = {id_: text + "!" * (id_ % 4 != 1) for id_, text in model.items()}
    assert len(table.rows()) == len(wanted)
    assert {row["id"]: row["text"] for row in table.rows()} == wanted
    assert {row["id"]: row["part"] for row in table.rows()} == {id_: f"part {id_ % 3}" for id_ in wanted}


@pytest.mark.parametrize(
    "event",
    [
        lambda other: other.append(numbered(7)),
        lambda other: other.delete("id < 5"),
        lambda other: (other.append(numbered(7)), other.add_column(pa.field("more", pa.int64()))),
    ],
    ids=["rows", "most go", "columns"],
)
def test_run__again_with_the_clock__all_rows_have_the_time_of_the_statement(event):
    before = time.time_ns()
    again = Again(grown(range(6)), values=CLOCK)
    after = time.time_ns()
    again.then(event)
    assert again.wrote == [1, 1]
    [told] = set(again.commit()[1])
    assert before <= int(told) <= after


@pytest.mark.parametrize("key", [None, "id"])
def test_run__two_updates_of_one_transaction__the_second_sees_the_first_also_when_run_again(key):
    table = grown(range(6), key=key)
    schema, base = table.state.schema, table.state.version
    first = Update(NEW, "id > 1", schema, base=base)
    second = Update({"text": "concat(text, '?')"}, "text like '%!'", schema, base=base)
    other = table.other()
    other.append(numbered(7, 8))
    other.delete("id = 3")
    done = table.do(first, second)
    assert done.change.counts.updated == 10
    assert [row["text"] for row in table.rows()] == ["a0", "a1", "a2!?", "a4!?", "a5!?", "a7!?", "a8!?"]
    assert len(done.change.add) == 2, "what the first wrote alone is not added"


def test_run__copies_of_tasks_with_the_clock__all_have_one_time():
    before = time.time_ns()
    table = grown(range(10), range(10, 20), range(20, 30), key="id")
    work = jobs.update(table, CLOCK, "id % 2 = 0")
    table.other().append(numbered(40, 42))
    after = time.time_ns()
    assert table.refresh().do(work).change.counts.updated == 17
    [told] = {row["text"] for row in table.rows() if row["id"] % 2 == 0}
    assert before <= int(told) <= after


def test_run__copies_of_tasks_and_copies_of_its_own__are_kept_both():
    table = grown(range(10), range(10, 20), key="id")
    work = jobs.update(table, NEW, "id % 2 = 0")
    written = jobs.data_objects(table)
    other = table.other()
    other.append(numbered(30, 31))
    other.delete("id in (4, 5)")
    other.upsert(numbered(12, text="b"))
    theirs = jobs.data_objects(table) - written
    done = table.refresh().do(work)
    assert len(jobs.data_objects(table) - written - theirs) == 1, "for the rows that came since"
    assert done.change.counts.updated == 10
    texts = {row["id"]: row["text"] for row in table.rows()}
    assert texts == {
        **{n: f"a{n}{'' if n % 2 else '!'}" for n in (*range(20), 30, 31) if n not in {4, 5}},
        12: "b12!",
    }
