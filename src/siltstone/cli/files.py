"""Files of rows, read in parts: CSV, JSON lines, Parquet and Arrow, by name or from standard input.

What must hold:
- Memory is bounded by ``BLOCK_BYTES`` and ``BATCH_ROWS``, not by how long a file is.
- An error names the file, and the row wherever there is one. Rows count from 1; headers and blank lines that are no
  rows don't count.
- Nothing is committed before the last row was read.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import re
import sys
import tempfile
from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from siltstone.cli.csvfiles import read_csv
from siltstone.cli.errors import UsageError
from siltstone.cli.jsonlines import read_lines
from siltstone.cli.options import INPUT_FORMATS
from siltstone.cli.texts import UnreadableTextError
from siltstone.errors import (
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
    PermissionDeniedError,
    SchemaMismatchError,
    SiltstoneError,
)
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from siltstone.cli.progress import Progress

STDIN = "-"
BATCH_ROWS = 65_536
BLOCK_BYTES = 4 * 1024 * 1024
PIPE_BYTES = 1024 * 1024
_SPOOL_BYTES = 64 * 1024 * 1024
_COPY_BYTES = 1024 * 1024

_EXTENSIONS = {
    "csv": "csv", "jsonl": "jsonl", "ndjson": "jsonl", "json": "jsonl", "parquet": "parquet", "pq": "parquet",
    "arrow": "arrow", "arrows": "arrow", "feather": "arrow", "ipc": "arrow",
}  # fmt: skip
_CODECS = {"gz": "gzip", "zst": "zstd", "bz2": "bz2", "lz4": "lz4"}
_BATCH = re.compile(r"^batch \d+: ")
_RAGGED = re.compile(r"^CSV parse error: (?:Row #(\d+): )?(Expected .*)", re.DOTALL)
_TOO_LONG = "straddl"


class InputFile(NamedTuple):
    """A file to read rows from."""

    name: str
    format: str
    codec: str = ""

    @property
    def is_stdin(self) -> bool:
        """Whether it is standard input."""
        return self.name == STDIN

    @property
    def shown(self) -> str:
        """What messages call it."""
        return "standard input" if self.is_stdin else self.name

    @property
    def size(self) -> int:
        """Its bytes, where they are known before they are read."""
        return 0 if self.is_stdin else Path(self.name).stat().st_size


def find_inputs(names: Sequence[str], *, format: str | None) -> list[InputFile]:  # noqa: A002 - as the option is called
    """The files of a command line; ones that are not there, or of no known format, are refused before any is read."""
    if list(names).count(STDIN) > 1:
        raise UsageError("standard input can be read only once")
    return [_find(name, format) for name in names]


def _find(name: str, given: str | None) -> InputFile:
    if name == STDIN:
        return InputFile(name, given or "jsonl")
    path = Path(name)
    if path.is_dir():
        raise InvalidInputError(f"{name} is a directory", hint="name the files in it")
    if not path.exists():
        raise NotFoundError(f"there is no file {name}", hint="name files, or - for standard input")
    *_, before, last = ["", "", *path.name.lower().split(".")]
    codec = _CODECS.get(last, "")
    found = given or _EXTENSIONS.get(before if codec else last)
    if found is None:
        raise UsageError(
            f"the format of {name} can't be told from its name", hint=f"give --format {', '.join(INPUT_FORMATS)}"
        )
    if codec and found in {"parquet", "arrow"}:
        raise UsageError(f"{name}: {found} files are not compressed as a whole", hint="unpack it first")
    return InputFile(name, found, codec)


def total_of(files: Sequence[InputFile]) -> tuple[int, str]:
    """How much there is to read, and in what: bytes of texts, rows of Parquet; 0 where that is not known before."""
    if all(file.format in {"csv", "jsonl"} for file in files):
        return sum(file.size for file in files), "bytes"
    if any(file.format != "parquet" or not Path(file.name).is_file() for file in files):
        return 0, "rows"
    try:
        return sum(pq.read_metadata(file.name).num_rows for file in files), "rows"
    except (pa.ArrowException, OSError):  # said with more words when it is read
        return 0, "rows"


class Rows:
    """The rows of some files, as an iterable of Arrow tables that knows which file a row came from."""

    def __init__(
        self,
        files: Sequence[InputFile],
        schema: pa.Schema,
        *,
        defaults: frozenset[str] = frozenset(),
        progress: Progress | None = None,
        live: bool = False,
    ) -> None:
        self._files = files
        self._live = live  # JSON lines are given as they come, not when there are many
        self._schema = schema
        self._defaults = defaults  # columns that need not be given
        self._progress = progress
        self._starts: list[int] = []  # the first row of each file that was begun
        self.rows = 0

    def __iter__(self) -> Iterator[pa.Table]:
        for file in self._files:
            self._starts.append(self.rows)
            with opened(file, self._progress, live=self._live) as stream:
                for table in self._tables(file, stream):
                    yield table
                    self.rows += table.num_rows
                    if self._progress is not None:
                        self._progress.add(rows=table.num_rows)

    def _tables(self, file: InputFile, stream: BinaryIO) -> Iterator[pa.Table]:
        tables = {"csv": self._read_csv, "jsonl": self._read_json, "parquet": _read_parquet, "arrow": _read_arrow}[
            file.format
        ]
        found = tables(stream, self._schema)
        row = 0
        while True:
            try:
                table = next(found, None)
            except UnreadableTextError as error:
                raise SchemaMismatchError(
                    f"{file.shown}, row {row + error.index + 1}: {error.problem}", hint=error.hint
                ) from error
            except (pa.ArrowException, OSError, EOFError) as error:
                raise _unreadable(file, error, row) from error
            if table is None:
                return
            yield table
            row += table.num_rows

    def _read_csv(self, stream: BinaryIO, schema: pa.Schema) -> Iterator[pa.Table]:
        return read_csv(stream, schema, block_bytes=BLOCK_BYTES)

    def _read_json(self, stream: BinaryIO, schema: pa.Schema) -> Iterator[pa.Table]:
        return read_lines(stream, schema, defaults=self._defaults, block_bytes=BLOCK_BYTES)

    @contextlib.contextmanager
    def named_errors(self, *, first: int | None = None) -> Iterator[None]:
        """Errors about rows, with the file that they are in.

        With ``first``, they are about rows of one table that was read last, which begin at that row of all.
        """
        try:
            yield
        except InvalidInputError as error:
            self._name(error, first)
            raise

    def _name(self, error: SiltstoneError, first: int | None) -> None:
        """The table counts rows over all files from 0, and batches; people count those of one file from 1."""
        if not self._starts:
            return
        row = error.facts.get("row")
        if isinstance(row, int):
            place = row + (first or 0)
            number = bisect_right(self._starts, place) - 1
            own = place - self._starts[number] + 1
            counted = re.compile(rf"\brow {row}\b(?: \(counting from 0\)|, counting from 0,?)?")
            error.message = f"{self._files[number].shown}: {counted.sub(f'row {own}', error.message)}"
            error.facts["row"] = own
        elif first is not None or _BATCH.match(error.message):
            error.message = f"{self._files[len(self._starts) - 1].shown}: {_BATCH.sub('', error.message)}"


def _unreadable(file: InputFile, error: Exception, row: int) -> SiltstoneError:
    said = str(error).partition("\n")[0]
    if _TOO_LONG in said:
        return LimitExceededError(
            f"{file.shown}: a row behind row {row} has over {BLOCK_BYTES} bytes, or a quote that is never closed",
            hint="look for the quote, or use Parquet or JSON lines",
        )
    ragged = _RAGGED.match(str(error))
    if ragged:
        where = f"row {int(ragged[1]) - 1}" if ragged[1] else f"behind row {row}"
        return SchemaMismatchError(
            f"{file.shown}, {where}: {shown(ragged[2])[1:-1]}", hint="give each row a value for each column"
        )
    where = f" behind row {row}" if row else ""
    return InvalidInputError(
        f"{file.shown} can't be read as {file.format}{where}: {shown(said)[1:-1]}",
        hint="give --format where its name says another one than it is",
    )


# -- streams -------------------------------------------------------------------------------------


class _Live:
    """A stream that gives what is there instead of waiting for more."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        # What comes while rows are being put waits in the pipe, and goes together then. Not every system lets us ask.
        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(inner.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def read(self, size: int = -1, /) -> bytes:
        data: bytes = self._inner.read1(size)
        return data


class _Counted(io.RawIOBase):
    """A stream that tells how much was read from it."""

    def __init__(self, inner: BinaryIO | _Live, progress: Progress) -> None:
        self._inner = inner
        self._progress = progress

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._inner.read(size)
        self._progress.add(size=len(data))
        return data


@contextlib.contextmanager
def opened(file: InputFile, progress: Progress | None = None, *, live: bool = False) -> Iterator[Any]:
    """A file's bytes, unpacked; such that can be read from any place where its format needs that."""
    with contextlib.ExitStack() as stack:
        raw = sys.stdin.buffer if file.is_stdin else stack.enter_context(open_file(file.name))
        if file.format in {"parquet", "arrow"}:
            # Their table of contents is at the end.
            yield raw if not file.is_stdin and raw.seekable() else stack.enter_context(_spooled(raw))
            return
        # Compressed bytes, and those of CSV, are of use in whole blocks only.
        given = _Live(raw) if live and file.format == "jsonl" and not file.codec else raw
        counted = given if progress is None else _Counted(given, progress)
        yield pa.CompressedInputStream(pa.PythonFile(counted, "r"), file.codec) if file.codec else counted


def open_file(name: str) -> BinaryIO:
    """A file, open for reading."""
    try:
        return Path(name).open("rb")
    except PermissionError:
        raise PermissionDeniedError(f"{name} can't be read", hint="check its permissions") from None
    except OSError as error:
        raise InvalidInputError(f"{name} can't be read: {error.strerror}", hint="name a file, or -") from None


@contextlib.contextmanager
def _spooled(raw: BinaryIO) -> Iterator[BinaryIO]:
    with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as spool:
        while data := raw.read(_COPY_BYTES):
            spool.write(data)
        spool.seek(0)
        yield spool  # type: ignore[misc]


# -- formats -------------------------------------------------------------------------------------


def _read_parquet(stream: Any, _: pa.Schema) -> Iterator[pa.Table]:
    with pq.ParquetFile(stream, pre_buffer=False) as file:
        yield file.schema_arrow.empty_table()
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            yield pa.Table.from_batches([batch])


def _read_arrow(stream: Any, _: pa.Schema) -> Iterator[pa.Table]:
    start = stream.read(6)
    stream.seek(0)
    if start == b"ARROW1":
        file = pa.ipc.open_file(stream)
        yield file.schema.empty_table()
        for number in range(file.num_record_batches):
            yield pa.Table.from_batches([file.get_batch(number)])
        return
    reader = pa.ipc.open_stream(stream)
    yield reader.schema.empty_table()
    for batch in reader:
        yield pa.Table.from_batches([batch])
