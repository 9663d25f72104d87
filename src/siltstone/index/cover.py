"""A version of a table as a search sees it: its rows numbered, and for a column the parts that have their words.

What must hold:
- Every row of the version is a living document of exactly one part: of a segment, or of its fragment, which is read
  where no segment has it. Rows that are deleted are documents that are not alive.
- A row's number is its place in the files of the version, fragment after fragment, deleted rows counted. Rows that are
  in memory alone are counted as they came, so that what came later changes no number.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from siltstone import paths
from siltstone.errors import CorruptionError, InternalError
from siltstone.index.build import read_marker
from siltstone.index.cache import Cache
from siltstone.index.growing import Growing, Warm
from siltstone.index.making import postings_in_chunks
from siltstone.index.match import Live
from siltstone.index.part_read import StoredPart
from siltstone.index.statistics import Column
from siltstone.index.unindexed import Kept, UnindexedPart
from siltstone.locks import ForkLock
from siltstone.table.few import joined
from siltstone.table.files import FragmentFile
from siltstone.table.memory_file import MemoryFile
from siltstone.table.overlay import store_of
from siltstone.table.reading import chosen_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from siltstone.format.rollup import Live as LiveFragment
    from siltstone.format.table import Field, Fragment
    from siltstone.format.text import Analyzer, Marker, PartFile, Segment
    from siltstone.store.base import Store
    from siltstone.table.few import Cells
    from siltstone.table.files import FileLike
    from siltstone.table.memory_file import Came
    from siltstone.table.state import State
    from siltstone.table.tools import Tools
    from siltstone.table.vectors import Deleted

MARKERS_MAX = 1024
UNINDEXED_MAX = 10_000
FRESH_MAX = 64
NUMBERED_MAX = 4  # versions
SCORED_BYTES = 128 * 1024 * 1024
THREADS = 16
FEW_ROWS = 64  # of a fragment, or in all: what is read for them is kept
_ZERO = np.zeros(1, np.int64)

T = TypeVar("T")


class Numbered:
    """The rows of a version, by number."""

    def __init__(self, tools: Tools, state: State) -> None:
        self.tools = tools
        self.state = state
        self.columns: dict[Hashable, Column] = {}  # what ``Covers`` made of it
        self.lives: list[LiveFragment] = state.fragments.select(None)
        self.came = {place: came for place, live in enumerate(self.lives) if (came := came_of(tools, live.fragment))}
        sizes = np.array([live.fragment.rows for live in self.lives], np.int64)
        for place, came in self.came.items():
            sizes[place] = sum(one.num_rows for one in came.chunks)
        self.bases = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))

    @property
    def rows(self) -> int:
        """How many numbers there are."""
        return int(self.bases[-1])

    @cached_property
    def by_name(self) -> Mapping[str, int]:
        """The place of a fragment, by its name in the table that it is in."""
        return {paths.bare(live.fragment.name): place for place, live in enumerate(self.lives)}

    @cached_property
    def deleted(self) -> Mapping[str, Deleted]:
        """The rows of fragments that are gone, by name."""
        pairs = [(live.vector, live.fragment) for live in self.lives if live.vector is not None]
        return self.tools.vectors.read_many(pairs) if pairs else {}

    def take(self, rows: NDArray[np.int64], fields: tuple[Field, ...]) -> pa.Table:
        """Columns of some rows, which are distinct, in the order asked for. Each fragment is asked once."""
        found = self._take_few(rows, fields) if 0 < len(rows) <= FEW_ROWS and fields else None
        return self._take_many(rows, fields) if found is None else found

    def _take_few(self, rows: NDArray[np.int64], fields: tuple[Field, ...]) -> pa.Table | None:
        """What ``take`` gives, put together of single values; None where a fragment can't give them."""
        places = (np.searchsorted(self.bases, rows, "right") - 1).tolist()
        wanted: dict[int, list[int]] = {}  # which of the rows are of a fragment
        for number, place in enumerate(places):
            wanted.setdefault(place, []).append(number)
        if not self.came.keys().isdisjoint(wanted):
            return None
        inside = (rows - self.bases[places]).tolist()

        def read(place: int) -> Cells | None:
            file = self.tools.files.open(self.lives[place].fragment)
            if not isinstance(file, FragmentFile):
                return None
            return file.cells([inside[number] for number in wanted[place]], fields)

        cells: Cells = [[None] * len(rows) for _ in fields]
        for place, found in zip(wanted, self._each(read, list(wanted)), strict=True):
            if found is None:
                return None
            for column, values in zip(cells, found, strict=True):
                for number, value in zip(wanted[place], values, strict=True):
                    column[number] = value
        return joined(cells, chosen_schema(fields))

    def _each(self, read: Callable[[int], T], places: Sequence[int]) -> list[T]:
        """What is read of fragments, at the same time where the store is far away."""
        if len(places) < 2 or not self.tools.store.traits.overlaps:
            return [read(place) for place in places]
        with ThreadPoolExecutor(min(THREADS, len(places)), thread_name_prefix="siltstone-rows") as pool:
            return list(pool.map(read, places))

    def _take_many(self, rows: NDArray[np.int64], fields: tuple[Field, ...]) -> pa.Table:
        order = np.argsort(rows)
        ascending = rows[order]
        edges = np.searchsorted(ascending, self.bases)
        hit = np.flatnonzero(np.diff(edges)).tolist()

        def read(place: int) -> pa.Table:
            numbers = ascending[edges[place] : edges[place + 1]] - self.bases[place]
            file = self.tools.files.open(self.lives[place].fragment)
            came = self.came.get(place)
            if came is not None:
                return _take_came(file, came, numbers, fields)
            if len(numbers) <= FEW_ROWS and isinstance(file, FragmentFile):
                return file.take_few(numbers, fields)
            return file.take(numbers, fields)

        tables = self._each(read, hit)
        if not tables:
            return chosen_schema(fields).empty_table()
        table = pa.concat_tables(tables) if len(tables) > 1 else tables[0]
        if len(rows) < 2 or (np.diff(order) > 0).all():
            return table
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return table.take(pa.array(back))


class Covers:
    """Parts of a table's indexes, and what was read of them. One for each handle; threads may share it."""

    def __init__(self) -> None:
        self._lock = ForkLock()
        self._markers: dict[str, Marker] = {}
        self._parts: dict[tuple[str, str], StoredPart] = {}
        self._unindexed: OrderedDict[Hashable, UnindexedPart] = OrderedDict()
        self._fresh: OrderedDict[Hashable, UnindexedPart] = OrderedDict()
        self._cache: Cache[object] = Cache()
        self._scored: Cache[object] = Cache(SCORED_BYTES)
        self._kept = Kept()
        self._warm: dict[tuple[str, Analyzer], Warm] = {}
        self._numbered: deque[Numbered] = deque(maxlen=NUMBERED_MAX)

    def marker(self, store: Store, segment: Segment) -> Marker:
        """The marker of a segment."""
        with self._lock:
            found = self._markers.get(segment.build)
        if found is None:
            found = read_marker(store, segment)
            with self._lock:
                if len(self._markers) >= MARKERS_MAX:
                    self._markers.clear()
                    self._parts.clear()
                self._markers[segment.build] = found
        return found

    def numbered(self, tools: Tools, state: State) -> Numbered:
        """The rows of a version. Who searches it again finds what was found out about it."""
        with self._lock:
            for one in self._numbered:
                if one.state is state and one.tools is tools:
                    return one
        made = Numbered(tools, state)
        with self._lock:
            self._numbered.append(made)
        return made

    def column(self, numbered: Numbered, field: Field, analyzer: Analyzer, segments: Sequence[Segment]) -> Column:
        """The parts of a column that a version's rows are in; what no segment has is read when it is searched."""
        key = field.id, analyzer, tuple(segments)
        with self._lock:
            found = numbered.columns.get(key)
        if found is None:
            found = self._column(numbered, field, analyzer, segments)
            with self._lock:
                found = numbered.columns.setdefault(key, found)
        return found

    def _column(self, numbered: Numbered, field: Field, analyzer: Analyzer, segments: Sequence[Segment]) -> Column:
        lives, seen = [], np.zeros(len(numbered.lives), np.bool_)
        store = numbered.tools.store
        for segment, marker in zip(segments, self._read(store, segments), strict=True):
            if marker.field != field.id or marker.analyzer != analyzer:
                raise CorruptionError(f"build {segment.build} is of another column or analyzer than its index")
            for part in marker.parts:
                live = self._covered(numbered, segment, part, seen)
                if live is not None:
                    lives.append(live)
            _see(numbered, marker, seen)
        for place in np.flatnonzero(~seen).tolist():
            came = numbered.came.get(place)
            if came is None:
                lives.append(self._uncovered(numbered, place, field, analyzer))
            else:
                lives += _growing(came, int(numbered.bases[place]), self.warm(field, analyzer))
        return Column(lives, analyzer, cache=self._scored)

    def warm(self, field: Field, analyzer: Analyzer) -> Warm:
        """What is indexed of rows in memory as they come."""
        with self._lock:
            return self._warm.setdefault((field.name, analyzer), Warm(field.name, analyzer))

    def _read(self, store: Store, segments: Sequence[Segment]) -> list[Marker]:
        if len(segments) < 2 or not store.traits.overlaps:
            return [self.marker(store, one) for one in segments]
        with ThreadPoolExecutor(min(THREADS, len(segments)), thread_name_prefix="siltstone-markers") as pool:
            return list(pool.map(partial(self.marker, store), segments))

    def _covered(self, numbered: Numbered, segment: Segment, part: PartFile, seen: NDArray[np.bool_]) -> Live | None:
        """A part of a segment, with what of it is alive; None where nothing is."""
        rows = np.array([one.rows for one in part.fragments], np.int64)
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(rows)))
        if starts[-1] != part.documents:
            raise CorruptionError(f"{part.name} of build {segment.build} has other fragments than documents")
        bases = np.zeros(len(rows), np.int64)
        alive: NDArray[np.bool_] | None = None
        there = False
        for number, one in enumerate(part.fragments):
            place = numbered.by_name.get(paths.bare(one.name))
            here = slice(int(starts[number]), int(starts[number + 1]))
            if place is None or seen[place]:
                alive = np.ones(part.documents, np.bool_) if alive is None else alive
                alive[here] = False
                continue
            live, there = numbered.lives[place], True
            if one.first + one.rows > live.fragment.rows:
                raise CorruptionError(f"build {segment.build} has more rows of {one.name} than there are")
            bases[number] = numbered.bases[place] + one.first
            gone = numbered.deleted.get(live.fragment.name)
            if gone is not None:
                alive = np.ones(part.documents, np.bool_) if alive is None else alive
                alive[here] = ~gone.mask()[one.first : one.first + one.rows]
        if not there:
            return None
        return Live(self._stored(numbered.tools.store, segment, part), alive, starts[:-1], bases)

    def _stored(self, store: Store, segment: Segment, part: PartFile) -> StoredPart:
        key = segment.build, part.name
        with self._lock:
            found = self._parts.get(key)
            if found is None:
                found = self._parts[key] = StoredPart(store, paths.index(segment.build, part.name), part, self._cache)
            return found

    def _uncovered(self, numbered: Numbered, place: int, field: Field, analyzer: Analyzer) -> Live:
        live = numbered.lives[place]
        fragment = live.fragment
        key = fragment.name, fragment.sha256, field.id, analyzer
        # What is in memory alone is held by its part: rows that were flushed since must not stay.
        parts, most = (
            (self._fresh, FRESH_MAX) if store_of(numbered.tools, fragment) is None else (self._unindexed, UNINDEXED_MAX)
        )
        with self._lock:
            part = parts.get(key)
            if part is None:
                chunks = partial(postings_in_chunks, numbered.tools, fragment, field, analyzer)
                part = parts[key] = UnindexedPart(key, fragment.rows, chunks, self._kept)
            parts.move_to_end(key)
            while len(parts) > most:
                parts.popitem(last=False)
        gone = numbered.deleted.get(fragment.name)
        alive = None if gone is None else ~gone.mask()
        return Live(part, alive, np.zeros(1, np.int64), numbered.bases[place : place + 1])


def came_of(tools: Tools, fragment: Fragment) -> Came | None:
    """How the rows of a fragment came, where it is in memory."""
    if store_of(tools, fragment) is not None:
        return None
    file = tools.files.open(fragment)
    return file.came if isinstance(file, MemoryFile) else None


def _growing(came: Came, base: int, warm: Warm) -> list[Live]:
    """Rows in memory: each chunk of them was indexed once, also where rows behind it took its rows' place since."""
    key = "text", warm.column, warm.analyzer
    parts = came.kept.setdefault(key, Growing(warm))
    if not isinstance(parts, Growing):
        raise InternalError(f"{key} is kept twice")
    alive = np.zeros(sum(one.num_rows for one in came.chunks), np.bool_)
    alive[came.places] = True
    lives = []
    for run in parts.runs(came.chunks):
        there = alive[run.first : run.first + run.part.documents]
        if len(there) < run.part.documents:  # it goes beyond
            there = np.concatenate((there, np.zeros(run.part.documents - len(there), np.bool_)))
        if there.any():
            whole = bool(there.all())
            lives.append(Live(run.part, None if whole else there, _ZERO, np.array([base + run.first], np.int64)))
    return lives


def _take_came(file: FileLike, came: Came, numbers: NDArray[np.int64], fields: tuple[Field, ...]) -> pa.Table:
    """Rows by their places among all that came, which ascend; the file has them in another order."""
    by_place = np.argsort(came.places)
    rows = by_place[np.searchsorted(came.places, numbers, sorter=by_place)]
    order = np.argsort(rows)
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return file.take(rows[order], fields).take(pa.array(back))


def _see(numbered: Numbered, marker: Marker, seen: NDArray[np.bool_]) -> None:
    """Note which fragments a segment covers; each must be there whole."""
    rows: dict[int, int] = {}
    for part in marker.parts:
        for one in part.fragments:
            place = numbered.by_name.get(paths.bare(one.name))
            if place is not None and not seen[place]:
                rows[place] = rows.get(place, 0) + one.rows
    for place, count in rows.items():
        if count != numbered.lives[place].fragment.rows:
            name = numbered.lives[place].fragment.name
            raise CorruptionError(f"build {marker.build} has {count} rows of fragment {name}, which has others")
        seen[place] = True
