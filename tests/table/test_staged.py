"""Work of many processes becomes one version: what they write and find, and how it is put together."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

import staged_jobs as jobs
from key_types import KEYS
from row_tables import RowTable, grown, in_order, numbered
from siltstone.api import create_table, open_table
from siltstone.api.staging import Staging
from siltstone.errors import ConflictError, DuplicateKeyError, InternalError, InvalidInputError
from siltstone.table.arguments import check_once
from siltstone.table.near import near_fragments
from siltstone.table.operations import Append, Overwrite, Upsert
from siltstone.table.row_set import row_set
from siltstone.table.schema import arrow_schema
from siltstone.table.staged import Met, Staged, as_matched, choose, gather, meet, stage_rows

SCHEMA = pa.schema([pa.field("id", pa.int32(), nullable=False), ("score", pa.int32()), ("note", pa.string())])


def rows(ids, note="new"):
    return [{"id": id_, "score": id_ % 7, "note": f"{note}{id_ % 3}"} for id_ in ids]


# -- keys of all types ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KEYS)
def test_upsert__key_of_any_type__replaces_the_rows_with_the_same_keys(kind):
    arrow, value = KEYS[kind]
    table = RowTable(pa.schema([pa.field("id", arrow, nullable=False), ("text", pa.string())]), key="id")
    model = {}

    def given(numbers, text):
        model.update((value(n), text) for n in numbers)
        return [{"id": value(n), "text": text} for n in numbers]

    for start in (0, 40, 80):
        table.append(given(range(start, start + 40), "old"))
    work = jobs.upsert(table, [given(range(30, 50), "new"), given(range(90, 120, 3), "newer"), given([5], "alone")])
    table.other().append([{"id": value(120), "text": "theirs"}])
    model[value(120)] = "theirs"
    done = table.do(work)
    assert done.change.counts.updated == 31
    assert in_order(table.rows()) == in_order([{"id": id_, "text": text} for id_, text in model.items()])


def test_upsert__composite_key__tells_rows_with_the_same_first_column_apart():
    columns = pa.schema([("a", pa.string()), ("b", pa.int32()), ("text", pa.string())])
    table = RowTable(columns, key=["a", "b"])
    model = {(a, b): "old" for a in "xyz" for b in range(-5, 5)}
    table.append([{"a": a, "b": b, "text": text} for (a, b), text in model.items() if a < "z"])
    table.append([{"a": a, "b": b, "text": text} for (a, b), text in model.items() if a == "z"])
    lots = [{("x", -3): "1", ("x", 9): "1", ("y", 0): "1"}, {("x", 3): "2", ("z", 0): "2"}, {("y", -1): "3"}]
    work = jobs.upsert(table, [[{"a": a, "b": b, "text": text} for (a, b), text in lot.items()] for lot in lots])
    assert table.do(work).change.counts.updated == 5
    for lot in lots:
        model |= lot
    assert {(row["a"], row["b"]): row["text"] for row in table.rows()} == model


def test_upsert__key_was_widened_since_the_tasks_ran__replaces_the_same_rows():
    table = RowTable(SCHEMA, key="id")
    table.append(rows([-5, 3, 9]))
    work = jobs.upsert(table, [rows([3], "a"), rows([4], "b")])
    other = table.other()
    other.widen_column("id", pa.int64())
    other.append(rows([2**40]))
    table.do(work)
    assert [row["id"] for row in sorted(table.rows(), key=lambda row: row["id"])] == [-5, 3, 4, 9, 2**40]


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("kind", KEYS)
def test_near_fragments__keys_of_any_type__leaves_none_out_that_has_one_of_them(kind, folded):
    arrow, value = KEYS[kind]
    table = RowTable(pa.schema([pa.field("id", arrow, nullable=False)]), key="id")
    lots = [range(20), range(10, 40), range(40, 41), range(60, 121)]
    for number, lot in enumerate(lots):
        table.upsert([{"id": value(n)} for n in lot if number != 1 or n >= 20])
    fragments = table.state.fragments.folded() if folded else table.state.fragments
    state = dataclasses.replace(table.state, fragments=fragments)
    for numbers in (range(5), [25], [40], range(39, 62), range(50, 55), range(121)):
        [staged] = jobs.staged_rows(table, [[{"id": value(n)} for n in numbers]])
        near = {live.fragment.name for live in near_fragments(state, staged.fragments[0])}
        for live in table.state.fragments:
            if len(meet(jobs.site_of(table), live, {0: staged.fragments[0]}).rows[0]):
                assert live.fragment.name in near
    if kind in {"int64", "date", "timestamp", "time"}:
        [staged] = jobs.staged_rows(table, [[{"id": value(n)} for n in range(50, 55)]])
        assert near_fragments(state, staged.fragments[0]) == []


# -- gathering ----------------------------------------------------------------------------------------------------


def test_gather__two_tasks_have_a_key_in_common__is_refused():
    table = grown(key="id")
    with pytest.raises(DuplicateKeyError, match="comes twice") as refused:
        jobs.append(table, [numbered(1, 5, 9), numbered(2, 5), numbered(20)])
    assert refused.value.facts["keys"] == "5"


def test_stage_rows__a_key_twice__hint_says_what_helps_here(tmp_path):
    table = RowTable(pa.schema([("a", pa.string()), ("b", pa.int32())]), key=["a", "b"])
    twice = [{"a": "x", "b": 1}] * 3
    with pytest.raises(DuplicateKeyError, match=r"^a key comes twice in what was given: \('x', 1\) \(") as alone:
        jobs.gathered(table, [twice])
    with pytest.raises(DuplicateKeyError, match=r"^a key comes twice in what was given: \('x', 1\) \(") as apart:
        jobs.gathered(table, [twice[:1], twice[:1], twice[:1]])
    for refused in (alone, apart):
        assert 'dropDuplicates(["a", "b"])' in refused.value.hint
        assert "row_number()" in refused.value.hint
        assert "upsert" not in refused.value.hint, "it refuses them too"


def test_append__keys_are_there_in_many_fragments__the_count_is_true_or_says_that_it_is_not_all():
    table = RowTable(key="id")
    for first in range(0, 1000, 500):
        table.append(numbered(*range(first, first + 500)))
    with pytest.raises(DuplicateKeyError, match=r"^1,000 keys are in the table already, such as 0, 1, 2, 3, 4 \("):
        table.append(numbered(*range(1000), 2000))
    with pytest.raises(DuplicateKeyError, match=r"^1 key is in the table already: 7 \("):
        table.append(numbered(7, 3000))
    with pytest.raises(DuplicateKeyError, match=r"^2 keys are in the table already: 7, 900 \("):
        table.append(numbered(900, 7))
    lots = [numbered(*range(400, 700)), numbered(3, 1001)]
    with pytest.raises(DuplicateKeyError, match=r"^at least 300 keys are in the table already, such as 400, 401, "):
        table.do(jobs.append(table, lots))
    with pytest.raises(DuplicateKeyError, match=r"^1 key is in the table already: 3 \("):
        table.do(jobs.append(table, [numbered(1002), numbered(3)]))


@pytest.mark.parametrize("kind", KEYS)
def test_gather__two_tasks_have_a_key_of_any_type_in_common__is_refused(kind):
    arrow, value = KEYS[kind]
    table = RowTable(pa.schema([pa.field("id", arrow, nullable=False)]), key="id")
    apart = [[{"id": value(n)} for n in numbers] for numbers in (range(0, 40, 2), range(1, 40, 2), [60])]
    assert jobs.gathered(table, apart).rows == 41
    with pytest.raises(DuplicateKeyError):
        jobs.gathered(table, [*apart, [{"id": value(60)}]])


def test_gather__composite_keys_with_the_same_first_column__are_told_apart():
    table = RowTable(pa.schema([("a", pa.string()), ("b", pa.int32())]), key=["a", "b"])
    lots = [[{"a": "x", "b": 1}, {"a": "y", "b": 1}], [{"a": "x", "b": 2}], [{"a": "y", "b": 2}]]
    assert jobs.gathered(table, lots).rows == 4
    with pytest.raises(DuplicateKeyError, match="'y', 1"):
        jobs.gathered(table, [*lots, [{"a": "y", "b": 1}]])


def test_gather__ranges_of_tasks_are_apart__no_keys_are_read():
    table = grown(key="id")
    apart = jobs.staged_rows(table, [numbered(*range(10)), numbered(*range(10, 20)), numbered(*range(30, 40))])
    meeting = jobs.staged_rows(table, [numbered(*range(100, 110)), numbered(*range(105, 107))], twice="refuse")
    other, store = jobs.metered(table)
    assert gather(other.tools, table.state.schema, apart).rows == 30
    assert store.usage().total == 0
    with pytest.raises(DuplicateKeyError):
        gather(other.tools, table.state.schema, [*apart, *meeting])
    assert store.usage().requests == {"get": 2}, "those that meet"


def test_gather__a_task_replaces_its_own_rows__they_count_once(monkeypatch):
    monkeypatch.setattr("siltstone.table.inserts.GATHERED_ROWS", 3)
    table = grown([1, 2, 3], key="id")
    site = jobs.site_of(table)
    columns = arrow_schema(table.state.schema)
    lots = [numbered(1, 2, 7, text="a"), numbered(2, 8, 9, text="b"), numbered(2, 1, text="c")]
    first = stage_rows(site, (pa.Table.from_pylist(lot, schema=columns) for lot in lots), twice="last wins")
    assert len(first.fragments) == 3
    second = jobs.staged_rows(table, [numbered(5, text="d")])
    inserted = gather(table.tools, table.state.schema, [jobs.sent(first), *second])
    assert inserted.rows == 6
    done = table.do(Upsert(inserted, matched=jobs.matched(table, inserted)))
    assert (done.change.counts.inserted, done.change.counts.updated) == (4, 2)
    assert [row["text"] for row in table.rows()] == ["c1", "c2", "a3", "d5", "a7", "b8", "b9"]


def test_gather__a_row_that_its_task_replaced_is_in_another__is_no_reason_to_refuse_what_is_left(monkeypatch):
    monkeypatch.setattr("siltstone.table.inserts.GATHERED_ROWS", 1)
    table = grown(key="id")
    columns = arrow_schema(table.state.schema)
    lots = (pa.Table.from_pylist(numbered(one), schema=columns) for one in (1, 3, 1))
    again = stage_rows(jobs.site_of(table), lots, twice="last wins")
    between = jobs.staged_rows(table, [numbered(2)])
    assert gather(table.tools, table.state.schema, [again, *between]).rows == 3
    with pytest.raises(DuplicateKeyError):
        gather(table.tools, table.state.schema, [again, *jobs.staged_rows(table, [numbered(1)])])


@pytest.mark.parametrize("key", [None, "id"])
def test_gather__tasks_wrote_nothing__nothing_is_inserted(key):
    table = grown([1], key=key)
    inserted = gather(table.tools, table.state.schema, [Staged(), Staged()])
    assert inserted.rows == 0
    assert table.do(Append(inserted)).change is None
    assert table.do(Overwrite(inserted)).change.counts.deleted == 1


# -- what tasks find ------------------------------------------------------------------------------------------------


def test_upsert__all_was_found_by_tasks__the_committing_process_reads_no_fragment():
    table = grown(range(0, 20, 2), range(1, 20, 2), range(50, 60), key="id")
    other, store = jobs.metered(table)
    inserted = jobs.gathered(other, [numbered(3, 4, 5), numbered(55)])
    matched = jobs.matched(other, inserted)
    store.reset()
    other.do(Upsert(inserted, matched=matched))
    assert store.usage().requests.get("get", 0) == 0
    assert len(other.rows()) == 30


def test_upsert__fragments_came_since__the_committing_process_reads_keys_for_those_alone():
    table = grown(range(10), range(50, 60), key="id")
    other, store = jobs.metered(table)
    inserted = jobs.gathered(other, [numbered(3, 100), numbered(200, 201)])
    matched = jobs.matched(other, inserted)
    table.append(numbered(99, 100, 101))
    store.reset()
    done = other.do(Upsert(inserted, matched=matched))
    assert done.change.counts.updated == 2
    assert store.usage().requests["get"] == 2, "the keys of one fragment of mine, and of theirs"


def test_meet__deleted_rows__are_found_too_and_counted_by_whoever_commits():
    table = grown([1, 2, 3], key="id")
    version = table.state.version
    table.delete("id = 2")
    work = jobs.upsert(table, [numbered(2, 3, text="new")])
    table.other().restore(version)
    done = table.do(work)
    assert done.change.counts.updated == 2
    assert [row["text"] for row in table.rows()] == ["a1", "new2", "new3"]


def test_as_matched__a_number_that_no_fragment_has__is_an_internal_error():
    with pytest.raises(InternalError):
        as_matched([Met("0" * 20 + "-" + "a" * 32, {3: np.arange(2)})], 3)


@pytest.mark.parametrize(
    ("where", "matches"),
    [
        ("id % 2 = 0", lambda n: n % 2 == 0),
        ("id = 777", lambda n: n == 777),
        ("id = 7", lambda n: n == 7),
        (None, None),
    ],
)
def test_choose__rows_that_match__come_back_in_little(where, matches):
    table = grown(range(1000))
    table.delete("id < 500")
    [live] = table.state.fragments
    site = jobs.site_of(table)
    wanted = [id_ for id_ in range(1000) if where is None or matches(id_)]
    found = jobs.sent(choose(site, live, where))
    assert found.rows.numbers().tolist() == wanted
    assert found.copied == ()
    assert found.rows.packed.nbytes <= 125
    copied = choose(site, live, where, {"text": "'new'"})
    assert copied.left.numbers().tolist() == [id_ for id_ in wanted if id_ >= 500]
    assert sum(one.rows for one in copied.copied) == len(copied.left.numbers())


@pytest.mark.parametrize("rows", [0, 1, 31, 32, 33, 64, 1000])
def test_row_set__any_numbers__come_back(rows):
    chance = np.random.default_rng(rows)
    for share in (0, 0.01, 0.04, 0.5, 1):
        numbers = np.flatnonzero(chance.random(rows) < share)
        made = row_set(numbers, rows=rows)
        assert made.numbers().dtype == np.int64
        assert np.array_equal(jobs.sent(made).numbers(), numbers)
        assert made.packed.nbytes <= min(-(-rows // 8), 4 * len(numbers)) + 3


# -- the handle -------------------------------------------------------------------------------------------------------


def test_staging__table_in_memory__is_refused():
    table = create_table("memory://staged-here", schema=SCHEMA)
    with pytest.raises(InvalidInputError, match="memory of this process"):
        Staging(table)


def test_staging__job_is_run_again__changes_nothing(tmp_path):
    table = create_table(str(tmp_path / "table"), schema=SCHEMA, key="id")
    for turn in range(2):
        staging = Staging(table, once=check_once("job"), message="by many")
        assert staging.applied == bool(turn)
        site = jobs.sent(staging.site)
        assert site.base == turn
        lots = [pa.Table.from_pylist(rows([turn, 10 + turn]), schema=table.schema)]
        inserted = gather(staging.tools, staging.state.schema, [jobs.sent(stage_rows(site, lots, twice="refuse"))])
        version = staging.commit([Append(inserted)])
        assert (version.version, version.operation) == (1, "none" if turn else "append")
    assert sorted(table.scan(["id"]).to_arrow()["id"].to_pylist()) == [0, 10]
    assert table.history()[0].message == "by many"


def test_staging__a_batch_is_run_again_or_comes_late__changes_nothing(tmp_path):
    table = create_table(str(tmp_path / "table"), schema=SCHEMA, key="id")
    for batch, applied in ((3, False), (3, True), (2, True), (4, False)):
        staging = Staging(open_table(table.uri), once=check_once(None, "query", batch))
        assert staging.applied is applied
        staged = stage_rows(staging.site, rows([batch]), twice="refuse")
        staging.commit([Append(gather(staging.tools, staging.state.schema, [staged]))])
    assert sorted(table.scan(["id"]).to_arrow()["id"].to_pylist()) == [3, 4]


def test_staging__the_id_is_of_another_kind_of_work__is_refused_before_anything_is_done(tmp_path):
    table = create_table(str(tmp_path / "table"), schema=SCHEMA, key="id")
    with table.transaction(once="job") as transaction:
        transaction.upsert(rows([1]))
    staging = Staging(open_table(table.uri), once=check_once("job"))
    assert staging.applied_as("upsert")
    with pytest.raises(InvalidInputError, match="once='job' was applied as an upsert in version 1, and this is a del"):
        staging.applied_as("delete")
    staged = stage_rows(staging.site, rows([2]), twice="refuse")
    with pytest.raises(InvalidInputError, match="applied as an upsert in version 1, and this is an append"):
        staging.commit([Append(gather(staging.tools, staging.state.schema, [staged]))])
    assert staging.commit([]).version == 1, "a mark alone is no other work"
    assert table.version == 1


def test_site__two_of_one_store__share_their_readers(tmp_path):
    table = create_table(str(tmp_path / "table"), schema=SCHEMA)
    staging = Staging(table)
    first = jobs.sent(staging.site).tools()
    table.append(rows([1]))
    assert jobs.sent(Staging(open_table(table.uri)).site).tools() is first
    assert str(tmp_path) not in repr(staging.site)


def test_append__columns_changed_since_the_tasks_ran__is_a_conflict():
    table = grown([1])
    work = jobs.append(table, [numbered(2)])
    table.other().drop_column("text")
    with pytest.raises(ConflictError):
        table.do(work)
