"""Reading a log: its floor, its tip, its entries. Never writes, except to publish what was decided.

What must hold:
- The tip is the first missing position, found by probing forward; never the maximum of a listing.
- The floor is the highest floor object. Floor objects only add up, so it never falls.
- ``entries`` yields an unbroken chain or raises; a missing entry is an error unless the floor passed it.
- No entry is shown before its bytes were found to be those that were written: the entry behind it names their digest,
  or the mark where reading ends does. Where these differ, checksums tell which of the two was damaged.
- No entry is shown unless the floor was at or below it after it was read: a truncated place may hold the late
  put of a stalled writer. A look at the floor counts for ``trust_ms``, as it does for an acknowledgement.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.errors import (
    CorruptionError,
    MissingObjectError,
    SiltstoneError,
    SplitHistoryError,
    TruncatedError,
    UnavailableError,
    UnsafeStoreError,
)
from siltstone.format.frame import digest
from siltstone.format.records import decode_hint
from siltstone.log.arguments import check_mark, check_op
from siltstone.log.floors import FloorReader
from siltstone.log.marks import read_entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.log.marks import Entry, Mark
    from siltstone.store.base import ObjectInfo

STEPS = 2  # entries to follow one by one before looking further ahead
CHASES_MAX = 1000
LOOKS_PAST = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # a hole is seen where the entries behind it reach as far as it is wide
SHOWN_TOGETHER = 256
SHOWN_BYTES = 8 * 1024 * 1024


class LogReader(FloorReader):
    """What every handle on a log can do, with or without the right to write."""

    # -- tip -------------------------------------------------------------------------------------

    def tip(self, since: Mark | None = None) -> Mark:
        """The mark behind the last entry, looked for from ``since`` on (from the hint without it)."""
        if since is not None:
            check_mark(since, "since")
        mark = self._hinted() if since is None else since
        sure = self._floor if since is None else mark.position  # nothing from here on was truncated when it was read
        steps = 1 if since is None else STEPS
        if since is None and not self.cheap_probes:
            mark = self._ahead(mark)  # one listing shows the end, and any hole on the way
        for _ in range(CHASES_MAX):
            data = self.commits.decided(self.place(mark))
            entry = None if data is None else self.read(data, mark.position)
            if entry is not None and entry.prev == mark.digest:
                mark = entry.end
                steps -= 1
                if steps <= 0:
                    mark = self._ahead(mark)
                continue
            # A place that is empty within the trusted time was never taken: what is removed stays for twice as long.
            if self.floor_now(trust_ms=self.identity.trust_ms if entry is None else 0) > sure:
                # What is missing was truncated, and what was met may be a latecomer's: the log begins further on.
                mark = self.first()
                sure = mark.position
                continue
            if entry is not None:
                self.check_follows(entry, mark)
            if since is None:
                self._look_past(mark.position)
            return mark
        raise UnavailableError(f"{self.root or 'the log'} grew {CHASES_MAX} times while its tip was looked for")

    def _hinted(self) -> Mark:
        """A mark near the tip: by the hint where it holds, else the floor."""
        floor = self.first()
        try:
            hint = decode_hint(self.store.get(f"{self.root}{paths.HINT}", limit=4096))
        except SiltstoneError:  # a hint is best effort
            hint = None
        if hint is None or hint.log != self.identity.log or hint.position <= floor.position:
            return floor
        data = self.published(hint.position - 1)
        return floor if data is None else self.read(data, hint.position - 1).end

    def _ahead(self, mark: Mark) -> Mark:
        """A mark further on, where there is one: the end of the unbroken run from ``mark``."""
        last = self._end_of_run(mark)
        if last < mark.position:
            return mark
        data = self.published(last)
        return mark if data is None else self.read(data, last).end

    def _end_of_run(self, since: Mark) -> int:
        return self._gallop(since) if self.cheap_probes else self._run(since)

    @property
    def cheap_probes(self) -> bool:
        """Whether single look-ups beat listings here."""
        return self.store.traits.cheap_probes and self.identity.publish == "create"

    def _gallop(self, since: Mark) -> int:
        """The last position of the unbroken run from ``since``: doubling steps, then halving."""
        low, step = since.position - 1, 1
        while self._exists(low + step):
            low, step = low + step, step * 2
        high = low + step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._exists(middle) else (low, middle)
        return low

    def _look_past(self, end: int) -> None:
        """Raise where entries lie behind the end: an entry that was lost looks like the end of the log."""
        behind = (end + distance for distance in LOOKS_PAST) if self.cheap_probes else iter(())
        seen = next((position for position in behind if self._exists(position)), None)
        if seen is not None:  # where listings are used, they have shown it
            self._check_gap(end, seen)

    def _exists(self, position: int) -> bool:
        return self.store.head(paths.entry(self.root, position)) is not None

    def _run(self, since: Mark) -> int:
        """The last position of the unbroken run from ``since``, by listing from there."""
        last = since.position - 1
        for info in self._listed(since.position):
            parsed = paths.parse_entry(self.root, info.key)
            if parsed is None or parsed[0] == last:
                continue
            if parsed[0] != last + 1:
                self._check_gap(last + 1, parsed[0])
                break
            last = parsed[0]
        return last

    def _listed(self, position: int) -> Iterator[ObjectInfo]:
        """Published entries from a position on. The key before it may have a nonce behind it: skip all of those."""
        before = paths.entry(self.root, position - 1) + "0" if position else ""
        return self.store.list(f"{self.root}{paths.ENTRIES}", after=before)

    def _check_gap(self, missing: int, seen: int) -> None:
        floor = self.first()
        if missing >= floor.position and self.published(missing) is None and self.first().position <= missing:
            raise self.lost(missing, f"entry {seen} is there, entry {missing} is not")

    def lost(self, position: int, why: str) -> MissingObjectError:
        """The error for an entry that must be there."""
        return MissingObjectError(
            f"{paths.entry(self.root, position)} is missing: {why}",
            hint="run `siltstone verify`; `siltstone repair` can bring an entry back that has a witness",
            object=paths.entry(self.root, position),
            position=position,
        )

    # -- entries ---------------------------------------------------------------------------------

    def published(self, position: int) -> bytes | None:
        """What is published at a position, if anything."""
        return next(self.published_many(position, position + 1))

    def is_taken(self, position: int) -> bool:
        """Whether something is published at a position."""
        return self._exists(position) if self.identity.publish == "create" else self.published(position) is not None

    def published_many(self, start: int, stop: int) -> Iterator[bytes | None]:
        """What is published from ``start`` to ``stop - 1``; reads overlap."""
        if self.identity.publish == "create":
            return self.store.get_many(paths.entry(self.root, n) for n in range(start, stop))
        return self._forked_many(start, stop)

    def _forked_many(self, start: int, stop: int) -> Iterator[bytes | None]:
        if stop - start == 1:
            keys = [info.key for info in self.store.list(paths.entry(self.root, start))]
        else:
            keys = []
            for info in self._listed(start):
                parsed = paths.parse_entry(self.root, info.key)
                if parsed and parsed[0] >= stop:
                    break
                keys.append(info.key)
        names: dict[int, str] = {}
        for key in keys:
            parsed = paths.parse_entry(self.root, key)
            if parsed is None:
                continue
            if parsed[0] in names:
                raise _two(self.root, parsed[0])
            names[parsed[0]] = key
        data = self.store.get_many(names[n] for n in range(start, stop) if n in names)
        for n in range(start, stop):
            yield next(data) if n in names else None

    def entries(self, after: Mark | None = None, *, until: Mark | None = None) -> Iterator[Entry]:
        """Entries behind ``after`` (from the floor without it) up to ``until`` (the tip without it), chain checked."""
        for mark, name in ((after, "after"), (until, "until")):
            if mark is not None:
                check_mark(mark, name)
        whole = after is None and until is None
        after = self.first() if after is None else after
        # A whole log is long: its end is looked for at once, not entry by entry.
        end = until if until is not None else self.tip(self._ahead(after) if whole else after)
        if whole:
            self._look_past(end.position)
        return self._chain(after, end)

    def _chain(self, after: Mark, end: Mark) -> Iterator[Entry]:
        """The entries between two marks."""
        mark, highest = after, after.epoch
        ready: list[Entry] = []
        waiting = 0
        last = b""  # the bytes of the entry before ``mark``, of which nobody knows yet that they are right
        for data in self.published_many(after.position, end.position):
            if data is None:
                raise self.gone(mark.position)
            entry = self._parsed(data, mark.position)
            if entry.prev != mark.digest:
                self._check_sound(last, data, position=mark.position)
                self._check_not_passed(after.position)
                self.check_follows(entry, mark)
            if len(ready) >= SHOWN_TOGETHER or waiting >= SHOWN_BYTES:
                yield from self._shown(ready)
                ready, waiting = [], 0
            if entry.epoch < highest:
                entry = replace(entry, dead=True)
            highest = max(highest, entry.epoch)
            mark, last = entry.end, data
            ready.append(entry)
            waiting += len(data)
        is_end = mark.position != end.position or mark.digest == end.digest
        if not is_end:
            self._check_sound(last, position=mark.position)
        yield from self._shown(ready)
        if not is_end:
            self._check_not_passed(after.position)
            raise CorruptionError(f"entry {end.position - 1} is not the one it was", position=end.position - 1)

    def _parsed(self, data: bytes, position: int) -> Entry:
        """An entry whose checksum was not looked at: what names its digest says whether its bytes are right."""
        name = paths.entry(self.root, position)
        try:
            return read_entry(data, log=self.identity.log, position=position, name=name, checked=False)
        except SiltstoneError:
            return self.read(data, position)  # says what is wrong first

    def _check_sound(self, last: bytes, *data: bytes, position: int) -> None:
        """Raise where an entry does not have its checksum: the one before ``position`` and those from there on."""
        if last:
            self.read(last, position - 1)
        for at, one in enumerate(data, position):
            self.read(one, at)

    def sparse(self, since: Mark, *, block: int, until: int | None = None, past: bool = False) -> list[Entry]:
        """The last entry of each block behind ``since``, and the last of all (of those below ``until``).

        For logs whose entries repeat those before them: whoever reads these has read all. The caller checks that
        they follow each other. Only published entries count; nothing is published on the way. With ``past``, entries
        behind the end are looked for too: one that was lost looks like the end of the log.
        """
        last = self._end_of_run(since) if until is None else until - 1
        if past:
            self._look_past(last + 1)
        places = [at for at in range(since.position, last + 1) if (at + 1) % block == 0 or at == last]
        if self.identity.publish == "create":
            found = list(self.store.get_many(paths.entry(self.root, at) for at in places))
        else:
            found = [self.published(at) for at in places]
        entries = []
        for at, data in zip(places, found, strict=True):
            if data is None:
                raise self.gone(at)
            entries.append(self.read(data, at))
        if entries:
            self._read_until = entries[-1].end
        return self._shown(entries)

    def check_stands(self, mark: Mark) -> None:
        """Raise where the entry before ``mark`` is not the one that the mark names."""
        if mark.position == 0:
            if mark != self.start:
                raise CorruptionError(f"{mark.digest[:12]}... is not the beginning of this log", position=0)
            return
        data = self.published(mark.position - 1)
        if data is None:
            raise self.gone(mark.position - 1)
        if digest(data) != mark.digest:
            raise CorruptionError(
                f"entry {mark.position - 1} is not the one that stood there",
                hint="run `siltstone verify` to see what was lost",
                position=mark.position - 1,
            )

    def _shown(self, entries: list[Entry]) -> list[Entry]:
        """``entries``, now that the floor is known not to have passed them."""
        if entries and self.floor_now(trust_ms=self.identity.trust_ms) > entries[0].position:
            raise self.gone(entries[0].position)
        return entries

    def _check_not_passed(self, position: int) -> None:
        """Raise TruncatedError where the floor passed: a latecomer's entry there is no fault of the store."""
        self.floors()
        if position < self._floor:
            raise self._truncated(position)

    def gone(self, position: int) -> SiltstoneError:
        """The error for an entry that is not there: the floor passed it, or it was lost."""
        self.floors()
        return (
            self._truncated(position) if position < self._floor else self.lost(position, "entries behind it are there")
        )

    def _truncated(self, position: int) -> TruncatedError:
        return TruncatedError(
            f"entry {position} was truncated; the log begins at {self._floor} now",
            hint="read from the floor on",
            position=position,
            floor=self._floor,
        )

    # -- looking things up -----------------------------------------------------------------------

    def find(self, op: str, *, since: Mark | None = None) -> Entry | None:
        """The entry of an operation, looked for behind ``since`` (from the floor without it)."""
        found, mark = self._search(check_op(op), since)
        if found is None:
            self.commits.check_open(self.place(mark))
        return found

    def _search(self, op: str, since: Mark | None = None) -> tuple[Entry | None, Mark]:
        """The entry of an operation, and the mark behind the last entry that was looked at."""
        for _ in self._env.tries():
            try:
                return self._scan(op, since)
            except TruncatedError:  # look from the floor on; what it passed is in the state that ``lookup`` asks
                since = None
        raise UnavailableError(f"the log was truncated all the time while it was read ({self._env.patience_s} s)")

    def _scan(self, op: str, since: Mark | None) -> tuple[Entry | None, Mark]:
        mark = since
        for entry in self.entries(since):
            if entry.op == op and not entry.dead:
                return entry, entry.end
            mark = entry.end
        return None, mark or self.first()

    def check_receipt(self, receipt: Mark) -> None:
        """Raise where an acknowledged entry is no longer what it was; ``receipt`` is what ``append`` returned."""
        check_mark(receipt, "receipt")
        position = receipt.position - 1
        data = self.published(position) if position >= 0 else None
        if position < 0 or (data is not None and digest(data) == receipt.digest):
            return
        if position < self.first().position:
            return
        if data is None:
            raise self.lost(position, "it was acknowledged")
        raise UnsafeStoreError(
            f"{self.store.uri} replaced entry {position}, which was acknowledged",
            hint="run `siltstone verify`, and give the log a commit store",
            position=position,
        )


def _two(root: str, position: int) -> SiltstoneError:
    return SplitHistoryError(
        f"{paths.entry(root, position)} was published more than once",
        hint="run `siltstone verify` to see what is there and `siltstone repair` to mend it",
        position=position,
    )
