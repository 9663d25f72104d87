from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from scan_cases import parse, scan
from siltstone import paths
from siltstone.errors import CorruptionError, InvalidInputError, MissingObjectError
from siltstone.store.connect import open_store
from siltstone.table import evolve, layout, stream, tasks
from siltstone.table.local import can_read, count_matching, read_matching
from siltstone.table.reading import Reading
from siltstone.table.tasks import GroupTask, WholeTask
from state_tables import StateTable

ROWS = 8_000
ODD = 'Odd "name" of. it'
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("score", pa.float64()),
        (ODD, pa.string()),
        ("grp", pa.int32()),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.string())),
    ]
)
FILTERS = [
    "grp = 3",
    "grp <> 3 and score < 0.01",
    "grp in (1, 2) or score is null",
    "score > 5",  # NaN is above all numbers
    "score >= 0.5 or grp is null",
    "not score < 0.9",
    "(score is distinct from 0.5) and grp = 1",
    '"Odd ""name"" of. it" like \'%77%\'',
    "day = '2024-01-03'",
    "grp > 100",
    "grp = 1 or grp <> 1 or grp is null",
]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Three fragments on a disk, of several row groups each, with nulls, and with NaN among the scores."""
    monkeypatch.setattr(stream, "processors", lambda: 3)
    monkeypatch.setattr(tasks, "SMALL_ROWS", 0)
    monkeypatch.setattr(layout, "GROUP_ROWS", 3000)
    made = StateTable(COLUMNS, store=open_store(str(tmp_path / "table")))
    for number in range(3):
        made.add(rows_of(number))
    return made


def rows_of(number):
    random = np.random.default_rng(number)
    ids = np.arange(ROWS) + number * ROWS
    scores = random.random(ROWS)
    scores[::97] = np.nan
    empty = random.random(ROWS) < 0.05
    days = (19_723 + random.integers(0, 9, ROWS)).astype(np.int32)
    columns = [
        pa.array(ids),
        pa.array(scores, mask=empty),
        pa.array([f"value {one} of {one % 7}" for one in ids], mask=np.roll(empty, 1)),
        pa.array(random.integers(0, 10, ROWS).astype(np.int32), mask=np.roll(empty, 2)),
        pa.array(days).view(pa.date32()),
        pa.array([[str(one)] * (one % 3) for one in ids.tolist()]),
    ]
    return pa.Table.from_arrays(columns, schema=COLUMNS)


def kinds_of(table, where):
    predicate = None if where is None else parse(where, table)
    fields = table.state.schema.fields if where is None else ()
    reading = Reading(table.tools, table.state.schema, fields, predicate, whole=True)
    return [type(one) for one in tasks.tasks(reading, reading.choose(table.state.fragments))]


@pytest.mark.parametrize("where", FILTERS)
def test_to_arrow__filter_on_a_disk__gives_what_is_given_in_batches(table, where):
    assert set(kinds_of(table, where)) == {WholeTask} or where == "grp > 100"
    mask = parse(where, table).mask(table.rows)
    wanted = table.rows.filter(mask)
    found = scan(table, where=where).to_arrow()
    found.validate(full=True)
    assert found.schema.equals(wanted.schema)
    assert same(found, wanted)
    assert same(pa.Table.from_batches(scan(table, where=where).to_batches(), found.schema), wanted)
    assert same(scan(table, where=where, columns=["day", ODD]).to_arrow(), wanted.select(["day", ODD]))
    assert scan(table, where=where).count() == wanted.num_rows
    assert scan(table, where=where, limit=9, offset=4).to_arrow()["id"].equals(wanted["id"].slice(4, 9))


def test_to_arrow__no_filter_on_a_disk__gives_what_is_given_in_batches(table):
    assert kinds_of(table, None) == [WholeTask] * 3
    found = scan(table).to_arrow()
    found.validate(full=True)
    assert found.schema.equals(table.rows.schema)
    assert same(found, table.rows)
    assert same(pa.Table.from_batches(scan(table).to_batches(), found.schema), table.rows)
    assert same(scan(table, columns=["tags", ODD]).to_arrow(), table.rows.select(["tags", ODD]))
    assert same(scan(table, limit=9, offset=4).to_arrow(), table.rows.slice(4, 9))


@pytest.mark.parametrize(("threads", "whole"), [(1, 3), (2, 2), (3, 3), (4, 0)])
def test_to_arrow__more_fragments_than_threads_can_share_evenly__the_last_are_read_by_row_groups(
    table, monkeypatch, threads, whole
):
    monkeypatch.setattr(stream, "processors", lambda: threads)
    assert kinds_of(table, None) == [WholeTask] * whole + [GroupTask] * 3 * (3 - whole)
    assert same(scan(table).to_arrow(), table.rows)


def test_to_arrow__no_filter_and_fragments_with_deleted_rows__they_are_left_out(table):
    table.delete(1, range(0, ROWS, 3))
    assert kinds_of(table, None) == [WholeTask] * 3
    assert same(scan(table).to_arrow(), table.rows)
    table.delete(2, [one for one in range(ROWS) if one % 5])
    assert kinds_of(table, None) == [WholeTask, WholeTask, *[GroupTask] * 3]
    assert same(scan(table).to_arrow(), table.rows)


def test_read_matching__fragment_as_the_schema_says__is_read_here(table):
    file, schema = table.tools.files.open(next(iter(table.state.fragments)).fragment), table.state.schema
    where, tested = parse("grp = 3", table), tuple(one for one in schema.fields if one.name == "grp")
    found = read_matching(file, where, fields=schema.fields, tested=tested)
    rows = rows_of(0)
    assert same(found, rows.filter(where.mask(rows)))
    assert count_matching(file, where, tested=tested) == found.num_rows


def test_read_matching__file_without_checksums__is_read_elsewhere(table, monkeypatch):
    monkeypatch.setattr(layout, "SEALED_ABOVE_BYTES", 2**40)
    table.add(rows_of(3))
    file, schema = table.tools.files.open(list(table.state.fragments)[-1].fragment), table.state.schema
    where, tested = parse("grp = 3", table), tuple(one for one in schema.fields if one.name == "grp")
    assert read_matching(file, where, fields=schema.fields, tested=tested) is None
    assert count_matching(file, where, tested=tested) is None


def same(found, wanted):
    """Whether two tables are equal, NaN too."""
    return found.num_rows == wanted.num_rows and all(
        one.combine_chunks().equals(other.combine_chunks())
        if not pa.types.is_floating(one.type)
        else np.array_equal(one.fill_null(-1).to_numpy(), other.fill_null(-1).to_numpy(), equal_nan=True)
        for one, other in zip(found.columns, wanted.columns, strict=True)
    )


def test_to_arrow__fragments_with_deleted_rows__those_are_read_by_row_groups(table):
    table.delete(1, range(0, ROWS, 3))
    assert kinds_of(table, "grp = 3") == [WholeTask, *[GroupTask] * 3, WholeTask]
    wanted = table.rows.filter(parse("grp = 3", table).mask(table.rows))
    assert same(scan(table, where="grp = 3").to_arrow(), wanted)
    assert scan(table, where="grp = 3").count() == wanted.num_rows


def test_to_arrow__column_renamed_and_another_takes_its_name__each_gives_its_own_values(table):
    schema = evolve.rename_column(table.state.schema, "grp", to="group")
    schema = evolve.rename_column(schema, "id", to="grp")
    names = ["grp", "score", ODD, "group", "day", "tags"]
    table.evolve(schema, lambda rows: rows.rename_columns(names))
    for where in ("grp = 3", '"group" = 3'):
        wanted = table.rows.filter(parse(where, table).mask(table.rows))
        assert same(scan(table, where=where).to_arrow(), wanted)
        assert scan(table, where=where).count() == wanted.num_rows


@pytest.mark.parametrize("where", ["100 / grp > 20", 'cast("Odd ""name"" of. it" as int) > 3', "grp + 1 = 4"])
def test_can_read__a_filter_that_may_fail_or_compute__is_tested_elsewhere(table, where):
    assert not can_read(table.tools, parse(where, table))


def test_to_arrow__a_filter_that_fails__says_so(table):
    with pytest.raises(InvalidInputError, match="where '100 / grp > 20' can't be evaluated"):
        scan(table, where="100 / grp > 20").to_arrow()


def test_can_read__a_path_with_the_signs_of_a_pattern__is_read_elsewhere(tmp_path):
    made = StateTable(COLUMNS, store=open_store(str(tmp_path / "a*b")))
    assert not can_read(made.tools, parse("grp = 3", made))
    assert not can_read(made.tools, None)


def test_can_read__a_store_in_memory__is_read_elsewhere():
    made = StateTable(COLUMNS)
    assert not can_read(made.tools, parse("grp = 3", made))


@pytest.mark.parametrize(
    "read",
    [
        lambda table: scan(table, where="grp = 3").to_arrow(),
        lambda table: scan(table, where="grp = 3").count(),
        lambda table: scan(table).to_arrow(),
    ],
)
def test_to_arrow__a_damaged_fragment__is_named(table, read):
    scan(table, where="grp = 3").to_arrow()
    key = paths.data(table.names[1])
    file = table.tools.files.open(next(live.fragment for live in table.state.fragments if live.fragment.name in key))
    chunk = file.source.footer.groups[1].chunks[3]
    data = bytearray(table.store.get(key))
    data[chunk.range.end - 9] ^= 1
    table.store.put(key, bytes(data))
    with pytest.raises(CorruptionError, match="changed since it was written") as caught:
        read(table)
    assert caught.value.facts["object"] == key


def test_to_arrow__a_fragment_that_is_gone__is_named(table):
    scan(table, where="grp = 3").to_arrow()
    table.lose(1)
    with pytest.raises(MissingObjectError) as caught:
        scan(table, where="grp = 3").to_arrow()
    assert caught.value.facts["object"] == paths.data(table.names[1])
