"""Log: numbered immutable entries, each place decided once.

What must hold:
- An entry is acknowledged (``append`` returns) only when its place was decided for it, the floor was
  known not to have passed the place after that, and, where the store is not known to keep its word, a
  witness was left and found alone.
- A retry of an operation carries the same op id and, at one place, the same bytes.
- The floor is raised before anything is deleted, and what lies below is kept for twice the time that a
  writer may trust an earlier look at the floor, measured by the store's own clock.
- A writer meets a higher epoch at its place or not at all: it then gets FencedError and no acknowledgement.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.closing import Closing
from siltstone.errors import (
    ClosedError,
    CommitUnknownError,
    ConflictError,
    FencedError,
    ForkedError,
    InternalError,
    SiltstoneError,
    TruncatedError,
    UnavailableError,
)
from siltstone.format.frame import digest
from siltstone.format.records import Header, Hint, Identity, encode_entry, encode_hint
from siltstone.log import outcomes
from siltstone.log.arguments import check_body, check_epoch, check_home, check_mark, check_op
from siltstone.log.guard import GuardedLog
from siltstone.log.marks import Entry, Mark, Said, entry_of
from siltstone.log.truncate import Truncation, truncate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from siltstone.commit.base import CommitStore
    from siltstone.env import Env
    from siltstone.format.records import Kind
    from siltstone.store.base import Store

NOTHING_SAID = Said()
HINT_EVERY = 256
HINT_EVERY_CHEAP = 64
CONFLICTS_BEFORE_LOOKING = 3
CONFLICT_WAIT_MOST_S = 0.02  # whoever is refused saw another get on: there is no fault to wait out


class Log(GuardedLog, Closing):
    """A handle on one log. Threads may share it; appends of one handle go one at a time."""

    def __init__(
        self,
        store: Store,
        root: str,
        identity: Identity,
        genesis: str,
        commits: CommitStore,
        *,
        env: Env,
        writer: str = "",
        before_write: Callable[[], None] = lambda: None,
        probe: bool = True,
        lookup: Callable[[str], Mark | None] | None = None,
        reopen: Callable[[], Log] | None = None,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(store, root, identity, genesis, commits, env=env, lookup=lookup)
        self._writer = writer
        self._before_write = before_write
        self.probe = probe  # whether its store is, or was, probed before it is written to
        self._reopen = reopen
        self._on_close = on_close
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._last: Mark | None = None  # end of the last entry this handle was acknowledged
        self._hinted_at = 0
        self._closed = False
        self._prepared = False

    # -- appending -------------------------------------------------------------------------------

    def append(
        self,
        body: bytes,
        *,
        after: Mark,
        epoch: int | None = None,
        op: str = "",
        time_ms: int | None = None,
        requires: tuple[str, ...] = (),
    ) -> Mark:
        """Add an entry right behind ``after`` and return the mark behind it. It says ``time_ms``, or now.

        ``requires`` are features that whoever reads its body must understand.

        Raises ConflictError (another's entry is there; its ``facts["end"]`` is the mark behind it),
        FencedError (one of a higher epoch is), CommitUnknownError (not known; look ``op`` up).
        """
        check_body(body)
        check_mark(after, "after")
        epoch = after.epoch if epoch is None else epoch
        check_epoch(epoch)
        op = self._env.ids.new() if op == "" else check_op(op)
        with self._writing():
            if after not in {self._tip, self._read_until}:
                check_home(self, after)
            return self._append(body, after, epoch, op, "data", said=Said(time_ms, requires))

    def add(self, body: bytes, *, epoch: int | None = None, op: str = "", since: Mark | None = None) -> Mark:
        """Add an entry wherever the log ends, behind whatever gets there first.

        With ``op``, an operation that is already in the log or in ``lookup``'s state is not added again: the
        mark behind its entry is returned. It is looked for behind ``since``, a mark from before the operation
        first ran, or from the floor on. What was truncated is known to ``lookup`` only: without one, such an
        operation is added again. Raises ConflictError only when patience ran out.
        """
        if since is not None:
            check_mark(since, "since")
        check_body(body)
        if epoch is not None:
            check_epoch(epoch)
        with self._writing():
            if since is not None:
                check_home(self, since)
            if op != "":
                return self._add_once(body, epoch, check_op(op), since=since)
            op, mark, done = self._env.ids.new(), self._fresh_tip() or self._checked_tip(), False
            for _ in self._env.tries(most_s=CONFLICT_WAIT_MOST_S):
                mark, done = self._rush(body, epoch, op, mark)
                if done:
                    return mark
                mark = self._checked_tip(mark)
            raise outcomes.crowded(op, mark, self._env.patience_s)

    def _fresh_tip(self) -> Mark | None:
        """The mark behind this handle's last entry, unless the floor may have passed it since.

        A look that is due for the acknowledgement is taken before the put: it serves both, and nothing is put
        into a place that was truncated.
        """
        if self._tip is not None:
            self._read_floor(trust_ms=self.identity.trust_ms)
            if self._floor > self._tip.position:
                self._tip = None
        return self._tip

    def _add_once(
        self, body: bytes, epoch: int | None, op: str, *, since: Mark | None = None, checked: bool = True
    ) -> Mark:
        """Add an operation that may be there, or be under way, or be run by another at this moment.

        No place from the first one read up to the one won goes without a look for ``op``.
        """
        for _ in self._env.tries(most_s=CONFLICT_WAIT_MOST_S):
            found, mark = self._search(op, since)
            if found is not None:
                if self.identity.guard == "witness":  # whoever wrote it may not have come so far
                    return self._witness(found, self.published(found.position))
                return found.end
            # After the log: what the floor passed in between is in the newer state.
            folded = self._lookup(op) if self._lookup else None
            if folded is not None:
                return folded
            since, done = self._rush(body, epoch, op, self._checked(mark) if checked else mark)
            if done:
                return since
        raise outcomes.crowded(op, since or self.start, self._env.patience_s)

    def _rush(self, body: bytes, epoch: int | None, op: str, mark: Mark) -> tuple[Mark, bool]:
        """Try the places right behind ``mark``; the mark behind one's own entry and True, or behind the others'."""
        for _ in range(CONFLICTS_BEFORE_LOOKING):
            try:
                return self._append(body, mark, mark.epoch if epoch is None else epoch, op, "data"), True
            except ConflictError as error:
                mark = _end_of(error)
        return mark, False

    def _append(self, body: bytes, after: Mark, epoch: int, op: str, kind: Kind, *, said: Said = NOTHING_SAID) -> Mark:
        if after.epoch > epoch:
            raise self._fenced(epoch, after.epoch, after.position - 1)
        while True:
            header = self._header(after, epoch, op, kind, said)
            data = encode_entry(header, body)
            winner = self._decide(data, after, op)
            if winner is None:
                return self._folded(op, after.position)
            # What was just written need not be taken apart and checked.
            entry = entry_of(header, body, winner) if winner is data else self.read(winner, after.position)
            mine = winner is data or entry.op == op
            if self._passed(op, after.position):  # else a latecomer's entry may stand in an empty place
                return self._folded(op, after.position)
            if mine:
                return self._acknowledge(entry, winner)
            self.check_follows(entry, after)
            if entry.epoch > epoch:
                raise self._fenced(epoch, entry.epoch, entry.position, entry.writer)
            if entry.epoch == epoch:
                self._tip = entry.end
                raise outcomes.taken(entry, op)
            after = entry.end  # a fenced writer's entry: dead, and only a step in the chain

    def _header(self, after: Mark, epoch: int, op: str, kind: Kind, said: Said = NOTHING_SAID) -> Header:
        return Header(
            requires=said.requires,
            log=self.identity.log,
            position=after.position,
            epoch=epoch,
            op=op,
            nonce=self._env.ids.new(),
            prev=after.digest,
            kind=kind,
            writer=self._writer,
            time_ms=self._env.clock.wall_ms() if said.time_ms is None else said.time_ms,
        )

    def _decide(self, data: bytes, after: Mark, op: str) -> bytes | None:
        """What the place holds; None where the commit store says that the floor passed it."""
        try:
            return self.commits.decide(self.place(after), data)
        except CommitUnknownError as error:
            error.facts.update(op=op, position=after.position, digest=digest(data))
            self._tip = None
            raise
        except TruncatedError:
            return None

    # -- before an acknowledgement ---------------------------------------------------------------

    def _acknowledge(self, entry: Entry, data: bytes) -> Mark:
        if self.identity.guard == "witness" and (end := self._witness(entry, data)) != entry.end:
            return end
        self._tip = self._last = entry.end
        self._hint(entry.position + 1)
        return entry.end

    # -- fencing ---------------------------------------------------------------------------------

    def fence(self, epoch: int, *, op: str = "", confirm: Callable[[], bool] = lambda: True) -> Mark:
        """Put an entry of a higher epoch at the tip, behind whatever got in first; return the mark behind it.

        ``confirm`` is asked afterwards whether the epoch is still the caller's. After a CommitUnknownError the
        same call with its ``op`` finds a fence that was put. Raises FencedError where another writer has that
        epoch or a higher one.
        """
        check_epoch(epoch)
        with self._writing():
            mark = self._checked_tip(self._tip)
            again, op = bool(op), check_op(op) if op else self._env.ids.new()
            for _ in self._env.tries():
                if mark.epoch >= epoch:
                    found = self.find(op) if again and mark.epoch == epoch else None
                    if found is None or found.kind != "fence" or found.epoch != epoch:
                        raise self._fenced(epoch, mark.epoch, mark.position - 1)
                    if self.identity.guard == "witness":  # the first call may not have come so far
                        self._witness(found, self.published(found.position))
                    return self._stands(found.end, epoch, op, confirm)
                try:
                    end = self._append(b"", mark, epoch, op, "fence")
                except ConflictError as error:
                    mark = _end_of(error)
                    continue
                return self._stands(end, epoch, op, confirm)
            raise UnavailableError(f"the log grew all the time while it was fenced ({self._env.patience_s} s)")

    def _stands(self, end: Mark, epoch: int, op: str, confirm: Callable[[], bool]) -> Mark:
        """``end`` of a fence that was put, if the floor has not passed it and the epoch is still the caller's."""
        try:
            self._read_floor()
        except SiltstoneError as error:
            raise outcomes.unfinished("the floor can't be read", op, end.position - 1, error) from error
        if end.position - 1 < self._floor or not confirm():
            raise self._fenced(epoch, None, end.position - 1)
        return end

    def _fenced(self, epoch: int, found: int | None, position: int, who: str = "") -> FencedError:
        self._tip = None
        return outcomes.fenced(self.root, epoch=epoch, found=found, position=position, who=who)

    # -- looking ---------------------------------------------------------------------------------

    def _checked_tip(self, since: Mark | None = None) -> Mark:
        """The tip; where witnesses are kept, one that no witness contradicts."""
        return self._checked(self.tip(since))

    def _checked(self, mark: Mark) -> Mark:
        if self.identity.guard == "witness" and mark.position:
            data = self.published(mark.position - 1)
            entry = None if data is None else self.read(data, mark.position - 1)
            if entry is not None and (self.floor_now(trust_ms=0) < mark.position):  # below it may be a latecomer's
                self._check_alone(entry)
        self._tip = mark
        return mark

    def restore(self, entry: Entry) -> Mark:
        """Append a lost operation again, once; ``repair`` uses it, past witnesses that contradict the tip."""
        with self._writing():
            return self._add_once(entry.body, None, entry.op, checked=False)

    # -- clean-up --------------------------------------------------------------------------------

    def truncate(self, until: Mark) -> Truncation:
        """Raise the floor to ``until``, then delete what a floor raised long enough ago allows.

        Entries stay for twice the log's ``trust_ms`` after the floor passed them; a later call removes them. Raises
        UnsafeStoreError, with all of that done, where entries that were won had been overwritten: they are kept below
        ``lost/``, and ``verify`` names them.
        """
        check_mark(until, "until")
        with self._writing():
            done = truncate(self, until)
            self._floor = max(self._floor, done.floor)
            return done

    def _hint(self, position: int) -> None:
        every = HINT_EVERY_CHEAP if self.cheap_probes else HINT_EVERY
        if position % every == 0:
            self._write_hint(position)

    def _write_hint(self, position: int) -> None:
        # Best effort: without it, finding the tip takes more requests.
        with contextlib.suppress(SiltstoneError):
            self.store.put(f"{self.root}{paths.HINT}", encode_hint(Hint(log=self.identity.log, position=position)))
            self._hinted_at = position

    def close(self) -> None:
        """Check the last acknowledgement once more and end the handle; closing twice is fine.

        Raises UnsafeStoreError where the store has replaced the entry that was acknowledged last.
        """
        if os.getpid() != self._process:
            return  # the parent's to close
        with self._lock, contextlib.ExitStack() as ending:
            if self._closed:
                return
            self._closed = True
            ending.callback(self._on_close)
            if self._last is not None:
                if self._last.position > self._hinted_at:
                    self._write_hint(self._last.position)
                self.check_receipt(self._last)

    @property
    def env(self) -> Env:
        """Its clock, ids and patience."""
        return self._env

    def check_process(self) -> None:
        """Raise ForkedError in a child of the process that opened the handle."""
        if os.getpid() != self._process:
            raise ForkedError(f"{self!r} was opened before os.fork()", hint="open it again in the child")

    def check_writable(self) -> None:
        """Raise what the first write through this handle would: UnsafeStoreError, WrongCommitStoreError."""
        with self._writing():
            return

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        self.check_process()
        with self._lock:
            if self._closed:
                raise ClosedError(f"this handle on {self!r} was closed", hint="open it again")
            if not self._prepared:
                self._before_write()
                self._prepared = True
            yield

    def __reduce__(self) -> tuple[object, ...]:
        """A handle pickles as the way to open it again; marks and trust stay behind."""
        if self._reopen is None:
            raise InternalError("this handle was not made by open_log and can't be pickled")
        return (self._reopen, ())

    def __repr__(self) -> str:
        decides = self.identity.commits or "the object store"
        return f"Log({self.store.uri}/{self.root}, decided by {decides})"


def _end_of(error: ConflictError) -> Mark:
    end = error.facts["end"]
    assert isinstance(end, Mark)  # noqa: S101 - set where the error is made
    return end
