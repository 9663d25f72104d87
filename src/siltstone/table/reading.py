"""The rows of a row group that a scan asks for.

What must hold:
- Rows come in the order of their file; deleted ones never come.
- Statistics only rule out row groups and pages that can't match. A file leaves NaN out of its own, so those of
  floats count only where the log says that there is none.
- Columns that the filter does not test are read only where rows match, and page by page where those are few.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from siltstone.table.fragments import ColumnBounds
from siltstone.table.masking import masked
from siltstone.table.prune import Prune, prune_for
from siltstone.table.schema import arrow_schema, arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from siltstone.format.rollup import Live
    from siltstone.format.table import Bounds, Field, Fragment, Schema
    from siltstone.table.files import FileLike
    from siltstone.table.fragments import Fragments
    from siltstone.table.predicate import Predicate
    from siltstone.table.stream import Turn
    from siltstone.table.tools import Tools
    from siltstone.table.vectors import Deleted

BLOCK_ROWS = 4096  # about a page
FEW = 0.25  # of the rows: below it, the other columns are read page by page
MOST_BLOCKS = 0.75  # of the pages: above it, all are read
_PACKED = 3  # what decoded rows take for each byte of the file, before any was seen


class Sizes:
    """How many bytes a row takes, learned from the rows that were read."""

    def __init__(self) -> None:
        self.row_bytes = 0

    def saw(self, table: pa.Table) -> None:
        if table.num_rows:
            self.row_bytes = max(self.row_bytes, table.nbytes // table.num_rows)

    def guess(self, rows: int, fragment: Fragment) -> int:
        return rows * (self.row_bytes or 1 + _PACKED * fragment.bytes // fragment.rows)


@dataclass(frozen=True)
class Reading:
    """What is read of every fragment: ``fields``, of the rows that the filter keeps; ``most`` of a task at most.

    ``hint`` is for readers that test rows themselves: what it rules out need not be read. Where all rows are kept in
    memory, or none, a task may read a ``whole`` fragment.
    """

    tools: Tools
    schema: Schema
    fields: tuple[Field, ...]
    predicate: Predicate | None = None
    most: int | None = None
    hint: Prune | None = None
    whole: bool = False
    sizes: Sizes = field(default_factory=Sizes)

    @cached_property
    def tested(self) -> tuple[Field, ...]:
        """The columns that the filter tests."""
        names = self.predicate.columns if self.predicate else frozenset[str]()
        return tuple(one for one in self.schema.fields if one.name in names)

    @cached_property
    def rest(self) -> tuple[Field, ...]:
        """The columns that it does not."""
        return tuple(one for one in self.fields if one not in self.tested)

    @cached_property
    def together(self) -> tuple[Field, ...]:
        """All of them, those asked for first."""
        return (*self.fields, *(one for one in self.tested if one not in self.fields))

    @cached_property
    def prune(self) -> Prune | None:
        """What the filter says about statistics."""
        return prune_for(self.predicate, arrow_schema(self.schema)) if self.predicate else self.hint

    @cached_property
    def by_name(self) -> dict[str, Field]:
        """All columns of the table."""
        return {one.name: one for one in self.schema.fields}

    def choose(self, fragments: Fragments) -> list[Live]:
        """The fragments that may hold rows that match."""
        prune = self.prune
        if prune is None:
            return fragments.select(None)
        keep = prune.keeps_many(lambda name: fragments.bounds(self.by_name[name].id), count=fragments.slots)
        return fragments.select(keep)

    @cached_property
    def arrow(self) -> pa.Schema:
        """The schema of what comes out."""
        return chosen_schema(self.fields)

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns asked for."""
        return [one.name for one in self.fields]


class Piece(NamedTuple):
    """A row group, and the rows of its fragment that are gone."""

    file: FileLike
    group: int
    deleted: Deleted | None
    narrow: bool  # whether the bounds of pages may rule some out

    @property
    def start(self) -> int:
        return self.file.groups[self.group].start

    @property
    def rows(self) -> int:
        return self.file.groups[self.group].rows

    def left(self) -> NDArray[np.bool_] | None:
        """Which of its rows are not gone; None where all are there."""
        if self.deleted is None:
            return None
        gone = self.deleted.slice(self.start, self.rows)
        return ~gone if gone.any() else None

    def count_left(self) -> int:
        """How many are not gone."""
        left = self.left()
        return self.rows if left is None else int(np.count_nonzero(left))


class Tested(NamedTuple):
    """The rows of a piece that match: their numbers in the file, and where they are in ``table``."""

    numbers: NDArray[np.int64]
    places: NDArray[np.int64]
    table: pa.Table  # the columns that the filter tests, at least


def chosen_schema(fields: Sequence[Field]) -> pa.Schema:
    """The Arrow schema of some columns."""
    return pa.schema([pa.field(one.name, arrow_type(one), nullable=one.nullable) for one in fields])


def pieces(reading: Reading, file: FileLike, deleted: Deleted | None = None) -> list[Piece]:
    """The row groups of a file that may hold rows that match."""
    groups = range(len(file.groups))
    prune = reading.prune
    if prune is None:
        return [Piece(file, group, deleted, narrow=False) for group in groups]
    kept = [group for group in groups if _may_match(reading, prune, file, group)]
    # Bounds of pages cost a request. They are worth it where rows lie in the order of what is tested.
    key = reading.schema.key[:1]
    narrow = len(kept) < len(groups) or any(one.id in key for one in reading.tested)
    return [Piece(file, group, deleted, narrow) for group in kept]


def _may_match(reading: Reading, prune: Prune, file: FileLike, group: int) -> bool:
    def bounds(name: str) -> Bounds | None:
        column = reading.by_name[name]
        return file.group_bounds(group, column) if _is_bounded(file.fragment, column) else None

    return prune.keeps(bounds, rows=file.groups[group].rows)


def _is_bounded(fragment: Fragment, column: Field) -> bool:
    """Whether the file's own bounds of a column hold for every value."""
    if column.type not in {"float", "double"}:
        return True
    logged = fragment.bounds.get(str(column.id))
    return logged is not None and (logged.low is not None or logged.high is not None)


def test(reading: Reading, piece: Piece, turn: Turn, *, more: bool) -> Tested:
    """Find the rows of a row group that match, deleted ones too; ``more`` columns are read where pages are few."""
    predicate = reading.predicate
    rows = _candidates(reading, piece) if piece.narrow else None
    if predicate is None or (rows is not None and not len(rows)):
        nothing = np.empty(0, np.int64)
        return Tested(nothing, nothing, pa.table({}))
    if rows is None:
        table = piece.file.read(piece.group, reading.tested, threads=turn.alone)
        places = np.flatnonzero(as_mask(predicate.mask(table)))
        return Tested(places + piece.start, places, table)
    # Most rows of a page that may match do, where rows lie in the order of what is tested.
    table = piece.file.take(rows, reading.together if more and len(rows) < FEW * piece.rows else reading.tested)
    places = np.flatnonzero(as_mask(predicate.mask(table)))
    return Tested(rows[places], places, table)


def read_all(reading: Reading, piece: Piece, turn: Turn) -> pa.Table:
    """The rows of a row group that are not gone."""
    left = piece.left()
    most = piece.rows if reading.most is None else reading.most
    if left is None and 2 * most > piece.rows:
        return piece.file.read(piece.group, reading.fields, threads=turn.alone)
    numbers = np.arange(piece.rows) if left is None else np.flatnonzero(left)
    if left is None or most < len(numbers) or _are_few(left):
        return piece.file.take(numbers[:most] + piece.start, reading.fields)
    return masked(piece.file.read(piece.group, reading.fields, threads=turn.alone), left)


def read_some(reading: Reading, piece: Piece, turn: Turn) -> pa.Table:
    """The rows of a row group that match and are not gone."""
    numbers, places, tested = there(piece, test(reading, piece, turn, more=True))
    if reading.most is not None:
        numbers, places = numbers[: reading.most], places[: reading.most]
    if not len(numbers) or turn.stop.is_set():
        return reading.arrow.empty_table()
    if len(places) < tested.num_rows:
        keep = np.zeros(tested.num_rows, np.bool_)
        keep[places] = True
        tested = masked(tested, keep)
    columns = dict(zip(tested.column_names, tested.columns, strict=True))
    if any(one.name not in columns for one in reading.rest):
        if len(numbers) < FEW * piece.rows:
            rest = piece.file.take(numbers, reading.rest)
        else:
            keep = np.zeros(piece.rows, np.bool_)
            keep[numbers - piece.start] = True
            rest = masked(piece.file.read(piece.group, reading.rest, threads=turn.alone), keep)
        columns |= dict(zip(rest.column_names, rest.columns, strict=True))
    return pa.Table.from_arrays([columns[name] for name in reading.names], schema=reading.arrow)


def there(piece: Piece, found: Tested) -> Tested:
    """The rows that match and are not gone."""
    left = piece.left()
    if left is None or not len(found.numbers):
        return found
    there = left[found.numbers - piece.start]
    return Tested(found.numbers[there], found.places[there], found.table)


def _are_few(left: NDArray[np.bool_]) -> bool:
    """Whether so many pages hold no row that is left that reading the others alone is worth it."""
    blocks = np.logical_or.reduceat(left, np.arange(0, len(left), BLOCK_ROWS))
    return bool(np.count_nonzero(blocks) <= MOST_BLOCKS * len(blocks))


def _candidates(reading: Reading, piece: Piece) -> NDArray[np.int64] | None:
    """The rows of the pages that may hold rows that match; None where most of them may."""
    found: dict[str, ColumnBounds] = {}
    firsts: NDArray[np.int64] | None = None
    for column in reading.tested:
        pages = piece.file.page_bounds(piece.group, column) if _is_bounded(piece.file.fragment, column) else None
        if pages is None or (firsts is not None and not np.array_equal(firsts, pages[0])):
            continue
        firsts, low, high = pages
        known = np.ones(len(firsts), np.bool_)
        unknown = np.full(len(firsts), -1)  # how many nulls a page has; no number of rows
        found[column.name] = ColumnBounds(low, high, known, unknown, np.zeros(len(firsts), np.int64))
    if firsts is None or reading.prune is None:
        return None
    keep = reading.prune.keeps_many(found.get, count=len(firsts))
    if np.count_nonzero(keep) > MOST_BLOCKS * len(keep):
        return None
    rows = np.repeat(keep, np.diff(firsts, append=piece.rows))
    return np.flatnonzero(rows) + piece.start


def as_mask(found: pa.ChunkedArray) -> NDArray[np.bool_]:
    """What a filter said, for numpy."""
    mask: NDArray[np.bool_] = found.to_numpy()
    return mask
