"""Rows of CSV files with a head, a block at a time.

What must hold:
- Every value comes as text and is converted here, so that a bad one can be named.
- What the command line writes comes back as it was. A row of one column that is null is a blank line, so in files of
  one column each blank line below the head is a row; in others blank lines are none.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from siltstone.cli.texts import typed_column
from siltstone.errors import InvalidInputError
from siltstone.table.types import is_bytes, is_nested, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

_BOM = b"\xef\xbb\xbf"
_LINE_ENDS = b"\r\n"


def read_csv(stream: Any, schema: pa.Schema, *, block_bytes: int) -> Iterator[pa.Table]:
    """Tables of the columns that the head names, the first without rows.

    Raises:
        UnreadableTextError: a value is none of its column, with a place that counts from the table begun.
    """
    for field in schema:
        if is_nested(field.type):
            raise InvalidInputError(
                f"column {shown(field.name)} is {field.type}, which CSV can't hold", hint="use JSON lines or Parquet"
            )
    options = pcsv.ConvertOptions(
        column_types={name: pa.string() for name in schema.names},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,  # "" is an empty text, nothing at all is null
        check_utf8=False,  # the table does, and names the row
    )
    start = _start(stream, block_bytes)
    reader = pcsv.open_csv(
        _Begun(start, stream),
        read_options=pcsv.ReadOptions(block_size=block_bytes, use_threads=False),  # or it does not count rows
        parse_options=pcsv.ParseOptions(newlines_in_values=True, ignore_empty_lines=not _has_one_column(start)),
        convert_options=options,
    )
    fields = [schema.field(one.name) if one.name in schema.names else one for one in reader.schema]
    yield pa.schema(fields).empty_table()  # its columns are looked at also where it has no rows
    for batch in reader:
        arrays = [_typed(array, field) for field, array in zip(fields, batch.columns, strict=True)]
        yield pa.Table.from_arrays(arrays, names=batch.schema.names)


def _typed(array: pa.Array, field: pa.Field) -> pa.Array:
    if array.type == field.type:
        return array
    blank = pc.equal(array, "")
    if not is_bytes(field.type) and pc.any(blank).as_py():  # quoted, and yet no value
        array = pc.if_else(blank, None, array)
    return typed_column(array, field)


def _start(stream: Any, block_bytes: int) -> bytes:
    """The stream's first block, from the head on: blank lines above it are no rows of any file."""
    start: bytes = stream.read(block_bytes).removeprefix(_BOM).lstrip(_LINE_ENDS)
    while not start and (more := stream.read(block_bytes)):
        start = more.lstrip(_LINE_ENDS)
    return start


def _has_one_column(start: bytes) -> bool:
    text = io.TextIOWrapper(io.BytesIO(start), encoding="utf-8", errors="replace", newline="")
    try:
        return len(next(csv.reader(text), [])) == 1
    except csv.Error:  # pyarrow says what is wrong with it
        return False


class _Begun:
    """A stream of which some bytes were read."""

    def __init__(self, start: bytes, rest: Any) -> None:
        self._start = start
        self._rest = rest
        self.closed = False

    def read(self, size: int = -1, /) -> bytes:
        if not self._start:
            data: bytes = self._rest.read(size)
            return data
        size = len(self._start) if size < 0 else size
        found, self._start = self._start[:size], self._start[size:]
        return found

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True
