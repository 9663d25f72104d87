from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from every_type import TABLE
from scan_cases import FILTERS
from siltstone import paths
from siltstone.env import REAL
from siltstone.errors import InternalError, InvalidInputError
from siltstone.store.connect import open_store
from siltstone.store.scoped import ScopedStore
from siltstone.table import evolve, layout, memory_file, stream, tasks
from siltstone.table.files import Files
from siltstone.table.fragment import write_fragment
from siltstone.table.lookup import get
from siltstone.table.memory_file import MemoryFile, memory_fragment
from siltstone.table.overlay import overlay_state, overlay_tools
from siltstone.table.scan import Scan
from siltstone.table.schema import arrow_schema, make_schema
from siltstone.table.source import TableSource
from siltstone.table.sql import run_sql
from siltstone.table.vectors import Deleted
from state_tables import StateTable, rows_of

NAME = paths.name(0, "1" * 32)


def in_memory(table, schema):
    table = table.cast(arrow_schema(schema))
    return MemoryFile(memory_fragment(table, schema, REAL), table)


def on_disk(table, schema):
    store = open_store("memory://overlay-files")
    fragment = write_fragment(store, table.cast(arrow_schema(schema)), schema, name=paths.name(0, REAL.ids.new()))
    return Files(store).open(fragment)


# -- rows in memory --------------------------------------------------------------------------------


@pytest.fixture
def both(monkeypatch):
    """The same rows in memory and in a file, several row groups of each."""
    monkeypatch.setattr(memory_file, "GROUP_ROWS", 300)
    monkeypatch.setattr(layout, "GROUP_ROWS", 300)
    rows = rows_of(range(0, 2000, 2))
    schema = make_schema(rows.schema, "id")
    return in_memory(rows, schema), on_disk(rows, schema), schema


def test_read__each_group__is_what_the_file_has(both):
    memory, file, schema = both
    assert memory.groups == file.groups
    for group in range(len(file.groups)):
        assert memory.read(group, schema.fields).equals(file.read(group, schema.fields))
        assert memory.read(group, schema.fields[2:0:-1]).equals(file.read(group, schema.fields[2:0:-1]))
        assert memory.read(group, ()).num_rows == file.groups[group].rows


@pytest.mark.parametrize("rows", [[], [0], [999], [5, 299, 300, 301, 998], list(range(1000))], ids=len)
def test_take__rows__are_those_of_the_file(both, rows):
    memory, file, schema = both
    wanted = np.array(rows, np.int64)
    assert memory.take(wanted, schema.fields).equals(file.take(wanted, schema.fields))
    assert memory.take(wanted, ()).num_rows == len(rows)


@pytest.mark.parametrize("rows", [[-1], [1000], [3, 3], [4, 3]])
def test_take__rows_out_of_range_or_order__are_refused(both, rows):
    with pytest.raises(InvalidInputError, match="out of range or not in order"):
        both[0].take(np.array(rows, np.int64), both[2].fields)


@pytest.mark.parametrize("keys", [[], [4], [3], [1998, 0, 7, 100], list(range(2000))], ids=len)
def test_lookup__keys__finds_what_the_file_does(both, keys):
    memory, file, schema = both
    wanted, column = pa.array(keys, pa.int64()), schema.fields[0]
    assert [one.tolist() for one in memory.find(wanted, column)] == [one.tolist() for one in file.find(wanted, column)]
    rows, which, table = memory.lookup(wanted, column, schema.fields[1:])
    expected = file.lookup(wanted, column, schema.fields[1:])
    assert (rows.tolist(), which.tolist()) == (expected[0].tolist(), expected[1].tolist())
    assert table.equals(expected[2])


def test_find__column_with_nulls__finds_values_alone(both):
    memory, file, schema = both
    names = pa.array(["name 10 xxx", "name 12 xxxxx", "no such"])
    assert [one.tolist() for one in memory.find(names, schema.fields[1])] == [
        one.tolist() for one in file.find(names, schema.fields[1])
    ]


def test_read__every_type__is_what_the_file_has():
    schema = make_schema(TABLE.schema, None)
    memory, file = in_memory(TABLE, schema), on_disk(TABLE, schema)
    found, expected = memory.read(0, schema.fields), file.read(0, schema.fields)
    assert found.schema == expected.schema
    assert str(found.to_pylist()) == str(expected.to_pylist())  # NaN equals itself as a text
    assert memory.fragment.bounds == file.fragment.bounds


def test_read__column_was_added_or_widened_since__is_as_the_table_has_it():
    rows = pa.table({"id": pa.array([1, 2], pa.int32())})
    schema = make_schema(rows.schema, "id")
    memory = in_memory(rows, schema)
    later = evolve.add_column(schema, pa.field("extra", pa.int64(), nullable=False), default=7)
    later = evolve.widen_column(later, "id", pa.int64())
    assert memory.read(0, later.fields).to_pydict() == {"id": [1, 2], "extra": [7, 7]}
    assert memory.read(0, later.fields).schema == arrow_schema(later)
    assert memory.find(pa.array([2, 5]), later.fields[0])[0].tolist() == [1]


def test_bounds__of_rows_in_memory__are_not_told(both):
    memory, _, schema = both
    assert memory.group_bounds(0, schema.fields[0]) is None
    assert memory.page_bounds(0, schema.fields[0]) is None
    assert memory.source is None
    assert memory.nbytes > 1000


def test_memory_file__of_other_rows_than_the_record_says__is_refused(both):
    with pytest.raises(InternalError, match="1000 rows"):
        MemoryFile(both[0].fragment, rows_of([1]))


def test_memory_fragment__no_rows__is_refused():
    schema = make_schema(TABLE.schema, None)
    with pytest.raises(InternalError, match="at least one row"):
        memory_fragment(TABLE.slice(0, 0), schema, REAL)


# -- laid over a table -----------------------------------------------------------------------------


class Laid:
    """A table of three fragments: one as it is, one with more rows gone, one that goes; two that are not its own."""

    def __init__(self, store=None):
        table = self.table = StateTable(store=store)
        for number in range(3):
            table.add(rows_of(range(1000 * number, 1000 * number + 1000), seed=number))
        table.delete(0, range(100))
        table.delete(1, range(0, 1000, 7))
        other = ScopedStore(table.store, "elsewhere/")
        outside = rows_of(range(5000, 6000), seed=5).cast(arrow_schema(table.state.schema))
        fragment = write_fragment(other, outside, table.state.schema, name=NAME)
        inside = rows_of(range(7000, 7500), seed=6)
        memory = in_memory(inside, table.state.schema)
        names = table.names
        gone = Deleted.from_mask(np.arange(1000) % 7 < 3)
        masks = {names[1]: gone, NAME: Deleted.from_numbers(np.arange(50), rows=1000)}
        self.tools = overlay_tools(table.tools, masks=masks, files={memory.fragment.name: memory}, stores={NAME: other})
        self.state = overlay_state(table.state, add=(fragment, memory.fragment), remove=(names[2],), masks=masks)
        parts = [
            rows_of(range(1000), seed=0).slice(100),
            rows_of(range(1000, 2000), seed=1).filter(pa.array(~gone.mask())),
            outside.slice(50),
            inside,
        ]
        self.rows = pa.concat_tables([part.cast(arrow_schema(table.state.schema)) for part in parts])

    def scan(self, **options):
        return Scan(self.tools, self.state, **options)


@pytest.fixture
def laid():
    return Laid()


def by_id(table):
    return table.sort_by("id").combine_chunks()


@pytest.mark.parametrize("small", [True, False])
def test_scan__of_what_is_laid_over__gives_exactly_those_rows(laid, small, monkeypatch):
    if not small:
        monkeypatch.setattr(tasks, "SMALL_ROWS", 0)
    assert by_id(laid.scan().to_arrow()).equals(by_id(laid.rows))
    assert laid.scan().count() == laid.rows.num_rows
    for text, expression in FILTERS:
        wanted = laid.rows.filter(expression)
        assert by_id(laid.scan(where=text).to_arrow()).equals(by_id(wanted)), text
        assert laid.scan(where=text).count() == wanted.num_rows
    whole = laid.scan().to_arrow()
    assert laid.scan(limit=700, offset=600).to_arrow().equals(whole.slice(600, 700))


def test_scan__whole_fragments_on_a_disk__reads_each_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "processors", lambda: 2)
    monkeypatch.setattr(tasks, "SMALL_ROWS", 0)
    laid = Laid(open_store(str(tmp_path / "table")))
    # With nothing gone from it, the fragment of the other store is tested in one go.
    masks = dict(laid.tools.vectors.masks)
    del masks[NAME]
    tools = overlay_tools(laid.table.tools, masks=masks, files=laid.tools.files.files, stores=laid.tools.files.stores)
    adds = [one.fragment for one in laid.state.fragments if one.fragment.name not in laid.table.names]
    state = overlay_state(laid.table.state, add=adds, remove=(laid.table.names[2],), masks=masks)
    for text, expression in FILTERS:
        wanted = laid.rows.filter(expression).num_rows
        more = rows_of(range(5000, 6000), seed=5).slice(0, 50).filter(expression).num_rows
        assert Scan(tools, state, where=text).to_arrow().num_rows == wanted + more
        assert Scan(tools, state, where=text).count() == wanted + more


def test_get__of_what_is_laid_over__finds_rows_wherever_they_are(laid):
    asked = [7001, 5060, 1500, 5010, 1003, 1002, 2500, 150, 50]
    there = set(laid.rows.column("id").to_pylist())
    found = get(laid.tools, laid.state, asked)
    assert found.column("id").to_pylist() == [one for one in asked if one in there]


def test_sql__of_what_is_laid_over__counts_the_same(laid):
    source = TableSource(laid.tools, laid.state)
    found = run_sql("select count(*) as c, sum(id) as s from t where id >= 1000", {"t": source}).to_arrow()
    ids = [one for one in laid.rows.column("id").to_pylist() if one >= 1000]
    assert found.to_pylist() == [{"c": len(ids), "s": sum(ids)}]


def test_read_many__fragments_with_and_without_a_mask__each_has_its_own(laid):
    lives = [one for one in laid.state.fragments if one.vector is not None]
    found = laid.tools.vectors.read_many([(one.vector, one.fragment) for one in lives])
    assert {name: one.count for name, one in found.items()} == {
        one.fragment.name: one.fragment.rows - one.rows for one in lives
    }
    assert len(found) == 3


def test_open__fragment_of_the_table__is_the_one_that_is_open_already(laid):
    fragment = next(iter(laid.state.fragments)).fragment
    assert laid.tools.files.open(fragment) is laid.table.tools.files.open(fragment)


def test_read__mask_that_the_state_does_not_know__is_refused(laid):
    live = next(one for one in laid.state.fragments if one.fragment.name == NAME)
    tools = overlay_tools(laid.table.tools, masks={NAME: Deleted.none(rows=1000)}, files={}, stores={})
    with pytest.raises(InternalError, match="not what the state says"):
        tools.vectors.read(live.vector, live.fragment)
