"""Deletion vectors are sets of row numbers, and are read only as what was written."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone import paths
from siltstone.errors import CorruptionError, InternalError, MissingObjectError, UnavailableError
from siltstone.format import frame
from siltstone.format.table import Fragment
from siltstone.format.vectors import VectorHeader, bit_bytes, encode_vector, vector_bytes_max
from siltstone.store.base import Traits
from siltstone.store.memory import MemoryStore
from siltstone.table import vectors
from siltstone.table.vectors import Deleted, Vectors, write_vectors
from siltstone.testing.manual import manual_env
from siltstone.testing.stores import Fault, FaultStore

SETS = st.integers(1, 70).flatmap(
    lambda rows: st.tuples(st.just(rows), *(st.sets(st.integers(0, rows - 1)) for _ in range(2)))
)


def name_of(number):
    return paths.name(7, f"{number:032x}")


def fragment_of(number, rows):
    return Fragment(name=name_of(number), rows=rows, bytes=1, sha256="0" * 64)


def deleted_of(numbers, rows):
    return Deleted.from_numbers(np.array(sorted(numbers), np.int64), rows=rows)


def written(store, *parts):
    """Vectors for (numbers, rows) pairs; gives the pairs to read them by."""
    made = {name_of(place): deleted_of(*part) for place, part in enumerate(parts)}
    found = write_vectors(store, made, base=7, env=manual_env())
    return [(found[name_of(place)], fragment_of(place, rows)) for place, (_, rows) in enumerate(parts)]


@settings(deadline=None)
@given(SETS)
def test_deleted__any_rows__behaves_as_a_set(drawn):
    rows, left, right = drawn
    one, other = deleted_of(left, rows), deleted_of(right, rows)
    assert one.count == len(left)
    assert one.numbers().tolist() == sorted(left)
    assert one.mask().tolist() == [number in left for number in range(rows)]
    assert one.union(other).numbers().tolist() == sorted(left | right)
    assert one.minus(other).numbers().tolist() == sorted(left - right)
    assert one.minus(other).count == len(left - right)
    assert one.overlaps(other) == bool(left & right)
    assert (one == other) == (left == right)
    assert Deleted.from_mask(one.mask()) == Deleted.from_bits(one.bits(), rows=rows) == one


@settings(deadline=None)
@given(SETS, st.data())
def test_slice__any_range__is_that_part_of_the_mask(drawn, data):
    rows, numbers, _ = drawn
    start = data.draw(st.integers(0, rows))
    length = data.draw(st.integers(0, rows - start))
    one = deleted_of(numbers, rows)
    assert one.slice(start, length).tolist() == one.mask()[start : start + length].tolist()


def test_deleted__its_arrays_are_changed__stays_as_it_is():
    one = deleted_of({1}, 9)
    one.mask()[5] = True
    one.numbers()[0] = 7
    assert one.numbers().tolist() == [1]
    assert hash(one) == hash(deleted_of({1}, 9))
    with pytest.raises(ValueError, match="read-only"):
        one._bits[0] = 255


@pytest.mark.parametrize("numbers", [[9], [-1], [0, 10]])
def test_from_numbers__a_row_that_is_not_there__is_refused(numbers):
    with pytest.raises(InternalError, match="none of 9 rows"):
        Deleted.from_numbers(np.array(numbers, np.int64), rows=9)


def test_deleted__of_different_fragments__do_not_mix():
    one, other = Deleted.none(rows=9), Deleted.none(rows=10)
    for call in (one.union, one.minus, one.overlaps):
        with pytest.raises(InternalError, match="9 and 10 rows"):
            call(other)
    with pytest.raises(InternalError, match="not all of 9"):
        one.slice(3, 7)


def test_write_vectors__several_fragments__are_read_back_from_one_object_with_one_request():
    store = FaultStore(MemoryStore())
    parts = [({0, 5}, 6), (set(), 1), (set(range(0, 100_000, 3)), 100_000)]
    pairs = written(store, *parts)
    assert len({vector.name for vector, _ in pairs}) == 1
    assert [vector.rows for vector, _ in pairs] == [2, 0, 33_334]
    assert all(vector.length <= vector_bytes_max(fragment.rows) for vector, fragment in pairs)
    reader = Vectors(store)
    found = reader.read_many(pairs)
    assert [found[name_of(place)] for place in range(3)] == [deleted_of(*part) for part in parts]
    assert [call.verb for call in store.calls] == ["create", "get_ranges"]
    assert reader.read(*pairs[2]).count == 33_334
    assert len(store.calls) == 2


def test_write_vectors__nothing_is_gone__writes_no_object():
    store = MemoryStore()
    assert write_vectors(store, {}, base=0, env=manual_env()) == {}
    assert [*store.list()] == []


def test_write_vectors__more_than_one_object_holds__takes_several(monkeypatch):
    monkeypatch.setattr(vectors, "OBJECT_BYTES", 500)
    store = MemoryStore()
    pairs = written(store, *(({place}, 50) for place in range(8)))
    assert 1 < len({vector.name for vector, _ in pairs}) < 8
    assert all(Vectors(store).read(*pair).numbers().tolist() == [place] for place, pair in enumerate(pairs))


def test_write_vectors__the_answer_is_lost__is_written_once():
    store = FaultStore(MemoryStore())
    store.on("create", Fault.LOSE)
    pairs = written(store, ({3}, 9))
    assert Vectors(store.inner).read(*pairs[0]).numbers().tolist() == [3]
    assert len([*store.inner.list()]) == 1


class FarStore(FaultStore):
    """A store whose requests are worth overlapping."""

    traits = Traits(kind="s3", known_good=True, cheap_probes=False)


def test_read_many__objects_of_many_transactions__are_all_read(monkeypatch):
    monkeypatch.setattr(vectors, "OBJECT_BYTES", 1)
    store = FarStore(MemoryStore())
    pairs = written(store, *(({place}, 50) for place in range(40)))
    assert len({vector.name for vector, _ in pairs}) == 40
    found = Vectors(store).read_many(pairs)
    assert [found[name_of(place)].numbers().tolist() for place in range(40)] == [[place] for place in range(40)]
    store.on("get_ranges", Fault.REFUSE, nth=20)
    with pytest.raises(UnavailableError):
        Vectors(store).read_many(pairs)


def test_read__more_than_the_cache_holds__drops_what_was_used_longest_ago():
    store = FaultStore(MemoryStore())
    pairs = written(store, *(({place}, 8000) for place in range(4)))
    reader = Vectors(store, cache_bytes=3 * Deleted.none(rows=8000).nbytes)
    for place in (0, 1, 2, 0, 3, 0):
        assert reader.read(*pairs[place]).numbers().tolist() == [place]
    before = len(store.calls)
    reader.read_many([pairs[0], pairs[2], pairs[3]])
    assert len(store.calls) == before
    reader.read(*pairs[1])
    assert len(store.calls) == before + 1


def test_read__the_cache_is_smaller_than_a_vector__still_reads():
    store = MemoryStore()
    pairs = written(store, ({1}, 8000))
    reader = Vectors(store, cache_bytes=1)
    assert reader.read(*pairs[0]) == reader.read(*pairs[0])


def test_read__the_object_is_gone__names_it():
    store = MemoryStore()
    [(vector, fragment)] = written(store, ({1}, 9))
    store.delete([paths.vectors(vector.name)])
    with pytest.raises(MissingObjectError, match=paths.vectors(vector.name)) as raised:
        Vectors(store).read(vector, fragment)
    assert raised.value.facts["object"] == paths.vectors(vector.name)


def test_read__any_byte_is_changed_or_the_end_is_cut__is_corruption():
    store = MemoryStore()
    [(vector, fragment)] = written(store, ({1, 5}, 40))
    key = paths.vectors(vector.name)
    good = store.get(key)
    damaged = [
        good[:place] + bytes([good[place] ^ 0x41]) + good[place + 1 :] for place in range(len(good)) if place != 4
    ]
    for data in [*damaged, good[:-1], good[:20], b"", b"\0" * len(good)]:
        store.put(key, data)
        with pytest.raises(CorruptionError, match="vectors/"):
            Vectors(store).read(vector, fragment)
    store.put(key, good + b"more")
    assert Vectors(store).read(vector, fragment).count == 2


@pytest.mark.parametrize(
    "change",
    [
        {"fragment": name_of(9)},
        {"rows": 41},
        {"rows": 39},
        {"deleted": 1},
    ],
)
def test_read__a_vector_of_another_fragment_or_count__is_corruption(change):
    store = MemoryStore()
    [(vector, fragment)] = written(store, ({1, 5}, 40))
    header = msgspec.structs.replace(VectorHeader(fragment=fragment.name, rows=40, deleted=2), **change)
    data = encode_vector(header, deleted_of({1, 5}, 40).bits())
    store.put(paths.vectors(vector.name), data)
    with pytest.raises(CorruptionError, match="holds a vector of"):
        Vectors(store).read(msgspec.structs.replace(vector, length=len(data)), fragment)


@pytest.mark.parametrize(
    "bits",
    [
        b"",
        b"\x03",
        b"\x03\x00\x00",
        b"\x03" + bytes(50_000_000),
        b"\x01\x80",  # the right number, but one behind the last row
        b"\x07\x00",
    ],
)
def test_read__bits_that_do_not_fit_the_rows__are_corruption(bits):
    store = MemoryStore()
    fragment = fragment_of(0, 12)
    data = encode_vector(VectorHeader(fragment=fragment.name, rows=12, deleted=2), bits)
    [(vector, _)] = written(MemoryStore(), ({0, 1}, 12))
    store.put(paths.vectors(vector.name), data)
    with pytest.raises(CorruptionError, match="vectors/"):
        Vectors(store).read(msgspec.structs.replace(vector, length=len(data)), fragment)


@pytest.mark.parametrize("length", [0, 2**62])
def test_read__the_log_names_a_length_that_can_not_be__asks_the_store_for_nothing(length):
    store = FaultStore(MemoryStore())
    [(vector, fragment)] = written(store, ({1}, 9))
    with pytest.raises(CorruptionError, match="over the limit"):
        Vectors(store).read(msgspec.structs.replace(vector, length=length), fragment)
    assert [call.verb for call in store.calls] == ["create"]


@settings(deadline=None)
@given(st.integers(1, 5000), st.randoms(use_true_random=False))
def test_vector_bytes_max__any_rows__bounds_what_is_written(rows, random):
    bits = random.randbytes(bit_bytes(rows) - 1) + b"\0"
    data = encode_vector(VectorHeader(fragment=name_of(2**100), rows=rows, deleted=rows), bits)
    assert len(data) <= vector_bytes_max(rows)
    assert frame.unwrap(data, name="x")
