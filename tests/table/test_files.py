"""Reading fragments gives what pyarrow reads from the whole file, with few requests, and keeps what it may."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from parquet_files import FLAT, FULL, ROWS, Place, opened, record, rows, same, stored
from siltstone.errors import CorruptionError, InvalidInputError
from siltstone.format.table import Bounds, Field
from siltstone.store.connect import open_store
from siltstone.table.files import Files, Group


@pytest.fixture(scope="module", params=[True, False], ids=["sealed", "plain"])
def place(request):
    return opened(sealed=request.param)


# -- whole row groups ---------------------------------------------------------------------------


def test_groups__of_a_file__are_its_row_groups(place):
    assert place.file.groups == (
        Group(0, 1000),
        Group(1000, 1000),
        Group(2000, 1000),
        Group(3000, 1000),
        Group(4000, 300),
    )


@pytest.mark.parametrize("threads", [False, True])
def test_read__each_row_group__is_what_was_written(place, threads):
    names = place.table.column_names
    for number, group in enumerate(place.file.groups):
        found = place.file.read(number, place[names], threads=threads)
        found.validate(full=True)
        assert same(found, place.table.slice(group.start, group.rows))


def test_read__some_columns__come_in_the_order_asked_for_with_one_request(place):
    place.store.calls.clear()
    found = place.file.read(1, place["price", "id"])
    assert found.column_names == ["price", "id"]
    assert found.schema == pa.schema([("price", pa.decimal128(12, 2)), ("id", pa.int64())])
    assert same(found, place.table.slice(1000, 1000).select(["price", "id"]))
    assert [len(call) for call in place.store.calls] == [2]


def test_read__no_columns__still_has_its_rows(place):
    assert place.file.read(4, []).num_rows == 300
    assert place.file.take(np.array([1, 5]), []).num_rows == 2


def test_read__by_many_threads__gives_the_same(place):
    with ThreadPoolExecutor(4) as pool:
        files = Files(place.store)
        found = list(pool.map(lambda one: files.open(place.fragment).read(one % 5, place["id", "name"]), range(40)))
    for number, table in enumerate(found):
        group = place.file.groups[number % 5]
        assert same(table, place.table.slice(group.start, group.rows).select(["id", "name"]))


# -- rows by number ------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 30, 400, 3000, ROWS])
def test_take__random_rows__are_those_rows(place, count):
    names = place.table.column_names
    for seed in range(3):
        numbers = np.sort(np.random.default_rng(seed).choice(ROWS, count, replace=False))
        for chosen in (names, FLAT, ["pair"], ["color", "list", "id"]):
            found = place.file.take(numbers, place[chosen])
            found.validate(full=True)
            assert same(found, place.expected(numbers, list(chosen)))


def test_take__one_row__reads_one_page_of_each_column_with_one_request(place):
    place.file.take(np.array([17]), place[FLAT])
    place.store.calls.clear()
    found = place.file.take(np.array([555]), place["id", "name", "score"])
    assert same(found, place.expected([555], ["id", "name", "score"]))
    assert [len(call) for call in place.store.calls] == [3]
    assert sum(end - start for start, end in place.store.calls[0]) < 6000


def test_take__the_same_page_again__asks_nothing_of_the_store(place):
    place.file.take(np.array([3555]), place["id", "name"])
    place.store.calls.clear()
    assert same(place.file.take(np.array([3550]), place["id", "name"]), place.expected([3550], ["id", "name"]))
    assert place.store.calls == []


def test_take__neighbouring_pages__are_one_range(place):
    place.file.take(np.array([0]), place["id"])
    place.store.calls.clear()
    numbers = np.arange(150, 420)
    assert same(place.file.take(numbers, place["id"]), place.expected(numbers, ["id"]))
    assert [len(call) for call in place.store.calls] == [1]


def test_take__most_of_a_row_group__reads_it_whole(place):
    place.store.calls.clear()
    numbers = np.arange(0, 1000, 50)
    assert same(place.file.take(numbers, place["id"]), place.expected(numbers, ["id"]))
    chunk = place.file._footer.groups[0].chunks[0]
    assert place.store.calls[-1] == [chunk.range]


def test_take__columns_with_dictionaries__read_them_once(place):
    place.file.take(np.array([2005]), place["color"])
    place.store.calls.clear()
    assert same(place.file.take(np.array([2505, 2806]), place["color"]), place.expected([2505, 2806], ["color"]))
    assert all(start >= place.file._footer.groups[2].chunks[2].data for call in place.store.calls for start, _ in call)


@pytest.mark.parametrize("numbers", [[-1], [ROWS], [5, 4], [5, 5]])
def test_take__numbers_out_of_range_or_order__are_refused(place, numbers):
    with pytest.raises(InvalidInputError):
        place.file.take(np.array(numbers), place["id"])


def test_take__no_rows__is_an_empty_table(place):
    found = place.file.take(np.empty(0, np.int64), place["id", "list"])
    assert found.num_rows == 0
    assert found.schema.types == [pa.int64(), pa.list_(pa.string())]


def test_take__pages_that_do_not_align__is_the_same():
    # A page ends early where its bytes are many.
    random = np.random.default_rng(0)
    words = ["".join(map(chr, random.integers(97, 123, n))) for n in random.integers(1, 3000, 3000)]
    place = Place(pa.table({"id": range(3000), "word": words}), data_page_size=20_000, write_batch_size=10, sealed=True)
    sizes = [len(place.file._indexes.index(0, leaf).starts) for leaf in (0, 1)]
    assert sizes[0] != sizes[1]
    for seed in range(10):
        numbers = np.sort(random.choice(3000, 1 + 3 * seed, replace=False))
        assert same(place.file.take(numbers, place["word", "id"]), place.expected(numbers, ["word", "id"]))
    keys = pa.array([5, 1500, 2999])
    found, which, table = place.file.lookup(keys, place.fields["id"], place["word", "id"])
    assert (found.tolist(), which.tolist()) == ([5, 1500, 2999], [0, 1, 2])
    assert same(table, place.expected([5, 1500, 2999], ["word", "id"]))


def test_take__a_file_without_indexes__is_the_same():
    place = Place(rows(), **FULL, write_page_index=False, sealed=False)
    numbers = np.array([3, 999, 4200])
    assert same(place.file.take(numbers, place[FLAT]), place.expected(numbers, list(FLAT)))
    found, which = place.file.find(pa.array([3 * 4200, 10, 3]), place.fields["id"])
    assert (found.tolist(), which.tolist()) == ([1, 4200], [2, 0])


# -- bounds --------------------------------------------------------------------------------------


def test_group_bounds__by_type__are_as_the_log_writes_them(place):
    part = place.table.slice(1000, 1000)
    low, high = 3 * 1000, 3 * 1999
    assert place.file.group_bounds(1, place.fields["id"]) == Bounds(low, high, 0)
    names = sorted(filter(None, part["name"].to_pylist()))
    assert place.file.group_bounds(1, place.fields["name"]) == Bounds(names[0], names[-1], part["name"].null_count)
    found = place.file.group_bounds(1, place.fields["when"])
    assert (found.low, found.high) == (
        min(part["when"].cast(pa.int64()).to_pylist()),
        max(part["when"].cast(pa.int64()).to_pylist()),
    )
    assert place.file.group_bounds(1, place.fields["flag"]) == Bounds(0, 1, part["flag"].null_count)
    assert place.file.group_bounds(1, place.fields["price"]) == Bounds(None, None, 0)
    score = place.file.group_bounds(1, place.fields["score"])
    assert (score.low, score.high) == (
        min(filter(None, part["score"].to_pylist())),
        max(filter(None, part["score"].to_pylist())),
    )
    assert place.file.group_bounds(1, place.fields["list"]) is None
    assert place.file.group_bounds(1, Field(id=99, name="new", type="int64")) == Bounds(None, None, 1000)
    assert place.file.group_bounds(1, Field(id=99, name="new", type="int64", default=3)) is None


def test_page_bounds__of_pages__bound_their_rows(place):
    firsts, lows, highs = place.file.page_bounds(2, place.fields["id"])
    assert firsts.tolist() == list(range(0, 1000, 100))
    assert lows.tolist() == [3 * (2000 + n) for n in range(0, 1000, 100)]
    assert highs.tolist() == [3 * (2099 + n) for n in range(0, 1000, 100)]
    _, lows, highs = place.file.page_bounds(2, place.fields["name"])
    assert all(
        low <= f"name {3 * (2050 + n):07d}" <= high
        for n, low, high in zip(range(0, 1000, 100), lows, highs, strict=True)
    )
    assert place.file.page_bounds(2, place.fields["list"]) is None
    assert place.file.page_bounds(2, Field(id=99, name="new", type="int64")) is None


def test_page_bounds__pages_of_nulls__hold_nothing():
    values = [None] * 150 + [7] * 50 + [None] * 100
    place = Place(
        pa.table({"n": pa.array(values, pa.int64()), "s": pa.array([v and str(v) for v in values])}),
        bloom_filter_options=None,
        use_dictionary=False,
    )
    for name, value in (("n", 7), ("s", "7")):
        _, lows, highs = place.file.page_bounds(0, place.fields[name])
        assert [bool(low <= value <= high) for low, high in zip(lows, highs, strict=True)] == [False, True, False]
        assert place.file.find(pa.array([value]), place.fields[name])[0].tolist() == list(range(150, 200))


@pytest.mark.parametrize("keys", [pa.array([1]), pa.array(["x"]), pa.array([b"x"])], ids=str)
def test_group_bounds__all_null__have_no_ends(keys):
    place = Place(pa.table({"n": pa.nulls(10, keys.type)}))
    assert place.file.group_bounds(0, place.fields["n"]) == Bounds(None, None, 10)
    found = place.file.page_bounds(0, place.fields["n"])
    assert found is None or not (found[1] <= keys[0].as_py()).any() or not (keys[0].as_py() <= found[2]).any()
    assert place.file.find(keys, place.fields["n"])[0].tolist() == []
    assert place.file.find(keys.slice(0, 0), place.fields["n"])[0].tolist() == []


# -- what is kept --------------------------------------------------------------------------------


def test_open__twice__asks_the_store_once(place):
    files = Files(place.store)
    place.store.calls.clear()
    first = files.open(place.fragment)
    calls = len(place.store.calls)
    assert files.open(place.fragment) is first
    assert len(place.store.calls) == calls


def test_open__another_record_of_the_name__is_opened_anew(place):
    files = Files(place.store)
    files.open(place.fragment)
    with pytest.raises(CorruptionError):
        files.open(record(b"x" * place.fragment.bytes, ROWS + 1))


def test_files__more_than_they_may_keep__forget_the_oldest(place):
    files = Files(place.store, cache_bytes=1)
    first = files.open(place.fragment)
    assert files.nbytes == 0
    assert files.open(place.fragment) is not first
    assert same(first.take(np.array([5]), place["id"]), place.expected([5], ["id"]))
    assert files.nbytes == files.pages.nbytes == 0


def test_files__what_they_keep__is_counted(place):
    files = Files(place.store)
    file = files.open(place.fragment)
    before = files.nbytes
    for row in range(0, ROWS, 100):
        file.take(np.array([row]), place[FLAT])
    assert files.nbytes > before
    assert files.pages.nbytes > 0
    assert files.nbytes == file.nbytes


def test_files__pickled__open_the_same_files(tmp_path):
    store = open_store(tmp_path)
    fragment, fields = stored(store, rows(100))
    files = pickle.loads(pickle.dumps(Files(store)))
    assert files.open(fragment).read(0, [fields["id"]]).num_rows == 100
    assert "1 open" in repr(files)
