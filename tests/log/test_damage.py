"""Entries that were changed in the store: none is shown, whichever it is and whatever was changed in it."""

from __future__ import annotations

import pytest

import siltstone as ss
from siltstone import paths
from siltstone.errors import CorruptionError
from siltstone.format.records import encode_entry
from siltstone.log import reader
from siltstone.store.memory import MemoryStore

COUNT = 7
PLACES = {"fixed": 9, "lengths": 13, "checksum": 30, "header": 60, "body": -1, "end of the header": -9}


@pytest.fixture
def log():
    found = ss.open_log(MemoryStore(), create=True, probe=False)
    mark = found.start
    for number in range(COUNT):
        mark = found.append(f"body-{number}".encode(), after=mark)
    return found


def flip(log, position, place):
    key = paths.entry(log.root, position)
    data = bytearray(log.store.get(key))
    data[place] ^= 1
    log.store.put(key, bytes(data))


@pytest.mark.parametrize("together", [1, 3, 256])
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("position", range(COUNT))
def test_entries__one_was_changed__it_is_named_and_never_shown(log, position, place, together, monkeypatch):
    monkeypatch.setattr(reader, "SHOWN_TOGETHER", together)
    end = log.tip()
    flip(log, position, place)
    found = []
    with pytest.raises(CorruptionError) as refused:
        found.extend(entry.position for entry in log.entries(log.start, until=end))
    assert position not in found
    assert found == list(range(len(found)))
    assert refused.value.facts["object"] == paths.entry(log.root, position)


@pytest.mark.parametrize("together", [1, 3, 256])
def test_entries__one_was_replaced_by_another_whole_one__neither_is_shown(log, together, monkeypatch):
    monkeypatch.setattr(reader, "SHOWN_TOGETHER", together)
    entries, end = list(log.entries()), log.tip()
    header = log._header(entries[2].end, 0, entries[3].op, "data")
    log.store.put(paths.entry(log.root, 3), encode_entry(header, b"another body"))
    found = []
    with pytest.raises(CorruptionError, match="overwritten"):
        found.extend(entry.position for entry in log.entries(log.start, until=end))
    assert found == list(range(len(found)))
    assert 3 not in found


def test_entries__the_last_one_was_replaced__is_refused(log):
    entries, end = list(log.entries()), log.tip()
    header = log._header(entries[-2].end, 0, entries[-1].op, "data")
    log.store.put(paths.entry(log.root, COUNT - 1), encode_entry(header, b"another body"))
    with pytest.raises(CorruptionError, match="not the one it was"):
        list(log.entries(log.start, until=end))
