"""Scans of a table with its shards, which may let go of what is being read.

What must hold:
- Fragments of a shard stay for a while after they were merged. Whoever meets one that is gone looks again, as long as
  no row was handed out; afterwards the caller is told, and no row comes twice or is left out.
- A fragment that a shard still names, and that is gone, is damage and told as such.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from siltstone.errors import MissingObjectError, TruncatedError
from siltstone.table.scan import Scan
from siltstone.table.source import TableSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from siltstone.format.rollup import Live
    from siltstone.table.prune import Prune
    from siltstone.table.state import State
    from siltstone.table.stream import Pace
    from siltstone.table.tools import Tools

T = TypeVar("T")


class View(NamedTuple):
    """A table with its shards, as they were at one moment.

    ``is_let_go`` says of an error that it was met since a shard, whose rows are in the table by now, let go of them.
    """

    tools: Tools
    state: State
    is_let_go: Callable[[MissingObjectError], bool]

    def told(self, error: MissingObjectError) -> MissingObjectError | TruncatedError:
        """What a caller who has rows already is told."""
        if not self.is_let_go(error):
            return error
        return TruncatedError(
            "rows that were being read fresh have been merged since, and their shard let go of them",
            hint="read again: they are in the table",
            **error.facts,
        )


class FreshScan(Scan):
    """A scan that looks again where a shard let go of what it was to read, unless somebody has rows of it."""

    def __init__(
        self, look: Callable[[], View], *, columns: Sequence[str] | None, where: str | None, limit: int | None
    ) -> None:
        self._look = look
        self._view = view = look()
        self._shown = False  # whether somebody has rows
        super().__init__(view.tools, view.state, columns=columns, where=where, limit=limit)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in batches, as of any scan. Raises TruncatedError where a shard let go of what is being read."""
        found = self._again(lambda: _begun(super(FreshScan, self).to_batches()))
        if found is None:
            return
        first, rest = found
        self._shown = True
        yield first
        try:
            yield from rest
        except MissingObjectError as error:
            raise self._view.told(error) from error

    def to_arrow(self) -> pa.Table:
        """All rows in memory."""
        found = self._again(super().to_arrow)
        self._shown = True
        return found

    def count(self) -> int:
        """How many rows there are. Without a filter nothing is read."""
        return self._again(super().count)

    def explain(self) -> str:
        """What is read and what is ruled out, for people."""
        return self._again(super().explain)

    def _again(self, call: Callable[[], T]) -> T:
        """``call``, and again with what is there now where a shard let go of something."""
        for _ in self._tools.env.tries():
            try:
                return call()
            except MissingObjectError as error:
                failed = self._view.told(error)
                if isinstance(failed, MissingObjectError):
                    raise
                now = self._look()
                if self._shown or now.state.schema != self._state.schema:
                    raise failed from error
                self._view, self._tools, self._state = now, now.tools, now.state
        raise failed


@dataclass(frozen=True)
class FreshSource(TableSource):
    """Rows for SQL of a table with its shards."""

    view: View

    def _read(
        self, columns: Sequence[str], *, lives: Sequence[Live], where: Prune | None, pace: Pace
    ) -> Iterator[pa.RecordBatch]:
        try:
            yield from super()._read(columns, lives=lives, where=where, pace=pace)
        except MissingObjectError as error:
            raise self.view.told(error) from error


def _begun(batches: Iterator[pa.RecordBatch]) -> tuple[pa.RecordBatch, Iterator[pa.RecordBatch]] | None:
    """The first of some batches, and the others; None where there are none."""
    first = next(batches, None)
    return None if first is None else (first, batches)
