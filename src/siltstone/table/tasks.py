"""The tasks of a scan: a row group each, or several small fragments, or a whole one on a local disk.

What must hold:
- Tasks come in the order of the fragments, and of their files.
- Small fragments are tested together: evaluating a filter once costs as much as reading thousands of rows.
- Where the rows that are wanted are known beforehand, no task reads any behind them.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from siltstone.table import layout
from siltstone.table.local import can_read, count_matching, read_matching
from siltstone.table.masking import joined, masked
from siltstone.table.reading import Piece, Reading, as_mask, pieces, read_all, read_some, test, there
from siltstone.table.stream import Pace, Turn, in_order, pace_for

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from siltstone.format.rollup import Live
    from siltstone.format.table import Fragment
    from siltstone.table.files import FileLike
    from siltstone.table.vectors import Deleted

SMALL_ROWS = 16_384  # a fragment of at most so many rows and bytes is read whole, together with its neighbours
SMALL_BYTES = 1024 * 1024
TOGETHER_ROWS = 65_536
TOGETHER_FILES = 64
EVEN_FRAGMENTS = 8  # for each thread: with more, it hardly matters who ends last
UNEVEN_MAX = 1.15
MOST_ROWS = 0.5  # of a fragment: where fewer are left, pages without any are passed over
LOT_MAX = 64  # fragments that are looked into ahead of their turn
OPENED_TOGETHER = 8


@dataclass(frozen=True)
class GroupTask:
    """Reads one row group."""

    reading: Reading
    piece: Piece

    @property
    def nbytes(self) -> int:
        return self.reading.sizes.guess(self.piece.rows, self.piece.file.fragment)

    def run(self, turn: Turn) -> pa.Table:
        reading, piece = self.reading, self.piece
        if turn.stop.is_set():
            return reading.arrow.empty_table()
        table = read_all(reading, piece, turn) if reading.predicate is None else read_some(reading, piece, turn)
        reading.sizes.saw(table)
        return table


@dataclass(frozen=True)
class SmallTask:
    """Reads several small fragments."""

    reading: Reading
    lives: tuple[tuple[Live, Deleted | None], ...]

    @property
    def nbytes(self) -> int:
        return sum(self.reading.sizes.guess(live.fragment.rows, live.fragment) for live, _ in self.lives)

    def run(self, turn: Turn) -> pa.Table:
        reading = self.reading
        tables: list[pa.Table] = []
        keeps: list[NDArray[np.bool_]] = []
        for live, deleted in self.lives:
            if turn.stop.is_set():
                return reading.arrow.empty_table()
            file = reading.tools.files.open(live.fragment)
            tables += [file.read(group, reading.together) for group in range(len(file.groups))]
            keeps.append(np.ones(live.fragment.rows, np.bool_) if deleted is None else ~deleted.mask())
        table = joined(tables)
        keep = np.concatenate(keeps)
        if reading.predicate is not None:
            keep &= as_mask(reading.predicate.mask(table))
        if reading.most is not None:
            keep[np.flatnonzero(keep)[reading.most :]] = False
        table = masked(table.select(reading.names), keep)
        reading.sizes.saw(table)
        return table


@dataclass(frozen=True)
class WholeTask:
    """Reads the rows of a fragment that match, or all, of all of its row groups at once."""

    reading: Reading
    pieces: tuple[Piece, ...]

    @property
    def nbytes(self) -> int:
        return sum(GroupTask(self.reading, piece).nbytes for piece in self.pieces)

    def run(self, turn: Turn) -> pa.Table:
        reading, file = self.reading, self.pieces[0].file
        if turn.stop.is_set():
            return reading.arrow.empty_table()
        deleted = self.pieces[0].deleted
        keep = None if deleted is None else ~deleted.mask()
        found = read_matching(file, reading.predicate, fields=reading.fields, tested=reading.tested, keep=keep)
        if found is not None:
            return found
        return pa.concat_tables([GroupTask(reading, piece).run(turn) for piece in self.pieces])

    def count(self, turn: Turn) -> int:
        """How many match."""
        reading, file = self.reading, self.pieces[0].file
        predicate = reading.predicate
        found = count_matching(file, predicate, tested=reading.tested) if predicate is not None else None
        if found is not None:
            return found
        return sum(CountTask(GroupTask(reading, piece)).run(turn) for piece in self.pieces)


Task = GroupTask | SmallTask | WholeTask


@dataclass(frozen=True)
class CountTask:
    """Counts the rows that a task would read; it reads the columns that the filter tests alone."""

    task: Task

    @property
    def nbytes(self) -> int:
        return self.task.nbytes

    def run(self, turn: Turn) -> int:
        if isinstance(self.task, WholeTask):
            return self.task.count(turn)
        if isinstance(self.task, SmallTask) or self.task.reading.predicate is None:
            return int(self.task.run(turn).num_rows)
        return len(there(self.task.piece, test(self.task.reading, self.task.piece, turn, more=False)).numbers)


@dataclass(frozen=True)
class RowsTask:
    """Finds the numbers of the rows of a row group that match, deleted ones too."""

    reading: Reading
    piece: Piece

    @property
    def nbytes(self) -> int:
        return self.reading.sizes.guess(self.piece.rows, self.piece.file.fragment)

    def run(self, turn: Turn) -> NDArray[np.int64]:
        return test(self.reading, self.piece, turn, more=False).numbers


@dataclass(frozen=True)
class _Open:
    reading: Reading
    fragment: Fragment
    nbytes: int = 0

    def run(self, turn: Turn) -> FileLike:
        return self.reading.tools.files.open(self.fragment)


# -- which tasks there are -------------------------------------------------------------------------


def tasks(reading: Reading, lives: Sequence[Live]) -> Iterator[Task]:
    """The tasks that read some fragments, in their order. Files are opened when their turn comes near."""
    waiting: list[tuple[Live, Deleted | None]] = []
    left = reading.most if reading.predicate is None else None
    whole = _read_whole(reading, lives)
    for live, deleted, file in _looked_into(reading, lives if left is None else _first_rows(lives, left)):
        if waiting and (file is not None or _is_full(waiting, live)):
            yield SmallTask(reading, tuple(waiting))
            waiting = []
        if file is None:
            waiting.append((live, deleted))
            left = None if left is None else left - live.rows
            continue
        found = [piece for piece in pieces(reading, file, deleted) if piece.count_left()]
        if live.fragment.name in whole and len(found) == len(file.groups) and _is_whole(reading, live, found[0]):
            yield WholeTask(reading, tuple(found))
            continue
        for task in (GroupTask(reading, piece) for piece in found):
            if left is not None and left <= 0:
                break
            yield task
            left = None if left is None else left - task.piece.count_left()
    if waiting:
        yield SmallTask(reading, tuple(waiting))


def is_small(fragment: Fragment) -> bool:
    """Whether a fragment is read whole, together with others."""
    return fragment.rows <= SMALL_ROWS and fragment.bytes <= SMALL_BYTES


def _looked_into(reading: Reading, lives: Sequence[Live]) -> Iterator[tuple[Live, Deleted | None, FileLike | None]]:
    """Fragments with their deleted rows, and with their file where they are not small. The first come by themselves."""
    tools = reading.tools
    size, start = 1, 0
    while start < len(lives):
        lot = lives[start : start + size]
        deleted = tools.vectors.read_many([(live.vector, live.fragment) for live in lot if live.vector is not None])
        large = [live.fragment for live in lot if not is_small(live.fragment)]
        files: Iterator[FileLike]
        if not tools.store.traits.overlaps:
            files = map(tools.files.open, large)
        else:
            files = in_order((_Open(reading, one) for one in large), Pace(OPENED_TOGETHER))
        for live in lot:
            name = live.fragment.name
            yield live, deleted.get(name), None if is_small(live.fragment) else next(files)
        start += size
        size = min(LOT_MAX, size * 4)


def _read_whole(reading: Reading, lives: Sequence[Live]) -> frozenset[str]:
    """The fragments that may be read whole, by name: all that are not small, but for those that keep threads waiting.

    Those are read by row groups, which threads share.
    """
    if not reading.whole or reading.most is not None or not (reading.fields or reading.predicate):
        return frozenset()
    if not can_read(reading.tools, reading.predicate):
        return frozenset()
    threads = max(1, pace_for(reading.tools.store).threads)
    sizes = {live.fragment.name: live.fragment.rows for live in lives if not is_small(live.fragment)}
    shared: set[str] = set()
    while len(sizes) <= EVEN_FRAGMENTS * threads and _unevenness(sizes, shared, threads) > UNEVEN_MAX:
        left = [name for name in reversed(sizes) if name not in shared]
        most = max(left, key=sizes.__getitem__, default=None)  # of several, the last
        if most is None or sizes[most] <= layout.GROUP_ROWS:
            break
        shared.add(most)
    return frozenset(sizes.keys() - shared)


def _unevenness(sizes: Mapping[str, int], shared: Container[str], threads: int) -> float:
    """How much longer it takes than if every thread worked to the end: each takes the next piece when it is free."""
    busy = [0] * threads
    for name, rows in sizes.items():
        pieces_of_it = -(-rows // layout.GROUP_ROWS) if name in shared else 1
        for _ in range(pieces_of_it):
            heapq.heapreplace(busy, busy[0] + rows // pieces_of_it)
    return max(busy) * threads / max(1, sum(busy))


def _is_whole(reading: Reading, live: Live, piece: Piece) -> bool:
    """Whether most rows of a fragment are read, and whoever reads it whole need not know their numbers."""
    if piece.deleted is None:
        return not piece.narrow
    return reading.predicate is None and live.rows > MOST_ROWS * live.fragment.rows


def _first_rows(lives: Sequence[Live], rows: int) -> Sequence[Live]:
    """The first fragments, up to the one that has the last of so many rows."""
    for number, live in enumerate(lives):
        if rows <= 0:
            return lives[:number]
        rows -= live.rows
    return lives


def _is_full(waiting: Sequence[tuple[Live, Deleted | None]], following: Live) -> bool:
    rows = sum(live.fragment.rows for live, _ in waiting)
    return rows + following.fragment.rows > TOGETHER_ROWS or len(waiting) >= TOGETHER_FILES
