"""Footers and page indexes as records: what pyarrow wrote is read, and what can't be is refused."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from siltstone.errors import CorruptionError
from siltstone.format import parquet, thrift

ROWS = 5000


@pytest.fixture(scope="module")
def data():
    table = pa.table(
        {
            "id": pa.array(range(ROWS)),
            "word": pa.array([f"w{n % 7}" for n in range(ROWS)]),
            "parts": pa.array([[n, n + 1] for n in range(ROWS)]),
            "pair": pa.array([{"x": n, "y": str(n)} for n in range(ROWS)]),
            "gap": pa.array([None if n < 1000 else n for n in range(ROWS)], pa.int32()),
        }
    )
    out = io.BytesIO()
    pq.write_table(
        table, out, row_group_size=2000, max_rows_per_page=100, write_page_index=True, bloom_filter_options={"id": True}
    )
    return out.getvalue()


def footer_of(data):
    start = parquet.footer_start(data[-64:], size=len(data), name="x")
    return start, data[start:-8]


def parsed(data):
    start, footer = footer_of(data)
    return parquet.parse_footer(footer, start=start, name="x")


def changed(data, change):
    start, footer = footer_of(data)
    fields, _ = thrift.decode(footer, name="x")
    change(fields)
    return parquet.parse_footer(thrift.encode(fields), start=start, name="the object")


def chunk_of(fields, *, group=0, column=0):
    return fields[4][1][1][group][1][1][1][column]


def test_parse_footer__of_a_file__says_what_pyarrow_says(data):
    footer = parsed(data)
    theirs = pq.read_metadata(io.BytesIO(data))
    assert [group.rows for group in footer.groups] == [2000, 2000, 1000]
    assert [group.start for group in footer.groups] == [0, 2000, 4000]
    assert [(node.name, node.leaf, node.leaves, node.flat) for node in footer.columns] == [
        ("id", 0, 1, True), ("word", 1, 1, True), ("parts", 2, 1, False), ("pair", 3, 2, False), ("gap", 5, 1, True),
    ]  # fmt: skip
    for number, group in enumerate(footer.groups):
        for leaf, chunk in enumerate(group.chunks):
            other = theirs.row_group(number).column(leaf)
            assert chunk.values == other.num_values
            assert chunk.data == other.data_page_offset
            assert chunk.range.end - chunk.range.start == other.total_compressed_size
            assert chunk.nulls == other.statistics.null_count


def test_parse_offsets__of_each_chunk__names_all_pages(data):
    footer = parsed(data)
    for group in footer.groups:
        for chunk in group.chunks:
            where = chunk.offsets
            pages = parquet.parse_offsets(data[where.start : where.end], chunk, rows=group.rows, name="x")
            assert pages.starts[0] == chunk.data
            assert pages.ends[-1] == chunk.range.end
            assert pages.starts[1:] == pages.ends[:-1]
            assert (np.diff(pages.first_rows) <= 100).all()
            bounds = data[chunk.bounds.start : chunk.bounds.end]
            found = parquet.parse_bounds(bounds, pages=len(pages.starts), name="x")
            assert len(found.lows) == len(found.highs) == len(found.empty) == len(pages.starts)


def test_parse_bounds__pages_of_nulls__are_empty(data):
    group = parsed(data).groups[0]
    chunk = group.chunks[5]
    found = parquet.parse_bounds(data[chunk.bounds.start : chunk.bounds.end], pages=20, name="x")
    assert found.empty.tolist() == [True] * 10 + [False] * 10
    assert [int.from_bytes(low, "little") for low in found.lows[10:]] == list(range(1000, 2000, 100))


def test_parse_offsets__cut_or_flipped_anywhere__is_corrupt_or_of_the_same_chunk(data):
    group = parsed(data).groups[0]
    chunk = group.chunks[0]
    index = data[chunk.offsets.start : chunk.offsets.end]
    for place in range(len(index)):
        broken = [index[:place]] + [
            bytes([*index[:place], index[place] ^ bit, *index[place + 1 :]]) for bit in (1, 128)
        ]
        for one in broken:
            try:
                pages = parquet.parse_offsets(one, chunk, rows=group.rows, name="x")
            except CorruptionError:
                continue
            assert chunk.data == pages.starts[0]
            assert pages.ends[-1] <= chunk.range.end
            assert pages.first_rows[-1] < group.rows


def test_parse_offsets__more_pages_than_bytes__is_corrupt(data):
    group = parsed(data).groups[0]
    for head in (b"\x19\xfc" + thrift.varint(2**31), b"\x19\xfc\xff\xff\xff\xff\xff\xff", b"\x19\x0c", b"\x19", b""):
        with pytest.raises(CorruptionError):
            parquet.parse_offsets(head, group.chunks[0], rows=group.rows, name="x")


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("rows of the file", lambda f: f.__setitem__(3, (thrift.I64, ROWS + 1))),
        ("rows of a group", lambda f: f[4][1][1][0].__setitem__(3, (thrift.I64, 1999))),
        ("rows below zero", lambda f: f[4][1][1][0].__setitem__(3, (thrift.I64, -1))),
        ("a column less", lambda f: f[4][1][1][0][1][1][1].pop()),
        ("values of a column", lambda f: chunk_of(f)[3][1].__setitem__(5, (thrift.I64, 7))),
        ("bytes past the end", lambda f: chunk_of(f)[3][1].__setitem__(7, (thrift.I64, 2**40))),
        ("bytes before the start", lambda f: chunk_of(f)[3][1].__setitem__(9, (thrift.I64, -5))),
        ("no bytes", lambda f: chunk_of(f)[3][1].__setitem__(7, (thrift.I64, 0))),
        ("far too large", lambda f: chunk_of(f)[3][1].__setitem__(6, (thrift.I64, 2**62))),
        ("an index past the end", lambda f: chunk_of(f).__setitem__(4, (thrift.I64, 2**40))),
        ("an index of negative length", lambda f: chunk_of(f).__setitem__(5, (thrift.I32, -2))),
        ("a filter past the end", lambda f: chunk_of(f)[3][1].__setitem__(14, (thrift.I64, 2**40))),
        ("no metadata", lambda f: chunk_of(f).pop(3)),
        ("another kind of number", lambda f: chunk_of(f)[3][1].__setitem__(7, (thrift.BINARY, b"1"))),
        ("no schema", lambda f: f.pop(2)),
        ("an empty schema", lambda f: f.__setitem__(2, (thrift.LIST, (thrift.STRUCT, [])))),
        ("a schema of numbers", lambda f: f.__setitem__(2, (thrift.LIST, (thrift.I32, [1, 2])))),
        ("children without end", lambda f: f[2][1][1][0].__setitem__(5, (thrift.I32, 2**31 - 1))),
        ("too few children", lambda f: f[2][1][1][0].__setitem__(5, (thrift.I32, 1))),
        ("no groups", lambda f: f.pop(4)),
    ],
)
def test_parse_footer__that_contradicts_itself__is_corrupt(data, what, change):
    with pytest.raises(CorruptionError) as caught:
        changed(data, change)
    assert caught.value.facts["object"] == "the object"


@pytest.mark.parametrize("number", [1, 8, 9])
def test_parse_footer__columns_elsewhere_or_encrypted__are_refused(data, number):
    kind, value = {1: (thrift.BINARY, b"other"), 8: (thrift.STRUCT, {}), 9: (thrift.BINARY, b"?")}[number]
    with pytest.raises(CorruptionError, match="encrypted"):
        changed(data, lambda fields: chunk_of(fields).__setitem__(number, (kind, value)))


@pytest.mark.parametrize("tail", [b"", b"PAR1", b"\xff\xff\xff\x7fPAR1", b"\x10\0\0\0PAR2", b"\xff\0\0\0PAR1"])
def test_footer_start__of_bytes_that_are_no_end__is_corrupt(tail):
    with pytest.raises(CorruptionError):
        parquet.footer_start(tail, size=100, name="x")
