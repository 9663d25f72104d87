"""A few rows of a fragment by their numbers: what ``take`` gives, with pages and long values that are kept."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import siltstone as ss
from parquet_files import KEY, Place
from siltstone.errors import CorruptionError
from siltstone.table import few
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


# -- long values ---------------------------------------------------------------------------------


LONG_ROWS = 1_000
LONG = pa.table(
    {
        "id": pa.array(range(LONG_ROWS)),
        "text": pa.array([None if n % 7 == 3 else f"{n:04d} " * (n % 90) for n in range(LONG_ROWS)]),
        "raw": pa.array([bytes([n % 256]) * (n % 50) for n in range(LONG_ROWS)], pa.binary()),
        "large": pa.array([f"large {n}" for n in range(LONG_ROWS)], pa.large_string()),
    }
)
NAMES = LONG.column_names


def pages_of_long_values(*, cache_bytes=None, **options):
    """A fragment whose pages of all columns have a hundred rows: none is kept whole."""
    place = Place(LONG, **{"max_rows_per_page": 100, **options})
    if cache_bytes is not None:
        place.files = Files(place.store, cache_bytes=cache_bytes)
        place.file = place.files.open(place.fragment)
    return place


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sealed": False},
        {"compression": "snappy"},
        {"use_dictionary": True},
        {"data_page_version": "2.0"},
        {"row_group_size": 300},
        {"cache_bytes": 1},
    ],
    ids=str,
)
def test_take_few__long_values_written_in_any_way__gives_what_take_gives(options):
    place = pages_of_long_values(**options)
    plain = Files(place.store).open(place.fragment)
    chance = np.random.default_rng(8)
    for _ in range(20):
        rows = np.sort(chance.choice(LONG_ROWS, chance.integers(1, 40), replace=False))
        names = [NAMES[at] for at in np.sort(chance.choice(len(NAMES), chance.integers(1, 5), replace=False))]
        found = place.file.take_few(rows, place[names])
        found.validate(full=True)
        assert found.equals(plain.take(rows, place[names]))


def test_cells__rows_in_any_order__are_in_that_order():
    place = pages_of_long_values()
    rows = [999, 3, 150, 4, 151, 998]
    for _ in range(2):  # read, and kept
        cells = place.file.cells(rows, place[NAMES])
        assert few.joined(cells, LONG.schema).equals(LONG.take(pa.array(rows)))


def without_tail(file):
    """A file of which nothing is kept from its end, as of one that is larger."""
    file.source._tail, file.source._tail_start = b"", file.fragment.bytes
    return file


def kept_of(files):
    return [*files.pages._pages.values(), *files.pages._spare.values()]


def test_take_few__long_values__of_all_columns_come_with_one_request_and_then_with_none():
    place = pages_of_long_values()
    place.file._indexes.load([0], [0, 1, 2, 3])
    file = without_tail(place.file)
    rows = np.array([1, 2, 250, 730, 999])
    place.store.calls.clear()
    file.take_few(rows, place[NAMES])
    assert len(place.store.calls) == 1
    file.take_few(rows, place[NAMES])
    assert len(place.store.calls) == 1
    file.take_few(np.array([4, 251]), place[["text", "raw"]])  # whose pages are kept, since there is place
    assert len(place.store.calls) == 1


def test_take_few__no_place_for_pages_of_long_values__values_are_kept_without_them():
    page = sum(len(text or "") for text in LONG["text"].to_pylist()[:100])
    place = pages_of_long_values(cache_bytes=page // 2)
    place.file._indexes.load([0], [1])
    file = without_tail(place.file)
    for row in (89, 500):
        file.take_few(np.array([row]), place["text"])
    assert [len(value) for value, _ in kept_of(place.files)] == [1, 1]
    assert all(value.get_total_buffer_size() < 600 for value, _ in kept_of(place.files))
    place.store.calls.clear()
    assert file.take_few(np.array([89, 500]), place["text"]).num_rows == 2
    assert not place.store.calls
    file.take_few(np.array([88]), place["text"])  # a neighbour was not kept
    assert len(place.store.calls) == 1


def test_take_few__short_values__are_kept_by_the_page():
    place = Place(LONG.select(["id", "large"]), max_rows_per_page=few.LONG_PAGE_ROWS)
    place.file.take_few(np.array([5]), place[["id", "large"]])
    kept = {len(value) for value, _ in kept_of(place.files)}
    assert kept == {few.LONG_PAGE_ROWS}


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "plain"])
@pytest.mark.parametrize("name", ["text", "large"])
def test_take_few__a_byte_of_a_page_changed__is_refused(name, sealed):
    place = pages_of_long_values(sealed=sealed)
    leaf = NAMES.index(name)
    index = place.file._indexes.index(0, leaf)
    whole = place.store.get(KEY)
    head = 0 if sealed else 60  # a head that changed without harm may pass where there is no seal
    for spot in range(index.starts[4] + head, index.ends[4], 37):
        broken = bytearray(whole)
        broken[spot] ^= 4
        place.store.put(KEY, bytes(broken))
        file = without_tail(place.file)
        with pytest.raises(CorruptionError, match=KEY):
            file.take_few(np.array([444]), place[name])
        assert place.files.pages.nbytes == 0
    place.store.put(KEY, whole)
    assert file.take_few(np.array([444]), place[name]).column(0).to_pylist() == [LONG[name][444].as_py()]


@pytest.mark.parametrize("which", ["plain_page", "values_of"])
def test_take_few__damage_that_its_sums_do_not_show__is_pyarrows_to_tell(monkeypatch, which):
    """A forger can seal what he likes: a page that is not as ours are is read by pyarrow, or refused."""
    place = pages_of_long_values()
    seen = []
    monkeypatch.setattr(few, which, lambda *_, **__: seen.append(1))
    found = place.file.take_few(np.array([5, 444]), place["text"])
    assert seen
    assert found.column(0).to_pylist() == [LONG["text"][5].as_py(), LONG["text"][444].as_py()]
