"""Some pages of a file are decoded as they lie there, and none that is another one than its index says."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pytest

from parquet_files import KEY, Place, record, same
from siltstone.errors import CorruptionError
from siltstone.format import thrift
from siltstone.format.parquet import Range
from siltstone.table import pages
from siltstone.table.files import Files
from siltstone.table.pages import Piece, _Parts

ROWS = 1000


def word(number):
    return f"{number:05d}" * (1 + number % 4)


TABLE = pa.table({"id": range(ROWS), "word": [word(n) for n in range(ROWS)], "few": [n % 5 for n in range(ROWS)]})


def made(*, sealed, **options):
    return Place(TABLE, sealed=sealed, **{"use_dictionary": ["few"], **options})


@pytest.fixture(scope="module", params=[True, False], ids=["sealed", "plain"])
def place(request):
    return made(sealed=request.param)


def excerpt(place, column, chosen):
    """The piece of some pages, its bytes, and the index behind it."""
    leaf = TABLE.column_names.index(column)
    index = place.file._indexes.index(0, leaf)
    piece = pages.some(place.file._footer.groups[0].chunks[leaf], index, chosen)
    return piece, place.store.get_ranges(KEY, piece.ranges), index


def decoded(place, column, piece, parts, rows):
    head = place.file._indexes.plan(place[column]).head
    return pages.read(pages.build(head, [(rows, [(piece, parts)])]), rows=rows, name="x", threads=False, checksums=True)


@pytest.mark.parametrize("column", TABLE.column_names)
@pytest.mark.parametrize("chosen", [[0], [9], [3, 4], [0, 2, 3, 7], [*range(10)]], ids=str)
def test_read__some_pages_of_a_column__are_their_rows(place, column, chosen):
    piece, parts, index = excerpt(place, column, chosen)
    pages.check(piece, parts, index, chosen, name="x")
    numbers = np.concatenate([np.arange(100 * page, 100 * page + 100) for page in chosen])
    assert piece.values == len(numbers)
    found = decoded(place, column, piece, parts, len(numbers))
    assert same(found, TABLE.select([column]).take(pa.array(numbers)))


def test_some__pages_side_by_side__are_one_range_and_the_dictionary_another(place):
    piece, _, index = excerpt(place, "few", [0, 1, 4])
    chunk = piece.chunk
    assert piece.ranges == (
        Range(chunk.range.start, chunk.data), Range(chunk.data, index.ends[1]), Range(index.starts[4], index.ends[4]),
    )  # fmt: skip
    assert piece.dictionary_bytes == chunk.data - chunk.range.start


def test_some__pages_after_the_writer_gave_up_its_dictionary__come_without_it():
    place = made(sealed=True, use_dictionary=["word"], dictionary_pagesize_limit=2000, write_batch_size=50)
    with_it, parts, index = excerpt(place, "word", [0])
    assert with_it.dictionary_bytes
    assert 0 < with_it.chunk.dictionary_pages < len(index.starts)
    last = len(index.starts) - 1
    without, parts, _ = excerpt(place, "word", [last])
    assert not without.dictionary_bytes
    rows = index.layout.counts[last]
    assert decoded(place, "word", without, parts, rows)["word"].to_pylist() == [
        word(n) for n in range(ROWS - rows, ROWS)
    ]
    for number in (0, 300, 999):
        assert same(place.file.take(np.array([number]), place["word"]), place.expected([number], ["word"]))


@pytest.mark.parametrize("column", TABLE.column_names)
def test_check__a_byte_of_a_page_changed__is_refused_at_last_when_decoding(place, column):
    piece, parts, index = excerpt(place, column, [5])
    start = 0 if index.sums else 60  # a head that changed without harm may pass where there is no seal
    for spot in range(start, len(parts[-1]), 9):
        broken = bytearray(parts[-1])
        broken[spot] ^= 8
        with pytest.raises(CorruptionError):
            _check_and_decode(place, column, piece, [*parts[:-1], bytes(broken)], index)


def _check_and_decode(place, column, piece, parts, index):
    pages.check(piece, parts, index, [5], name="x")
    decoded(place, column, piece, parts, 100)


def change_head(part, change):
    head, end = thrift.decode(part, name="x")
    change(head)
    return thrift.encode(head) + part[end:]


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("fewer values", lambda head: head[5][1].__setitem__(1, (thrift.I32, 99))),
        ("no values", lambda head: head[5][1].pop(1)),
        ("an encoding that the column has not", lambda head: head[5][1].__setitem__(2, (thrift.I32, 9))),
        ("a dictionary that was not read", lambda head: head[5][1].__setitem__(2, (thrift.I32, 8))),
        ("levels of another encoding", lambda head: head[5][1].__setitem__(3, (thrift.I32, 4))),
        ("more bytes than there are", lambda head: head.__setitem__(3, (thrift.I32, 2**30))),
        ("far too many bytes when decompressed", lambda head: head.__setitem__(2, (thrift.I32, 2**31 - 1))),
        ("a negative size", lambda head: head.__setitem__(2, (thrift.I32, -1))),
        ("another kind of page", lambda head: head.__setitem__(1, (thrift.I32, 2))),
        ("no kind at all", lambda head: head.pop(1)),
        ("a head that is a number", lambda head: head.__setitem__(5, (thrift.I32, 1))),
    ],
)
def test_check__a_head_with_another_story__is_refused(what, change):
    place = made(sealed=False)
    piece, parts, index = excerpt(place, "word", [5])
    with pytest.raises(CorruptionError) as caught:
        pages.check(piece, [change_head(parts[0], change)], index, [5], name="the object")
    assert caught.value.facts["object"] == "the object"


def test_check__the_page_of_other_rows__is_refused_in_a_sealed_file():
    place = made(sealed=True)
    piece, _, index = excerpt(place, "id", [5])
    _, others, _ = excerpt(place, "id", [6])
    with pytest.raises(CorruptionError, match="page 5"):
        pages.check(piece, others, index, [5], name="x")


def test_take__two_pages_exchanged__is_refused_in_a_sealed_file():
    place = made(sealed=True, compression="none")
    index = place.file._indexes.index(0, 0)
    data = bytearray(place.store.get(KEY))
    first, second = (slice(index.starts[page], index.ends[page]) for page in (3, 4))
    assert first.stop - first.start == second.stop - second.start
    data[first], data[second] = data[second], data[first]
    place.store.put(KEY, bytes(data))
    file = Files(place.store).open(record(bytes(data), ROWS))
    with pytest.raises(CorruptionError):
        file.take(np.array([300]), place["id"])


def test_read__other_rows_than_expected__is_corruption(place):
    piece, parts, _ = excerpt(place, "id", [1])
    head = place.file._indexes.plan(place["id"]).head
    built = pages.build(head, [(100, [(piece, parts)])])
    with pytest.raises(CorruptionError, match="100 rows, not 101"):
        pages.read(built, rows=101, name="x", threads=False, checksums=True)


@pytest.mark.parametrize("rubbish", [b"", b"rubbish", bytes(500), b"\x15" * 500])
def test_read__pages_of_rubbish__is_corruption(place, rubbish):
    piece, _, _ = excerpt(place, "id", [1])
    with pytest.raises(CorruptionError) as caught:
        decoded(place, "id", piece, [rubbish], 100)
    assert caught.value.facts["object"] == "x"


def test_read__a_file_in_parts__is_the_same_as_joined(place, monkeypatch):
    piece, parts, _ = excerpt(place, "word", [0, 2, 3, 9])
    joined = decoded(place, "word", piece, parts, 400)
    monkeypatch.setattr(pages, "JOINED_BYTES_MAX", 0)
    assert decoded(place, "word", piece, parts, 400).equals(joined)


def test_parts__read_anywhere__are_the_bytes_of_all():
    parts = [b"PAR1", b"", b"0123456789", b"abc", b"xyz"]
    whole = b"".join(parts)
    file = _Parts(parts)
    for start in range(len(whole) + 1):
        for size in (0, 1, 3, 10, 100):
            assert file.seek(start) == start
            assert file.read(size) == whole[start : start + size]
            assert file.tell() == min(start + size, len(whole))
    assert (file.seek(-3, os.SEEK_END), file.read()) == (len(whole) - 3, b"xyz")
    file.seek(4)
    assert file.read(10) is parts[2]
    assert file.readable()
    file.close()
    assert file.closed


def test_whole__of_a_chunk__has_all_its_pages(place):
    chunk = place.file._footer.groups[0].chunks[2]
    assert pages.whole(chunk) == Piece(chunk, (chunk.range,), chunk.data - chunk.range.start, ROWS)
