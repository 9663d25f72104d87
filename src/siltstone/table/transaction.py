"""Writing to a table: one operation at a time, or several collected into one version.

What must hold:
- Bad input is told by the call that brings it, and leaves the table and the transaction as they were.
- What a transaction writes before its end is named by nothing; ended by an exception, it never was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

from siltstone.errors import ClosedError, InvalidInputError
from siltstone.table import arguments, evolve
from siltstone.table.inserts import write_rows
from siltstone.table.operations import Append, Columns, Delete, Overwrite, Settings, Upsert
from siltstone.table.update import Update
from siltstone.telemetry.seams import traced

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from siltstone.format.table import Schema
    from siltstone.table.inserts import Inserted, Twice
    from siltstone.table.once import Once
    from siltstone.table.operations import Work
    from siltstone.table.state import State
    from siltstone.table.tools import Tools
    from siltstone.table.versions import Version


class Operations(ABC):
    """What can be done to the rows, columns and settings of a table."""

    @traced("siltstone.append")
    def append(self, data: object) -> Version | None:
        """Add rows; in a keyed table none of their keys may be there.

        ``data`` is an Arrow table, batch or reader, a pandas or polars frame, a list of dicts, or an iterable of
        such. Raises SchemaMismatchError, DuplicateKeyError.
        """
        return self._run(
            lambda: Append(self._written(data, twice="refuse"), columns_from=self._ids), data=data, kind="append"
        )

    @traced("siltstone.upsert")
    def upsert(self, data: object) -> Version | None:
        """Add rows, in the place of those with the same keys; of rows given twice the last one counts."""

        def make() -> Work:
            if not self._schema.key:
                raise InvalidInputError("upsert needs a key, and this table has none", hint="create it with key=")
            return Upsert(self._written(data, twice="last wins"), columns_from=self._ids)

        return self._run(make, data=data, kind="upsert")

    @traced("siltstone.overwrite")
    def overwrite(self, data: object) -> Version | None:
        """Add rows in the place of all that are there."""
        return self._run(
            lambda: Overwrite(self._written(data, twice="refuse"), columns_from=self._ids), data=data, kind="overwrite"
        )

    @traced("siltstone.delete")
    def delete(self, where: str | None) -> Version | None:
        """Delete the rows that match a SQL condition; None deletes all."""
        return self._run(lambda: Delete(arguments.check_where(where), self._schema), kind="delete")

    @traced("siltstone.update")
    def update(self, values: Mapping[str, str], where: str | None = None) -> Version | None:
        """Give columns new values (SQL expressions) in the rows that match a condition."""

        def make() -> Work:
            checked = arguments.check_values(values)
            return Update(checked, arguments.check_where(where), self._schema, base=self._begun.version)

        return self._run(make, kind="update")

    def add_column(
        self, column: pa.Field | str, kind: pa.DataType | None = None, *, default: object = None
    ) -> Version | None:
        """Add a column, given as a field or as name and type. In rows that are there it is ``default``, or null."""
        field = arguments.as_field(column, kind)
        return self._run(lambda: self._evolved(lambda schema: evolve.add_column(schema, field, default)))

    def drop_column(self, name: str) -> Version | None:
        """Drop a column; a later one of the same name is another one."""
        return self._run(lambda: self._evolved(lambda schema: evolve.drop_column(schema, name)))

    def rename_column(self, name: str, to: str) -> Version | None:
        """Rename a column."""
        return self._run(lambda: self._evolved(lambda schema: evolve.rename_column(schema, name, to=to)))

    def widen_column(self, name: str, to: pa.DataType | None = None, *, nullable: bool = False) -> Version | None:
        """Give a column a type that holds all values of the old one, or let it hold nulls."""
        arguments.check_flag(nullable, "nullable")
        return self._run(lambda: self._evolved(lambda schema: evolve.widen_column(schema, name, to, nullable=nullable)))

    def set(self, settings: Mapping[str, str | None]) -> Version | None:
        """Change settings; None removes one."""
        return self._run(lambda: Settings(arguments.check_settings(settings)))

    def _written(self, data: object, *, twice: Twice) -> Inserted:
        return write_rows(self._tools, self._schema, data, base=self._begun.version, twice=twice)

    def _evolved(self, change: Callable[[Schema], Schema]) -> Work:
        change(self._schema)  # bad input is told at once
        return Columns(change)

    @property
    def _ids(self) -> int:
        """Field ids from here on were given by the transaction itself."""
        return self._begun.schema.next_id

    @property
    @abstractmethod
    def _tools(self) -> Tools: ...

    @property
    @abstractmethod
    def _begun(self) -> State:
        """The version that the next operation starts from."""

    @property
    @abstractmethod
    def _schema(self) -> Schema:
        """The columns that the next operation sees."""

    @abstractmethod
    def _run(self, make: Callable[[], Work], *, data: object = (), kind: str = "") -> Version | None:
        """Make an operation and do it, or note it; ``data`` is what making it reads, ``kind`` that of one on rows."""


class Transaction(Operations):
    """Operations that become one version together, or nothing. Ends with its ``with`` block."""

    def __init__(self, tools: Tools, state: State, end: Callable[[Sequence[Work]], Version], *, once: Once) -> None:
        self._own_tools = tools
        self._state = state
        self._columns = state.schema
        self._end = end
        self._once = once
        self._applied = once.applied(state) is not None  # when it began: nothing is to be done
        self._works: list[Work] = []
        self._kinds: set[str] = set()
        self._open = True
        self.result: Version | None = None  # what it became

    def _run(self, make: Callable[[], Work], *, data: object = (), kind: str = "") -> None:
        del data
        self._check_open()
        self._kinds.add(kind)
        if not self._applied:
            self._works.append(make())

    def _evolved(self, change: Callable[[Schema], Schema]) -> Work:
        self._columns = change(self._columns)
        return Columns(change)

    @property
    def _tools(self) -> Tools:
        return self._own_tools

    @property
    def _begun(self) -> State:
        return self._state

    @property
    def _schema(self) -> Schema:
        return self._columns

    def commit(self) -> Version:
        """Make the version now; the ``with`` block does it at its end."""
        self._check_open()
        self._open = False
        if self._applied:  # operations were not made: what they are is all that is known of them
            self._once.applied_as(self._state, self._kinds.pop() if len(self._kinds) == 1 else "")
        self.result = self._end(self._works)
        return self.result

    def _check_open(self) -> None:
        if not self._open:
            raise ClosedError("this transaction has ended", hint="begin another one")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._open and kind is None:
            self.commit()
        self._open = False

    def __repr__(self) -> str:
        return f"Transaction({len(self._works)} operations on version {self._state.version})"
