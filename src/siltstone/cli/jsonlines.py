"""Rows of JSON lines, a block of lines at a time.

What must hold:
- One line is one row. A line that is no object of the table's columns is refused, and which one it is can be told.
- A whole number that a double would round is refused, also within lists, structs and maps.
- A field that a line lacks is null. Only a column with a default may be missing from all lines: it has its default.
"""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.json as pjson
import pyarrow.types as kinds

from siltstone.cli.texts import (
    EXACT_HINT,
    UnreadableTextError,
    has_large,
    hint_for,
    is_exact,
    typed_column,
    wire_type,
)
from siltstone.table.schema import near_names
from siltstone.table.types import is_nested, shown, shown_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LINE_BYTES_MAX = 256 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_SPACES = b" \t\r"
_LONG_NUMBER = re.compile(rb"(?<![.0-9])[0-9]{16,}(?![.eE0-9])")  # a whole number of fewer digits is one of a double's


def read_lines(stream: Any, schema: pa.Schema, *, defaults: frozenset[str], block_bytes: int) -> Iterator[pa.Table]:
    """Tables of a schema's columns. Raises UnreadableTextError, with a place that counts from the table begun."""
    fields: list[pa.Field] | None = None
    for block in _blocks(stream, block_bytes):
        lines = _lines(block)
        if not lines:
            continue
        if fields is None:
            given = _keys(lines[0])
            fields = [field for field in schema if field.name in given or field.name not in defaults]
        yield _table(lines, fields, schema)


def infer_lines(stream: Any, *, block_bytes: int) -> pa.Schema:
    """The schema that the first block of a stream has by its values."""
    block = next(_blocks(stream, block_bytes), b"")
    lines = _lines(block)
    if not lines:
        return pa.schema([])
    _check_objects(lines, b"\n".join(lines))
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


def _lines(block: bytes) -> list[bytes]:
    """The lines that are not blank, without spaces around them."""
    return [line for spaced in block.split(b"\n") if (line := spaced.strip(_SPACES))]


def _check_objects(lines: list[bytes], joined: bytes) -> None:
    """Refuse the first line that can't be an object; pyarrow takes null for one, and ends the process where all are."""
    # Lines hold no line ends, so this counts those between two objects.
    if joined[:1] == b"{" and joined[-1:] == b"}" and joined.count(b"}\n{") == len(lines) - 1:
        return
    index = next(number for number, line in enumerate(lines) if line[:1] != b"{" or line[-1:] != b"}")
    problem, hint = _no_object(lines[index])
    raise UnreadableTextError(problem, index=index, hint=hint)


def _table(lines: list[bytes], fields: list[pa.Field], schema: pa.Schema) -> pa.Table:
    wire = pa.schema([pa.field(field.name, wire_type(field.type)) for field in fields])
    joined = b"\n".join(lines)
    _check_objects(lines, joined)
    try:
        table = _parse(joined, wire)
    except pa.ArrowException as error:
        index = _first_failing(lines, wire)
        problem, hint = _diagnose(lines[index], wire, schema, str(error))
        raise UnreadableTextError(problem, index=index, hint=hint) from error
    if table.num_rows != len(lines):
        index = _first_failing(lines, wire, whole=True)  # an object over two lines, or two objects on one
        problem, hint = _diagnose(lines[index], wire, schema, "the line is not one object")
        raise UnreadableTextError(problem, index=index, hint=hint)
    arrays = [_combined(table.column(field.name)) for field in fields]
    if any(_has_large(array) for array in arrays):
        _check_exact(lines, joined, fields)
    columns = [typed_column(array, field) for array, field in zip(arrays, fields, strict=True)]
    return pa.Table.from_arrays(columns, names=[field.name for field in fields])


def _parse(joined: bytes, wire: pa.Schema) -> pa.Table:
    return pjson.read_json(
        pa.BufferReader(joined),
        read_options=pjson.ReadOptions(use_threads=False, block_size=len(joined) + 1),
        parse_options=pjson.ParseOptions(explicit_schema=wire, unexpected_field_behavior="error"),
    )


def _first_failing(lines: list[bytes], wire: pa.Schema, *, whole: bool = False) -> int:
    """The first line that can't be parsed, or with ``whole`` is not one row; one is known to be there."""
    low, high = 0, len(lines)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            rows = _parse(b"\n".join(lines[low:middle]), wire).num_rows
            good = not whole or rows == middle - low
        except pa.ArrowException:
            good = False
        low, high = (middle, high) if good else (low, middle)
    return low


# -- what is wrong with a line --------------------------------------------------------------------


def _no_object(line: bytes) -> tuple[str, str]:
    """Why a line is no object, and what to do; nothing where it is one."""
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"the line is no JSON: {shown(str(error))[1:-1]}", "write one JSON object on each line"
    if not isinstance(found, dict):
        return f"the line is {_kind(found)}, not an object", 'such as {"id": 1, "name": "a"}'
    return "", ""


def _diagnose(line: bytes, wire: pa.Schema, schema: pa.Schema, said: str) -> tuple[str, str]:
    """What is wrong with a line, and what to do."""
    problem, hint = _no_object(line)
    if problem:
        return problem, hint
    found = msgspec.json.decode(line)
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
        _parse(msgspec.json.encode({field.name: value}), pa.schema([field]))
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


# -- numbers that doubles lack --------------------------------------------------------------------


class _Rounded(str):
    """The digits of a whole number that is none of a double's."""

    __slots__ = ()


def _has_large(array: pa.Array) -> bool:
    """Whether doubles of an array, or of its parts, are so large that they may have been rounded."""
    if kinds.is_floating(array.type):
        return has_large(array)
    if kinds.is_struct(array.type):
        return any(_has_large(part) for part in array.flatten())
    return is_nested(array.type) and _has_large(array.flatten())


def _check_exact(lines: list[bytes], joined: bytes, fields: list[pa.Field]) -> None:
    """Refuse the first line with a number that a double rounds; only lines that may have one are looked at."""
    for index in _suspects(joined, [field.name for field in fields if _has_doubles(field.type)]):
        found = json.loads(lines[index].decode(errors="replace"), parse_int=_whole)
        for field in fields:
            digits = _rounded(found.get(field.name), wire_type(field.type))
            if digits:
                problem = f"column {shown(field.name)}: {shown(digits)[1:-1]} is no {shown_type(field.type)}"
                raise UnreadableTextError(problem, index=index, hint=EXACT_HINT)


def _suspects(joined: bytes, names: list[str]) -> Iterable[int]:
    """The lines of which one of these fields has a whole number of many digits."""
    keys = {f"field_{number}": name for number, name in enumerate(names)}
    parts = msgspec.defstruct("Parts", [(key, msgspec.Raw, msgspec.Raw(b"")) for key in keys], rename=keys)
    try:
        rows = msgspec.json.Decoder(parts).decode_lines(joined)
    except msgspec.DecodeError:  # it has NaN, or numbers that are too large
        return range(joined.count(b"\n") + 1)
    found = (index for key in keys for index, row in enumerate(rows) if _LONG_NUMBER.search(getattr(row, key)))
    return sorted(set(found))


def _has_doubles(kind: pa.DataType) -> bool:
    parts = (kind.field(number).type for number in range(kind.num_fields))
    return bool(kinds.is_floating(kind)) or any(_has_doubles(part) for part in parts)


def _whole(digits: str) -> int | _Rounded:
    return 0 if is_exact(digits) else _Rounded(digits)


def _rounded(value: Any, kind: pa.DataType) -> str:
    """The first number in a value that a double of the type would round; empty where there is none."""
    if kinds.is_floating(kind):
        return value if isinstance(value, _Rounded) else ""
    if kinds.is_struct(kind) and value is not None:
        parts = [kind.field(number) for number in range(kind.num_fields)]
        return next(filter(None, (_rounded(value.get(part.name), part.type) for part in parts)), "")
    if is_nested(kind) and value is not None:
        return next(filter(None, (_rounded(one, kind.value_type) for one in value)), "")
    return ""


def _combined(column: pa.ChunkedArray) -> pa.Array:
    chunks = column.chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.array([], column.type)
