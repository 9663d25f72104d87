"""What a Parquet file says of itself: its footer and its page indexes, as records.

What must hold:
- Every range of bytes in these records lies in the file and before its footer, and every count of rows adds up:
  whoever has the records reads by them without further checks.
- Anything else is a CorruptionError that names the object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from siltstone.errors import CorruptionError
from siltstone.format import thrift
from siltstone.format.thrift import BINARY, I32, I64, LIST, STRUCT, Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAGIC = b"PAR1"
TRAILER_BYTES = 8  # the footer's length and the magic
FOOTER_BYTES_MAX = 64 * 1024 * 1024
CHUNK_BYTES_MAX = 16 * 1024 * 1024 * 1024  # of one column in one row group, not compressed
GROUP_ROWS_MAX = 4 * 1024 * 1024  # ours have 131,072 at most
GROUP_BYTES_MAX = 512 * 1024 * 1024  # of memory that the values of a column take at least; ours have far less
BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY = range(8)
_VALUE_BYTES = (1, 4, 8, 12, 4, 8, 4)  # that a value of each type takes, but for the length of the last one
REPEATED = 2
DICTIONARY_ENCODINGS = frozenset({2, 8})
DATA_PAGES = frozenset({0, 3})

# Field ids of Parquet's own metadata, by the structure they belong to.
FILE_SCHEMA, FILE_ROWS, FILE_GROUPS = 2, 3, 4
ELEMENT_LENGTH = 2
ELEMENT_TYPE, ELEMENT_REPETITION, ELEMENT_NAME, ELEMENT_CHILDREN, ELEMENT_ID = 1, 3, 4, 5, 9
GROUP_CHUNKS, GROUP_ROWS = 1, 3
CHUNK_PATH, CHUNK_META, CHUNK_OFFSETS, CHUNK_BOUNDS, CHUNK_KEYS, CHUNK_HIDDEN = 1, 3, 4, 6, 8, 9
META_TYPE, META_ENCODINGS, META_CODEC, META_VALUES, META_PLAIN, META_PACKED = 1, 2, 4, 5, 6, 7
META_DATA, META_DICTIONARY, META_STATISTICS, META_ENCODED, META_BLOOM, META_BLOOM_BYTES = 9, 11, 12, 13, 14, 15
STATISTICS_NULLS, STATISTICS_HIGH, STATISTICS_LOW = 3, 5, 6

_LOCATION_UNITS = 7  # a page's location: three fields, each with its head, and the end


class Range(NamedTuple):
    """Bytes of a file; empty where there is no such thing."""

    start: int
    end: int


NOWHERE = Range(0, 0)


class Node(NamedTuple):
    """A column of the file, or a part of one. ``id`` is 0 where the file gives none."""

    element: Struct
    name: str
    id: int
    children: tuple[Node, ...]
    leaf: int  # the number of the first column chunk below it
    leaves: int

    @property
    def flat(self) -> bool:
        """Whether each row has one value at most."""
        return not self.children and self.element.get(ELEMENT_REPETITION, (I32, 0))[1] != REPEATED


class Chunk(NamedTuple):
    """One column of one row group. Its dictionary, where it has one, is ``[range.start, data)``."""

    type: int
    codec: int
    encodings: tuple[int, ...]
    values: int
    range: Range
    data: int  # where the first data page is
    dictionary_pages: int  # the first so many data pages may need the dictionary
    plain_bytes: int
    low: bytes | None
    high: bytes | None
    nulls: int | None
    offsets: Range
    bounds: Range
    bloom: Range


class RowGroup(NamedTuple):
    """Rows ``[start, start + rows)`` of the file."""

    start: int
    rows: int
    chunks: tuple[Chunk, ...]


class Footer(NamedTuple):
    """What a reader needs of a file's footer."""

    columns: tuple[Node, ...]
    groups: tuple[RowGroup, ...]


class Pages(NamedTuple):
    """Where each data page of a chunk is, and its first row in the row group."""

    starts: list[int]
    ends: list[int]
    first_rows: np.ndarray


class PageBounds(NamedTuple):
    """The smallest and the largest value of each page, as plain bytes; ``empty`` pages hold only nulls."""

    empty: np.ndarray
    lows: list[bytes]
    highs: list[bytes]


class _WrongError(Exception):
    """The metadata contradicts itself or the file."""


def footer_start(tail: bytes, *, size: int, name: str) -> int:
    """Where the footer of a file of ``size`` bytes begins, by the last bytes of it."""
    length = int.from_bytes(tail[-TRAILER_BYTES:-4], "little")
    if tail[-4:] != MAGIC or len(tail) < TRAILER_BYTES:
        raise _corrupt(name, "it does not end as a Parquet file does")
    if length > min(FOOTER_BYTES_MAX, size - TRAILER_BYTES - len(MAGIC)):
        raise _corrupt(name, f"it says that its footer has {length} bytes")
    return size - TRAILER_BYTES - length


def parse_footer(data: bytes, *, start: int, name: str) -> Footer:
    """The footer that begins at ``start`` of the file."""
    fields, _ = thrift.decode(data, name=name)
    try:
        columns = _columns(_list(fields, FILE_SCHEMA, STRUCT))
        groups = tuple(_groups(_list(fields, FILE_GROUPS, STRUCT), columns, end=start))
        if sum(group.rows for group in groups) != _get(fields, FILE_ROWS, I64):
            raise _WrongError("the rows of its row groups do not add up")
        return Footer(columns, groups)
    except _WrongError as error:
        raise _corrupt(name, str(error)) from None


def parse_offsets(data: bytes, chunk: Chunk, *, rows: int, name: str) -> Pages:
    """A chunk's offset index. It is decoded in whole arrays: there are a hundred pages in a chunk."""
    try:
        numbers = _locations(data)
    except (IndexError, ValueError):
        raise _corrupt(name, "an offset index is broken") from None
    starts, sizes, first_rows = numbers
    ends = starts + sizes
    good = (
        len(starts)
        and first_rows[0] == 0
        and first_rows[-1] < rows
        and (np.diff(first_rows) > 0).all()
        and starts[0] == chunk.data
        and (sizes > 0).all()
        and (starts[1:] >= ends[:-1]).all()
        and ends[-1] <= chunk.range.end
    )
    if not good:
        raise _corrupt(name, "an offset index names pages that can't be")
    return Pages(starts.tolist(), ends.tolist(), first_rows)


def parse_bounds(data: bytes, *, pages: int, name: str) -> PageBounds:
    """A chunk's column index."""
    fields, _ = thrift.decode(data, name=name)
    try:
        empty, lows, highs = _list(fields, 1, thrift.TRUE), _list(fields, 2, BINARY), _list(fields, 3, BINARY)
    except _WrongError as error:
        raise _corrupt(name, f"in a column index {error}") from None
    if not len(empty) == len(lows) == len(highs) == pages:
        raise _corrupt(name, "a column index has other pages than the offset index")
    return PageBounds(np.array(empty, dtype=bool), lows, highs)


def _columns(elements: Sequence[Struct]) -> tuple[Node, ...]:
    if not elements:
        raise _WrongError("it has no schema")
    nodes = iter(elements)
    root = _node(nodes, 0, thrift.DEPTH_MAX * 3)
    if next(nodes, None) is not None:
        raise _WrongError("its schema has loose ends")
    return root.children


def _node(elements: Iterator[Struct], leaf: int, depth: int) -> Node:
    element = next(elements, None)
    if element is None or not depth:
        raise _WrongError("its schema is cut or nested too deeply")
    count = _get(element, ELEMENT_CHILDREN, I32, 0)
    children = []
    after = leaf
    # A count that is too large meets the end of the elements.
    for _ in range(count):
        children.append(_node(elements, after, depth - 1))
        after += children[-1].leaves
    if not count:
        _get(element, ELEMENT_TYPE, I32)
        after += 1
    name = _get(element, ELEMENT_NAME, BINARY).decode(errors="replace")
    return Node(element, name, _get(element, ELEMENT_ID, I32, 0), tuple(children), leaf, after - leaf)


def _groups(groups: Sequence[Struct], columns: tuple[Node, ...], *, end: int) -> Iterator[RowGroup]:
    flat = frozenset(node.leaf for node in columns if node.flat)
    widths = [width for node in columns for width in _widths(node)]
    start = 0
    for fields in groups:
        rows = _get(fields, GROUP_ROWS, I64)
        chunks = tuple(_chunk(one, end) for one in _list(fields, GROUP_CHUNKS, STRUCT))
        if rows < 1 or len(chunks) != len(widths):
            raise _WrongError("a row group has no rows or other columns than the schema")
        if rows > GROUP_ROWS_MAX or any(
            chunk.values * width > GROUP_BYTES_MAX for chunk, width in zip(chunks, widths, strict=True)
        ):
            raise _WrongError("a row group has more values than any that was written in good faith")
        if any(chunks[leaf].values != rows for leaf in flat):
            raise _WrongError("a column has other rows than its row group")
        yield RowGroup(start, rows, chunks)
        start += rows


def _widths(node: Node) -> Iterator[int]:
    """Of each column below a node, how many bytes of memory a value takes at least."""
    if node.children:
        for child in node.children:
            yield from _widths(child)
    else:
        kind = _get(node.element, ELEMENT_TYPE, I32)
        if not 0 <= kind <= FIXED_LEN_BYTE_ARRAY:
            raise _WrongError("a column has a type that there is not")
        yield _get(node.element, ELEMENT_LENGTH, I32, 0) if kind == FIXED_LEN_BYTE_ARRAY else _VALUE_BYTES[kind]


def _chunk(fields: Struct, end: int) -> Chunk:
    if CHUNK_PATH in fields or CHUNK_KEYS in fields or CHUNK_HIDDEN in fields:
        raise _WrongError("a column is encrypted or in another file")
    meta = _get(fields, CHUNK_META, STRUCT)
    data = _get(meta, META_DATA, I64)
    start = min(data, _get(meta, META_DICTIONARY, I64, data))
    packed, plain = _get(meta, META_PACKED, I64), _get(meta, META_PLAIN, I64)
    whole = _range(start, packed, end)
    if not start <= data < whole.end or not 0 <= plain <= CHUNK_BYTES_MAX:
        raise _WrongError("a column's pages are outside of it")
    statistics = _get(meta, META_STATISTICS, STRUCT, {})
    return Chunk(
        type=_get(meta, META_TYPE, I32),
        codec=_get(meta, META_CODEC, I32),
        encodings=tuple(_list(meta, META_ENCODINGS, I32)),
        values=_get(meta, META_VALUES, I64),
        range=whole,
        data=data,
        dictionary_pages=_dictionary_pages(meta) if data > start else 0,
        plain_bytes=plain,
        low=_get(statistics, STATISTICS_LOW, BINARY, None),
        high=_get(statistics, STATISTICS_HIGH, BINARY, None),
        nulls=_get(statistics, STATISTICS_NULLS, I64, None),
        offsets=_range(_get(fields, CHUNK_OFFSETS, I64, 0), _get(fields, CHUNK_OFFSETS + 1, I32, 0), end),
        bounds=_range(_get(fields, CHUNK_BOUNDS, I64, 0), _get(fields, CHUNK_BOUNDS + 1, I32, 0), end),
        bloom=_range(_get(meta, META_BLOOM, I64, 0), _get(meta, META_BLOOM_BYTES, I32, 0), end),
    )


def _dictionary_pages(meta: Struct) -> int:
    """How many data pages use the dictionary: a writer gives it up once, for all pages that follow."""
    if META_ENCODED not in meta:
        return 2**31
    return sum(
        _get(one, 3, I32)
        for one in _list(meta, META_ENCODED, STRUCT)
        if _get(one, 1, I32) in DATA_PAGES and _get(one, 2, I32) in DICTIONARY_ENCODINGS
    )


def _range(start: int, length: int, end: int) -> Range:
    if not length:
        return NOWHERE
    if start < len(MAGIC) or length < 0 or start + length > end:
        raise _WrongError("it refers to bytes outside of it")
    return Range(start, start + length)


def _locations(data: bytes) -> np.ndarray:
    """The three numbers of each page's location. A unit is one byte below 128 and all larger ones right before it."""
    if data[0] != 1 << 4 | LIST or data[1] & 15 != STRUCT:
        raise ValueError(data[:2])
    count, place = data[1] >> 4, 2
    if count == 15:
        count, shift = 0, 0
        while shift < 35:
            count |= (data[place] & 0x7F) << shift
            place, shift = place + 1, shift + 7
            if data[place - 1] < 0x80:
                break
    units = np.frombuffer(data, np.uint8, offset=place)
    if count * _LOCATION_UNITS > len(units):
        raise IndexError(count)
    ends = np.flatnonzero(units < 0x80)[: count * _LOCATION_UNITS]
    if len(ends) != count * _LOCATION_UNITS:
        raise IndexError(count)
    starts = np.empty_like(ends)
    starts[0], starts[1:] = 0, ends[:-1] + 1
    lengths = ends - starts + 1
    heads = units[ends].reshape(count, _LOCATION_UNITS)[:, ::2]
    if (heads != (0x10 | I64, 0x10 | I32, 0x10 | I64, 0)).any() or lengths.max() > 9:
        raise ValueError(count)
    if (lengths.reshape(count, _LOCATION_UNITS)[:, ::2] != 1).any():
        raise ValueError(count)
    shifts = (np.arange(ends[-1] + 1) - np.repeat(starts, lengths)) * 7
    numbers = np.add.reduceat((units[: ends[-1] + 1] & np.uint8(0x7F)).astype(np.int64) << shifts, starts)
    found = numbers.reshape(count, _LOCATION_UNITS)[:, 1::2]
    if (found & 1).any():  # negative ones are odd
        raise ValueError(count)
    return np.ascontiguousarray((found >> 1).T)


_NEEDED: Any = object()


def _get(fields: Struct, number: int, kind: int, default: Any = _NEEDED) -> Any:
    found = fields.get(number)
    if found is None:
        if default is _NEEDED:
            raise _WrongError("its metadata lacks a field")
        return default
    if found[0] != kind:
        raise _WrongError("its metadata has a field of another kind")
    return found[1]


def _list(fields: Struct, number: int, kind: int) -> list[Any]:
    found, values = _get(fields, number, LIST)
    if found != kind and values:
        raise _WrongError("its metadata has a list of another kind")
    return list(values)


def _corrupt(name: str, reason: str) -> CorruptionError:
    return CorruptionError(f"{name} is damaged: {reason}", hint="restore it from a copy", object=name)
