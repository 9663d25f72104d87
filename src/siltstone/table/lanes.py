"""Rows that threads of their own read while a query waits for them: a few batches ahead, in bounded memory.

What must hold:
- A source is read outside of DataFusion's threads: a read that waits holds none of them up, and may use DataFusion.
- At most ``AHEAD`` batches of a lane wait to be taken. A lane that nobody takes from any more ends its thread.
- DataFusion is given no filter to hand down. pyarrow and DataFusion differ on NaN and on zeros, and what is handed
  down is not looked at again.
"""

from __future__ import annotations

import importlib
import threading
from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from siltstone.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from siltstone.table.prune import Prune

    Part = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]

AHEAD = 2


class Source(Protocol):
    """Rows that can be read in parts. Parts are read at the same time, and more than once where a query needs it."""

    @property
    def schema(self) -> pa.Schema:
        """The columns there are."""

    def parts(self, where: Prune | None) -> Sequence[Part]:
        """What gives the rows of each part, from the names of at least one column.

        Rows that ``where`` does not keep may be left out, or not.
        """


class Run:
    """What one run of a query has open, and the first error of what it read."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        self._pipes: set[_Pipe] = set()
        self._closed = False
        self._lock = threading.Lock()

    def fail(self, error: BaseException) -> None:
        """Remember an error, unless there was one before."""
        with self._lock:
            self.failure = self.failure or error

    def pipe(self) -> _Pipe:
        """A new pipe, closed with the run."""
        made = _Pipe()
        with self._lock:
            if self._closed:
                made.close()
            self._pipes.add(made)
        return made

    def close(self) -> None:
        """End all reading. What DataFusion drops, it drops when it likes."""
        with self._lock:
            self._closed = True
            pipes, self._pipes = self._pipes, set()
        for pipe in pipes:
            pipe.close()


class Lanes:
    """A source as DataFusion reads it."""

    def __init__(self, source: Source, schema: pa.Schema, *, lanes_max: int, run: Run) -> None:
        # The base class is for its name: DataFusion takes nothing else, and calls only the methods below.
        self._source = source
        self._schema = schema
        self._lanes_max = lanes_max
        self._run = run
        self.where: Prune | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns, as DataFusion plans with them."""
        return self._schema

    def scanner(self, columns: Sequence[str] | None = None, **options: object) -> Scanner:
        """The schema of some columns; nothing is read."""
        if options.get("filter") is not None:
            raise InternalError("a filter was handed down to the rows of a query")
        return Scanner(self._only(columns), tuple)

    def get_fragments(self, filter: object = None) -> list[Lane]:  # noqa: A002  DataFusion names it
        """The lanes; at least one, since DataFusion can't plan with none."""
        try:
            parts = list(self._source.parts(self.where))
        except BaseException as error:
            self._run.fail(error)
            raise
        count = max(1, min(self._lanes_max, len(parts)))
        return [Lane(parts[first::count], self, self._run) for first in range(count)]

    def _only(self, columns: Sequence[str] | None) -> pa.Schema:
        return self._schema if columns is None else pa.schema([self._schema.field(name) for name in columns])


@cache
def lanes_type() -> type[Lanes]:
    """``Lanes`` as a dataset of pyarrow, whose class takes long to load and is needed by queries alone."""
    return type("Lanes", (Lanes, importlib.import_module("pyarrow.dataset").Dataset), {})


class Lane:
    """Some parts of a source, one after the other."""

    def __init__(self, parts: Sequence[Part], lanes: Lanes, run: Run) -> None:
        self._parts = parts
        self._lanes = lanes
        self._run = run

    def scanner(self, _schema: pa.Schema, **options: object) -> Scanner:
        """What DataFusion asks for as it begins to read."""
        columns = options["columns"]
        schema = self._lanes.scanner(columns if isinstance(columns, list) else None).projected_schema
        return Scanner(schema, lambda: self._read(schema))

    def _read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        pipe = self._run.pipe()
        threading.Thread(target=self._fill, args=(pipe, schema), name="siltstone-lane", daemon=True).start()
        try:
            while (batch := pipe.take()) is not None:
                yield batch
        finally:
            pipe.close()

    def _fill(self, pipe: _Pipe, schema: pa.Schema) -> None:
        # To count rows, one column is read: the narrowest.
        asked = schema.names or [min(self._lanes.schema, key=_width).name]
        try:
            for part in self._parts:
                for batch in part(asked):
                    if batch.num_rows and not pipe.put(_shaped(batch, schema)):
                        return
            pipe.put(None)
        except BaseException as error:
            self._run.fail(error)
            pipe.put(error)


class Scanner:
    """Batches and their schema, by the names that DataFusion calls them."""

    def __init__(self, schema: pa.Schema, read: Callable[[], Iterable[pa.RecordBatch]]) -> None:
        self.projected_schema = schema
        self.to_batches = read


class _Pipe:
    """Batches on their way from one thread to another; None is the end."""

    def __init__(self) -> None:
        self._items: deque[pa.RecordBatch | BaseException | None] = deque()
        self._free = threading.Semaphore(AHEAD)
        self._there = threading.Semaphore(0)
        self._closed = False

    def put(self, item: pa.RecordBatch | BaseException | None) -> bool:
        """Hand over one; False where nobody takes any more."""
        self._free.acquire()
        if self._closed:
            return False
        self._items.append(item)
        self._there.release()
        return True

    def take(self) -> pa.RecordBatch | None:
        """Wait for the next one."""
        self._there.acquire()
        item = self._items.popleft() if self._items else None
        self._free.release()
        if isinstance(item, BaseException):
            raise item
        return item

    def close(self) -> None:
        """Nothing more is taken; whoever waits goes on."""
        self._closed = True
        self._free.release()
        self._there.release()


def _shaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if not len(schema):
        return batch.select([])
    arrays = [
        column if (column := batch.column(field.name)).type == field.type else column.cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _width(field: pa.Field) -> int:
    try:
        return int(field.type.bit_width)
    except ValueError:
        return 1 << 20  # of no fixed width
