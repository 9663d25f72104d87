"""Files that are gone, cut, changed or other ones than their record says are refused by name."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import figures
from parquet_files import FULL, KEY, ROWS, encoded, opened, record, rows, same, stored
from siltstone.errors import CorruptionError, MissingObjectError
from siltstone.store.connect import open_store
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.table import fragment_bytes
from siltstone.table.files import Files
from siltstone.testing.s3server import FaultServer


@pytest.fixture(scope="module", params=[True, False], ids=["sealed", "plain"])
def place(request):
    return opened(sealed=request.param)


def test_open__a_missing_object__names_it(place):
    files = Files(MemoryStore(bucket=MemoryBucket()))
    with pytest.raises(MissingObjectError) as caught:
        files.open(place.fragment)
    assert caught.value.facts["object"] == KEY


def test_read__an_object_that_went_away__names_it(place):
    store = MemoryStore(bucket=MemoryBucket())
    fragment, fields = stored(store, rows(), sealed=True)
    file = Files(store).open(fragment)
    store.delete([KEY])
    with pytest.raises(MissingObjectError):
        file.read(0, [fields["id"]])


@pytest.mark.parametrize("kind", ["memory", "file", "s3"])
@pytest.mark.parametrize("change", ["cut", "much shorter", "longer", "empty"])
def test_open__an_object_of_another_size__is_corrupt(kind, change, tmp_path, fault_server):
    data, _ = encoded(rows(), sealed=True)
    assert len(data) > 2 * fragment_bytes.TAIL_BYTES
    other = {"cut": data[:-1], "much shorter": data[:100], "longer": data + b"PAR1", "empty": b""}[change]
    stores = {
        "memory": lambda: MemoryStore(bucket=MemoryBucket()),
        "file": lambda: open_store(tmp_path),
        "s3": lambda: open_store("s3://bkt/sizes", fault_server.storage_options),
    }
    store = stores[kind]()
    store.put(KEY, other)
    with pytest.raises(CorruptionError) as caught:
        Files(store).open(record(data, ROWS))
    assert caught.value.facts["object"] == KEY


@pytest.fixture(scope="module")
def fault_server():
    with FaultServer() as server:
        yield server


def test_lookup__on_s3__is_the_same(fault_server):
    store = open_store("s3://bkt/lookup", fault_server.storage_options)
    table = rows()
    fragment, fields = stored(store, table, **FULL)
    file = Files(store).open(fragment)
    _, _, found = file.lookup(pa.array([300, 301, 9000]), fields["id"], [fields["name"], fields["list"]])
    assert same(found, table.select(["name", "list"]).take(pa.array([100, 3000])))


def test_open__a_record_of_other_rows__is_corrupt(place):
    with pytest.raises(CorruptionError, match=str(ROWS)):
        Files(place.store).open(record(place.store.get(KEY), ROWS - 1))


@pytest.mark.parametrize("size", [0, 4, 11])
def test_open__a_record_of_too_few_bytes__is_corrupt(place, size):
    with pytest.raises(CorruptionError):
        Files(place.store).open(record(b"x" * size, ROWS))


def small_rows():
    return rows(60).select(["id", "name", "color", "price", "list"])


def outcome(data, fields, *, honest):
    """What all calls on a file give, or None where it is refused."""
    store = MemoryStore(bucket=MemoryBucket())
    store.put(KEY, data)
    try:
        file = Files(store).open(honest or record(data, 60))
        by_name = {field.name: field for field in fields}
        found = [file.read(number, fields).to_pylist() for number in range(len(file.groups))]
        found.append(file.take(np.array([3, 33]), fields[:4]).to_pylist())
        found += [file.lookup(pa.array([key]), by_name["id"], fields[:4])[2].to_pylist() for key in (30, 31, 150)]
        found.append(file.find(pa.array(["name 0000030", "no"]), by_name["name"])[0].tolist())
        return found
    except CorruptionError as error:
        return None if error.facts["object"] == KEY else error


SMALL = {
    "row_group_size": 30,
    "max_rows_per_page": 10,
    "use_dictionary": ["color"],
    "bloom_filter_options": {"id": True},
}


def test_read__any_byte_flipped__is_refused_by_the_hash_of_a_small_file():
    data, fields = encoded(small_rows(), sealed=False, **SMALL)
    honest = record(data, 60)
    for place in range(0, len(data), 17):
        broken = bytearray(data)
        broken[place] ^= 1 << place % 8
        assert outcome(bytes(broken), fields, honest=honest) is None
        figures.record("mutated/Parquet file")


@pytest.mark.parametrize("tail", [64, 4096])
def test_read__any_byte_of_a_sealed_file_flipped__is_refused_or_changes_nothing(monkeypatch, tail):
    # The record lies along with the file, so that only the seal is left to notice.
    monkeypatch.setattr(fragment_bytes, "TAIL_BYTES", tail)
    data, fields = encoded(small_rows(), sealed=True, **SMALL)
    expected = outcome(data, fields, honest=None)
    assert expected is not None
    accepted = 0
    for place in range(tail % 7, len(data), 13):
        broken = bytearray(data)
        broken[place] ^= 1 << place % 8
        found = outcome(bytes(broken), fields, honest=None)
        assert found is None or found == expected
        figures.record("mutated/Parquet file")
        accepted += found is not None
    assert accepted < len(data) / 13 / 2


def test_read__any_byte_of_an_unsealed_file_flipped__never_breaks_anything(monkeypatch):
    monkeypatch.setattr(fragment_bytes, "TAIL_BYTES", 64)
    data, fields = encoded(small_rows(), sealed=False, **SMALL)
    expected = outcome(data, fields, honest=None)
    refused = 0
    for place in range(0, len(data), 11):
        broken = bytearray(data)
        broken[place] ^= 1 << place % 8
        found = outcome(bytes(broken), fields, honest=None)
        refused += found is None
        figures.record("mutated/Parquet file")
    assert expected is not None
    assert refused > len(data) / 11 / 2


def test_read__random_rubbish_in_the_footer__is_refused_or_read(monkeypatch):
    monkeypatch.setattr(fragment_bytes, "TAIL_BYTES", 64)
    data, fields = encoded(small_rows(), sealed=False, **SMALL)
    length = int.from_bytes(data[-8:-4], "little")
    random = np.random.default_rng(0)
    for _ in range(150):
        broken = bytearray(data)
        start = int(random.integers(len(data) - 8 - length, len(data) - 12))
        broken[start : start + 4] = random.bytes(4)
        figures.record("mutated/Parquet file")
        outcome(bytes(broken), fields, honest=None)


def test_read__cut_and_padded_to_its_size__is_refused():
    data, fields = encoded(small_rows(), sealed=True, **SMALL)
    for end in range(0, len(data), 97):
        assert outcome(data[:end] + bytes(len(data) - end), fields, honest=record(data, 60)) is None
        figures.record("cut/Parquet file")


@pytest.mark.parametrize("before", [0, 1, 8, 15, 16, 23, 24, 25, 100, 100_000])
def test_open__the_footer_of_a_sealed_file_changed__is_refused_however_much_is_kept(monkeypatch, before):
    data, _ = encoded(small_rows(), sealed=True, **SMALL)
    footer_bytes = int.from_bytes(data[-8:-4], "little") + 8
    broken = bytearray(data)
    spot = data.index(b"color", len(data) - footer_bytes)
    broken[spot] ^= 1
    monkeypatch.setattr(fragment_bytes, "TAIL_BYTES", footer_bytes + before)
    store = MemoryStore(bucket=MemoryBucket())
    store.put(KEY, bytes(broken))
    with pytest.raises(CorruptionError, match="footer"):
        Files(store).open(record(bytes(broken), 60))
