"""Writing fragments: rows to Parquet objects, with what the log says of them.

What must hold:
- An object is whole and at its place before its record is handed out; what was written and never committed
  is referred to by nothing.
- Memory is bounded by the limits of a few fragments, not by the rows.
- Rows keep their order inside a fragment, and fragments theirs, except where a key sorts them.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, NamedTuple, Self

import pyarrow as pa

from siltstone import paths
from siltstone.env import REAL, Env
from siltstone.errors import ClosedError, InternalError, LimitExceededError
from siltstone.format.frame import digest
from siltstone.format.table import Fragment
from siltstone.table.bounds import bounds_of
from siltstone.table.keys import sort_order
from siltstone.table.layout import Layout, encode
from siltstone.table.upload import upload

if TYPE_CHECKING:
    from siltstone.format.table import Schema
    from siltstone.store.base import Store

__all__ = ["FragmentWriter", "Written", "bounds_of", "write_fragment"]

ROWS_PER_FRAGMENT = 1_048_576
BYTES_PER_FRAGMENT = 256 * 1024 * 1024  # of Arrow memory
BYTES_PER_FRAGMENT_MAX = 1024 * 1024 * 1024  # Arrow's strings in one piece end at 2 GiB
THREADS = 2
_SMALL_CHUNK_ROWS = 4096


class Written(NamedTuple):
    """A fragment that is at its place, and the key columns of its rows in its order; None without a key."""

    fragment: Fragment
    keys: pa.Table | None


def write_fragment(store: Store, table: pa.Table, schema: Schema, *, name: str, env: Env = REAL) -> Fragment:
    """Write rows, in their order, as one fragment.

    Raises:
        LimitExceededError: they don't fit into one file.
    """
    layout = Layout.of(schema)
    rows = layout.conform(table)
    ordered = not layout.key or sort_order(rows, layout.key) is None
    files = iter(encode(rows, layout, ordered=ordered))
    file = next(files, None)
    if file is None:
        raise InternalError("a fragment has at least one row")
    if file.rows != rows.num_rows:
        raise LimitExceededError(
            f"{rows.num_rows} rows don't fit into one file, {file.rows} do", hint="write them as several fragments"
        )
    return _store(store, rows, file.data, schema, name=name, env=env)


class FragmentWriter:
    """Takes rows in chunks of any size and cuts them into fragments of at most so many rows and bytes.

    Several fragments are encoded at once, each in a thread; a single one is written by the caller's own.
    """

    def __init__(
        self,
        store: Store,
        schema: Schema,
        *,
        base: int,
        env: Env = REAL,
        rows_per_fragment: int = ROWS_PER_FRAGMENT,
        bytes_per_fragment: int = BYTES_PER_FRAGMENT,
        sort: bool = True,
        threads: int = THREADS,
    ) -> None:
        if min(rows_per_fragment, bytes_per_fragment, threads) < 1:
            raise InternalError("the limits of a fragment are at least 1")
        if bytes_per_fragment > BYTES_PER_FRAGMENT_MAX:
            raise InternalError(f"a fragment of {bytes_per_fragment} bytes is over {BYTES_PER_FRAGMENT_MAX}")
        self._store = store
        self._layout = Layout.of(schema)
        self._base = base
        self._env = env
        self._rows_most = rows_per_fragment
        self._bytes_most = bytes_per_fragment
        self._sort = sort
        self._threads = threads if store.traits.threads else 1
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._pool: ThreadPoolExecutor | None = None
        self._running: deque[Future[list[Written]]] = deque()
        self._written: list[Written] = []
        self._closed = False

    def write(self, table: pa.Table) -> None:
        """Take rows; returns when they are held or under way.

        Raises:
            InvalidInputError: they are not of the table's schema.
            UnavailableError: the store does not answer; a fragment that was cut before may be the one.
        """
        if self._closed:
            raise ClosedError("this writer of fragments is finished")
        rest = self._layout.conform(table)
        while rest.num_rows:
            size = rest.nbytes
            take = self._fitting(rest.num_rows, size)
            part, rest = rest.slice(0, take), rest.slice(take)
            self._waiting.append(part)
            self._waiting_rows += take
            self._waiting_bytes += part.nbytes if rest.num_rows else size
            if self._waiting_rows >= self._rows_most or self._waiting_bytes >= self._bytes_most:
                self._cut(more=True)

    def finish(self) -> list[Written]:
        """Write what is held and wait for all; the fragments are in the order of their rows."""
        if self._closed:
            raise ClosedError("this writer of fragments is finished")
        try:
            if self._waiting_rows:
                self._cut(more=False)
            while self._running:
                self._collect()
        finally:
            self.close()
        return self._written

    def close(self) -> None:
        """Let go of what is held; fragments that were not handed out are referred to by nothing."""
        self._closed = True
        self._waiting = []
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fitting(self, rows: int, size: int) -> int:
        """How many of so many rows of so many bytes the fragment that is being filled can take; at least one."""
        by_bytes = (self._bytes_most - self._waiting_bytes) * rows // max(1, size)
        return max(1, min(rows, self._rows_most - self._waiting_rows, by_bytes))

    def _cut(self, *, more: bool) -> None:
        table = pa.concat_tables(self._waiting)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        if self._threads == 1 or not (more or self._running):
            self._written += self._write_all(table)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="siltstone-write")
        active = [one for one in self._running if not one.done()]
        if len(active) >= self._threads:
            wait(active, return_when=FIRST_COMPLETED)
        while self._running and self._running[0].done():
            self._collect()
        self._running.append(self._pool.submit(self._write_all, table))

    def _collect(self) -> None:
        try:
            self._written += self._running.popleft().result()
        except BaseException:
            self.close()  # nothing goes on behind the caller's back
            raise

    def _write_all(self, table: pa.Table) -> list[Written]:
        layout = self._layout
        if table.num_rows > 1 and table.column(0).num_chunks * _SMALL_CHUNK_ROWS > table.num_rows:
            table = table.combine_chunks()
        order = sort_order(table, layout.key) if layout.key and self._sort else None
        if order is not None:
            table = table.take(pa.array(order))
        ordered = bool(layout.key) and self._sort
        written: list[Written] = []
        start = 0
        for file in encode(table, layout, ordered=ordered):
            part = table.slice(start, file.rows)
            start += file.rows
            name = paths.name(self._base, self._env.ids.new())
            fragment = _store(self._store, part, file.data, layout.record, name=name, env=self._env)
            written.append(Written(fragment, _keys(part, layout, own=order is not None)))
        return written


def _store(store: Store, rows: pa.Table, data: bytes, schema: Schema, *, name: str, env: Env) -> Fragment:
    sha256 = digest(data)
    upload(store, paths.data(name), data, sha256=sha256, env=env)
    return Fragment(name=name, rows=rows.num_rows, bytes=len(data), sha256=sha256, bounds=bounds_of(rows, schema))


def _keys(rows: pa.Table, layout: Layout, *, own: bool) -> pa.Table | None:
    """The key columns; as a copy where they would keep the caller's other columns in memory."""
    if not layout.key:
        return None
    keys = rows.select(list(layout.key))
    return keys if own else pa.concat_tables([keys.slice(0, 0), keys]).combine_chunks()
