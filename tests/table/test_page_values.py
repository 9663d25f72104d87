"""Single values of a page of texts are what pyarrow gives for them, or the page is left to pyarrow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from siltstone.format import thrift
from siltstone.format.parquet import Range, footer_start, parse_footer, parse_offsets
from siltstone.table.page_values import as_array, plain_page, readable, values_of

ROWS = 300
PATTERNS = {
    "none": lambda _: False,
    "all": lambda _: True,
    "first": lambda number: number == 0,
    "last": lambda number: number == ROWS - 1,
    "long runs": lambda number: number // 100 == 1,
    "every other": lambda number: number % 2 == 0,
    "some": lambda number: number * 2654435761 % 7 == 0,
}


def texts(gone):
    return [None if gone(number) else f"ein wört {number} " * (number % 9) for number in range(ROWS)]


def page_of(values, kind=None, *, nullable=True, **options):
    """The only page of a column, its chunk, and its values as pyarrow reads them."""
    kind = pa.string() if kind is None else kind
    table = pa.table({"a": pa.array(values, kind)}, schema=pa.schema([pa.field("a", kind, nullable=nullable)]))
    out = pa.BufferOutputStream()
    options = {"compression": "zstd", "use_dictionary": False, "write_page_index": True, **options}
    pq.write_table(table, out, **options)
    data = out.getvalue().to_pybytes()
    start = footer_start(data, size=len(data), name="x")
    [group] = parse_footer(data[start:], start=start, name="x").groups
    [chunk] = group.chunks
    found = parse_offsets(data[slice(*chunk.offsets)], chunk, rows=ROWS, name="x")
    [where] = map(Range, found.starts, found.ends)
    return data[slice(*where)], chunk, pq.read_table(pa.BufferReader(data)).column(0).to_pylist()


def read(page, chunk, wanted, *, optional=True):
    plain = plain_page(page, values=ROWS, plain_most=chunk.plain_bytes)
    return None if plain is None else values_of(plain, wanted, values=ROWS, optional=optional)


def changed(page, change):
    head, end = thrift.decode(page, name="x")
    body = change(head, page[end:])
    return thrift.encode(head) + (page[end:] if body is None else body)


def repacked(page, plain):
    """The page with other bytes in it."""

    def change(head, _):
        packed = pa.Codec("zstd").compress(plain, asbytes=True)
        head[2], head[3] = (thrift.I32, len(plain)), (thrift.I32, len(packed))
        return packed

    return changed(page, change)


def unpacked(page):
    head, end = thrift.decode(page, name="x")
    return pa.Codec("zstd").decompress(page[end:], decompressed_size=head[2][1], asbytes=True)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=str)
def test_values_of__any_nulls__are_what_pyarrow_reads(pattern, kind):
    page, chunk, expected = page_of(texts(PATTERNS[pattern]), kind)
    assert readable(chunk, kind)
    wanted = np.random.default_rng(5).permutation(ROWS).tolist()
    found = read(page, chunk, wanted)
    assert [as_array(value, kind)[0].as_py() for value in found] == [expected[place] for place in wanted]
    for place in (0, 1, ROWS - 1):
        assert [as_array(value, kind)[0].as_py() for value in read(page, chunk, [place])] == [expected[place]]


def test_values_of__column_that_is_never_null__are_what_pyarrow_reads():
    page, chunk, expected = page_of(texts(PATTERNS["none"]), nullable=False)
    assert [value.decode() for value in read(page, chunk, range(ROWS), optional=False)] == expected


def test_values_of__view_of_a_larger_part__are_the_same():
    page, chunk, expected = page_of(texts(PATTERNS["some"]))
    view = memoryview(b"before" + page + b"after")[6 : 6 + len(page)]
    assert read(view, chunk, [17])[0] == expected[17].encode()


def test_as_array__a_text__has_memory_of_its_own_and_no_more():
    page, chunk, _ = page_of(texts(PATTERNS["none"]))
    array = as_array(read(page, chunk, [8])[0], pa.string())
    array.validate(full=True)
    assert array.get_total_buffer_size() == 8 + len(array[0].as_py().encode())


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"compression": "snappy"}, pa.string()),
        ({"compression": "none"}, pa.string()),
        ({"use_dictionary": True}, pa.string()),
        ({"column_encoding": "DELTA_LENGTH_BYTE_ARRAY"}, pa.string()),
        ({}, pa.large_string()),
    ],
    ids=str,
)
def test_readable__written_in_another_way__is_not(options, kind):
    values = [f"text {number % 3}" for number in range(ROWS)]
    _, chunk, _ = page_of(values, kind, **options)
    assert not readable(chunk, kind)


def test_readable__numbers__are_not():
    _, chunk, _ = page_of(list(range(ROWS)), pa.int64())
    assert not readable(chunk, pa.int64())


def test_plain_page__page_of_the_second_kind__is_left_to_pyarrow():
    page, chunk, _ = page_of(texts(PATTERNS["some"]), data_page_version="2.0")
    assert read(page, chunk, [1]) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda head, _: head[5][1].__setitem__(1, (thrift.I32, ROWS + 1)),
        lambda head, _: head[5][1].__setitem__(2, (thrift.I32, 8)),
        lambda head, _: head[5][1].__setitem__(3, (thrift.I32, 4)),
        lambda head, _: head.__setitem__(1, (thrift.I32, 2)),
        lambda head, _: head.__setitem__(2, (thrift.I32, head[2][1] + 1)),  # more than the frame has
        lambda head, _: head.__setitem__(2, (thrift.I32, head[2][1] - 1)),
        lambda head, _: head.__setitem__(2, (thrift.I32, -1)),
        lambda head, _: head.__setitem__(3, (thrift.I32, head[3][1] + 1)),
        lambda head, _: head.__setitem__(5, (thrift.I32, 5)),
        lambda head, _: head.pop(5) and None,
        lambda *_: b"",
        lambda _, body: body[:-3],
        lambda _, body: b"\0" * len(body),
    ],
)
def test_plain_page__head_that_does_not_fit__is_left_to_pyarrow(change):
    page, chunk, _ = page_of(texts(PATTERNS["none"]))
    assert read(changed(page, change), chunk, [1]) is None


def test_values_of__frame_of_fewer_bytes_than_the_head_says__gives_none_that_it_has_not():
    page, chunk, _ = page_of(texts(PATTERNS["none"]))
    plain = unpacked(page)
    short = repacked(page, plain[: len(plain) // 2])

    def say_more(head, _):
        head[2] = (thrift.I32, len(plain))

    assert read(changed(short, say_more), chunk, [ROWS - 1]) is None
    assert read(short, chunk, [0])[0] == b""  # what it has can be read
    assert read(short, chunk, [ROWS - 1]) is None


def test_plain_page__more_than_the_column_has_when_decompressed__is_left_to_pyarrow():
    page, chunk, _ = page_of(texts(PATTERNS["none"]))
    large = repacked(page, unpacked(page) + bytes(chunk.plain_bytes))
    assert read(large, chunk, [1]) is None


def test_values_of__length_beyond_the_page__is_left_to_pyarrow():
    page, chunk, _ = page_of(texts(PATTERNS["none"]), nullable=False)
    plain = unpacked(page)
    for length in (len(plain), 2**31, 2**32 - 1):
        forged = repacked(page, length.to_bytes(4, "little") + plain[4:])
        assert read(forged, chunk, [0], optional=False) is None
        assert read(forged, chunk, [1], optional=False) is None


@pytest.mark.parametrize("levels", [b"", b"\0\1", b"\2\1", b"\xff\xff\xff\xff\xff\xff\1", b"\x03\xff", b"\x80" * 9])
def test_values_of__levels_that_end_early__are_left_to_pyarrow(levels):
    page, chunk, _ = page_of(texts(PATTERNS["none"]))
    plain = len(levels).to_bytes(4, "little") + levels
    assert read(repacked(page, plain), chunk, [ROWS - 1]) is None
    assert read(repacked(page, plain + bytes(64)), chunk, [ROWS - 1]) is None


@pytest.mark.parametrize("pattern", ["none", "some"])
def test_values_of__any_byte_changed__raise_nothing(pattern):
    page, chunk, _ = page_of(texts(PATTERNS[pattern]))
    plain = bytearray(unpacked(page))
    given = 0
    for spot in range(120):
        broken = bytearray(plain)
        broken[spot] ^= 0x41
        given += read(repacked(page, bytes(broken)), chunk, [0, 50, ROWS - 1]) is not None
    for spot in range(min(len(page), 200)):
        broken = bytearray(page)
        broken[spot] ^= 0x41
        given += read(bytes(broken), chunk, [0, 50, ROWS - 1]) is not None
    assert given  # some changes are within a text
