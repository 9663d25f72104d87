"""The columns of a file of rows, for ``create --like``.

What must hold: types of text files are those of their first block, as wide as their kind allows (int64, double,
timestamp[us]); a column that has no value there is refused, since nobody can tell its type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pyarrow.types as kinds

from siltstone.cli import files
from siltstone.cli.errors import UsageError
from siltstone.cli.files import STDIN, find_inputs, opened
from siltstone.cli.jsonlines import infer_lines
from siltstone.cli.texts import UnreadableTextError
from siltstone.errors import InvalidInputError
from siltstone.table.types import is_nested, shown

if TYPE_CHECKING:
    import argparse


def infer_schema(arguments: argparse.Namespace) -> pa.Schema:
    """The schema of the file that ``--like`` names."""
    if arguments.like == STDIN:
        raise UsageError("--like takes a file, not standard input")
    [file] = find_inputs([arguments.like], format=arguments.format)
    infer = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet, "arrow": _arrow}[file.format]
    try:
        with opened(file) as stream:
            schema = infer(stream)
    except UnreadableTextError as error:
        raise InvalidInputError(
            f"{file.shown} can't be read as {file.format}: row {error.index + 1}: {error.problem}", hint=error.hint
        ) from error
    except (pa.ArrowException, OSError, EOFError) as error:
        raise InvalidInputError(
            f"{file.shown} can't be read as {file.format}: {shown(str(error).partition(chr(10))[0])[1:-1]}",
            hint="give --format where its name says another one than it is, or --schema",
        ) from error
    if not len(schema):
        raise InvalidInputError(f"{file.shown} has no columns", hint="give --schema")
    for field in schema:
        if kinds.is_null(field.type):
            raise InvalidInputError(
                f"column {shown(field.name)} has no value in the first rows of {file.shown}, so its type can't be told",
                hint="give --schema",
                column=field.name,
            )
    return schema


def _csv(stream: Any) -> pa.Schema:
    options = pcsv.ConvertOptions(null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False)
    reader = pcsv.open_csv(stream, read_options=pcsv.ReadOptions(block_size=files.BLOCK_BYTES), convert_options=options)
    return _widened(reader.schema)


def _jsonl(stream: Any) -> pa.Schema:
    return _widened(infer_lines(stream, block_bytes=files.BLOCK_BYTES))


def _parquet(stream: Any) -> pa.Schema:
    return pq.read_schema(stream).remove_metadata()


def _arrow(stream: Any) -> pa.Schema:
    start = stream.read(6)
    stream.seek(0)
    opened_ = pa.ipc.open_file(stream) if start == b"ARROW1" else pa.ipc.open_stream(stream)
    return opened_.schema.remove_metadata()


def _widened(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(_wide(field.type)) for field in schema])


def _wide(kind: pa.DataType) -> pa.DataType:
    if kinds.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if kinds.is_time(kind):
        return pa.time64("us")
    if kinds.is_struct(kind):
        return pa.struct([kind.field(at).with_type(_wide(kind.field(at).type)) for at in range(kind.num_fields)])
    return pa.list_(_wide(kind.value_type)) if is_nested(kind) else kind
