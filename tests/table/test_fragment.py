"""Fragments: what is written is read back by others, in bounded memory, through lost answers."""

from __future__ import annotations

import datetime as dt
import io
import threading
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fragment_files import NAME, file_of, people, read_all, same, write
from siltstone import paths
from siltstone.errors import (
    InternalError,
    LimitExceededError,
)
from siltstone.store.memory import MemoryStore
from siltstone.table import fragment as fragments
from siltstone.table import layout
from siltstone.table.fragment import FragmentWriter, write_fragment
from siltstone.table.schema import make_schema
from siltstone.testing.manual import manual_env

# -- what is in a file -----------------------------------------------------------------------------


def test_writer__rows_of_many_types__are_read_back_the_same():
    table = pa.table(
        {
            "bool": pa.array([True, None, False]),
            "i8": pa.array([-128, 0, 127], pa.int8()),
            "u64": pa.array([2**64 - 1, 0, None], pa.uint64()),
            "f32": pa.array([1.5, float("nan"), None], pa.float32()),
            "text": pa.array(["", "\0 ä", None]),
            "bytes": pa.array([b"", b"\0\xff", None]),
            "fixed": pa.array([b"ab", None, b"cd"], pa.binary(2)),
            "day": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
            "time": pa.array([0, None, 86_399_999_999_999], pa.time64("ns")),
            "stamp": pa.array([-1, None, 2**62], pa.timestamp("ns", "Europe/Vienna")),
            "span": pa.array([-1, None, 5], pa.duration("s")),
            "price": pa.array([Decimal("-1.10"), None, Decimal("99999999.99")], pa.decimal128(10, 2)),
            "list": pa.array([["a", None], [], None]),
            "struct": pa.array([{"x": 1, "y": ["z"]}, None, {"x": None, "y": None}]),
            "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
            "vector": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2)),
        }
    )
    for rows in (3, 3000):
        store = MemoryStore()
        given = pa.concat_tables([table] * (rows // 3))
        [one] = write(store, given)
        assert one.fragment.rows == rows
        assert one.keys is None
        found = read_all(store, [one])
        assert found.column_names == table.column_names
        for name in table.column_names:
            if name == "f32":
                assert str(found[name].to_pylist()) == str(given[name].to_pylist())
            else:
                assert found[name].to_pylist() == given[name].to_pylist()


def test_writer__nested_columns__every_part_has_its_field_id():
    table = pa.table(
        {"s": [{"x": 1, "tags": ["a"]}], "id": [1], "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))}
    )
    store = MemoryStore()
    [one] = write(store, table, key="id")
    schema = file_of(store, one.fragment).schema_arrow
    ids = [schema.field("s"), *schema.field("s").type, schema.field("s").type.field("tags").type.value_field]
    ids += [schema.field("id"), schema.field("m"), schema.field("m").type.key_field, schema.field("m").type.item_field]
    assert [int(field.metadata[b"PARQUET:field_id"]) for field in ids] == list(range(1, 9))


def test_writer__a_keyed_table__is_sorted_with_bloom_filter_page_index_and_keys_in_file_order():
    table = pa.table({"s": [{"x": 1, "y": 2}] * 5000, "id": np.random.default_rng(1).permutation(5000)})
    store = MemoryStore()
    [one] = write(store, table, key="id")
    group = file_of(store, one.fragment).metadata.row_group(0)
    assert [(column.column_index, column.descending) for column in group.sorting_columns] == [(2, False)]
    key = group.column(2)
    assert key.path_in_schema == "id"
    assert key.bloom_filter_offset
    assert key.has_offset_index
    assert key.has_column_index
    assert key.compression == "ZSTD"
    assert one.keys.column_names == ["id"]
    assert one.keys["id"].to_pylist() == list(range(5000))
    assert read_all(store, [one])["id"].to_pylist() == list(range(5000))


def test_writer__a_composite_key__sorts_by_its_parts_in_the_order_of_the_key():
    table = pa.table({"b": ["y", "x", "x", "y"] * 600, "a": np.arange(2400)[::-1], "v": range(2400)})
    store = MemoryStore()
    [one] = write(store, table, key=["b", "a"])
    rows = list(zip(table["b"].to_pylist(), table["a"].to_pylist(), table["v"].to_pylist(), strict=True))
    found = read_all(store, [one])
    assert [tuple(row.values()) for row in found.to_pylist()] == sorted(rows)
    assert [tuple(row.values()) for row in one.keys.to_pylist()] == [row[:2] for row in sorted(rows)]


def test_writer__few_rows__have_no_bloom_filter_and_a_small_file():
    store = MemoryStore()
    [one] = write(store, people(100), key="id")
    column = file_of(store, one.fragment).metadata.row_group(0).column(0)
    assert column.bloom_filter_offset is None
    assert one.fragment.bytes < 4000


def test_writer__without_sort__keeps_the_order_and_claims_none():
    store = MemoryStore()
    table = people(3000, shuffled=True)
    [one] = write(store, table, key="id", sort=False)
    assert not file_of(store, one.fragment).metadata.row_group(0).sorting_columns
    assert read_all(store, [one])["id"].to_pylist() == table["id"].to_pylist()


def test_writer__columns_of_all_kinds_of_spread__get_the_encoding_that_suits_them():
    rows = 20_000
    random = np.random.default_rng(0)
    table = pa.table(
        {
            "id": np.arange(rows),
            "group": np.array(["a", "b", "c"])[random.integers(0, 3, rows)],
            "text": [f"text {n}" for n in range(rows)],
            "few far": random.integers(-(2**60), 2**60, 50)[random.integers(0, 50, rows)],
            "few near": random.integers(0, 50, rows),
            "stamp": pa.array(random.integers(0, 2**50, rows), pa.timestamp("us")),
            "flag": random.integers(0, 2, rows).astype(bool),
            "tags": pa.array([["x", "y"]] * rows),
            "empty": pa.nulls(rows, pa.string()),
        }
    )
    store = MemoryStore()
    [one] = write(store, table, key="id")
    group = file_of(store, one.fragment).metadata.row_group(0)
    encodings = {group.column(n).path_in_schema: set(group.column(n).encodings) for n in range(group.num_columns)}
    assert {path for path, used in encodings.items() if "RLE_DICTIONARY" in used} == {
        "group", "few far", "tags.list.element",
    }  # fmt: skip
    assert {path for path, used in encodings.items() if "DELTA_BINARY_PACKED" in used} == {"id", "few near", "stamp"}
    assert same(read_all(store, [one]), table)


def test_writer__a_name_with_a_dot_and_a_part_of_a_struct__are_not_confused():
    table = pa.table({"a": [{"b": f"text {n}"} for n in range(3000)], "a.b": range(3000), "c.d": ["x"] * 3000})
    store = MemoryStore()
    [one] = write(store, table, key="a.b")
    assert same(read_all(store, [one]), table)


def test_writer__its_files__are_read_by_duckdb_with_the_rows_pruned(tmp_path):
    store = MemoryStore()
    table = people(300_000, shuffled=True)
    [one] = write(store, table, key="id")
    file = tmp_path / "one.parquet"
    file.write_bytes(store.get(paths.data(one.fragment.name)))
    assert file_of(store, one.fragment).num_row_groups == 3
    found = duckdb.sql(f"select name from '{file}' where id = 123456").fetchall()
    assert found == [("person 123456",)]
    sums = duckdb.sql(f"select sum(id), count(distinct name) from '{file}'").fetchall()
    assert sums == [(300_000 * 299_999 // 2, 300_000)]


# -- how fragments are cut -------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("chunk", [7, 500, 10_000])
def test_writer__chunks_of_any_size__are_cut_at_the_limit_in_order(threads, chunk):
    store = MemoryStore()
    table = people(2_500)
    writer = FragmentWriter(
        store, make_schema(table.schema, None), base=3, env=manual_env(), rows_per_fragment=1000, threads=threads
    )
    for start in range(0, 2_500, chunk):
        writer.write(table.slice(start, chunk))
    written = writer.finish()
    assert [one.fragment.rows for one in written] == [1000, 1000, 500]
    assert all(one.fragment.name.startswith(f"{3:020d}-") for one in written)
    assert same(read_all(store, written), table)
    assert sorted(info.key for info in store.list()) == sorted(paths.data(one.fragment.name) for one in written)


def test_writer__wide_rows__are_cut_by_bytes():
    store = MemoryStore()
    table = pa.table({"v": ["x" * 1000] * 1000})
    written = write(store, table, bytes_per_fragment=100_000)
    assert [one.fragment.rows for one in written] == [100] * 10
    assert same(read_all(store, written), table)


def test_writer__no_rows__writes_nothing():
    store = MemoryStore()
    assert write(store, people(0)) == []
    assert [*store.list()] == []


def test_writer__files_over_the_size_aimed_at__are_split_evenly(monkeypatch):
    monkeypatch.setattr(layout, "FILE_BYTES", 100_000)
    monkeypatch.setattr(layout, "GROUP_ROWS", 2_000)
    store = MemoryStore()
    table = pa.table({"id": range(40_000), "v": np.random.default_rng(0).random(40_000)})
    written = write(store, table, key="id")
    sizes = [one.fragment.bytes for one in written]
    assert max(sizes) < 110_000
    assert min(sizes) > max(sizes) / 2
    assert same(read_all(store, written), table)
    assert pa.concat_tables([one.keys for one in written])["id"].to_pylist() == list(range(40_000))


def test_writer__rows_that_grow_wide_behind_the_first__stay_below_the_limit(monkeypatch):
    monkeypatch.setattr(layout, "FILE_BYTES", 100_000)
    monkeypatch.setattr(layout, "FILE_BYTES_MAX", 130_000)
    random = np.random.default_rng(0)
    values = [b"x"] * 5000 + [random.bytes(60_000) for _ in range(9)]
    store = MemoryStore()
    written = write(store, pa.table({"v": values}))
    assert max(one.fragment.bytes for one in written) <= 130_000
    assert read_all(store, written)["v"].to_pylist() == values


def test_writer__one_row_that_no_file_holds__is_refused(monkeypatch):
    monkeypatch.setattr(layout, "FILE_BYTES_MAX", 50_000)
    with pytest.raises(LimitExceededError, match="one row takes") as raised:
        write(MemoryStore(), pa.table({"v": [b"a", np.random.default_rng(0).bytes(60_000)]}))
    assert raised.value.hint


def test_writer__wide_values__get_small_pages():
    values = [np.random.default_rng(n).bytes(20_000) for n in range(100)]
    store = MemoryStore()
    [one] = write(store, pa.table({"v": values}))
    data = store.get(paths.data(one.fragment.name))
    assert 100 * 20_000 / layout.PAGE_BYTES / 2 < _pages(data) < 20
    assert read_all(store, [one])["v"].to_pylist() == values


def _pages(data):
    """The data pages of a file of one column of values that can't be compressed: each begins its own zstd frame."""
    return data.count(b"\x28\xb5\x2f\xfd")


def test_writer__many_fragments_at_once__hold_no_more_than_a_few_in_memory():
    running, most = [], []
    lock = threading.Lock()

    class Counting(MemoryStore):
        def create(self, key, data):
            with lock:
                running.append(key)
                most.append(len(running))
            super().create(key, data)
            with lock:
                running.remove(key)

    store = Counting()
    table = people(20_000)
    written = write(store, table, rows_per_fragment=1000)
    assert len(written) == 20
    assert max(most) <= fragments.THREADS
    assert same(read_all(store, written), table)


def test_writer__the_keys_it_hands_out__keep_no_other_column_in_memory():
    sink = io.BytesIO()
    table = pa.table({"id": range(5000), "v": ["x" * 100] * 5000})
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    table = pa.ipc.open_stream(pa.py_buffer(sink.getvalue())).read_all()
    [one] = write(MemoryStore(), table, key="id")
    given, kept = table["id"].chunk(0).buffers()[1], one.keys["id"].chunk(0).buffers()[1]
    assert kept.address != given.address
    assert one.keys["id"].to_pylist() == list(range(5000))


# -- one fragment ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shuffled", [False, True])
def test_write_fragment__sorted_or_not__keeps_the_order_and_says_only_what_is_true(shuffled):
    store = MemoryStore()
    table = people(3000, shuffled=shuffled)
    one = write_fragment(store, table, make_schema(table.schema, "id"), name=NAME)
    assert one.name == NAME
    assert bool(file_of(store, one).metadata.row_group(0).sorting_columns) is not shuffled
    assert same(file_of(store, one).read(), table)


def test_write_fragment__more_than_one_file_holds_or_nothing__is_refused(monkeypatch):
    schema = make_schema(people(1).schema, None)
    with pytest.raises(InternalError, match="at least one row"):
        write_fragment(MemoryStore(), people(0), schema, name=NAME)
    monkeypatch.setattr(layout, "FILE_BYTES", 10_000)
    monkeypatch.setattr(layout, "GROUP_ROWS", 500)
    store = MemoryStore()
    with pytest.raises(LimitExceededError, match="don't fit into one file"):
        write_fragment(store, people(5000), schema, name=NAME)
    assert [*store.list()] == []


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=8),
    st.integers(20, 500),
    st.integers(2_000, 40_000),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_writer__any_chunks_and_limits__every_row_is_in_exactly_one_fragment(chunks, rows, size, keyed, random):
    total = sum(chunks)
    ids = random.sample(range(total), total)
    table = pa.table({"id": ids, "v": ["x" * random.randrange(60) for _ in ids]})
    store = MemoryStore()
    schema = make_schema(table.schema, "id" if keyed else None)
    writer = FragmentWriter(store, schema, base=0, rows_per_fragment=rows, bytes_per_fragment=size)
    start = 0
    for chunk in chunks:
        writer.write(table.slice(start, chunk))
        start += chunk
    written = writer.finish()
    assert all(one.fragment.rows <= rows for one in written)
    found = read_all(store, written)
    if keyed:
        assert all(one.keys["id"].to_pylist() == sorted(one.keys["id"].to_pylist()) for one in written)
        assert same(found.sort_by("id"), table.sort_by("id"))
    else:
        assert same(found, table)
