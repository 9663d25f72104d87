"""Rows of JSON lines, a block of lines at a time.

What must hold:
- One line is one row. A line that is no object of the table's columns is refused, and which one it is can be told.
- A field that a line lacks is null. Only a column with a default may be missing from all lines: it has its default.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.json as pjson

from siltstone.cli.texts import UnreadableTextError, hint_for, typed_column, wire_type
from siltstone.table.schema import near_names
from siltstone.table.types import shown, shown_type

if TYPE_CHECKING:
    from collections.abc import Iterator

LINE_BYTES_MAX = 256 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


def read_lines(stream: Any, schema: pa.Schema, *, defaults: frozenset[str], block_bytes: int) -> Iterator[pa.Table]:
    """Tables of a schema's columns. Raises UnreadableTextError, with a place that counts from the table begun."""
    fields: list[pa.Field] | None = None
    for block in _blocks(stream, block_bytes):
        lines = [line for line in block.split(b"\n") if line.strip()]
        if not lines:
            continue
        if fields is None:
            given = _keys(lines[0])
            fields = [field for field in schema if field.name in given or field.name not in defaults]
        yield _table(lines, fields, schema)


def infer_lines(stream: Any, *, block_bytes: int) -> pa.Schema:
    """The schema that the first block of a stream has by its values."""
    block = next(_blocks(stream, block_bytes), b"")
    lines = [line for line in block.split(b"\n") if line.strip()]
    if not lines:
        return pa.schema([])
    return pjson.read_json(
        io.BytesIO(b"\n".join(lines)), read_options=pjson.ReadOptions(use_threads=False, block_size=len(block) + 1)
    ).schema


def _blocks(stream: Any, block_bytes: int) -> Iterator[bytes]:
    """The stream in parts that end where a line does."""
    waiting = b""
    first = True
    while data := stream.read(block_bytes):
        if first:
            data, first = data.removeprefix(_BOM), False
        end = data.rfind(b"\n") + 1
        if end:
            yield waiting + data[:end]
            waiting = data[end:]
        else:
            waiting += data
            if len(waiting) > LINE_BYTES_MAX:
                raise UnreadableTextError(
                    f"the line has over {LINE_BYTES_MAX} bytes", hint="write one object on each line"
                )
    if waiting:
        yield waiting


def _table(lines: list[bytes], fields: list[pa.Field], schema: pa.Schema) -> pa.Table:
    wire = pa.schema([pa.field(field.name, wire_type(field.type)) for field in fields])
    try:
        table = _parse(lines, wire)
    except pa.ArrowException as error:
        index = _first_failing(lines, wire)
        problem, hint = _diagnose(lines[index], wire, schema, str(error))
        raise UnreadableTextError(problem, index=index, hint=hint) from error
    if table.num_rows != len(lines):
        index = _first_failing(lines, wire, whole=True)  # an object over two lines, or two objects on one
        problem, hint = _diagnose(lines[index], wire, schema, "the line is not one object")
        raise UnreadableTextError(problem, index=index, hint=hint)
    columns = [typed_column(_combined(table.column(field.name)), field) for field in fields]
    return pa.Table.from_arrays(columns, names=[field.name for field in fields])


def _parse(lines: list[bytes], wire: pa.Schema) -> pa.Table:
    data = b"\n".join(lines) + b"\n"
    return pjson.read_json(
        io.BytesIO(data),
        read_options=pjson.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pjson.ParseOptions(explicit_schema=wire, unexpected_field_behavior="error"),
    )


def _first_failing(lines: list[bytes], wire: pa.Schema, *, whole: bool = False) -> int:
    """The first line that can't be parsed, or with ``whole`` is not one row; one is known to be there."""
    low, high = 0, len(lines)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            rows = _parse(lines[low:middle], wire).num_rows
            good = not whole or rows == middle - low
        except pa.ArrowException:
            good = False
        low, high = (middle, high) if good else (low, middle)
    return low


def _diagnose(line: bytes, wire: pa.Schema, schema: pa.Schema, said: str) -> tuple[str, str]:
    """What is wrong with a line, and what to do."""
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"the line is no JSON: {shown(str(error))[1:-1]}", "write one JSON object on each line"
    if not isinstance(found, dict):
        return f"the line is {_kind(found)}, not an object", 'such as {"id": 1, "name": "a"}'
    for name in found:
        if name not in schema.names:
            return f"it has {shown(name)}, which the table has not", near_names(schema.names, name)
        if name not in wire.names:
            return f"it has {shown(name)}, which the first row has not", "give it in all rows, or in none"
    for field in wire:
        if field.name in found and not _fits(found[field.name], field):
            value = shown(msgspec.json.encode(found[field.name]).decode())[1:-1]
            kind = schema.field(field.name).type
            return f"column {shown(field.name)}: {value} is no {shown_type(kind)}", hint_for(kind)
    return shown(said.partition("\n")[0])[1:-1], "write one JSON object on each line"


def _fits(value: Any, field: pa.Field) -> bool:
    try:
        _parse([msgspec.json.encode({field.name: value})], pa.schema([field]))
    except pa.ArrowException:
        return False
    return True


def _keys(line: bytes) -> frozenset[str]:
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return frozenset()
    return frozenset(found) if isinstance(found, dict) else frozenset()


def _kind(value: object) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), "something else")


def _combined(column: pa.ChunkedArray) -> pa.Array:
    chunks = column.chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.array([], column.type)
