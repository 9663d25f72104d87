"""A version that many processes prepare and one commits: what the handle of a table gives them, and takes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.errors import InvalidInputError
from siltstone.table import arguments
from siltstone.table.changes import Changes
from siltstone.table.group import Request
from siltstone.table.once import ANYTIME, Once
from siltstone.table.staged import Site

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.api.table import Table
    from siltstone.format.table import Schema
    from siltstone.table.operations import Work
    from siltstone.table.state import State
    from siltstone.table.tools import Tools
    from siltstone.table.versions import Version


class Staging:
    """A version under preparation. Nothing is locked: others go on, and ``commit`` works what they did in."""

    def __init__(self, table: Table, *, once: Once = ANYTIME, message: str = "", reads: bool = False) -> None:
        if not reads:
            table._check_writable()  # noqa: SLF001 - the same package's; better now than behind a job
        if table.uri.startswith("memory:"):
            raise InvalidInputError(
                f"{table.uri} is in the memory of this process, which no other can reach",
                hint="use a table on a disk or in an object store",
            )
        self._table = table
        self._once = once
        self._message = arguments.check_message(message)
        self.state: State = table._now()  # noqa: SLF001
        self.tools: Tools = table._plain_tools  # noqa: SLF001

    @property
    def site(self) -> Site:
        """What processes need; it pickles."""
        return Site(self.tools.store, self.state.schema, self.state.version, self.log)

    @property
    def log(self) -> str:
        """The id of the table's log."""
        return self._table._log.identity.log  # noqa: SLF001

    @property
    def applied(self) -> bool:
        """Whether the same was committed before, so that there is nothing to do."""
        return self._once.applied(self.state) is not None

    def applied_as(self, operation: str) -> bool:
        """The same; refuses an id that another kind of operation has."""
        return self._once.applied_as(self.state, operation) is not None

    def commit(self, works: Sequence[Work]) -> Version:
        """Make a version of operations whose work was done."""
        request = Request(works, self.state.version, self._once, self._message)
        return self._table._commit(request)  # noqa: SLF001

    def changes(self, since: int, until: int, columns: Schema) -> Changes:
        """What versions did to rows, as columns that may be those of another version."""
        history = self._table._history  # noqa: SLF001
        return Changes(self.tools, history, self.state, since=since, until=until, schema=columns)
