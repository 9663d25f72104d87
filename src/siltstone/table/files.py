"""Reading fragments: whole row groups, single rows, and the rows that have a key.

What must hold:
- A fragment is read only as the file that its record describes.
- What is kept of all fragments is bounded in bytes, and what was used last stays: ``cache_bytes`` of footers, page
  indexes, bloom filters and dictionaries, and as much of decoded pages and single values.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from siltstone.errors import InvalidInputError
from siltstone.format.table import Bounds
from siltstone.locks import ForkLock
from siltstone.table.few import Few, joined
from siltstone.table.finder import Finder
from siltstone.table.fragment_bytes import FragmentBytes
from siltstone.table.indexes import Indexes
from siltstone.table.page_cache import PageCache
from siltstone.table.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from siltstone.format.table import Field, Fragment
    from siltstone.store.base import Store
    from siltstone.table.few import Cells

CACHE_BYTES = 64 * 1024 * 1024

_NOT_IN_THE_LOG = ("decimal", "binary", "fixed_size_binary")  # types whose bounds it has no way to write


class Group(NamedTuple):
    """A row group: its first row and how many there are."""

    start: int
    rows: int


class FileLike(Protocol):
    """The rows of one fragment, wherever they are. Safe to share between threads."""

    @property
    def fragment(self) -> Fragment:
        """Its record."""

    @property
    def groups(self) -> tuple[Group, ...]:
        """Its row groups, in order."""

    @property
    def source(self) -> FragmentBytes | None:
        """Its bytes; None where there is no file."""

    @property
    def nbytes(self) -> int:
        """What is kept of it, estimated."""

    def read(self, group: int, fields: Sequence[Field], *, threads: bool = False) -> pa.Table:
        """Some columns of a whole row group; ``threads`` decodes them side by side."""

    def take(self, rows: np.ndarray, fields: Sequence[Field]) -> pa.Table:
        """Some columns of some rows, whose numbers are distinct and in order."""

    def find(self, keys: pa.Array, field: Field) -> tuple[np.ndarray, np.ndarray]:
        """The rows whose value is one of some distinct keys, in order, and the place of each one's key in ``keys``."""

    def lookup(self, keys: pa.Array, field: Field, fields: Sequence[Field]) -> tuple[np.ndarray, np.ndarray, pa.Table]:
        """What ``find`` gives, and some columns of these rows."""

    def group_bounds(self, group: int, field: Field) -> Bounds | None:
        """The bounds of a column in a row group; None where they are not known. NaN is left out."""

    def page_bounds(self, group: int, field: Field) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """The first row of each page of a row group, and the bounds of a column there; None where they are not known.

        Rows count from the start of the row group. A page with nothing but nulls has a low bound above its high
        one. NaN is left out.
        """


class OpensFiles(Protocol):
    """Whatever gives the files of a table's fragments."""

    def open(self, fragment: Fragment, *, store: Store | None = None) -> FileLike:
        """The file of a fragment, from ``store`` where that is not the table's own."""


class Files:
    """The fragments of one table, open. Safe to share between threads."""

    def __init__(self, store: Store, *, cache_bytes: int = CACHE_BYTES) -> None:
        self._store = store
        self._limit = cache_bytes
        self.pages = PageCache(cache_bytes)
        self._lock = ForkLock()
        self._open: OrderedDict[str, FragmentFile] = OrderedDict()
        self._bytes = 0

    def open(self, fragment: Fragment, *, store: Store | None = None) -> FragmentFile:
        """The file of a fragment; one request where it is not kept from before. ``store``: it is in another one.

        Raises:
            MissingObjectError: it is gone.
            CorruptionError: it is not the file that the record describes.
        """
        with self._lock:
            found = self._open.get(fragment.name)
            if found is not None and _same(found.fragment, fragment):
                self._open.move_to_end(fragment.name)
                return found
        opened = FragmentFile(store or self._store, fragment, self)
        with self._lock:
            self._drop(self._open.pop(fragment.name, None))
            self._open[fragment.name] = opened
            opened.kept = True
            self._bytes += opened.nbytes
            self._shrink()
        return opened

    def grown(self, file: FragmentFile, nbytes: int) -> None:
        """Count what a file keeps in addition, and let go of others where that is too much."""
        with self._lock:
            file.nbytes += nbytes
            if file.kept:
                self._bytes += nbytes
                self._shrink()

    def _shrink(self) -> None:
        while self._bytes > self._limit and self._open:
            self._drop(self._open.popitem(last=False)[1])

    def _drop(self, file: FragmentFile | None) -> None:
        if file is not None:
            file.kept = False
            self._bytes -= file.nbytes

    @property
    def nbytes(self) -> int:
        """What is kept, estimated."""
        return self._bytes

    def __getstate__(self) -> tuple[Store, int]:
        return self._store, self._limit

    def __setstate__(self, state: tuple[Store, int]) -> None:
        self.__init__(state[0], cache_bytes=state[1])  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"Files({self._store!r}, {len(self._open)} open)"


class FragmentFile:
    """A fragment's file. Safe to share between threads."""

    def __init__(self, store: Store, fragment: Fragment, files: Files) -> None:
        self.fragment = fragment
        self.kept = False  # whether ``files`` counts its bytes
        self.source = FragmentBytes(store, fragment)
        self._footer = self.source.footer
        self.groups = tuple(Group(one.start, one.rows) for one in self._footer.groups)
        self.nbytes = self.source.nbytes
        self._indexes = Indexes(self.source, lambda nbytes: files.grown(self, nbytes))
        self._reader = Reader(self.source, self._indexes, files.pages)
        self._few = Few(self.source, self._indexes, files.pages)
        self._finder = Finder(self._reader, self._indexes, rows=fragment.rows, groups=len(self.groups))

    def read(self, group: int, fields: Sequence[Field], *, threads: bool = False) -> pa.Table:
        """Some columns of a whole row group; ``threads`` decodes them side by side."""
        plan = self._indexes.plan(fields)
        return self._reader.read(plan, [self._reader.all_of(group)], threads=threads)

    def take(self, rows: np.ndarray, fields: Sequence[Field]) -> pa.Table:
        """Some columns of some rows, whose numbers are distinct and in order."""
        plan = self._indexes.plan(fields)
        if not len(rows) or not plan.leaves:
            return plan.fill(len(rows))
        rows = np.asarray(rows, np.int64)
        if rows[0] < 0 or rows[-1] >= self.fragment.rows or (np.diff(rows) <= 0).any():
            raise InvalidInputError(
                f"row numbers of {self.source.key} are out of range or not in order",
                hint=f"give distinct numbers from 0 to {self.fragment.rows - 1}, the smallest first",
            )
        return self._reader.take(plan, rows)

    def take_few(self, rows: np.ndarray, fields: Sequence[Field]) -> pa.Table:
        """As ``take``, for rows that others may ask for again, or for their neighbours: what is read is kept."""
        found = self.cells(rows.tolist(), fields) if len(rows) else None
        return self.take(rows, fields) if found is None else joined(found, self._indexes.plan(fields).schema)

    def cells(self, rows: Sequence[int], fields: Sequence[Field]) -> Cells | None:
        """The values of a few rows, in any order, one by one; None where only ``take`` can give them."""
        plan = self._indexes.plan(fields)
        return self._few.cells(plan, rows) if plan.leaves else None

    def find(self, keys: pa.Array, field: Field) -> tuple[np.ndarray, np.ndarray]:
        """The rows whose value is one of some distinct keys, in order, and the place of each one's key in ``keys``."""
        return self._finder.find(keys, field)

    def lookup(self, keys: pa.Array, field: Field, fields: Sequence[Field]) -> tuple[np.ndarray, np.ndarray, pa.Table]:
        """What ``find`` gives, and some columns of these rows; for few keys that is one request in all."""
        return self._finder.lookup(keys, field, tuple(fields))

    def group_bounds(self, group: int, field: Field) -> Bounds | None:
        """What the footer says of a column's values in a row group; None where it says nothing. NaN is left out."""
        plan = self._indexes.plan((field,))
        rows = self.groups[group].rows
        if not plan.leaves:
            return Bounds(None, None, rows) if field.default is None else None
        nulls = self._footer.groups[group].chunks[plan.leaves[0]].nulls
        if not plan.flat or nulls is None:
            return None
        found = self._indexes.group_limits(plan)
        if found is None or not found.some[group]:
            return Bounds(None, None, nulls)
        if field.type.startswith(_NOT_IN_THE_LOG):
            return Bounds(None, None, nulls)
        return Bounds(_statistic(found.lows[group]), _statistic(found.highs[group]), nulls)

    def page_bounds(self, group: int, field: Field) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """The first row of each page of a row group, and the bounds of a column there; None where they are not known.

        Rows count from the start of the row group. A page with nothing but nulls has a low bound above its high
        one. NaN is left out.
        """
        plan = self._indexes.plan((field,))
        if not plan.leaves or not plan.flat:
            return None
        found = self._indexes.page_limits(group, plan)
        if found is None or field.type.startswith(_NOT_IN_THE_LOG):
            return None
        lows, highs = found.lows.copy(), found.highs.copy()
        if lows.dtype == object:
            lows[~found.some], highs[~found.some] = "\U0010ffff", ""
        else:
            lows[~found.some], highs[~found.some] = 1, 0
        return self._indexes.index(group, plan.leaves[0]).layout.first_rows, lows, highs


def _same(one: Fragment, other: Fragment) -> bool:
    return one is other or (one.bytes, one.rows, one.sha256) == (other.bytes, other.rows, other.sha256)


def _statistic(value: object) -> int | float | str | None:
    """A bound as the log writes it; None where it has no way to."""
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, int | float | str) else None
