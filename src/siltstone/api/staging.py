"""A version that many processes prepare and one commits: what the handle of a table gives them, and takes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.errors import InvalidInputError
from siltstone.table import arguments
from siltstone.table.group import Request
from siltstone.table.once import ANYTIME, Once
from siltstone.table.staged import Site

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.api.table import Table
    from siltstone.table.operations import Work
    from siltstone.table.state import State
    from siltstone.table.tools import Tools
    from siltstone.table.versions import Version


class Staging:
    """A version under preparation. Nothing is locked: others go on, and ``commit`` works what they did in."""

    def __init__(self, table: Table, *, once: Once = ANYTIME, message: str = "") -> None:
        if table.uri.startswith("memory:"):
            raise InvalidInputError(
                f"{table.uri} is in the memory of this process, which no other can reach",
                hint="use a table on a disk or in an object store",
            )
        self._table = table
        self._once = once
        self._message = arguments.check_message(message)
        self.state: State = table._now()  # noqa: SLF001 - the same package's
        self.tools: Tools = table._own_tools  # noqa: SLF001

    @property
    def site(self) -> Site:
        """What processes need; it pickles."""
        return Site(self.tools.store, self.state.schema, self.state.version)

    @property
    def applied(self) -> bool:
        """Whether the same was committed before, so that there is nothing to do."""
        return self._once.applied(self.state) is not None

    def commit(self, works: Sequence[Work]) -> Version:
        """Make a version of operations whose work was done."""
        request = Request(works, self.state.version, self._once, self._message)
        return self._table._commit(request)  # noqa: SLF001
