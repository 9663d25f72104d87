"""The write path of one shard: writers who take it over, flushes, truncation, merges, a split, and a fresh reader.

A writer claims an epoch in the manifest, fences the WAL at its tip, reads the manifest again, replays, and puts one
entry at a time. A request that was sent may take effect at any later time, and again; anyone may never be heard of
again, which is what a crash is. Each row that was put is a memtable of its own, and becomes a fragment by itself.

Knobs, the first value being the rule:

==========  ====================================================================================================
``fence``   at the tip, for every epoch but the first; or never
``blind``   none; or which looks at epochs are left out: ``fence`` (at what stands before it in the WAL), ``confirm``
            (at the manifest, behind the fence), ``replay`` (at what is replayed)
``claim``   ``behind`` whatever the manifest holds by then; or ``over`` what an older writer wrote in between, as the
            log would have it if the manifest's entries carried the writers' epochs
``retry``   in the ``same`` place; or in the ``next`` one
``look``    the floor is looked at before an acknowledgement (``floor.py`` says when an older look will do); or not
``flush``   fragment and cursor ``together``, oldest first; or ``cursor first``, ``fragment first``, ``any order``
``merge``   rows and cursor ``together``, and only where the cursor is where it was; or ``unchecked``, ``cursor later``
``tidy``    ``after`` the commit; or ``before`` it
``reads``   ``manifest, WAL, table``, or the ``memory`` of the first writer where nobody came behind it, then the
            table; or ``table first``, ``WAL first``, ``memory unchecked``
``split``   ``seal and fence``, then one version; or ``no seal``, ``no fence``
==========  ====================================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FENCE = 0  # the row of an entry that has none
Row = tuple[int, int]  # the position of its entry in the WAL, and its name


class Entry(NamedTuple):
    """An entry of the WAL."""

    epoch: int
    row: int


class Manifest(NamedTuple):
    """Who writes the shard, from where its WAL counts, and what is in its fragments."""

    epoch: int = 0
    replay_from: int = 0
    rows: frozenset[Row] = frozenset()
    sealed: bool = False


class Table(NamedTuple):
    """The newest version: its rows, up to where the shard is merged, and whether the keys are in other shards now."""

    rows: tuple[int, ...] = ()
    merged: int = 0
    split: bool = False


class Writer(NamedTuple):
    """One who writes the shard. ``at`` is where its next entry goes, ``sent`` whether one is under way there."""

    step: str = "closed"
    left: tuple[int, ...] = ()
    epoch: int = 0
    at: int = 0
    sent: bool = False
    held: tuple[Row, ...] = ()  # memtables, oldest first
    read: Manifest = Manifest()  # what it knows of it


class Taker(NamedTuple):
    """One who merges or splits, or the reader: what it has read so far."""

    step: str = "idle"
    table: Table = Table()
    manifest: Manifest = Manifest()
    rows: tuple[Row, ...] = ()
    until: int = 0
    promised: frozenset[int] = frozenset()  # acknowledged when the reader began
    wrong: str = ""


class State(NamedTuple):
    """Everything."""

    writers: tuple[Writer, ...]
    takers: tuple[Taker, ...]
    wal: tuple[Entry | None, ...]
    manifest: Manifest = Manifest()
    floor: int = 0
    table: Table = Table()
    net: frozenset[tuple[int, Entry]] = frozenset()
    acked: frozenset[int] = frozenset()
    flushes: int = 0

    @property
    def tip(self) -> int:
        """The first place from the floor on that is free."""
        return next((at for at in range(self.floor, len(self.wal)) if self.wal[at] is None), len(self.wal))

    def rows(self, start: int, end: int) -> tuple[Row, ...]:
        """The rows of the WAL in some places."""
        places = [(at, self.wal[at]) for at in range(start, end)]
        return tuple((at, one.row) for at, one in places if one is not None and one.row != FENCE)

    def writer(self, number: int, writer: Writer) -> State:
        """With another state of one writer; what an ended one knew does not matter."""
        if writer.step == "ended":
            writer = Writer("ended")
        return self._replace(writers=(*self.writers[:number], writer, *self.writers[number + 1 :]))

    def taker(self, number: int, taker: Taker) -> State:
        """With another state of one taker; what one that is done knew does not matter."""
        if taker.step == "done":
            taker = Taker("done", wrong=taker.wrong)
        return self._replace(takers=(*self.takers[:number], taker, *self.takers[number + 1 :]))

    def noted(self, manifest: Manifest) -> State:
        """With another manifest, and the WAL truncated by it."""
        return self._replace(manifest=manifest, floor=max(self.floor, manifest.replay_from))


Steps: TypeAlias = "Iterator[tuple[str, State]]"


class Wal:
    """The model, with its knobs.

    ``puts`` are how many rows each writer has, in the order in which they claim the shard; ``takers`` are one letter
    each: m merges, s splits, r reads.
    """

    def __init__(
        self,
        *puts: int,
        takers: str = "",
        places: int = 6,
        flushes: int = 2,
        fence: bool = True,
        blind: Iterable[str] = (),
        claim: str = "behind",
        retry: str = "same",
        look: bool = True,
        flush: str = "together",
        merge: str = "together",
        tidy: str = "after",
        reads: str = "manifest, WAL, table",
        split: str = "seal and fence",
    ) -> None:
        self.puts, self.kinds, self.places, self.budget = puts, takers, places, flushes
        self.fence, self.blind, self.claim, self.retry, self.look = fence, frozenset(blind), claim, retry, look
        self.flush, self.merge, self.tidy, self.reads, self.split = flush, merge, tidy, reads, split

    def init(self) -> State:
        names = iter(range(1, sum(self.puts) + 1))
        writers = tuple(Writer(left=tuple(next(names) for _ in range(count))) for count in self.puts)
        return State(writers, (Taker(),) * len(self.kinds), (None,) * self.places, flushes=self.budget)

    def steps(self, s: State) -> Steps:
        for number, writer in enumerate(s.writers):
            yield from self._opens(s, number, writer)
            yield from self._puts(s, number, writer)
            yield from self._flushes(s, number, writer)
        for at, entry in s.net:
            if s.wal[at] is None:
                yield f"{_shown(entry)} lands at {at}", s._replace(wal=(*s.wal[:at], entry, *s.wal[at + 1 :]))
        if any(s.wal[: s.floor]):
            yield "what is below the floor is deleted", s._replace(wal=(None,) * s.floor + s.wal[s.floor :])
        for number, (kind, taker) in enumerate(zip(self.kinds, s.takers, strict=True)):
            yield from {"m": self._merges, "s": self._splits, "r": self._reader}[kind](s, number, taker)

    # -- writers -----------------------------------------------------------------------------------

    def _opens(self, s: State, number: int, w: Writer) -> Steps:
        name = f"writer {number}"
        if w.step == "closed" and not s.manifest.sealed and s.manifest.epoch == number:
            yield f"{name} reads the manifest", s.writer(number, w._replace(step="claiming", read=s.manifest))
        elif w.step == "claiming":
            if s.manifest == w.read or (self.claim == "over" and s.manifest.epoch == w.read.epoch):
                manifest = w.read._replace(epoch=w.read.epoch + 1)
                step = "fencing" if self.fence and manifest.epoch > 1 else "fenced"
                w = w._replace(step=step, epoch=manifest.epoch, at=s.tip if manifest.epoch > 1 else 0, read=Manifest())
                yield f"{name} claims epoch {w.epoch}", s.writer(number, w).noted(manifest)
            else:
                yield f"{name} finds another entry there", s.writer(number, w._replace(step="closed", read=Manifest()))
        elif w.step == "fencing":
            yield from self._fences(s, number, w)
        elif w.step == "fenced":
            lost = s.manifest.epoch != w.epoch or s.manifest.replay_from > w.at
            step = "ended" if lost and "confirm" not in self.blind else "replaying"
            yield f"{name} reads the manifest again: {step}", s.writer(number, w._replace(step=step, read=s.manifest))
        elif w.step == "replaying":
            start = w.read.replay_from
            higher = any(one is not None and one.epoch > w.epoch for one in s.wal[start : w.at])
            step = "ended" if start < s.floor or (higher and "replay" not in self.blind) else "ready"
            w = w._replace(step=step, held=s.rows(start, w.at))
            yield f"{name} replays: {step}", s.writer(number, w)

    def _fences(self, s: State, number: int, w: Writer) -> Steps:
        found = s.wal[w.at] if w.at < self.places else None
        if not w.sent:
            yield from self._sends(s, number, w, FENCE)
        elif found == Entry(w.epoch, FENCE):
            step = "fenced" if w.at >= s.floor else "ended"
            yield f"writer {number} finds its fence", s.writer(number, w._replace(step=step, at=w.at + 1, sent=False))
        elif found is not None:
            ahead = found.epoch < w.epoch or "fence" in self.blind
            w = w._replace(at=w.at + 1, sent=False) if ahead else w._replace(step="ended")
            yield f"writer {number} finds {_shown(found)} where its fence should be", s.writer(number, w)

    def _puts(self, s: State, number: int, w: Writer) -> Steps:
        if w.step == "ready" and w.left and not w.sent:
            yield from self._sends(s, number, w, w.left[0])
        elif w.step == "ready" and w.sent:
            found = s.wal[w.at]
            if found == Entry(w.epoch, w.left[0]):
                yield (
                    f"writer {number} hears that row {w.left[0]} is there",
                    s.writer(number, w._replace(step="landed")),
                )
            elif found is not None:
                after = w._replace(at=w.at + 1, sent=False) if found.epoch < w.epoch else w._replace(step="ended")
                yield f"writer {number} finds {_shown(found)} in its place", s.writer(number, after)
            if self.retry == "next":
                yield f"writer {number} hears nothing", s.writer(number, w._replace(at=w.at + 1, sent=False))
        elif w.step == "landed":
            row = w.left[0]
            if self.look and w.at < s.floor:
                yield f"writer {number} can't tell about row {row}", s.writer(number, w._replace(step="ended"))
            else:
                held = (*w.held, (w.at, row))
                w = w._replace(step="ready", left=w.left[1:], at=w.at + 1, sent=False, held=held)
                yield f"row {row} is acknowledged", s.writer(number, w)._replace(acked=s.acked | {row})

    def _sends(self, s: State, number: int, w: Writer, row: int) -> Steps:
        if w.at < self.places:
            entry = Entry(w.epoch, row)
            after = s.writer(number, w._replace(sent=True))
            yield f"writer {number} sends {_shown(entry)} to {w.at}", after._replace(net=s.net | {(w.at, entry)})

    def _flushes(self, s: State, number: int, w: Writer) -> Steps:
        if w.step not in {"ready", "landed"} or not s.flushes or s.manifest.epoch != w.epoch:
            return
        for row in w.held if self.flush == "any order" else w.held[:1]:
            before = s.manifest
            manifest = before._replace(rows=before.rows | {row}, replay_from=max(before.replay_from, row[0] + 1))
            w_ = w._replace(held=tuple(one for one in w.held if one != row))
            if self.flush in {"cursor first", "fragment first"}:  # and it dies between the two
                w_ = Writer("ended")
                kept = {"rows": before.rows} if self.flush == "cursor first" else {"replay_from": before.replay_from}
                manifest = manifest._replace(**kept)
            after = s.writer(number, w_._replace(read=manifest))._replace(flushes=s.flushes - 1)
            yield f"writer {number} flushes row {row[1]}", after.noted(manifest)

    # -- those who take rows -----------------------------------------------------------------------

    def _splits(self, s: State, number: int, t: Taker) -> Steps:
        if t.step == "idle" and self.split != "no seal":
            manifest = s.manifest._replace(sealed=True, epoch=s.manifest.epoch + 1)
            yield "the shard is sealed", s.taker(number, t._replace(step="sealed")).noted(manifest)
        elif t.step == "sealed" and self.split != "no fence" and s.tip < self.places:
            wal = (*s.wal[: s.tip], Entry(s.manifest.epoch, FENCE), *s.wal[s.tip + 1 :])
            yield "its WAL is fenced", s.taker(number, t._replace(step="begun"))._replace(wal=wal)
        else:
            begun = {"idle": "begun", "sealed": "begun"} if self.split != "seal and fence" else {}
            yield from self._merges(s, number, t._replace(step=begun.get(t.step, t.step)), begun="begun")

    def _merges(self, s: State, number: int, t: Taker, begun: str = "idle") -> Steps:
        name = f"{self.kinds[number]}{number}"
        if t.step == begun and not s.table.split:
            yield f"{name} reads the table", s.taker(number, t._replace(step="table", table=s.table))
        elif t.step == "table":
            yield f"{name} reads the manifest", s.taker(number, t._replace(step="manifest", manifest=s.manifest))
        elif t.step == "manifest":
            yield f"{name} reads the WAL", s.taker(number, self._followed(s, t, begun))
        elif t.step == "read" and self.tidy == "before":
            yield f"{name} tidies", _tidied(s, t.until).taker(number, t._replace(step="tidied"))
        elif t.step in {"read", "tidied"}:
            if s.table.merged != t.table.merged and self.merge != "unchecked":
                yield f"{name} finds another version", s.taker(number, Taker(begun))
                return
            cursor = s.table.merged if self.merge == "cursor later" else max(t.until, s.table.merged)
            rows = tuple(sorted((*s.table.rows, *(row for _, row in t.rows))))
            table = Table(rows, cursor, split=self.kinds[number] == "s")
            yield f"{name} commits {t.rows}", s.taker(number, t._replace(step="committed"))._replace(table=table)
        elif t.step == "committed" and s.table.merged < t.until:
            table = s.table._replace(merged=t.until)
            yield f"{name} moves the cursor", s.taker(number, t)._replace(table=table)
        elif t.step == "committed":
            yield f"{name} tidies", _tidied(s, s.table.merged).taker(number, Taker("done"))

    def _followed(self, s: State, t: Taker, again: str) -> Taker:
        """With the rows of fragments and of the WAL behind them; from the start where the WAL was truncated."""
        start = max(t.manifest.replay_from, t.table.merged)
        if start < s.floor:
            return Taker(again, promised=t.promised)
        flushed = tuple(sorted(one for one in t.manifest.rows if one[0] >= t.table.merged))
        return t._replace(step="read", rows=(*flushed, *s.rows(start, s.tip)), until=s.tip)

    def _reader(self, s: State, number: int, t: Taker) -> Steps:
        if t.step == "idle":
            promised = t.promised or s.acked
            if self.reads == "WAL first":
                t = Taker("WAL", s.table, rows=s.rows(s.floor, s.tip), promised=promised)
            else:
                t = Taker("table", s.table, promised=promised)
            yield "the reader begins", s.taker(number, t)
        elif t.step == "WAL":
            flushed = tuple(sorted(s.manifest.rows))
            yield "the reader reads the manifest", s.taker(number, t._replace(step="read", rows=(*t.rows, *flushed)))
        elif t.step == "table" and self._is_good(s, s.writers[0]):
            w = s.writers[0]
            t = t._replace(step="read", rows=(*sorted(w.read.rows), *w.held))
            yield "the reader takes what the first writer holds", s.taker(number, t)
        elif t.step == "table":
            yield "the reader reads the manifest", s.taker(number, t._replace(step="manifest", manifest=s.manifest))
        elif t.step == "manifest":
            yield "the reader reads the WAL", s.taker(number, self._followed(s, t, "idle"))
        elif t.step == "read":
            table = t.table if self.reads == "table first" else s.table
            yield "the reader reads the table", s.taker(number, t._replace(step="done", wrong=_judged(t, table)))

    def _is_good(self, s: State, w: Writer) -> bool:
        """Whether what a writer of the reader's own process holds will do."""
        if w.step != "ready" or "memory" not in self.reads:
            return False
        free = w.at < self.places and s.wal[w.at] is None and w.at >= s.floor
        return free or self.reads == "memory unchecked"

    def wrong(self, s: State) -> str:
        start = max(s.manifest.replay_from, s.table.merged)
        there = list(s.table.rows)
        if not s.table.split:
            there += [row for at, row in s.manifest.rows if at >= s.table.merged]
            there += [row for _, row in s.rows(start, max(start, s.tip))]
        if lost := s.acked.difference(there):
            return f"row {min(lost)} was acknowledged and can't be found any more"
        if len(there) > len(set(there)):
            return "a row counts twice"
        return next((one.wrong for one in s.takers if one.wrong), "")


def _tidied(s: State, merged: int) -> State:
    rows = frozenset(one for one in s.manifest.rows if one[0] >= merged)
    return s.noted(s.manifest._replace(rows=rows, replay_from=max(s.manifest.replay_from, merged)))


def _judged(t: Taker, table: Table) -> str:
    """What is wrong with what the reader has seen."""
    seen = [*table.rows, *(row for at, row in t.rows if at >= table.merged and not table.split)]
    if not t.promised.issubset(seen):
        return f"the reader does not see row {min(t.promised.difference(seen))}"
    return "the reader sees a row twice" if len(seen) > len(set(seen)) else ""


def _shown(entry: Entry) -> str:
    return f"{'the fence' if entry.row == FENCE else f'row {entry.row}'} of epoch {entry.epoch}"


VARIANTS: dict[str, tuple[Wal, bool]] = {
    "the rule, two writers": (Wal(2, 2, flushes=3), True),
    "the rule, three writers": (Wal(1, 1, 1), True),
    "the rule, a merge and a second writer": (Wal(2, 1, takers="m", flushes=1, places=4), True),
    "the rule, two mergers": (Wal(2, takers="mm", flushes=1, places=3), True),
    "the rule, a reader": (Wal(2, 1, takers="r", flushes=1, places=4), True),
    "the rule, a reader and a merge": (Wal(2, takers="mr", flushes=1, places=3), True),
    "the rule, a reader beside the first writer": (
        Wal(2, 1, takers="r", flushes=1, places=4, reads="memory"),
        True,
    ),
    "the rule, a split": (Wal(1, 1, takers="s", flushes=1, places=4), True),
    "the rule, a split, a merge and a reader": (Wal(1, takers="smr", flushes=1, places=3), True),
    "no fence": (Wal(2, 1, fence=False), False),
    "a fence that does not mind higher epochs": (Wal(0, 1, 2, places=5, blind=["fence"]), True),
    "the manifest is not read again": (Wal(0, 1, 2, places=5, blind=["confirm"]), True),
    "a replay that does not mind higher epochs": (Wal(0, 1, 2, blind=["replay"]), True),
    "neither fence nor manifest is looked at": (Wal(0, 1, 2, places=5, blind=["fence", "confirm"]), False),
    "no epoch is looked at": (Wal(0, 1, 1, blind=["fence", "confirm", "replay"]), False),
    "a claim that steps over what an older writer noted": (Wal(2, 1, claim="over"), False),
    "a retry in the next place": (Wal(1, retry="next"), False),
    "the floor is not looked at": (Wal(2, 1, look=False), False),
    "the cursor moves before the fragment is noted": (Wal(1, flush="cursor first"), False),
    "the fragment is noted before the cursor moves": (Wal(1, flush="fragment first"), False),
    "the cursor passes a memtable that is not flushed": (Wal(2, flush="any order"), False),
    "a merge that does not look where the cursor is": (Wal(1, takers="mm", merge="unchecked"), False),
    "a merge whose cursor moves in the next version": (Wal(1, takers="m", merge="cursor later"), False),
    "tidied before the merge is committed": (Wal(1, takers="m", tidy="before"), False),
    "a reader that reads the table first": (Wal(1, takers="mr", reads="table first"), False),
    "a reader that reads the WAL first": (Wal(1, takers="r", reads="WAL first"), False),
    "a reader that trusts a writer beside it": (Wal(1, 1, takers="r", reads="memory unchecked"), False),
    "a split without a seal": (Wal(1, takers="s", split="no seal"), False),
    "a split without a fence": (Wal(1, takers="s", split="no fence"), False),
}
