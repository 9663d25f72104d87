"""A build of a text index that several processes work on: items, the end, and the version that it becomes.

What must hold:
- Each call may be made again, by anyone who has the build's name, also after a crash. An index never becomes part of
  the table before all of its items are done, and becomes part of it once, also where it was dropped since.
- A build whose version was collected is refused: its files may be gone.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import msgspec

from siltstone import paths
from siltstone.errors import (
    ConflictError,
    CorruptionError,
    InvalidInputError,
    NotFoundError,
    TruncatedError,
    UnfinishedError,
)
from siltstone.format.text import ITEMS_MAX, TextIndex
from siltstone.index.making import Maker
from siltstone.index.operations import AddIndex, ReplaceSegments
from siltstone.table import arguments
from siltstone.table.group import Request
from siltstone.table.once import Once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from siltstone.format.text import Marker, Segment, Staged
    from siltstone.index.build import Build, Finished
    from siltstone.index.cover import Covers
    from siltstone.table.history import History
    from siltstone.table.state import State
    from siltstone.table.tools import Tools
    from siltstone.table.versions import Version

THREADS_MAX = 1024


class Handle(Protocol):
    """What a build asks of its table's handle."""

    _own_tools: Tools
    _history: History
    _covers: Covers

    def _looked(self) -> State: ...

    def _commit(self, request: Request) -> Version: ...


class IndexBuild:
    """A build: ``run`` each item, anywhere and as often as need be, then ``commit`` it, once or several times.

    Its ``name`` is all that another process needs: ``table.index_build(name)``.
    """

    def __init__(self, table: Handle, build: Build) -> None:
        self._table = table
        self._build = build

    @property
    def name(self) -> str:
        """What the build is called."""
        return self._build.name

    @property
    def items(self) -> int:
        """How many items there are, with numbers from 0 on."""
        return len(self._build.plan.items)

    @property
    def rows(self) -> int:
        """How many rows they have."""
        return sum(one.rows for item in self._build.plan.items for one in item.fragments)

    def missing(self) -> list[int]:
        """Items that nobody has finished."""
        with still_there(self._table, self._build.plan.version):
            return self._build.missing()

    def run(self, item: int, *, progress: Callable[[int], None] | None = None, threads: int = 0) -> Staged:
        """Do an item and stage what came of it; what counts is returned, which may be what another one made.

        ``progress`` is told the rows that were indexed since it was told last. ``threads``: 0 for all processors.
        """
        if type(item) is not int or not 0 <= item < self.items:
            raise InvalidInputError(
                f"item must be a whole number below {self.items}, got {arguments.shown_object(item)}",
                hint="missing() says which ones are left to do",
            )
        _check_threads(threads)
        arguments.check_progress(progress)
        with still_there(self._table, self._build.plan.version):
            there = self._build.staged().get(item)
            if there is not None:
                return there
            return self._build.stage(item, self._maker(threads).make(item, done=progress))

    def finalize(self, progress: Callable[[str, int, int], None] | None = None) -> Finished:
        """Copy what counts to its final names and write the marker; the table does not name it yet.

        Raises:
            UnfinishedError: items are missing; their fragments are named.
        """
        arguments.check_progress(progress)
        with still_there(self._table, self._build.plan.version):
            return self._build.finalize(progress)

    def commit(self, progress: Callable[[str, int, int], None] | None = None) -> Version:
        """Finalize, and make the index, or its new segment, part of the table.

        Raises UnfinishedError (items are missing), ConflictError (another build took over the same segments, the column
        was dropped, or the version that it was begun on was collected), AlreadyExistsError (another index has the name
        by now), NotFoundError (the index was dropped).
        """
        plan, done = self._build.plan, self.finalize(progress)
        index = TextIndex(id=plan.index, field=plan.field, analyzer=plan.analyzer)
        work: AddIndex | ReplaceSegments
        if plan.new:
            segments = (done.segment,) if done.segment.parts else ()
            work = AddIndex(plan.name, msgspec.structs.replace(index, segments=segments))
        else:
            work = ReplaceSegments(plan.name, index, add=done, remove=plan.replaces, marker_of=self._marker_of)
        return self._table._commit(Request((work,), plan.version, Once(id=f"index {plan.build}")))  # noqa: SLF001

    def run_all(self, progress: Callable[[str, int, int], None] | None = None) -> Version:
        """Do all items that are missing, one after the other, and commit."""
        arguments.check_progress(progress)
        items, left = self._build.plan.items, self.missing()
        total = self.rows
        rows = total - sum(one.rows for item in left for one in items[item].fragments)

        def told(count: int) -> None:
            nonlocal rows
            rows += count
            if progress is not None:
                progress("index", rows, total)

        with still_there(self._table, self._build.plan.version):
            maker = self._maker(0)
            for item in left:
                self._build.stage(item, maker.make(item, done=told))
        return self.commit(progress)

    def _marker_of(self, segment: Segment) -> Marker:
        return self._table._covers.marker(self._table._own_tools.store, segment)  # noqa: SLF001

    def _maker(self, threads: int) -> Maker:
        table, plan = self._table, self._build.plan
        state = table._looked()  # noqa: SLF001
        if state.version != plan.version:
            state = table._history.at(plan.version)  # noqa: SLF001
        return Maker(table._own_tools, state, plan, threads=threads)  # noqa: SLF001

    def __repr__(self) -> str:
        return f"IndexBuild({self.name}, {self.items} items)"


@contextmanager
def still_there(table: Handle, version: int) -> Iterator[None]:
    """Say of what is gone that it was collected, with the version that its build was begun on, where that is so."""
    try:
        yield
    except (CorruptionError, NotFoundError, TruncatedError, UnfinishedError) as error:
        # A log that was collected looks as if items were missing; or damaged, where a late entry got an empty place.
        floor = table._looked().floor  # noqa: SLF001
        if version >= floor:
            raise
        raise ConflictError(
            f"the build was begun on version {version}, and versions below {floor} were collected since",
            hint="nothing was changed; begin it again, and collect with a longer keep_days= where it takes so long",
            version=version,
            floor=floor,
        ) from error


def begun_on(name: object) -> int:
    """The version that a build was begun on, by its name."""
    found = paths.parse_name(name) if isinstance(name, str) else None
    if found is None:
        raise InvalidInputError(
            f"{arguments.shown_object(name)} is no name of a build", hint="IndexBuild.name says how a build is called"
        )
    return found[0]


def _check_threads(threads: object) -> None:
    if type(threads) is not int or not 0 <= threads <= THREADS_MAX:
        raise InvalidInputError(
            f"threads must be a whole number from 0 to {THREADS_MAX}, got {arguments.shown_object(threads)}",
            hint="0 is for all processors",
        )


def check_items(items: object) -> int:
    """How many items there should be at least."""
    if type(items) is not int or not 1 <= items <= ITEMS_MAX:
        raise InvalidInputError(
            f"items must be a whole number from 1 to {ITEMS_MAX}, got {arguments.shown_object(items)}",
            hint="leave it out for one",
        )
    return items
