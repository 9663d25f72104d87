"""Keys are found wherever they are, with as few requests as indexes and bloom filters allow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from parquet_files import FULL, KEY, ROWS, Place, opened, rows, same
from siltstone.errors import InvalidInputError
from siltstone.table import fragment_bytes
from siltstone.table.files import Files


@pytest.fixture(scope="module", params=[True, False], ids=["sealed", "plain"])
def place(request):
    return opened(sealed=request.param)


def brute(column, keys):
    places = {value: number for number, value in enumerate(keys)}
    found = [(row, places[value]) for row, value in enumerate(column) if value is not None and value in places]
    return [row for row, _ in found], [which for _, which in found]


@pytest.mark.parametrize("name", ["id", "name", "color", "when", "price", "day", "small", "raw"])
@pytest.mark.parametrize("count", [1, 2, 40, 700])
def test_find__keys_that_are_and_are_not_there__gives_their_rows(place, name, count):
    column = place.table[name]
    values = column.to_pylist()
    for seed in range(3):
        random = np.random.default_rng(seed)
        there = [values[n] for n in random.choice(ROWS, count, replace=False) if values[n] is not None]
        others = {"id": [1, 4, 10**9, -5], "name": ["", "name 1", "zzz"], "raw": [b"12345678"]}.get(name, [])
        keys = [*dict.fromkeys([*there, *others])]
        random.shuffle(keys)
        found, which = place.file.find(pa.array(keys, column.type), place.fields[name])
        assert (found.tolist(), which.tolist()) == brute(values, keys)


def test_find__a_sorted_key__reads_one_page_and_then_none(place):
    place.file.find(pa.array([3]), place.fields["id"])
    place.store.calls.clear()
    found, which = place.file.find(pa.array([3 * 321]), place.fields["id"])
    assert (found.tolist(), which.tolist()) == ([321], [0])
    assert [len(call) for call in place.store.calls] == [1]
    place.store.calls.clear()
    assert place.file.find(pa.array([3 * 322]), place.fields["id"])[0].tolist() == [322]
    assert place.store.calls == []


def test_find__keys_outside_of_all_bounds__reads_nothing(place):
    place.store.calls.clear()
    assert place.file.find(pa.array([-7, 10**12]), place.fields["id"])[0].tolist() == []
    assert place.store.calls == []


def test_find__unsorted_keys_that_are_missing__are_ruled_out_by_bloom_filters():
    table = rows()
    order = np.random.default_rng(0).permutation(ROWS)
    place = Place(table.take(pa.array(order)), sealed=True, **FULL)
    place.file.find(pa.array([1]), place.fields["id"])
    place.store.calls.clear()
    for missing in range(1, 3 * 4000, 3 * 100):
        assert place.file.find(pa.array([missing]), place.fields["id"])[0].tolist() == []
    read = sum(end - start for call in place.store.calls for start, end in call)
    columns = sum(one.chunks[0].range.end - one.chunks[0].range.start for one in place.file._footer.groups)
    assert read < 0.1 * 40 * columns
    found, which = place.file.find(pa.array([3 * 77]), place.fields["id"])
    assert order[found].tolist() == [77]
    assert which.tolist() == [0]


def test_find__a_miss_in_a_sorted_file__is_answered_from_memory_the_third_time(place):
    file = Files(place.store).open(place.fragment)
    file.find(pa.array([3 * 700 + 1]), place.fields["id"])
    file.find(pa.array([3 * 800 + 1]), place.fields["id"])
    place.store.calls.clear()
    missing = [file.find(pa.array([3 * n + 1]), place.fields["id"])[0].tolist() for n in range(100, 600, 100)]
    assert missing == [[]] * 5
    assert len(place.store.calls) <= 1


def test_find__keys_of_another_type__are_cast_or_refused(place):
    assert place.file.find(pa.array([9], pa.int8()), place.fields["id"])[0].tolist() == [3]
    with pytest.raises(InvalidInputError, match="'id'"):
        place.file.find(pa.array(["nine"]), place.fields["id"])
    with pytest.raises(InvalidInputError, match="null"):
        place.file.find(pa.array([1, None]), place.fields["id"])


def test_find__values_that_repeat__gives_all_rows(place):
    found, which = place.file.find(pa.array(["blue", "red"]), place.fields["color"])
    assert (found.tolist(), which.tolist()) == brute(place.table["color"].to_pylist(), ["blue", "red"])


def test_lookup__a_few_keys__gives_rows_and_columns_with_one_request(place):
    place.file.lookup(pa.array([3]), place.fields["id"], place["id", "name"])
    file = place.files.open(place.fragment)
    for seed, fields in enumerate([["id", "name"], ["name", "score"], ["id"], [], ["name", "list"]]):
        keys = [3 * 1234 + 300 * seed, 1, 3 * 2345 + 300 * seed]
        place.store.calls.clear()
        found, which, table = file.lookup(pa.array(keys), place.fields["id"], place[fields])
        assert (found.tolist(), which.tolist()) == brute(place.table["id"].to_pylist(), keys)
        assert table.num_rows == 2
        assert same(table, place.expected(found, fields)) or not fields
        assert len(place.store.calls) <= (3 if seed in {0, 4} else 2)
    place.store.calls.clear()
    file.lookup(pa.array([3 * 1650]), place.fields["id"], place["id", "name", "score"])
    assert [len(call) for call in place.store.calls] == [3]


def test_lookup__of_nothing__is_an_empty_table(place):
    found, which, table = place.file.lookup(pa.array([1]), place.fields["id"], place["name", "list"])
    assert (found.tolist(), which.tolist()) == ([], [])
    assert table.num_rows == 0
    assert table.column_names == ["name", "list"]


@pytest.mark.parametrize(("more", "requests"), [(4096, 3), (64 * 1024, 2)], ids=["indexes apart", "indexes kept"])
def test_lookup__cold__takes_two_or_three_requests(place, monkeypatch, more, requests):
    footer_bytes = int.from_bytes(place.store.get(KEY)[-8:-4], "little")
    monkeypatch.setattr(fragment_bytes, "TAIL_BYTES", footer_bytes + more)
    place.store.calls.clear()
    file = Files(place.store).open(place.fragment)
    _, _, table = file.lookup(pa.array([3 * 1650]), place.fields["id"], place["id", "name", "score"])
    assert same(table, place.expected([1650], ["id", "name", "score"]))
    assert len(place.store.calls) == requests


def test_lookup__a_small_file__is_one_request_for_ever():
    place = Place(rows(300).select(["id", "name"]))
    for key in (3, 30, 300):
        assert place.file.lookup(pa.array([key]), place.fields["id"], place["id", "name"])[2]["id"].to_pylist() == [key]
    assert place.file.read(0, place["id"]).num_rows == 300
    assert len(place.store.calls) == 1


def test_lookup__one_row__holds_no_memory_of_its_page(place):
    _, _, table = place.file.lookup(pa.array([3 * 1650]), place.fields["id"], place["id", "name", "color"])
    assert same(table, place.expected([1650], ["id", "name", "color"]))
    assert table.get_total_buffer_size() < 500


def test_lookup__another_thread_keeps_the_dictionary_meanwhile__finds_the_row(place):
    file = Files(place.store).open(place.fragment)
    asked = place["id", "color", "name"]
    # All indexes, and no dictionary: the next request is for pages.
    file.lookup(pa.array([3]), place.fields["id"], place["id", "name"])
    assert file.page_bounds(0, place.fields["color"]) is not None
    get_ranges, answers = place.store.get_ranges, []

    def meanwhile(key, ranges):
        place.store.get_ranges = get_ranges
        answers.append(file.lookup(pa.array([3 * 150]), place.fields["id"], asked)[2])
        return get_ranges(key, ranges)

    place.store.get_ranges = meanwhile
    try:
        answers.append(file.lookup(pa.array([3 * 250]), place.fields["id"], asked)[2])
    finally:
        place.store.get_ranges = get_ranges
    for row, answer in zip((150, 250), answers, strict=True):
        assert same(answer, place.expected([row], ["id", "color", "name"]))
