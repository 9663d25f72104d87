"""Is everything there that the shards of a table stand on?

The logs of shards are verified like all others; this looks at what ties them together, and to the table.

What must hold: a shard at work gives no finding. So the table's version is read first, then the manifest, then the end
of the WAL, each of which is never behind what was read before; and the beginning and the epochs of the WAL before all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from siltstone import paths
from siltstone.cli.fragment_check import check_fragments
from siltstone.errors import CorruptionError, MissingObjectError, TruncatedError, WrongWalStoreError
from siltstone.format.shard import ShardState
from siltstone.format.table import WalPlace
from siltstone.shard.manifest import ended, later, to_mark
from siltstone.shard.place import ShardPlace
from siltstone.shard.wal import WalTailer
from siltstone.shard.wal_store import open_wal
from siltstone.verify import Problem
from siltstone.verify.deciding import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from siltstone.format.table import Cursor, Schema
    from siltstone.log import Log
    from siltstone.shard.manifest import Manifest
    from siltstone.shard.place import Logs
    from siltstone.shard.wal_store import OtherWal
    from siltstone.table.state import State
    from siltstone.verify import LogReport
    from siltstone.verify.report import Fault


@dataclass(frozen=True)
class ShardReport:
    """What was found of one shard."""

    name: str
    epoch: int = 0
    wal_from: int = 0  # entries before it are in fragments or in the table
    wal_end: int = 0
    fragments: int = 0
    rows: int = 0  # of its fragments
    bytes: int = 0
    sealed: bool = False


class ShardFindings(NamedTuple):
    """What was found of all shards of a table."""

    reports: tuple[ShardReport, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


class GivenWals(NamedTuple):
    """A store of WALs that was given to be checked, and what was found of the logs in it."""

    uri: str
    options: Mapping[str, str] | None
    reports: Sequence[LogReport]


def check_shards(
    log: Log, state: State, verified: Mapping[str, LogReport], *, deep: bool, wals: GivenWals | None = None
) -> ShardFindings:
    """Check the shards of a version. ``verified`` has the logs below the table's URI, by their roots there."""
    reports, problems, notes = [], [], []
    other = None if wals is None else open_wal(wals.uri, wals.options)
    elsewhere = {} if wals is None else {one.root: one for one in wals.reports}
    for name, merged in state.shards.items():
        one = _Shard(log, name, merged, verified, elsewhere=elsewhere, other=other)
        try:
            reports.append(one.check(state.schema, deep=deep))
        except UNREADABLE as error:
            if one.is_whole:
                where = str(error.facts.get("object", paths.shard(name)))
                problems.append(Problem("corrupt", f"shard {name} can't be read: {error.message}", object=where))
            else:  # what is wrong was said of its logs
                notes.append(f"shard {name} was not checked: {error.message}")
        problems += one.problems
        notes += one.notes
    return ShardFindings(tuple(reports), tuple(problems), tuple(notes))


class _Shard:
    """One shard, and what is wrong with it."""

    def __init__(
        self,
        log: Log,
        name: str,
        merged: Cursor,
        verified: Mapping[str, LogReport],
        *,
        elsewhere: Mapping[str, LogReport],
        other: OtherWal | None,
    ) -> None:
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self._name = name
        self._merged = merged
        self._place = ShardPlace(log, name, None, other)
        self._root = paths.shard(name)
        self._manifest = verified.get(self._root + paths.MANIFEST)
        self._reports = verified, elsewhere
        self._find_wal(WalPlace())

    def _find_wal(self, where: WalPlace) -> None:
        """Note where the WAL is, and what was found of it."""
        own, elsewhere = self._reports
        root = paths.wal(self._name, where.begins)
        self._wal_part = root.removeprefix(self._root)
        self._wal = (own if where.store is None else elsewhere).get(root)

    @property
    def is_whole(self) -> bool:
        """Whether nothing was wrong with its logs."""
        return all(one is None or one.ok for one in (self._manifest, self._wal))

    def check(self, schema: Schema, *, deep: bool) -> ShardReport:
        """Look at everything; ``problems`` has what is wrong."""
        manifest = self._place.manifest()
        state = ShardState() if manifest is None else manifest.read()
        self._find_wal(state.wal)
        start = later(state.replay_from, self._merged)
        logs = self._logs(state)
        if manifest is None or (logs is None and not self.notes):
            self._check_absence()
            return ShardReport(self._name)
        self._check_fragments(manifest, state, deep=deep)
        end = start.position
        if logs is not None:
            end = logs.wal.tip().position
            self._check_cursors(logs, state, end)
            if deep and self.is_whole and not self.problems:
                self._check_rows(logs, start, schema)
        return ShardReport(
            name=self._name,
            epoch=state.epoch,
            wal_from=start.position,
            wal_end=end,
            fragments=len(state.fragments),
            rows=sum(one.fragment.rows for one in state.fragments),
            bytes=sum(one.fragment.bytes for one in state.fragments),
            sealed=state.sealed,
        )

    def _logs(self, state: ShardState) -> Logs | None:
        """The shard's logs; None where one is not there, or where ``notes`` say why it is not looked at."""
        where = state.wal.store
        try:
            return self._place.read()
        except MissingObjectError as error:  # one of its logs, or the end of one
            if str(error.facts.get("object", "")).startswith(f"{self._root}{self._wal_part}{paths.ENTRIES}/"):
                self._note("missing", "its last writer put entries into its WAL that are gone", part=self._wal_part)
            gone = "it is gone"
        except WrongWalStoreError as error:
            if self._place.other is None and where is not None:
                self.notes.append(
                    f"shard {self._name}: its WAL is in another store, at {where.uri}, and was not checked: give --wal"
                )
                return None
            gone = error.message
        if where is not None and ended(state) is not None:
            self.notes.append(f"shard {self._name}: its WAL was not checked, and nothing of it is needed: {gone}")
        elif where is not None and gone != "it is gone":
            self._note("missing", gone, part=self._wal_part)
            self.notes.append(f"shard {self._name}: its WAL was not checked")
        return None

    def _note(self, fault: Fault, detail: str, *, part: str = "", position: int | None = None) -> None:
        self.problems.append(Problem(fault, f"shard {self._name}: {detail}", position, object=self._root + part))

    def _check_absence(self) -> None:
        """A shard without one of its logs was never written to, or lost it."""
        if self._merged.position:
            self._note("missing", f"a log of it is gone, and entries before {self._merged.position} were merged")
        elif self._wal is not None and self._manifest is None:
            self._note("missing", "its manifest is gone, and its WAL is there", part=paths.MANIFEST)
        elif self._manifest is not None and self._manifest.entries and self._wal is None:
            self._note("missing", "its WAL is gone, and its manifest says that it had a writer", part=self._wal_part)

    def _check_cursors(self, logs: Logs, state: ShardState, end: int) -> None:
        """The manifest and the table name places of the WAL, and entries before them need not be there."""
        for cursor, what in ((state.replay_from, "the manifest"), (self._merged, "the table")):
            if cursor.position > end:
                detail = f"its WAL ends at {end}, and {what} counts from {cursor.position} on: its end is gone"
                self._note("missing", detail, part=self._wal_part, position=end)
            elif self.is_whole and not _stands(logs, cursor):
                detail = f"entry {cursor.position - 1} of its WAL is not the one that {what} knows"
                self._note("overwritten", detail, part=self._wal_part, position=cursor.position - 1)
        if self._wal is None:
            return
        start = later(state.replay_from, self._merged).position
        if self._wal.floor > start:
            detail = f"its WAL begins at {self._wal.floor}, and only entries before {start} are in fragments or merged"
            self._note("missing", detail, part=self._wal_part, position=start)
        if self._wal.epoch > state.epoch:
            detail = f"its WAL has entries of epoch {self._wal.epoch}, and its manifest ends at epoch {state.epoch}"
            self._note("missing", detail, part=paths.MANIFEST)

    def _check_fragments(self, manifest: Manifest, state: ShardState, *, deep: bool) -> None:
        fragments = [(one.fragment, one.fragment.rows) for one in state.fragments]
        store = self._place.log.store
        found = check_fragments(store, fragments, root=self._root, deep=deep)
        if found:  # one that was merged meanwhile may be gone
            named = {f"{self._root}{paths.data(one.fragment.name)}" for one in manifest.read().fragments}
            self.problems += (one for one in found if one.object in named)

    def _check_rows(self, logs: Logs, start: Cursor, schema: Schema) -> None:
        """Read the rows that are in the WAL alone."""
        tailer = WalTailer(logs.wal, after=start)
        try:
            for _ in tailer.read(schema):
                pass
        except TruncatedError:  # flushed or merged since
            return
        except CorruptionError as error:
            self._note("corrupt", error.message, part=self._wal_part, position=tailer.end.position)


def _stands(logs: Logs, cursor: Cursor) -> bool:
    """Whether the entry before a cursor is the one that it names, or was truncated."""
    first = logs.wal.first()
    if first.position >= cursor.position:
        return first.position > cursor.position or first == to_mark(cursor, logs.wal)
    try:
        logs.wal.check_stands(to_mark(cursor, logs.wal))
    except TruncatedError:
        return True
    except CorruptionError:
        return logs.wal.first().position >= cursor.position  # a truncated place may hold a latecomer's entry
    return True
