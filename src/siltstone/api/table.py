"""Table: the handle a user holds. It delegates; what it decides is only which version a call sees.

What must hold:
- A handle sees its own writes at once, and before every read it looks for what others committed.
- A handle made by ``at`` is pinned: it reads one version for ever and writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from siltstone.api.checkpoints import Checkpointed, Kept
from siltstone.api.choosing import READS, chosen
from siltstone.api.clones import Cloned
from siltstone.api.collection import Collecting
from siltstone.api.indexes import Indexed
from siltstone.api.missing import collected, no_tag, not_there
from siltstone.api.shards import Sharded
from siltstone.closing import Closing
from siltstone.env import REAL, Env
from siltstone.errors import ClosedError, ConflictError, DuplicateKeyError, InvalidInputError, TruncatedError
from siltstone.index.cover import Covers
from siltstone.locks import ForkLock
from siltstone.shard.fresh_scan import FreshSource
from siltstone.shard.shards import Shards
from siltstone.table import arguments
from siltstone.table.changes import Changes
from siltstone.table.compact import compact
from siltstone.table.group import Request, Turns
from siltstone.table.history import History
from siltstone.table.lookup import get
from siltstone.table.operations import Tags
from siltstone.table.origins import OpensOthers, open_other, with_origins
from siltstone.table.scan import Scan
from siltstone.table.schema import arrow_schema, key_fields
from siltstone.table.source import TableSource
from siltstone.table.sql import run_sql
from siltstone.table.tools import Tools, make_tools
from siltstone.table.transaction import Transaction
from siltstone.table.versions import Version, counts_of, describe, list_versions, unchanged
from siltstone.telemetry import metrics
from siltstone.telemetry.seams import traced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    import pyarrow as pa

    from siltstone.format.table import Schema
    from siltstone.log import Log
    from siltstone.shard.wal_store import OtherWal
    from siltstone.table.checkpoints import Checkpoint
    from siltstone.table.compact import Compacted
    from siltstone.table.operations import Work
    from siltstone.table.origins import Others
    from siltstone.table.sql import Result
    from siltstone.table.state import State


class Table(Checkpointed, Cloned, Collecting, Indexed, Sharded, Closing):
    """A table, or with ``at`` one version of it. Threads may share a handle; it pickles as the way to open it."""

    def __init__(
        self,
        log: Log,
        *,
        env: Env = REAL,
        pinned: State | None = None,
        tools: Tools | None = None,
        others: OpensOthers = open_other,
        kept: Kept | None = None,
        other: OtherWal | None = None,
        since: State | None = None,
    ) -> None:
        self._log = log
        self._other = other
        self._env = env
        self._others = others
        self._history = History(log)
        self._lock = ForkLock()
        self._pinned = pinned
        self._kept = kept
        self._state = pinned or (self._history.newest() if since is None else self._history.refresh(since))
        if not self._state.exists:
            raise not_there(log.store.uri, self._state)
        self._own_tools = tools or make_tools(with_origins(log.store, self._state.origins, others), env)
        self._covers = Covers()
        self._born = self._state.born
        self._closed = False
        self._shards = Shards(log, self._own_tools, self._now, self.checkpoint, other, texts=self._texts)
        self._turns = Turns(
            self._own_tools, self._history, state=lambda: self._state, seen=self._seen, complete=self._settled
        )

    # -- what it is --------------------------------------------------------------------------------

    @property
    def uri(self) -> str:
        """Where the table is, without credentials."""
        return self._log.store.uri

    @property
    def name(self) -> str:
        """What ``sql`` calls the table: the last part of its URI, with _ for all but letters, digits and _."""
        return arguments.sql_name(self.uri)

    @property
    def version(self) -> int:
        """The version that a read sees now."""
        return self._now().version

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return arrow_schema(self._now().schema)

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the key's columns; empty without a key."""
        return tuple(one.name for one in key_fields(self._now().schema))

    @property
    def tags(self) -> dict[str, int]:
        """Versions by tag."""
        return dict(self._now().tags)

    @property
    def settings(self) -> dict[str, str]:
        """What ``set`` set."""
        return dict(self._now().settings)

    # -- reading -----------------------------------------------------------------------------------

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        where: str | None = None,
        limit: int | None = None,
        fresh: bool = False,
    ) -> Scan:
        """Rows of one version, lazily: ``to_arrow``, ``to_batches``, ``to_pandas``, ``to_polars``, ``count``.

        With ``fresh``, rows that are durable in shards and not merged yet are seen too.
        """
        where, limit = arguments.check_where(where), arguments.check_limit(limit)
        if self._is_fresh(fresh):
            return self._shards.scan(columns, where=where, limit=limit)
        return Scan(self._own_tools, self._now(), columns=columns, where=where, limit=limit)

    @traced("siltstone.get", seconds=metrics.GET_SECONDS)
    def get(self, keys: object, columns: Sequence[str] | None = None, *, fresh: bool = False) -> pa.Table:
        """The rows with these keys, in the order asked for; keys that are not there are left out."""
        if self._is_fresh(fresh):
            return self._shards.get(keys, columns)
        return get(self._own_tools, self._now(), keys, columns=columns)

    def count(self, where: str | None = None, *, fresh: bool = False) -> int:
        """How many rows there are, or match."""
        return self.scan(where=where, fresh=fresh).count()

    def sql(self, query: str, *, fresh: bool = False, **others: Table) -> Result:
        """Answer a SELECT over this table, by its ``name``, and others, by their keywords."""
        if self.name in others:
            raise InvalidInputError(
                f"this table is called {self.name!a} in the query, and another one was given by that name",
                hint="give the other one another keyword",
            )
        tables = {self.name: self, **others}
        for name, table in tables.items():
            if not isinstance(table, Table):
                raise InvalidInputError(
                    f"{name} must be a Table, got {type(table).__name__}", hint="open it with siltstone.open()"
                )
        return run_sql(query, {name: one._source(fresh=fresh) for name, one in tables.items()})  # noqa: SLF001

    def at(
        self,
        *,
        version: int | None = None,
        tag: str | None = None,
        timestamp: datetime | str | int | None = None,
        checkpoint: Checkpoint | str | None = None,
    ) -> Table:
        """One version: by number, tag or checkpoint, or the one that was there at a time. Stays as it is for ever."""
        now = self._plain()
        state = chosen(
            self._history, now, version=version, tag=tag, timestamp=timestamp, checkpoint=checkpoint, ways=READS
        )
        tools, state, kept = self._laid(now, state, checkpoint)
        return Table(
            self._log, env=self._env, pinned=state, tools=tools, others=self._others, kept=kept, other=self._other
        )

    def history(self, limit: int | None = None) -> list[Version]:
        """The versions, newest first."""
        return list(list_versions(self._history, self._now(), limit=arguments.check_limit(limit)))

    def changes(self, since: int, until: int | None = None, columns: Sequence[str] | None = None) -> Changes:
        """The rows that changed after version ``since`` up to ``until``, with ``_change`` and ``_version``."""
        try:
            return Changes(self._plain_tools, self._history, self._plain(), since=since, until=until, columns=columns)
        except TruncatedError as error:
            raise collected(error, f"version {since}, or one behind it,") from error

    def resolve(self, op: str) -> int | None:
        """The version that an operation made, None where it made none: what to ask after a CommitUnknownError."""
        version = self._now().version_of(arguments.check_op(op))
        if version is None:
            entry = self._log.find(op)
            return None if entry is None else entry.position
        return version

    # -- writing -----------------------------------------------------------------------------------

    def transaction(
        self, *, once: str | None = None, stream: str | None = None, batch: int | None = None, message: str = ""
    ) -> Transaction:
        """Collect operations into one version.

        With ``once``, it is applied only where that id never was; with ``stream`` and ``batch``, only where no batch of
        that number or a later one of that stream was.
        """
        mark, message = arguments.check_once(once, stream, batch), arguments.check_message(message)
        state = self._looked()

        def end(works: Sequence[Work]) -> Version:
            return self._commit(Request(works, state.version, mark, message))

        return Transaction(self._own_tools, state, end, once=mark)

    def tag(self, name: str, *, version: int | None = None) -> Version:
        """Give a version (the newest) a name; a tag that is there moves."""
        state = self._looked()
        version = state.version if version is None else arguments.check_version(version, newest=state.version)
        return self._do(Tags({arguments.check_label(name, "tag"): version}))

    def untag(self, name: str) -> Version:
        """Remove a tag."""
        name = arguments.check_label(name, "tag")
        state = self._looked()
        if name not in state.tags:
            raise no_tag(name, state)
        return self._do(Tags({name: None}))

    def compact(self, *, progress: Callable[[int, int], None] | None = None) -> Compacted:
        """Rewrite small, half-deleted fragments into fewer ones, by key; rows stay. Optimize text indexes after it."""
        self._check_writable()
        arguments.check_progress(progress)
        done = compact(self._own_tools, self._history, self._begun, progress=progress)
        self._seen(done.state)
        return done

    def refresh(self) -> int:
        """Look for what others committed, and return the newest version; reads do it by themselves."""
        return self._now().version

    # -- behind it ---------------------------------------------------------------------------------

    @property
    def _tools(self) -> Tools:
        return self._own_tools

    @property
    def _begun(self) -> State:
        self._check_writable()
        return self._state

    @property
    def _schema(self) -> Schema:
        return self._begun.schema

    def _run(self, make: Callable[[], Work], *, data: object = (), kind: str = "") -> Version:
        """Do an operation, and once more where it was refused because of columns that others have changed since."""
        del kind  # only what is applied once has to know
        self._check_writable()
        if not arguments.is_held(data):  # a stream is read once: look first
            self._now()
            return self._do(make())
        before = self._begun.schema
        try:
            return self._do(make())
        except DuplicateKeyError:  # was decided on the newest version
            raise
        except (InvalidInputError, ConflictError) as error:
            # Versions that were collected since this handle looked are no reason either.
            if self._now().schema == before and "floor" not in error.facts:
                raise
        return self._do(make())

    def _do(self, *works: Work) -> Version:
        return self._commit(Request(works, self._begun.version))

    def _commit(self, request: Request) -> Version:
        self._check_writable()
        done = self._behind_shards(request)
        if done.change is None:
            return unchanged(done.state, done.version)
        self._tidy(name for name, cursor in done.change.shards.items() if cursor is not None and cursor.position)
        return describe(done.state.recent[-1], counts=counts_of(request.works, done.change))

    def _is_fresh(self, fresh: object) -> bool:
        arguments.check_flag(fresh, "fresh")
        if fresh and self._pinned is not None:
            raise InvalidInputError(
                f"{self!r} is pinned to a version, and fresh rows are newer than any", hint="read the table itself"
            )
        return bool(fresh)

    def _seen_by(self, *, fresh: object) -> tuple[Tools, State]:
        """What a read works with."""
        return self._shards.view()[:2] if self._is_fresh(fresh) else (self._own_tools, self._now())

    def _source(self, *, fresh: object) -> TableSource:
        """What SQL reads."""
        if not self._is_fresh(fresh):
            return TableSource(self._own_tools, self._now())
        view = self._shards.view()
        return FreshSource(view.tools, view.state, view)

    def _now(self) -> State:
        """The state that a read sees."""
        if self._closed:
            raise ClosedError(f"{self!r} was closed", hint="open the table again")
        if self._pinned is not None:
            return self._pinned
        state = self._seen(self._history.refresh(self._state))
        self._check_there()
        return state

    def _opened(self, log: Log, others: Others, other: OtherWal | None, *, since: State | None) -> Self:
        return type(self)(log, env=self._env, others=others, other=other, since=since)

    def _looked(self) -> State:
        """The newest version, for a write that decides by what it sees."""
        self._check_writable()
        return self._now()

    def _seen(self, state: State) -> State:
        with self._lock:
            if state.mark.position > self._state.mark.position:
                self._state = state
            return self._state

    def _check_writable(self) -> None:
        self._log.check_process()
        if self._closed:
            raise ClosedError(f"{self!r} was closed", hint="open the table again")
        if self._pinned is not None:
            raise InvalidInputError(
                f"{self!r} is pinned to version {self._pinned.version} and can't be written",
                hint="write through the table itself",
            )
        self._check_there()

    def _check_there(self) -> None:
        """Raise NotFoundError where the table was dropped, also where another one was made there since."""
        if self._state.born != self._born:
            raise not_there(self.uri, self._state)

    def close(self) -> None:
        """End the handle and the writers of its shards; closing twice is fine. Versions made by ``at`` end with it.

        Raises what closing a writer raises, where rows that nobody waited for could not be made durable.
        """
        if self._closed:
            return
        try:
            self._shards.close()  # they look at the table while they end
        finally:
            self._closed = True
            if self._pinned is None:
                self._log.close()

    def __reduce__(self) -> tuple[object, ...]:
        """A handle pickles as the way to open it; a pinned one with its version."""
        version = None if self._pinned is None else self._pinned.version
        return (_again, (self._log, version, self._others, self._other, self._kept and self._kept.checkpoint))

    def __repr__(self) -> str:
        pinned = f"@{self._pinned.version}" if self._pinned is not None else ""
        return f"Table({self.uri}{pinned})"


def _again(
    log: Log, version: int | None, others: OpensOthers, other: OtherWal | None, checkpoint: Checkpoint | None
) -> Table:
    table = Table(log, others=others, other=other)
    if checkpoint is not None:
        return table.at(checkpoint=checkpoint)
    return table if version is None else table.at(version=version)
