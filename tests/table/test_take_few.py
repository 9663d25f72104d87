"""A few rows of a fragment by their numbers: what ``take`` gives, with pages that are kept."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import siltstone as ss
from siltstone.table.files import Files
from siltstone.testing.stores import FaultStore

ROWS = 9_000
FLAT = pa.schema([("id", pa.int64()), ("text", pa.string()), ("kind", pa.string()), ("price", pa.float64())])
NESTED = FLAT.append(pa.field("tags", pa.list_(pa.string())))


def made_rows(schema: pa.Schema) -> pa.Table:
    ids = np.arange(ROWS)
    columns = {
        "id": ids,
        "text": [None if number % 11 == 0 else f"text {number} " * (number % 60) for number in range(ROWS)],
        "kind": [f"kind {number % 7}" for number in range(ROWS)],
        "price": ids / 7,
        "tags": [[f"t{number % 5}"] * (number % 3) for number in range(ROWS)],
    }
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def opened(where, schema):
    table = ss.create(where, schema=schema)
    table.append(made_rows(schema))
    return table


def fragment_of(table):
    (live,) = table._state.fragments.select(None)
    return live.fragment


@pytest.mark.parametrize("schema", [FLAT, NESTED], ids=["flat", "nested"])
def test_take_few__any_rows_and_columns__gives_what_take_gives(tmp_path, schema):
    table = opened(tmp_path / "t", schema)
    fragment, fields = fragment_of(table), table._state.schema.fields
    table.add_column("late", pa.int32(), default=7)
    fields = table._state.schema.fields
    chance = np.random.default_rng(4)
    few, plain = (Files(table._log.store).open(fragment) for _ in range(2))
    for _ in range(40):
        rows = np.sort(chance.choice(ROWS, chance.integers(1, 40), replace=False))
        chosen = [fields[place] for place in np.sort(chance.choice(len(fields), chance.integers(1, 5), replace=False))]
        assert few.take_few(rows, chosen).equals(plain.take(rows, chosen))


def test_take_few__same_pages_again__reads_nothing(tmp_path):
    table = opened(tmp_path / "t", FLAT)
    store = FaultStore(table._log.store)
    file, fields = Files(store).open(fragment_of(table)), table._state.schema.fields
    rows = np.array([3, 4_000, 8_999])
    first = file.take_few(rows, fields)
    seen = len(store.calls)
    assert file.take_few(rows, fields).equals(first)
    assert file.take_few(np.array([2, 4_001]), fields[:1]).column(0).to_pylist() == [2, 4_001]
    assert len(store.calls) == seen


def test_take_few__cache_is_too_small__gives_the_rows_all_the_same(tmp_path):
    table = opened(tmp_path / "t", FLAT)
    file, fields = Files(table._log.store, cache_bytes=1).open(fragment_of(table)), table._state.schema.fields
    rows = np.array([0, 1_000, 5_000, 8_000])
    assert file.take_few(rows, fields).column("id").to_pylist() == rows.tolist()


def test_take_few__no_rows__is_empty(tmp_path):
    table = opened(tmp_path / "t", FLAT)
    file, fields = Files(table._log.store).open(fragment_of(table)), table._state.schema.fields
    assert file.take_few(np.array([], np.int64), fields).num_rows == 0
