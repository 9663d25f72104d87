"""Compaction while others change the table: nothing of theirs is lost, and little of its work."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from row_tables import RowTable, grown, ids_of, numbered
from siltstone.errors import ConflictError
from siltstone.table.compact import Compact, rewrite

# -- others at the same time -----------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, "id"])
def test_compact__rows_deleted_meanwhile__are_deleted_in_the_new_fragments(key):
    table = grown([5, 1, 9], [4, 2, 10], [3, 8, 7, 6], key=key)
    table.delete("id = 4")
    work = table.rewritten(rows_target=4)
    table.other().delete("id in (1, 2, 3, 9)")
    done = table.do(work)
    assert sorted(row["id"] for row in table.rows()) == [5, 6, 7, 8, 10]
    assert done.change.rewrite
    assert done.change.mask
    assert table.compact().versions == 1
    assert sorted(row["id"] for row in table.rows()) == [5, 6, 7, 8, 10]


def test_compact__all_rows_of_a_new_fragment_deleted_meanwhile__it_is_not_added():
    table = grown([1, 4], [2, 3], key="id")
    work = table.rewritten(rows_target=2)
    table.other().delete("id in (1, 2)")
    done = table.do(work)
    assert len(done.change.add) == 1
    assert ids_of(table) == [[3, 4]]


def test_compact__deletes_land_again_and_again__all_are_carried_over():
    table = grown(range(10), range(10, 20))
    work = table.rewritten(rows_target=7)
    others = [table.other() for _ in range(3)]
    for number, other in enumerate(others):
        other.refresh().delete(f"id % 5 = {number}")
    table.do(work)
    assert sorted(row["id"] for row in table.rows()) == [n for n in range(20) if n % 5 > 2]


def test_compact__upsert_and_append_meanwhile__are_kept():
    table = grown([1, 3], [2, 4], key="id")
    work = table.rewritten()
    other = table.other()
    other.upsert(numbered(3, 5, text="new"))
    other.append(numbered(6, text="new"))
    table.do(work)
    assert [row["text"] for row in table.rows()] == ["a1", "a2", "new3", "a4", "new5", "new6"]
    assert len(table.state.fragments) == 3


@pytest.mark.parametrize("what", ["compaction", "overwrite", "delete"])
def test_compact__a_source_goes_meanwhile__is_refused_and_changes_nothing(what):
    table = grown([1], [2], [3])
    work = table.rewritten()
    other = table.other()
    {
        "compaction": other.compact,
        "overwrite": lambda: other.overwrite(numbered(7)),
        "delete": lambda: other.delete("id = 2"),
    }[what]()
    with pytest.raises(ConflictError) as refused:
        table.do(work)
    assert refused.value.hint == "nothing was changed; run it again"
    assert table.refresh().rows() == other.rows()
    assert table.state.version == other.state.version


def test_compact__deleted_rows_restored_meanwhile__is_refused():
    table = grown([1, 2, 3], [4, 5])
    version = table.state.version
    table.delete("id = 2")
    work = table.rewritten()
    table.other().restore(version)
    with pytest.raises(ConflictError, match="got deleted rows back"):
        table.do(work)
    assert [row["id"] for row in table.refresh().rows()] == [1, 2, 3, 4, 5]


def test_compact__dropped_column_restored_meanwhile__is_refused():
    table = grown([1], [2])
    version = table.state.version
    table.drop_column("text")
    work = table.rewritten()
    table.other().restore(version)
    with pytest.raises(ConflictError, match="columns were changed"):
        table.do(work)
    assert [row["text"] for row in table.refresh().rows()] == ["a1", "a2"]


@pytest.mark.parametrize("change", [{"to": pa.int64()}, {"nullable": True}])
def test_compact__column_made_narrower_meanwhile__is_refused(change):
    table = RowTable(pa.schema([("id", pa.int32()), pa.field("n", pa.int32(), nullable=False)]))
    for n in range(2):
        table.append([{"id": n, "n": n}])
    version = table.state.version
    table.widen_column("n", **change)
    work = table.rewritten()
    table.other().restore(version)
    with pytest.raises(ConflictError, match="columns were changed"):
        table.do(work)


def test_compact__column_added_and_widened_meanwhile__stands():
    schema = pa.schema([("id", pa.int32()), ("text", pa.string())])
    table = RowTable(schema)
    table.append(numbered(1))
    table.append(numbered(2))
    work = table.rewritten()
    other = table.other()
    other.add_column(pa.field("stars", pa.int8()), 5)
    other.widen_column("id", pa.int64())
    other.rename_column("text", "words")
    table.do(work)
    assert table.rows() == [{"id": n, "words": f"a{n}", "stars": 5} for n in (1, 2)]


def test_compact__other_compacts_first__plans_anew_and_finds_nothing():
    table = grown([1], [2], [3])
    other = table.other()
    calls = []

    def meanwhile(*rows):
        if not calls:
            other.compact()
        calls.append(rows)

    done = table.compact(progress=meanwhile)
    assert (done.versions, done.fragments_after) == (0, 1)
    assert done.state.version == other.state.version == 4


def test_compact__others_are_first_all_the_time__is_refused():
    table = grown([1], [2], [3])
    other = table.other()

    def meanwhile(*_):
        other.refresh().overwrite(numbered(1))
        other.append(numbered(2))

    with pytest.raises(ConflictError, match="replaced meanwhile"):
        table.compact(progress=meanwhile)
    assert [row["id"] for row in other.refresh().rows()] == [1, 2]


def test_compact__one_group_comes_too_late__the_others_are_kept():
    table = grown([1], [2], range(10, 20), [30], [31], key="id")
    other = table.other()
    calls = []

    def meanwhile(*rows):
        if not calls:
            other.delete("id = 2")
        calls.append(rows)

    done = table.compact(rows_target=10, progress=meanwhile)
    assert done.versions == 1
    assert sorted(ids_of(table)) == [[1], list(range(10, 20)), [30, 31]]


def test_run__after_it_was_committed__is_refused():
    table = grown([1, 4], [3, 2], key="id")
    work = table.rewritten()
    other = table.other()
    for where in ("id = 1", "id = 2"):
        other.delete(where)
    table.do(work)
    with pytest.raises(ConflictError, match="was replaced"):
        table.do(work)


def test_rewrite__read_rows__go_where_the_mapping_says():
    random = np.random.default_rng(7)
    ids = random.permutation(500)
    table = grown(*(ids[start : start + 50].tolist() for start in range(0, 500, 50)), key="id")
    table.delete("id % 7 = 0")
    lives = list(table.state.fragments)
    done = rewrite(table.tools, table.state.schema, lives, base=table.state.version, rows_target=64)
    field = table.state.schema.fields[:1]
    for source in done.sources:
        fragment = source.live.fragment
        deleted = table.tools.vectors.read(source.live.vector, fragment)
        rows = np.flatnonzero(~deleted.mask())[::3]
        wanted = table.tools.files.open(fragment).take(rows, field).column(0).to_pylist()
        found = [
            one
            for new, numbers in done.find(source, rows, deleted)
            for one in table.tools.files.open(new).take(numbers, field).column(0).to_pylist()
        ]
        assert sorted(found) == sorted(wanted)


# -- any order of events --------------------------------------------------------------------------------

ids = st.lists(st.integers(0, 30), min_size=1, max_size=8, unique=True)
events = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), ids),
        st.tuples(st.just("delete"), st.integers(1, 5)),
        st.tuples(st.just("compact"), st.integers(1, 9)),
        st.tuples(st.just("begin"), st.integers(1, 9)),
        st.tuples(st.just("end"), st.none()),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(events)
def test_compact__any_order_of_events__rows_are_those_of_a_dict(found):
    table, model = RowTable(key="id"), {}
    begun: list[Compact] = []
    for number, (what, value) in enumerate(found):
        table = table.other()
        if what == "upsert":
            table.upsert(numbered(*value, text=f"{number} "))
            model |= {one: f"{number} {one}" for one in value}
        elif what == "delete":
            table.delete(f"id % 6 = {value}")
            model = {one: text for one, text in model.items() if one % 6 != value}
        elif what == "compact":
            table.compact(rows_target=value)
        elif what == "begin" and len(table.state.fragments):
            begun.append((table, table.rewritten(rows_target=value)))
        elif what == "end" and begun:
            older, work = begun.pop()
            try:
                older.do(work)
            except ConflictError:
                older.refresh()
            table = older
        assert {row["id"]: row["text"] for row in table.rows()} == model
        assert len(table.rows()) == len(model)
