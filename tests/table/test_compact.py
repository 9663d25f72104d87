"""Compaction: the same rows in fewer files, whatever others do meanwhile."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pytest

from row_tables import RowTable, grown, ids_of, numbered
from siltstone.errors import InvalidInputError
from siltstone.table import compact as module
from siltstone.table.compact_ranges import KeyRanges


def last_change(table):
    return table.state.recent[-1].change


# -- what becomes of a table ---------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, "id"])
def test_compact__small_fragments__become_one_with_the_same_rows(key):
    table = grown([5, 1], [4, 2], [3], key=key)
    before = table.rows()
    done = table.compact()
    assert table.rows() == before
    assert (done.fragments_before, done.fragments_after, done.rows, done.versions) == (3, 1, 5, 1)
    assert done.bytes_before > done.bytes_after > 0
    assert done.version == table.state.version == 4
    assert table.other().rows() == before


def test_compact__version__says_that_rows_are_the_same():
    table = grown([1], [2])
    table.compact()
    change = last_change(table)
    assert (change.operation, change.rewrite, len(change.add), len(change.remove)) == ("compact", True, 1, 2)
    assert change.counts.inserted == change.counts.deleted == 0


def test_compact__without_a_key__keeps_the_order_of_rows():
    table = grown([5, 1], [4, 2], [3])
    table.compact()
    assert ids_of(table) == [[5, 1, 4, 2, 3]]


@pytest.mark.parametrize("lots", [[], [[1, 2, 3]]])
def test_compact__nothing_to_do__makes_no_version(lots):
    table = grown(*lots)
    version = table.state.version
    done = table.compact()
    assert table.refresh().state.version == version
    assert (done.versions, done.rows, done.fragments_before) == (0, 0, done.fragments_after)


@pytest.mark.parametrize("key", [None, "id"])
def test_compact__again__makes_no_version(key):
    table = grown(*([n, n + 50, n + 100] for n in range(40)), key=key)
    table.compact(rows_target=16)
    version = table.state.version
    table.compact(rows_target=16)
    assert table.refresh().state.version == version


def test_compact__many_deleted_rows__are_gone_from_the_files():
    table = grown(range(10))
    table.delete("id < 3")
    table.compact()
    assert ids_of(table) == [list(range(3, 10))]
    assert all(live.vector is None for live in table.state.fragments)


def test_compact__few_deleted_rows__are_left_where_they_are():
    table = grown(range(10))
    table.delete("id < 2")
    assert table.compact().versions == 0


def test_compact__key__leaves_ranges_that_do_not_overlap():
    table = grown(range(0, 100, 2), range(1, 100, 2), range(100, 150), key="id")
    before = table.rows()
    table.compact(rows_target=50)
    found = sorted(ids_of(table))
    assert table.rows() == before
    assert [one for ids in found for one in ids] == list(range(150))
    assert all(len(ids) <= 50 for ids in found)


def test_compact__more_rows_than_a_group_holds__ranges_do_not_overlap_after_all_passes(monkeypatch):
    monkeypatch.setattr("siltstone.table.compact_plan.GROUP_ROWS", 40)
    monkeypatch.setattr(module, "GROUP_ROWS", 40)
    table = grown(*(range(n, 170, 17) for n in range(17)), key="id")
    before = table.rows()
    done = table.compact(rows_target=10)
    found = sorted(ids_of(table))
    assert table.rows() == before
    assert done.versions > 4
    assert [one for ids in found for one in ids] == list(range(170))


def test_compact__rows_over_the_target__are_cut_evenly():
    table = grown(*([n * 3, n * 3 + 1, n * 3 + 2] for n in range(5)))
    table.compact(rows_target=8)
    assert [len(ids) for ids in ids_of(table)] == [8, 7]


def test_compact__more_than_memory_allows__is_done_in_several_versions(monkeypatch):
    monkeypatch.setattr(module, "GROUP_BYTES", 1)
    monkeypatch.setattr("siltstone.table.tasks.TOGETHER_FILES", 2)
    table = grown(*([n] for n in range(8)))
    before = table.rows()
    told = []
    done = table.compact(rows_target=4, progress=lambda *rows: told.append(rows))
    assert table.rows() == before
    assert done.versions > 1
    assert told[0] == (0, 8)
    assert told[-1] == (done.rows, done.rows)
    assert [rows for rows, _ in told] == sorted(rows for rows, _ in told)
    assert all(done <= total for done, total in told)


def test_compact__one_small_fragment_amid_large_ones__is_left_alone():
    table = grown(range(10), range(10, 20), key="id")
    table.append(numbered(20))
    version = table.state.version
    table.compact(rows_target=10)
    assert table.state.version == version


def test_compact__old_fragments__get_the_columns_of_now():
    table = grown([1], [2])
    table.add_column(pa.field("stars", pa.int32(), nullable=False), 3)
    table.rename_column("text", "words")
    table.widen_column("stars", pa.int64())
    table.append([{"id": 3, "words": "c", "stars": 2**40}])
    before = table.rows()
    assert table.compact().versions == 1
    assert table.rows() == before
    assert before[0] == {"id": 1, "words": "a1", "stars": 3}


VALUES = {
    "bool": (pa.bool_(), [True, None, False]),
    "list": (pa.list_(pa.string()), [["a", None], None, []]),
    "struct": (pa.struct([("x", pa.int8()), ("y", pa.string())]), [{"x": 1, "y": "b"}, None, {"x": None, "y": ""}]),
    "map": (pa.map_(pa.string(), pa.int32()), [[("a", 1)], None, []]),
    "decimal": (pa.decimal128(9, 2), [Decimal("1.50"), None, Decimal("-2.25")]),
    "time": (pa.timestamp("us", "UTC"), [dt.datetime(2026, 1, 2, tzinfo=dt.UTC), None, None]),
    "vector": (pa.list_(pa.float32(), 2), [[1.0, 2.0], None, [0.5, 0.25]]),
    "bytes": (pa.binary(), [b"\0\xff", None, b""]),
}


def test_compact__every_kind_of_column__is_kept():
    schema = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in VALUES.items())])
    rows = [{"id": 5 - n, **{name: values[n] for name, (_, values) in VALUES.items()}} for n in range(3)]
    table = RowTable(schema, key="id")
    for row in rows:
        table.append([row])
    before = table.rows()
    table.compact()
    assert table.rows() == before
    assert ids_of(table) == [[3, 4, 5]]


KEYS = {
    "long strings": pa.array([f"https://shop.example/reviews/{n:04d}" for n in range(60)]),
    "strings": pa.array([f"{n:04d}" for n in range(60)]),
    "bytes": pa.array([b"the same beginning " + bytes([n]) for n in range(60)], pa.binary()),
    "fixed bytes": pa.array([bytes([n]) * 20 for n in range(60)], pa.binary(20)),
    "large numbers": pa.array([2**63 + n for n in range(60)], pa.uint64()),
    "times": pa.array(range(60), pa.timestamp("ns", "UTC")),
    "dates": pa.array(range(60), pa.int32()).cast(pa.date32()),
    "decimals": pa.array([Decimal(n) / 4 for n in range(60)], pa.decimal128(9, 2)),
}


@pytest.mark.parametrize("kind", KEYS)
def test_compact__keys_of_any_type__are_clustered_once(kind):
    keys = pa.table({"key": KEYS[kind]})
    table = RowTable(keys.schema, key="key")
    for start in range(6):
        table.append(keys.take(pa.array(range(start, 60, 6))))
    table.compact(rows_target=10)
    ranges = sorted(KeyRanges(table.tools).of(table.state).values())
    assert len(ranges) == 6
    assert all(before.high < after.low for before, after in pairwise(ranges))
    assert table.compact(rows_target=10).versions == 0


def test_compact__composite_keys__are_clustered_once():
    keys = pa.table({"group": ["all"] * 40 + ["rest"] * 20, "number": [*range(40), *range(20)]})
    table = RowTable(keys.schema, key=["group", "number"])
    for start in range(6):
        table.append(keys.take(pa.array(range(start, 60, 6))))
    before = table.rows()
    table.compact(rows_target=10)
    ranges = sorted(KeyRanges(table.tools).of(table.state).values())
    assert table.rows() == before
    assert (ranges[0].low, ranges[-1].high) == (("all", 0), ("rest", 19))
    assert all(before.high < after.low for before, after in pairwise(ranges))
    assert table.compact(rows_target=10).versions == 0


@pytest.mark.parametrize("target", [0, -1, 2**31, 1.5, "many", True, None])
def test_compact__bad_target__is_refused(target):
    table = grown([1], [2])
    with pytest.raises(InvalidInputError, match="rows_target must be a whole number from 1"):
        table.compact(rows_target=target)
