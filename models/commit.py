"""Appends that the object store decides: writers, a collector and a reader of one log.

Mirrors ``commit/conditional.py`` (create, read back, send again), ``log/log.py`` (``add`` with an op id, ``append``),
``log/guard.py`` (the floor before an acknowledgement), ``log/reader.py`` (what is searched and shown) and
``log/truncate.py``, on a store that keeps its word. ``floor.py`` says when an older look at the floor will do; here it
is looked at each time. ``loud.py`` has stores that lie.

A writer looks for its operation, entry by entry, then in what was folded, and puts it behind what it has looked
through. A request that was sent may take effect at any later time, and again. Answers get lost, a create is refused
with nothing there, or denied; a writer dies anywhere, or is told that nobody knows, and its operation is run again
by another call with the same op id. Some operations are run by two processes at once.

What must hold: a place is decided once, each entry follows the one before it, an operation is in the log at most
once; who is acknowledged is in it, who is told otherwise is not; a reader is shown the log, with all that was
acknowledged when it began; nobody is alarmed.

Knobs, the first value being the rule:

===============  ===============================================================================================
``compare``      what the place holds with one's own ``op``; or its ``bytes``; or ``none``: a refusal is a conflict
``silence``      is answered by sending the ``same`` again; or is ``failed``; or the ``next`` place is tried
``absent``       refused and nothing there: sent ``again``; or a ``conflict``
``denied``       after a lost answer it is ``unknown``; or ``failed``
``search``       for the operation, then put ``behind`` what was read; or at the ``tip`` of that moment; or ``none``
``lookup``       in what was folded, ``after`` the log was read; or ``before`` it; or ``none``
``look``         at the floor, whoever a place was decided for: ``any``; or for one's ``own`` entry; or for ``none``
``blind_floor``  a floor that can't be read makes it ``unknown`` what became of the operation; or only where the place
                 holds one's ``own`` entry, and else it failed
``floor``        ``first``, then what is below is deleted; or ``later``
``floors``       the ``highest`` counts; or the ``last``
``shows``        a reader looks at the floor ``after`` reading; or ``never``
``files``        of an operation whose outcome is unknown are ``kept``; or ``removed``
``born``         entries and chain say which log they belong to; or not, and the log may be made anew
===============  ===============================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS = 10  # of one process, at most


class Entry(NamedTuple):
    """What a place holds. ``call`` names its bytes, ``prev`` those before it, ``log`` the one it was made for."""

    op: int
    call: int
    prev: int
    log: int


class Store(NamedTuple):
    """What is shared. ``history`` is what was decided; it never changes, whatever is deleted."""

    places: tuple[Entry | None, ...]
    history: tuple[Entry | None, ...]
    floor: int = 0
    folded: int = 0  # operations before it can be looked up
    known: int = 0  # what lies before it was acknowledged
    log: int = 0
    removed: frozenset[int] = frozenset()  # operations whose files are gone
    wrong: str = ""

    @property
    def tip(self) -> int:
        """Where the history ends."""
        return next((at for at, one in enumerate(self.history) if one is None), len(self.history))

    def before(self, at: int, first: int) -> int:
        """The bytes before a place; ``first`` stand before the first one."""
        one = self.history[at - 1] if at else None
        return first if one is None else one.call

    def is_folded(self, op: int) -> bool:
        """Whether an operation is in what was folded."""
        return any(one is not None and one.op == op for one in self.history[: self.folded])


class Writer(NamedTuple):
    """One process: where its call stands, and what it has sent, for good."""

    step: str = "idle"
    call: int = 0
    start: int = 0
    at: int = 0
    prev: int = 0
    log: int = 0
    doubt: bool = False
    winner: Entry | None = None
    sent: frozenset[tuple[int, Entry]] = frozenset()
    refused: frozenset[int] = frozenset()  # calls that were told that they are not in the log
    faults: int = 0
    deaths: int = 0


class Taker(NamedTuple):
    """A reader, or a collector."""

    step: str = "idle"
    start: int = 0
    at: int = 0
    prev: int = 0
    log: int = 0
    odd: bool = False
    promised: int = 0


Moves: TypeAlias = "Iterator[tuple[str, Store, Writer]]"
Takes: TypeAlias = "Iterator[tuple[str, Store, Taker]]"


class Commit:
    """The model, with its knobs.

    ``ops`` are what the processes run; ``takers`` are one letter each: c collects, r reads.
    """

    def __init__(
        self,
        *ops: int,
        takers: str = "",
        places: int = 3,
        faults: int = 1,
        deaths: int = 1,
        remade: bool = False,
        compare: str = "op",
        silence: str = "same",
        absent: str = "again",
        denied: str = "unknown",
        search: str = "behind",
        lookup: str = "after",
        look: str = "any",
        blind_floor: str = "unknown",
        floor: str = "first",
        floors: str = "highest",
        shows: str = "after",
        files: str = "kept",
        born: bool = True,
    ) -> None:
        self.ops, self.kinds, self.places, self.faults, self.deaths = ops, takers, places, faults, deaths
        self.remade, self.compare, self.silence, self.absent, self.denied = remade, compare, silence, absent, denied
        self.search, self.lookup, self.look, self.blind_floor = search, lookup, look, blind_floor
        self.floor, self.floors, self.shows, self.files, self.born = floor, floors, shows, files, born

    def init(self) -> tuple[Store, tuple[Writer | Taker, ...]]:
        empty = (None,) * self.places
        writers = [Writer(call=1 + n * CALLS, faults=self.faults, deaths=self.deaths) for n in range(len(self.ops))]
        return Store(empty, empty), (*writers, *(Taker() for _ in self.kinds))

    def moves(self, number: int, store: Store, part: Writer | Taker) -> Moves | Takes:
        if isinstance(part, Taker):
            kind = self.kinds[number - len(self.ops)]
            return (self._collector if kind == "c" else self._reader)(f"{kind}{number}", store, part)
        return self._writer(f"W{number}", store, part, self.ops[number])

    def wrong(self, store: Store) -> str:
        return store.wrong

    # -- one call ----------------------------------------------------------------------------------

    def _writer(self, name: str, s: Store, w: Writer, op: int) -> Moves:
        for at, entry in w.sent:
            if s.places[at] is None:
                yield f"{name}: {entry} arrives at {at}, nobody hears it", self._placed(s, w, at, entry), w
        if w.deaths and w.step not in {"idle", "over"}:
            yield f"{name} dies, and is run again", s, _again(w)
        if w.step in {"idle", "folded?", "floor", "reading", "looked"}:
            yield from self._looks(name, s, w, op)
        elif w.step in {"send", "waiting", "refused"}:
            yield from self._decides(name, s, w, op)
        elif w.step in {"decided", "passed"}:
            yield from self._judges(name, s, w, op)

    def _looks(self, name: str, s: Store, w: Writer, op: int) -> Moves:
        """``_add_once``: the log, then what was folded."""
        if w.step == "idle":
            yield f"{name} begins", s, w._replace(step="folded?" if self.lookup == "before" else "floor", log=s.log)
        elif w.step == "floor":
            at = s.tip if self.search == "none" else s.floor
            step = "looked" if self.search == "none" else "reading"
            w = w._replace(step=step, start=at, at=at, prev=s.before(at, self._first(w.log)))
            yield f"{name} begins at {at}", s, w
        elif w.step == "reading":
            found = s.places[w.at] if w.at < self.places else None
            if found is None:
                yield f"{name} finds nothing at {w.at}", s, w._replace(step="looked")
            elif self.born and found.log != w.log:
                yield f"{name} finds another log's entry: it is alarmed", s, _over(w)
            elif found.prev != w.prev:
                yield f"{name} finds what does not follow", *self._astray(s, w)
            elif found.op == op:
                after = w._replace(step="floor") if s.floor > w.start else _over(w)
                told = s if s.floor > w.start else self._acked(s, w, w.at, op)
                yield f"{name} finds its operation at {w.at}, and looks at the floor", told, after
            else:
                yield f"{name} reads {w.at}", s, w._replace(at=w.at + 1, prev=found.call)
        elif w.step == "looked":
            if s.floor > w.start:
                yield f"{name} finds that the floor has moved", s, w._replace(step="floor")
            else:
                yield f"{name} has looked through the log", s, self._ahead(s, w, "before" not in self.lookup)
        else:
            found_there = s.is_folded(op) and self.lookup != "none"
            step = "floor" if self.lookup == "before" else "send"
            yield f"{name} looks it up: {found_there}", s, _over(w) if found_there else w._replace(step=step)

    def _ahead(self, s: Store, w: Writer, look_up: bool) -> Writer:  # noqa: FBT001
        """Where the entry is to go."""
        if self.search == "tip":
            w = w._replace(at=s.tip, prev=s.before(s.tip, self._first(w.log)))
        return w._replace(step="folded?" if look_up else "send")

    def _astray(self, s: Store, w: Writer) -> tuple[Store, Writer]:
        """What is met may be a latecomer's, if the floor says so."""
        if s.floor > w.start:
            return s, w._replace(step="floor")
        return self._corrupt(s, w), _over(w)

    # -- one place ---------------------------------------------------------------------------------

    def _decides(self, name: str, s: Store, w: Writer, op: int) -> Moves:
        """``ConditionalPut.decide``."""
        if w.step == "refused":
            found = s.places[w.at]
            if found is not None:
                yield f"{name} reads {found} back", s, w._replace(step="decided", winner=found)
            elif self.absent == "again":
                yield f"{name} finds nothing there, and sends it again", s, w._replace(step="send")
            else:
                yield f"{name} finds nothing there, and says that it is a conflict", *self._refused(s, w)
            return
        mine = Entry(op, w.call, w.prev, w.log)
        if w.step == "send":
            if w.at < self.places:
                yield f"{name} sends {mine} to {w.at}", s, w._replace(step="waiting", sent=w.sent | {(w.at, mine)})
            if w.faults and w.doubt and self.denied == "unknown":
                yield f"{name} is denied after a lost answer", *self._unknown(s, w._replace(faults=w.faults - 1), op)
            elif w.faults:
                yield f"{name} is denied", *self._refused(s, w._replace(faults=w.faults - 1))
            return
        if s.places[w.at] is None:
            after = w._replace(step="decided", winner=mine)
            yield f"{name} hears that {mine} was created", self._placed(s, w, w.at, mine), after
        else:
            yield f"{name} hears that it was refused", s, w._replace(step="refused", doubt=True)
        if w.faults:
            less = w._replace(faults=w.faults - 1)
            yield f"{name} hears nothing", *self._silence(s, less)
            yield f"{name} hears that it was refused, for nothing", s, less._replace(step="refused", doubt=True)

    def _silence(self, s: Store, w: Writer) -> tuple[Store, Writer]:
        if self.silence == "failed":
            return self._refused(s, w)
        if self.silence == "next" and s.tip < self.places:
            return s, w._replace(step="send", at=s.tip, prev=s.before(s.tip, self._first(w.log)))
        return s, w._replace(step="send", doubt=True)

    def _judges(self, name: str, s: Store, w: Writer, op: int) -> Moves:
        """``Log._append``, once the place is decided."""
        winner = w.winner
        assert winner is not None  # noqa: S101 - set with the step
        mine = winner.call == w.call or {"op": winner.op == op, "bytes": False, "none": False}[self.compare]
        mine = mine and not (self.compare == "none" and w.doubt)
        if w.step == "passed":
            if self.lookup != "none" and s.is_folded(op):
                yield f"{name} looks it up: it is there", s, _over(w)
            else:
                yield f"{name} can't tell", *self._unknown(s, w, op)
            return
        if w.faults:
            less = w._replace(faults=w.faults - 1)
            doubted = mine or self.blind_floor == "unknown"
            after = self._unknown(s, less, op) if doubted else self._refused(s, less)
            yield f"{name} can't read the floor: {'unknown' if doubted else 'failed'}", *after
        if w.at < s.floor and (self.look == "any" or (self.look == "own" and mine)):
            yield f"{name} finds that the floor has passed {w.at}", s, w._replace(step="passed", winner=winner)
        elif self.born and winner.log != w.log:
            yield f"{name} finds another log's entry: it is alarmed", s, _over(w)
        elif mine:
            yield f"{name} is acknowledged at {w.at}", self._acked(s, w, w.at, op), _over(w)
        elif winner.prev != w.prev:
            yield f"{name} finds that {winner} does not follow", self._corrupt(s, w), _over(w)
        else:
            yield f"{name} is told of a conflict", *self._refused(s, w)
            behind = w._replace(step="send", at=w.at + 1, prev=winner.call, winner=None, doubt=False)
            yield f"{name} goes behind {winner}", s, behind

    # -- what is said ------------------------------------------------------------------------------

    def _first(self, log: int) -> int:
        return -log if self.born else 0

    def _placed(self, s: Store, w: Writer, at: int, entry: Entry) -> Store:
        s = s._replace(places=_set(s.places, at, entry))
        if s.history[at] is not None or (entry.log != s.log and self.born):
            return s  # a latecomer's, in a place that was deleted
        wrong = s.wrong
        if any(one is not None and one.op == entry.op for one in s.history):
            wrong = "an operation is in the log twice"
        elif entry.prev != s.before(at, self._first(entry.log)) or (at and s.history[at - 1] is None):
            wrong = "an entry does not follow the one before it"
        elif entry.call in w.refused:
            wrong = "an operation was told that it failed, and is in the log"
        elif entry.op in s.removed:
            wrong = "an operation is in the log, and its files are gone"
        return s._replace(history=_set(s.history, at, entry), wrong=wrong)

    def _acked(self, s: Store, w: Writer, at: int, op: int) -> Store:
        there = s.history[at]
        if w.log != s.log:
            return s  # what was removed by force is gone
        if there is None or there.op != op:
            return s._replace(wrong="an operation was acknowledged and is not in the log")
        return s._replace(known=max(s.known, at + 1))

    def _corrupt(self, s: Store, w: Writer) -> Store:
        """An alarm; it is no false one where the log was removed while it was written to."""
        return s if w.log != s.log else s._replace(wrong="someone is told that the log is corrupt")

    def _refused(self, s: Store, w: Writer) -> tuple[Store, Writer]:
        if any(one is not None and one.call == w.call for one in s.history):
            return s._replace(wrong="an operation was told that it failed, and is in the log"), w
        return s, _over(w)._replace(refused=w.refused | {w.call})

    def _unknown(self, s: Store, w: Writer, op: int) -> tuple[Store, Writer]:
        if self.files == "removed":
            s = s._replace(removed=s.removed | {op})
            if any(one is not None and one.op == op for one in s.history):
                s = s._replace(wrong="an operation is in the log, and its files are gone")
            return s, _over(w)
        return s, _again(w) if w.deaths else _over(w)

    # -- those who take ----------------------------------------------------------------------------

    def _collector(self, name: str, s: Store, t: Taker) -> Takes:
        if t.step == "idle":
            for at in range(s.floor + 1, s.tip + 1):
                yield f"{name} folds what is before {at}", s._replace(folded=max(s.folded, at)), Taker("folded", at=at)
            if self.remade and not s.log:
                empty = (None,) * self.places
                yield f"{name} makes the log anew", Store(empty, empty, log=1), Taker("over")
        elif t.step == "folded":
            floor = t.at if self.floors == "last" else max(s.floor, t.at)
            if self.floor == "first":
                yield f"{name} raises the floor to {floor}", s._replace(floor=floor), Taker("deletes", at=t.at)
            elif any(s.places[: t.at]):
                yield from self._deletes(name, s, t)
            else:
                yield f"{name} raises the floor to {floor}", s._replace(floor=floor), Taker()
        else:
            yield from self._deletes(name, s, t)
            yield f"{name} is done", s, Taker("over" if t.step == "over" else "idle")

    def _deletes(self, name: str, s: Store, t: Taker) -> Takes:
        for at in range(t.at):
            if s.places[at] is not None:
                yield f"{name} deletes {at}", s._replace(places=_set(s.places, at, None)), t

    def _reader(self, name: str, s: Store, t: Taker) -> Takes:
        if t.step == "idle":
            prev = s.before(s.floor, self._first(s.log))
            yield f"{name} begins", s, Taker("reading", s.floor, s.floor, prev, s.log, promised=s.known)
            return
        found = s.places[t.at] if t.at < self.places and t.step == "reading" else None
        if found is not None and self.born and found.log != t.log:
            yield f"{name} finds another log's entry: it is alarmed", s, Taker()
        elif found is not None and found.prev != t.prev:
            after = s if s.floor > t.start or s.log != t.log else s._replace(wrong="a reader finds a broken chain")
            yield f"{name} finds what does not follow", after, Taker()
        elif found is not None:
            odd = t.odd or found != s.history[t.at] or found.log != t.log
            yield f"{name} reads {t.at}", s, t._replace(at=t.at + 1, prev=found.call, odd=odd)
        elif t.step == "reading":
            yield f"{name} finds nothing at {t.at}", s, t._replace(step="end")
        elif (s.floor > t.start and self.shows == "after") or s.log != t.log:
            yield f"{name} finds that the floor has moved", s, Taker()
        else:
            wrong = "a reader is shown what is not the log" if t.odd else ""
            wrong = wrong or ("a reader misses what was acknowledged" if t.at < t.promised else "")
            yield f"{name} shows what it has read", s._replace(wrong=wrong), Taker()


def _set(places: tuple[Entry | None, ...], at: int, entry: Entry | None) -> tuple[Entry | None, ...]:
    return (*places[:at], entry, *places[at + 1 :])


def _again(w: Writer) -> Writer:
    """Another call of the same operation; what was sent stays on its way."""
    return Writer(call=w.call + 1, sent=w.sent, refused=w.refused, faults=w.faults, deaths=w.deaths - 1)


def _over(w: Writer) -> Writer:
    return Writer("over", sent=w.sent, refused=w.refused)


VARIANTS: dict[str, tuple[Commit, bool]] = {
    "the rule, a reader": (Commit(1, 2, takers="r", places=2, faults=2), True),
    "the rule, three writers": (Commit(1, 2, 3, places=2, deaths=0), True),
    "the rule, one operation in two processes": (Commit(1, 1, takers="r", places=2, faults=2), True),
    "the rule, and in three beside another": (Commit(1, 1, 2, places=2, deaths=0), True),
    "the rule, a collector": (Commit(1, 2, takers="c", places=2, faults=0), True),
    "the rule, a collector, lost answers": (Commit(1, 2, takers="c", places=2, faults=2, deaths=0), True),
    "the rule, a collector and a reader": (Commit(1, 2, takers="cr", places=2, faults=0, deaths=0), True),
    "the rule, two collectors": (Commit(1, 2, takers="cc", places=3, faults=0, deaths=0), True),
    "the rule, the log is made anew": (Commit(1, 2, takers="cr", places=2, faults=0, deaths=0, remade=True), True),
    "a refusal is taken for a conflict": (Commit(1, 2, compare="none"), False),
    "bytes are compared, not op ids": (Commit(1, 1, compare="bytes"), False),
    "no answer is a failure": (Commit(1, 2, silence="failed"), False),
    "after no answer the next place is tried": (Commit(1, 2, silence="next"), False),
    "refused with nothing there is a conflict": (Commit(1, 2, absent="conflict"), False),
    "denied after a lost answer is a failure": (Commit(1, 2, faults=2, denied="failed"), False),
    "a second run does not look for the first": (Commit(1, 2, search="none"), False),
    "it looks, and puts at the tip": (Commit(1, 2, search="tip"), False),
    "folded operations are looked up before the log": (Commit(1, 2, takers="c", faults=0, lookup="before"), False),
    "folded operations are not looked up": (Commit(1, 2, takers="c", faults=0, lookup="none"), False),
    "the floor is not looked at": (Commit(1, 2, takers="c", faults=0, deaths=0, look="none"), False),
    "the floor is looked at for own entries": (Commit(1, 2, takers="c", faults=0, deaths=0, look="own"), False),
    "a floor that can't be read is a failure": (Commit(1, 2, takers="c", deaths=0, blind_floor="own"), False),
    "deleted first, the floor raised later": (Commit(1, 2, takers="c", faults=0, deaths=0, floor="later"), False),
    "a floor that may fall": (Commit(1, 2, takers="ccr", faults=0, deaths=0, floors="last"), False),
    "a reader does not look at the floor": (Commit(1, 2, takers="cr", faults=0, deaths=0, shows="never"), False),
    "files go when the outcome is unknown": (Commit(1, 2, files="removed"), False),
    "an entry does not say which log it is of": (
        Commit(1, 2, takers="cr", faults=0, deaths=0, remade=True, born=False),
        False,
    ),
}
LARGE: dict[str, tuple[Commit, bool]] = {
    "the rule, three writers, three places": (Commit(1, 2, 3, faults=0), True),
    "the rule, a reader, three places": (Commit(1, 2, takers="r", faults=2, deaths=2), True),
    "the rule, a collector, lost answers and deaths": (Commit(1, 2, takers="c", places=2), True),
    "the rule, three writers and a collector": (Commit(1, 2, 3, takers="c", places=2, faults=0, deaths=0), True),
}
