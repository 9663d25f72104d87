"""Commit store in an SQL database: a row under a primary key decides.

What must hold:
- A claim is one INSERT that checks, in the same statement, the scope's range row and the predecessor's
  row; the primary key lets one of several in.
- The INSERT share-locks the range row, and ``truncate`` writes that row before it deletes: no claim
  slips in under a range that is being made.
- Rows are deleted only below a range that is committed.

One table holds all: claims at positions from 0, each scope's range row at position -1 (its ``below``
column counts), and the service's identity in the row of the empty scope, which no claim can have.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from siltstone.commit.checks import NO_RANGE, Range, Standing, stored_claim
from siltstone.commit.handle import ATTEMPTS_MAX, LookingHandle
from siltstone.commit.location import parse_location
from siltstone.commit.sql_dialect import Answer, Dialect, Fault
from siltstone.commit.sql_mysql import Mysql
from siltstone.commit.sql_postgresql import Postgresql
from siltstone.commit.sql_sqlite import Sqlite
from siltstone.errors import (
    CorruptionError,
    InternalError,
    InvalidInputError,
    PermissionDeniedError,
    SiltstoneError,
    StoreFullError,
)
from siltstone.ids import Ids, SystemIds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.commit.registry import Claim

TABLE_DEFAULT = "siltstone_claims"
TABLE_PATTERN = re.compile(r"[a-z_][a-z0-9_]{0,62}")
DELETE_ROWS_MAX = 10_000
"""Rows a single statement of ``truncate`` removes, so that it ends well inside the statement timeout."""

DIALECTS: dict[str, type[Dialect]] = {
    "sqlite": Sqlite,
    "postgresql": Postgresql,
    "mysql": Mysql,
    "mariadb": Mysql,
}

_RANGE_ROW = -1


class _Statements:
    """Every statement, for one table in one dialect."""

    def __init__(self, dialect: Dialect, table: str) -> None:
        name = f"{dialect.quote}{table}{dialect.quote}"
        m = dialect.mark
        row = f"{m}, {m}, {m}, {m}, {m}"
        insert = f"INSERT INTO {name} (scope, position, digest, parent, value)"
        # The table's name was matched against TABLE_PATTERN and is quoted; all else is bound.
        self.create = f"CREATE TABLE IF NOT EXISTS {name} ({dialect.columns}){dialect.table_suffix}"
        self.restore = (
            f"{insert} SELECT {row} FROM {name} AS r "  # noqa: S608
            f"WHERE r.scope = {m} AND r.position = -1 AND r.below <= {m}"
        )
        self.claim = (
            f"{self.restore} AND ((r.below = {m} AND r.digest = {m}) OR (r.below < {m} AND EXISTS ("  # noqa: S608
            f"SELECT 1 FROM {name} AS b WHERE b.scope = {m} AND b.position = {m} AND b.digest = {m})))"
        )
        ending = dialect.share_lock + dialect.or_nothing
        self.restore += ending
        self.claim += ending
        self.add = f"{insert} VALUES ({row}){dialect.or_nothing}"
        columns = f"SELECT position, digest, parent, value, below FROM {name} WHERE scope = {m}"  # noqa: S608
        self.look = f"{columns} AND position IN (-1, {m}, {m})"
        self.lookup = f"{columns} AND position = {m}"
        self.newest = f"{columns} AND position >= 0 ORDER BY position DESC LIMIT 1"
        self.oldest = f"{columns} AND position >= 0 ORDER BY position LIMIT 1"
        self.raise_range = (
            f"UPDATE {name} SET below = {m}, digest = {m} "  # noqa: S608
            f"WHERE scope = {m} AND position = -1 AND below < {m}"
        )
        self.adopt = f"UPDATE {name} SET value = {m} WHERE scope = {m} AND position = 0"  # noqa: S608
        self.delete = f"DELETE FROM {name} WHERE scope = {m} AND position >= {m} AND position < {m}"  # noqa: S608


class SqlRegistry(LookingHandle[Any]):
    """Claims in a table of SQLite, PostgreSQL, MySQL or MariaDB."""

    def __init__(self, uri: str, options: dict[str, Any], *, ids: Ids) -> None:
        scheme = uri.partition(":")[0]
        dialect = DIALECTS[scheme]
        location = parse_location(uri, options, accepts=dialect.options, default_port=dialect.default_port)
        table = location.options.get("table", TABLE_DEFAULT)
        if TABLE_PATTERN.fullmatch(table) is None:
            raise InvalidInputError(
                "the commit store's table has a name that is not accepted",
                hint="use lower-case letters, digits and underscores, at most 63, not starting with a digit",
                found=table,
            )
        if dialect.default_port and not (location.path.strip("/") and (location.host or "socket" in location.options)):
            raise InvalidInputError(
                f"{location.shown} names no host or no database", hint=f"use {scheme}://user@host:port/database"
            )
        self._dialect = dialect(location)
        super().__init__(open_registry, self._dialect.settled(uri), {**options, "ids": ids}, self._dialect.location)
        self.kind = dialect.kind
        self._sql = _Statements(self._dialect, table)
        self._ids = ids

    def _connect(self) -> Any:
        return self._dialect.connect()

    def _disconnect(self, raw: Any) -> None:
        raw.close()

    def _is_current(self, raw: Any) -> bool:
        return self._dialect.is_current(raw)

    # -- decisions -----------------------------------------------------------------------------------

    def _take(self, raw: Any, claim: Claim, standing: Standing | None, *, chained: bool) -> bool:
        scope, position = self._dialect.encode(claim.scope), claim.position
        if standing is not None:
            self._add(raw, (scope, _RANGE_ROW, *self._encoded("", "", "")))
        digest, parent, value = self._encoded(claim.digest, claim.parent, claim.value)
        values: list[object] = [scope, position, digest, parent, value, scope, position]
        statement = self._sql.restore
        if chained and position > 0:
            statement = self._sql.claim
            values += [position, parent, position, scope, position - 1, parent]
        try:
            return self._execute(raw, statement, values).changed == 1
        except Exception as error:
            if self._dialect.fault(error) in {Fault.TAKEN, Fault.AGAIN}:
                return False
            raise

    def _look(self, raw: Any, claim: Claim) -> Standing:
        scope = self._dialect.encode(claim.scope)
        rows = self._execute(raw, self._sql.look, (scope, claim.position - 1, claim.position)).rows
        found = {row[0]: row for row in rows}
        truncated = NO_RANGE
        if _RANGE_ROW in found:
            _, digest, _, _, below = found.pop(_RANGE_ROW)
            truncated = Range(below, self._dialect.decode(digest))
        bound, previous = (
            self._claim(claim.scope, found[at]) if at in found else None for at in (claim.position, claim.position - 1)
        )
        return Standing(truncated, bound, previous)

    def _lookup(self, raw: Any, scope: str, position: int) -> Claim | None:
        rows = self._execute(raw, self._sql.lookup, (self._dialect.encode(scope), position)).rows
        return self._claim(scope, rows[0]) if rows else None

    def _newest(self, raw: Any, scope: str) -> Claim | None:
        rows = self._execute(raw, self._sql.newest, (self._dialect.encode(scope),)).rows
        return self._claim(scope, rows[0]) if rows else None

    def _truncate(self, raw: Any, scope: str, below: int, digest: str) -> None:
        named = self._dialect.encode(scope)
        self._add(raw, (named, _RANGE_ROW, *self._encoded("", "", "")))
        self._repeat(raw, self._sql.raise_range, (below, self._dialect.encode(digest), named, below))
        while True:
            rows = self._execute(raw, self._sql.oldest, (named,)).rows
            if not rows or rows[0][0] >= below:
                return
            first = rows[0][0]
            self._repeat(raw, self._sql.delete, (named, first, min(below, first + DELETE_ROWS_MAX)))

    def _identity(self, raw: Any) -> str:
        nobody = self._dialect.encode("")
        for _ in range(ATTEMPTS_MAX):
            rows = self._execute(raw, self._sql.lookup, (nobody, 0)).rows
            if rows:
                return self._dialect.decode(rows[0][3])
            self._add(raw, (nobody, 0, *self._encoded("", "", self._ids.new())))
        raise self._unavailable("its identity was removed as often as it was made")

    def _adopt(self, raw: Any, identity: str) -> None:
        self._identity(raw)
        self._repeat(raw, self._sql.adopt, self._encoded(identity, ""))

    # -- statements ----------------------------------------------------------------------------------

    def _encoded(self, *texts: str) -> list[str | bytes]:
        return [self._dialect.encode(text) for text in texts]

    def _claim(self, scope: str, row: Sequence[Any]) -> Claim:
        position, digest, parent, value, _ = row
        decode = self._dialect.decode
        return stored_claim(scope, position, decode(digest), decode(parent), decode(value))

    def _add(self, raw: Any, values: Sequence[object]) -> None:
        """Insert a row unless its place is taken."""
        try:
            self._repeat(raw, self._sql.add, values)
        except Exception as error:
            if self._dialect.fault(error) is not Fault.TAKEN:
                raise

    def _repeat(self, raw: Any, statement: str, values: Sequence[object]) -> None:
        """Run a statement that may be run again, until the database stops rolling it back."""
        for attempt in range(ATTEMPTS_MAX):
            try:
                self._execute(raw, statement, values)
                return
            except Exception as error:
                if self._dialect.fault(error) is not Fault.AGAIN or attempt == ATTEMPTS_MAX - 1:
                    raise

    def _execute(self, raw: Any, statement: str, values: Sequence[object]) -> Answer:
        """Run a statement; where the table is not there yet, make it first."""
        try:
            return self._dialect.execute(raw, statement, values)
        except Exception as error:
            if self._dialect.fault(error) is not Fault.NO_TABLE:
                raise
        try:
            self._dialect.execute(raw, self._sql.create, ())
        except Exception as error:
            # Two sessions that create a table at once may collide in the catalogue although both say IF NOT EXISTS.
            if self._dialect.fault(error) is not Fault.TAKEN:
                raise
        return self._dialect.execute(raw, statement, values)

    def _translate(self, error: Exception) -> SiltstoneError | None:
        fault = self._dialect.fault(error)
        where, words = self.uri, self._scrubbed(error)
        match fault:
            case None:
                return None
            case Fault.DENIED:
                hint = self._dialect.denied_hint
                return PermissionDeniedError(f"{where} refused access: {words}", hint=hint, subject=where)
            case Fault.UNKNOWN_NAME:
                hint = "create the database first, or correct its name"
                return InvalidInputError(f"{where} has no such database: {words}", hint=hint, subject=where)
            case Fault.FULL:
                return StoreFullError(f"{where} has no space left: {words}", hint="free some space", subject=where)
            case Fault.CORRUPT:
                hint = "restore the database, then run siltstone repair"
                return CorruptionError(f"{where} is damaged: {words}", hint=hint, subject=where)
            case Fault.INVALID:
                return InternalError(f"{where} did not understand: {words}", subject=where)
            case Fault.AGAIN | Fault.TAKEN | Fault.NO_TABLE | Fault.UNAVAILABLE:
                return self._unavailable(error)


def open_registry(uri: str, *, ids: Ids | None = None, **options: Any) -> SqlRegistry:
    """Open ``sqlite:///path/file``, ``postgresql://host/database`` or ``mysql://host/database`` (``mariadb://`` too).

    ``sqlite:file`` is relative to the working directory of this moment. Options, in the URI's query or as keywords:
    ``table``, ``timeout_s``, ``insecure``, ``ca_file``, ``socket``, ``password_env`` (the name of an environment
    variable), ``accept_weak_durability``. Nothing is connected before the first call.
    """
    return SqlRegistry(uri, options, ids=ids or SystemIds())
