"""Rows on their way out: a table for people, CSV, JSON lines, Parquet or Arrow.

What must hold:
- Memory is bounded by one batch and, for people, the first rows, which say how wide columns are.
- A file is there whole or not at all.
- What is in a cell can't steer a terminal, whatever the format.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import msgspec
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pyarrow.types as kinds

from siltstone.cli.errors import UsageError
from siltstone.cli.options import OUTPUT_FORMATS, TABLE
from siltstone.cli.output import clean
from siltstone.cli.progress import Progress
from siltstone.cli.text_table import TextTable
from siltstone.cli.texts import plain, plain_table
from siltstone.errors import InvalidInputError, PermissionDeniedError
from siltstone.table.types import is_nested, shown

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from siltstone.cli.output import Output

TERMINAL_ROWS_MAX = 100
STDOUT = "-"

_BINARY = frozenset({"parquet", "arrow"})
_EXTENSIONS = {
    "csv": "csv", "jsonl": "jsonl", "ndjson": "jsonl", "json": "jsonl", "parquet": "parquet", "pq": "parquet",
    "arrow": "arrow", "txt": TABLE,
}  # fmt: skip
_NOT_SHOWN = re.compile(r"[^\n\x20-\x7e]")


class Writer(Protocol):
    """Takes rows, batch by batch."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Some rows."""

    def close(self) -> None:
        """There are no more."""


class Target:
    """Where the rows of a verb go, in which format."""

    def __init__(self, arguments: argparse.Namespace, output: Output) -> None:
        self._output = output
        self.path = None if arguments.output in {None, STDOUT} else Path(arguments.output)
        self.format = _format(arguments, self.path)
        self.on_terminal = self.path is None and output.on_terminal
        if self.format in _BINARY and self.on_terminal:
            raise UsageError(
                f"{self.format} is not written to a terminal", hint="give --output FILE, or send it through a pipe"
            )

    @property
    def rows_max(self) -> int | None:
        """How many rows are shown where nobody said how many."""
        return TERMINAL_ROWS_MAX if self.on_terminal and self.format == TABLE else None

    def write(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, what: str, total: int = 0) -> int:
        """Write all rows; how many there were. ``total`` is how many are expected, where that is known."""
        rows = 0
        with contextlib.ExitStack() as stack:
            # Rows on a terminal are progress enough.
            bar = None if self.path is None else stack.enter_context(self._progress(what, total))
            sink = stack.enter_context(self._opened())
            writer = stack.enter_context(contextlib.closing(self._writer(schema, sink)))
            for batch in batches:
                writer.write(batch)
                rows += batch.num_rows
                if bar is not None:
                    bar.add(rows=batch.num_rows, size=batch.nbytes)
        return rows

    def _progress(self, what: str, total: int) -> Progress:
        return Progress(self._output, what, total=total, unit="rows")

    @contextlib.contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        if self.path is None:
            self._output.end()
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
            return
        with _whole_file(self.path) as file:
            yield file

    def _writer(self, schema: pa.Schema, sink: BinaryIO) -> Writer:
        if self.format in {TABLE, "csv", "jsonl"}:
            _check_columns(schema, once=self.format == "jsonl")
        if self.format == TABLE:
            bold = self._output.paint("%", "bold").split("%") if self.on_terminal else ["", ""]
            width = self._output.width if self.on_terminal else 0
            return TextTable(schema, sink, width=width, bold=(bold[0], bold[1]))
        if self.format == "csv":
            return _CsvWriter(schema, _Shown(sink, json=False) if self.on_terminal else sink)
        if self.format == "jsonl":
            return JsonWriter(_Shown(sink, json=True) if self.on_terminal else sink)
        if self.format == "parquet":
            return _ParquetWriter(schema, sink)
        return _ArrowWriter(schema, sink, stream=self.path is None)


def json_lines(output: Output) -> JsonWriter:
    """Rows as JSON lines on standard output, for a verb that gives them as they come."""
    return JsonWriter(_Shown(sys.stdout.buffer, json=True) if output.on_terminal else sys.stdout.buffer)


def _check_columns(fields: Iterable[pa.Field], *, once: bool) -> None:
    """Refuse what text can't show, before any of it is written; with ``once``, names that come twice too."""
    seen: set[str] = set()
    for field in fields:
        if once and field.name in seen:
            raise InvalidInputError(
                f"two columns are called {field.name!a}, and JSON has room for one",
                hint="give one of them another name with AS",
            )
        if kinds.is_interval(field.type):
            raise InvalidInputError(
                f"column {field.name!a} is an interval, which has no text here", hint="turn it into a number or a text"
            )
        seen.add(field.name)
        parts = [field.type.field(number) for number in range(field.type.num_fields)]
        _check_columns(parts, once=once or kinds.is_struct(field.type))


def _format(arguments: argparse.Namespace, path: Path | None) -> str:
    by_name = None if path is None else _EXTENSIONS.get(path.suffix.lower().lstrip("."))
    if arguments.json and arguments.format not in {None, "jsonl"}:
        raise UsageError(f"--json writes JSON lines, and --format says {arguments.format}", hint="give one of them")
    if arguments.json:
        return "jsonl"
    found = arguments.format or (TABLE if path is None else by_name)
    if found is None:
        raise UsageError(
            f"the format of {path} can't be told from its name", hint=f"give --format {', '.join(OUTPUT_FORMATS)}"
        )
    return str(found)


@contextlib.contextmanager
def _whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that takes its name when everything is in it."""
    if path.is_dir():
        raise InvalidInputError(f"{path} is a directory", hint="name a file")
    try:
        if path.exists() and not path.is_file():  # a pipe or a device
            with path.open("wb") as file:
                yield file
            return
        handle = tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False)  # noqa: SIM115
    except PermissionError:
        raise PermissionDeniedError(f"{path} can't be written", hint="check the permissions") from None
    except OSError as error:
        raise InvalidInputError(f"{path} can't be written: {error.strerror}", hint="name another file") from None
    written = Path(handle.name)
    try:
        with handle as file:
            yield file  # type: ignore[misc]
        written.chmod(0o666 & ~_umask())
        written.replace(path)
    except BaseException:
        written.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# -- writers -------------------------------------------------------------------------------------


class _Shown:
    """A terminal that gets text whose control characters are written out."""

    def __init__(self, sink: BinaryIO, *, json: bool) -> None:
        self._sink = sink
        self._json = json
        self.closed = False

    def write(self, data: Any) -> int:
        text = bytes(data).decode(errors="replace")
        shown = _NOT_SHOWN.sub(_escaped, text) if self._json else clean(text, lines=True)
        self._sink.write(shown.encode(errors="replace"))
        return len(data)

    def flush(self) -> None:
        self._sink.flush()

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def _escaped(match: re.Match[str]) -> str:
    character = match.group()
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


class JsonWriter:
    """A JSON object on a line of its own for each row."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self._encoder = msgspec.json.Encoder()

    def write(self, batch: pa.RecordBatch) -> None:
        """Some rows."""
        self.write_table(pa.Table.from_batches([batch]))

    def write_table(self, table: pa.Table) -> None:
        """Some rows."""
        self.write_objects(plain_table(table).to_pylist())

    def write_objects(self, objects: list[dict[str, Any]]) -> None:
        """Any objects."""
        if objects:
            self._sink.write(self._encoder.encode_lines(objects))

    def close(self) -> None:
        """Hand on what was written; more may follow."""
        self._sink.flush()


class _CsvWriter:
    """Flat columns as they are, nested ones as JSON."""

    def __init__(self, schema: pa.Schema, sink: Any) -> None:
        fields = [pa.field(name, _csv_type(kind)) for name, kind in zip(schema.names, schema.types, strict=True)]
        self._schema = pa.schema(fields)
        self._sink = sink
        self._writer = pcsv.CSVWriter(pa.PythonFile(_Unclosed(sink), "w"), self._schema)

    def write(self, batch: pa.RecordBatch) -> None:
        arrays = [_csv_array(array) for array in batch.columns]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        self._writer.close()
        self._sink.flush()


def _csv_array(array: pa.Array) -> pa.Array:
    made = plain(array)
    if not is_nested(made.type):
        return made
    encode = msgspec.json.Encoder().encode
    return pa.array([None if one is None else encode(one).decode() for one in made.to_pylist()], pa.string())


def _csv_type(kind: pa.DataType) -> pa.DataType:
    made = plain(pa.array([], kind)).type
    return pa.string() if is_nested(made) or kinds.is_null(made) else made


class _ParquetWriter:
    def __init__(self, schema: pa.Schema, sink: BinaryIO) -> None:
        try:
            self._writer = pq.ParquetWriter(_Unclosed(sink), schema, compression="zstd")
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"Parquet can't hold these columns: {shown(str(error))[1:-1]}", hint="choose other columns or csv"
            ) from error

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class _ArrowWriter:
    def __init__(self, schema: pa.Schema, sink: BinaryIO, *, stream: bool) -> None:
        make = pa.ipc.new_stream if stream else pa.ipc.new_file
        self._writer = make(pa.PythonFile(_Unclosed(sink), "w"), schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class _Unclosed:
    """A file that a library may close, while it stays open for others."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self._written = 0
        self.closed = False

    def write(self, data: Any) -> int:
        self._sink.write(bytes(data))
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        return self._written

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def readable(self) -> bool:
        return False

    def flush(self) -> None:
        self._sink.flush()

    def close(self) -> None:
        self.closed = True
