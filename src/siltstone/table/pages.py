"""Some pages of a Parquet file, decoded: as a small Parquet file in memory, which pyarrow reads.

What must hold:
- Pages are never taken apart here: they go into the small file as they lie in the large one, behind a new footer.
- Every page is checked: in a sealed file all its bytes by their checksum there; in another one its values by the
  checksum of the page, and that its head says what the index says of it.
- Rows that pyarrow gives back are as many as were asked for, or the file is corrupt.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from siltstone.errors import CorruptionError
from siltstone.format import thrift
from siltstone.format.parquet import DICTIONARY_ENCODINGS, MAGIC, Range
from siltstone.format.records import too_large
from siltstone.format.seal import check_page
from siltstone.format.thrift import I32, LIST, STRUCT, list_head, zigzag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.format.parquet import Chunk
    from siltstone.format.thrift import Struct
    from siltstone.table.indexes import Index

JOINED_BYTES_MAX = 256 * 1024  # up to here a copy costs less than calls back into Python

_VERSION = b"\x15\x04"
_ENCODING_OF_LEVELS = 3
_PLAIN_PATH = {3: (LIST, (thrift.BINARY, [b"_"]))}  # required, and looked at by nobody
_HEADS = {0: 5, 3: 8}  # of data pages: the field that tells more, by the kind of page


class _WholeFile(pq.ParquetFile):  # type: ignore[misc]
    """A file that is read with all its columns, so that nobody asks for the paths of some."""

    def _build_nested_paths(self) -> dict[str, list[int]]:
        return {}  # to list them takes about as long as to open the file


class Piece(NamedTuple):
    """Some pages of one column chunk."""

    chunk: Chunk
    ranges: tuple[Range, ...]  # pages that lie side by side are one range; a dictionary is the first one, by itself
    dictionary_bytes: int
    values: int


def whole(chunk: Chunk) -> Piece:
    """All pages of a chunk."""
    return Piece(chunk, (chunk.range,), chunk.data - chunk.range.start, chunk.values)


def some(chunk: Chunk, index: Index, chosen: Sequence[int]) -> Piece:
    """Some pages, in order, of a column with one value a row."""
    runs: list[Range] = []
    values = 0
    end = -1
    for page in chosen:
        start = index.starts[page]
        if start == end:
            start = runs.pop().start
        end = index.ends[page]
        runs.append(Range(start, end))
        values += index.layout.counts[page]
    dictionary_bytes = 0
    if chosen[0] < chunk.dictionary_pages:
        dictionary_bytes = chunk.data - chunk.range.start
        runs.insert(0, Range(chunk.range.start, chunk.data))
    return Piece(chunk, tuple(runs), dictionary_bytes, values)


def check(piece: Piece, parts: Sequence[bytes], index: Index, chosen: Sequence[int], *, name: str) -> None:
    """Check the bytes of some pages by their checksums, or at least that each is the page that the index says."""
    first = int(piece.chunk.data > piece.chunk.range.start)  # the place of the first data page among the sums
    if piece.dictionary_bytes:
        if index.sums:
            check_page(parts[0], index.sums, 0, name=name)
        parts = parts[1:]
    if index.sums and len(chosen) == 1 and len(parts) == 1:
        check_page(parts[0], index.sums, first + chosen[0], name=name)
        return
    pages = iter(chosen)
    for part in parts:
        view = memoryview(part)
        place = 0
        while place < len(part):
            page = next(pages)
            size = index.ends[page] - index.starts[page]
            if index.sums:
                check_page(view[place : place + size], index.sums, first + page, name=name)
            else:
                _check_head(part, place, size, index.layout.counts[page], piece, name=name)
            place += size


def _check_head(data: bytes, start: int, size: int, values: int, piece: Piece, *, name: str) -> None:
    head, end = thrift.decode(data, name=name, start=start)
    try:
        kind, plain, packed = head[1][1], head[2][1], head[3][1]
        more = head[_HEADS[kind]][1]
        count = more[1][1]
        encoding = more[2 if kind == 0 else 4][1]
        levels = {more[3][1], more[4][1]} if kind == 0 else {_ENCODING_OF_LEVELS}
    except (KeyError, TypeError, IndexError):
        raise _corrupt(name, "a page has no proper head") from None
    good = (
        end - start + packed == size
        and 0 <= plain <= piece.chunk.plain_bytes
        and count == values
        and encoding in piece.chunk.encodings
        and levels == {_ENCODING_OF_LEVELS}
        and (encoding not in DICTIONARY_ENCODINGS or piece.dictionary_bytes)
    )
    if not good:
        raise _corrupt(name, "a page is another one than its index says")


def file_head(elements: Sequence[Struct]) -> bytes:
    """The first part of a footer, up to the schema."""
    schema = list_head(STRUCT, len(elements)) + b"".join(map(thrift.encode, elements))
    return _VERSION + bytes((0x10 | LIST,)) + schema


def build(head: bytes, groups: Sequence[tuple[int, Sequence[tuple[Piece, Sequence[bytes]]]]]) -> list[bytes]:
    """A Parquet file of some row groups, in parts: the number of rows of each, and its columns with their bytes."""
    out = [MAGIC]
    place = len(MAGIC)
    footer = [head, b"\x16", zigzag(sum(rows for rows, _ in groups)), b"\x19", list_head(STRUCT, len(groups))]
    for rows, columns in groups:
        footer += [b"\x19", list_head(STRUCT, len(columns))]
        start = place
        for piece, parts in columns:
            size = sum(map(len, parts))
            footer.append(_chunk_footer(piece, place, size))
            out += parts
            place += size
        footer += [b"\x16", zigzag(place - start), b"\x16", zigzag(rows), b"\0"]
    footer.append(b"\0")
    data = b"".join(footer)
    return [*out, data, len(data).to_bytes(4, "little"), MAGIC]


def _chunk_footer(piece: Piece, place: int, size: int) -> bytes:
    chunk = piece.chunk
    length = zigzag(size)
    fields = (
        b"\x26\0\x1c",  # no offset of its own; its metadata:
        _chunk_head(chunk.type, chunk.encodings, chunk.codec),
        b"\x16",
        zigzag(piece.values),
        b"\x16",
        length,  # when decompressed; nobody looks at it
        b"\x16",
        length,
        b"\x26",
        zigzag(place + piece.dictionary_bytes),
        b"\x26" + zigzag(place) if piece.dictionary_bytes else b"",
        b"\0\0",
    )
    return b"".join(fields)


@lru_cache(maxsize=256)
def _chunk_head(kind: int, encodings: tuple[int, ...], codec: int) -> bytes:
    """The first fields of a chunk's metadata, without the end of the structure."""
    return thrift.encode(
        {1: (I32, kind), 2: (LIST, (I32, list(encodings))), **_PLAIN_PATH, 4: (I32, codec)},
    )[:-1]


def read(parts: Sequence[bytes], *, rows: int, name: str, threads: bool, checksums: bool) -> pa.Table:
    """Decode a file that ``build`` made; ``name`` is the object that its pages are from.

    ``checksums`` is false where the caller has checked all bytes already.
    """
    small = sum(map(len, parts)) <= JOINED_BYTES_MAX
    source = pa.BufferReader(b"".join(parts)) if small else pa.PythonFile(_Parts(parts), mode="r")
    try:
        file = _WholeFile(
            source, pre_buffer=False, page_checksum_verification=checksums, arrow_extensions_enabled=False
        )
        table = file.read(use_threads=threads)
    except MemoryError as error:
        raise too_large(name) from error
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = ascii(str(error).partition("\n")[0][:200])[1:-1]
        raise _corrupt(name, f"its pages can't be decoded: {reason}") from error
    if table.num_rows != rows:
        raise _corrupt(name, f"its pages hold {table.num_rows} rows, not {rows}")
    return table


class _Parts:
    """Parts of a file as a file. A read of exactly one part copies nothing, and pyarrow reads column by column."""

    def __init__(self, parts: Sequence[bytes]) -> None:
        self._parts = parts
        self._starts = np.cumsum([0, *map(len, parts)])
        self._place = 0
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        start, last = self._place, int(self._starts[-1])
        end = last if size < 0 else min(start + size, last)
        self._place = end
        found = []
        number = int(np.searchsorted(self._starts, start, "right")) - 1
        while start < end:
            base = int(self._starts[number])
            part = self._parts[number]
            piece = part if start == base and end >= base + len(part) else part[start - base : end - base]
            found.append(piece)
            start += len(piece)
            number += 1
        return found[0] if len(found) == 1 else b"".join(found)

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        """Where the next read begins."""
        self._place = place + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: int(self._starts[-1])}[whence]
        return self._place

    def tell(self) -> int:
        """Where the next read begins."""
        return self._place

    def readable(self) -> bool:
        """It is."""
        return True

    def close(self) -> None:
        """Let go of the parts."""
        self.closed = True
        self._parts = ()


def _corrupt(name: str, reason: str) -> CorruptionError:
    return CorruptionError(f"{name} is damaged: {reason}", hint="restore it from a copy", object=name)
