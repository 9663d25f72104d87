"""The change feed of any operations in any order, against a dict and a count of rows."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from row_tables import RowTable, numbered
from siltstone.table.changes import Changes


def feed(table, since, until):
    """(version, change, id, text) of each change."""
    found = Changes(table.tools, table.history, table.state, since=since, until=until)
    return [(row["_version"], row["_change"], row["id"], row["text"]) for row in found.to_arrow().to_pylist()]


some_ids = st.lists(st.integers(0, 25), min_size=1, max_size=8, unique=True)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), some_ids),
        st.tuples(st.just("append"), some_ids),
        st.tuples(st.just("overwrite"), some_ids),
        st.tuples(st.just("delete"), st.integers(1, 5)),
        st.tuples(st.just("update"), st.integers(1, 5)),
        st.tuples(st.just("compact"), st.integers(1, 9)),
        st.tuples(st.just("late"), st.integers(1, 5)),
        st.tuples(st.just("restore"), st.integers(0, 100)),
    ),
    max_size=12,
)


def play(table, found):
    """Do some steps, as far as they can be done."""
    for number, (what, value) in enumerate(found):
        if what in {"upsert", "append", "overwrite"}:
            keyed = bool(table.state.schema.key)
            there = {row["id"] for row in table.rows()} if keyed and what == "append" else set()
            rows = numbered(*(one for one in value if one not in there), text=f"{number} ")
            if rows:
                getattr(table, "append" if what == "upsert" and not keyed else what)(rows)
        elif what == "delete":
            table.delete(f"id % 6 = {value}")
        elif what == "update":
            table.update({"text": f"'{number}'"}, f"id % 6 = {value}")
        elif what == "compact":
            table.compact(rows_target=value)
        elif what == "late" and len(table.state.fragments):
            work = table.rewritten(rows_target=value)
            table.other().delete("id = 3 and text like '%1'")
            if len(table.other().state.fragments) == len(table.state.fragments):
                table.do(work)
            table.refresh()
        elif what == "restore":
            table.restore(value % (table.state.version + 1))


def applied(rows, found):
    """What a consumer makes of some rows and a feed: a count of each row."""
    model = Counter((row["id"], row["text"]) for row in rows)
    for _, kind, one, text in found:
        model[one, text] += {"insert": 1, "update_after": 1, "delete": -1, "update_before": -1}[kind]
        assert model[one, text] >= 0
    return +model


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.sampled_from([None, "id"]), st.data())
def test_changes__any_operations__lead_from_one_version_to_another(found, key, data):
    table = RowTable(key=key)
    play(table, found)
    until = data.draw(st.integers(0, table.state.version))
    since = data.draw(st.integers(0, until))
    news = feed(table, since, until)
    rows = table.rows(until)
    assert applied(table.rows(since), news) == Counter((row["id"], row["text"]) for row in rows)
    assert [version for version, *_ in news] == sorted(version for version, *_ in news)
    if key:
        model = {row["id"]: row["text"] for row in table.rows(since)}
        for _, kind, one, text in news:
            assert (one in model) == (kind != "insert") or kind == "update_after"
            if kind in {"delete", "update_before"}:
                assert model.pop(one) == text
            else:
                model[one] = text
        assert model == {row["id"]: row["text"] for row in rows}
        pairs = Counter((version, one, kind) for version, kind, one, _ in news)
        assert all(count == 1 for count in pairs.values())
        for version, one, kind in pairs:
            other = {"update_before": "update_after", "update_after": "update_before"}.get(kind)
            assert other is None or (version, one, other) in pairs
            if kind in {"insert", "delete"}:
                assert (version, one, {"insert": "delete", "delete": "insert"}[kind]) not in pairs
