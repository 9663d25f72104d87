"""The change feed: which rows each version brought, took away or replaced.

What must hold:
- Applied to the rows of version ``since`` in its order, the feed gives exactly the rows of version ``until``.
- A version's deletes come before its inserts; in a keyed table a key that is in both is an update, also where the
  row is the same as before.
- A version that only rewrote files (a compaction) changed no row; a restore changed those rows that are not in the
  same file before and after it.
- Only rows that changed are read, and their keys first where deletes and inserts meet. Memory is bounded by what is in
  flight, and by a bit for each changed row of one version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from siltstone.errors import InvalidInputError, TruncatedError
from siltstone.table.arguments import check_version
from siltstone.table.changes_rows import Feed, changed
from siltstone.table.operations import check_kept
from siltstone.table.output import Output, in_batches
from siltstone.table.scan import chosen_fields
from siltstone.table.schema import arrow_type, first_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from siltstone.format.table import Change, Schema
    from siltstone.table.history import History
    from siltstone.table.state import State
    from siltstone.table.tools import Tools

STEPS_TOGETHER = 512  # versions whose entries are held at once


class Changes(Output):
    """What ``table.changes()`` returns: rows with ``_change`` and ``_version`` behind their columns.

    ``_change`` is insert, delete, update_before or update_after. Columns are those of version ``until``, unless
    ``schema`` has those of another one.
    """

    def __init__(
        self,
        tools: Tools,
        history: History,
        state: State,
        *,
        since: int,
        until: int | None = None,
        columns: Sequence[str] | None = None,
        schema: Schema | None = None,
    ) -> None:
        newest = state.version
        last = newest if until is None else check_version(until, newest=newest, what="until")
        first = check_version(since, newest=newest, what="since")
        if first > last:
            raise InvalidInputError(
                f"since must not be after until, got {first} and {last}",
                hint="changes are those after version since, up to version until",
            )
        _check_known(state, since=first, until=last)
        self._tools = tools
        self._history = history
        self._end = state if last == newest else history.at(last)
        self._start = self._end if first == last else history.at(first)
        self._schema = schema or self._end.schema
        self._fields = chosen_fields(self._schema, columns)

    @property
    def since(self) -> int:
        """The version that the changes start from."""
        return self._start.version

    @property
    def until(self) -> int:
        """The last version whose changes are read."""
        return self._end.version

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows, with ``_change`` and ``_version``."""
        return pa.schema(
            [
                *(pa.field(one.name, arrow_type(one), nullable=one.nullable) for one in self._fields),
                pa.field("_change", pa.string(), nullable=False),
                pa.field("_version", pa.int64(), nullable=False),
            ]
        )

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in batches, version by version.

        Raises TruncatedError (a version was collected meanwhile), CorruptionError and MissingObjectError (the error
        names the file), InvalidInputError (a column was made narrower since, and a value does not fit).
        """
        feed = Feed(self._tools, self._schema, self._fields, self.schema)
        return in_batches(feed.rows(self._steps()))

    def _steps(self) -> Iterator[tuple[Change, State, State]]:
        """The changes between the two versions, each with the states before and after it."""
        state, end = self._start, self._end.mark.position
        while state.mark.position < end:
            until = min(end, state.mark.position + STEPS_TOGETHER)
            for step in self._history.steps(state.mark, until=until):
                before, state = state, state.step(step)
                if step.change is not None and changed(step.change):
                    yield step.change, before, state

    def __repr__(self) -> str:
        names = first_names([one.name for one in self._fields]).replace("'", "")
        return f"Changes(versions {self.since + 1} to {self.until}, {names})"


def _check_known(state: State, *, since: int, until: int) -> None:
    """Raise TruncatedError unless all versions between two are kept: what one did is told by its files."""
    check_kept(state, since)
    if since < state.floor and since < until:
        raise TruncatedError(
            f"what changed after version {since} is not known any more: versions below {state.floor} were collected",
            hint=f"read the rows of a version from {state.floor} on, and then what changed since",
            version=since,
            floor=state.floor,
        )
