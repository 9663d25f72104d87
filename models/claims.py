"""What parties of ``external.py`` share: a registry and a store, who removes their beginning, and who harms them.

Mirrors ``commit/checks.py`` (``judge``) and ``log/truncate.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

SPLIT = "was published twice"


class Entry(NamedTuple):
    """What is staged, claimed, published. ``call`` names its bytes, ``prev`` those before it; an abort has no op."""

    op: int
    call: int
    prev: int
    by: int = 0  # whoever published it, where that is in its name


class World(NamedTuple):
    """What is shared. ``history`` is what was published first; it never changes."""

    finals: tuple[frozenset[Entry], ...]
    rows: tuple[Entry | None, ...]
    history: tuple[Entry | None, ...]
    shown: tuple[int, ...]  # bytes that a reader saw before they were published
    staged: frozenset[tuple[int, Entry]] = frozenset()
    below: int = 0  # of the range claim
    floor: int = 0
    folded: int = 0
    known: int = 0  # what lies before it was acknowledged
    unasked: int = 0  # places that were claimed though their predecessor was not known
    refused: frozenset[int] = frozenset()  # calls that were told that they are not in the log
    lost: bool = False  # a third party removed an entry
    wrong: str = ""

    @property
    def tip(self) -> int:
        """The first place from the floor on that nothing is published at."""
        return next((at for at in range(self.floor, len(self.finals)) if not self.finals[at]), len(self.finals))

    def before(self, at: int) -> int:
        """The bytes before a place."""
        one = self.history[at - 1] if at else None
        return 0 if one is None else one.call


class Party(NamedTuple):
    """A writer, a reader, a collector, or a cause of trouble."""

    step: str = "idle"
    call: int = 0
    start: int = 0
    at: int = 0
    prev: int = 0
    parent: int = 0
    doubt: bool = False
    row: Entry | None = None  # the claim that is being published, one's own or another's
    winner: Entry | None = None
    newest: int = 0
    aware: bool = False  # of what a third party removed
    then: str = "decided"  # what follows when the place is published
    asked: frozenset[tuple[int, Entry, int]] = frozenset()
    puts: frozenset[tuple[int, Entry]] = frozenset()
    faults: int = 0
    deaths: int = 0
    odd: bool = False
    promised: int = 0


Moves: TypeAlias = "Iterator[tuple[str, World, Party]]"


class Claims:
    """What a registry and a store make of requests; the knobs are those of ``External``."""

    def __init__(self, others: str, *, places: int, publish: str, parent: bool, order: str) -> None:
        self.kinds, self.places, self.publish, self.parent, self.order = others, places, publish, parent, order

    def claimed(self, w: World, at: int, entry: Entry, parent: int) -> tuple[World, Entry | None, str]:
        """``judge``: the registry after a claim, who holds the place, or why nobody does."""
        bound = w.rows[at]
        if at < w.below:
            return w, None, "truncated"
        if bound is not None:
            return w, bound, ""
        if at and at == w.below:
            fits = w.before(at) == parent
        else:
            previous = w.rows[at - 1] if at else None
            fits = at == 0 or (previous is not None and previous.call == parent)
        if not fits and self.parent:
            return w, None, "behind"
        unasked = w.unasked if fits else w.unasked | 1 << at
        return w._replace(rows=replaced(w.rows, at, entry), unasked=unasked), entry, ""

    def put(self, w: World, at: int, entry: Entry) -> World:
        """The store after a final was put."""
        there = w.finals[at]
        if self.publish == "create" and there:
            return w
        now = there | {entry} if self.publish == "fork" else frozenset({entry})
        w = w._replace(finals=replaced(w.finals, at, now))
        if w.history[at] is not None:
            return w
        wrong = ""
        if any(one is not None and one.op == entry.op and one.op for one in w.history):
            wrong = "an operation is in the log twice"
        elif entry.prev != w.before(at):
            wrong = "an entry does not follow the one before it"
        elif entry.call in w.refused:
            wrong = "an operation was told that it failed, and is in the log"
        elif w.shown[at] not in {0, entry.call}:
            wrong = "a reader was shown what is not in the log"
        return w._replace(history=replaced(w.history, at, entry), wrong=wrong)

    def alarm(self, w: World, what: str) -> World:
        """An alarm is a false one where nothing can have gone wrong."""
        causes = "f" if what == SPLIT else "fse"
        return w if any(kind in causes for kind in self.kinds) else w._replace(wrong=f"a false alarm: {what}")

    # -- a collector -------------------------------------------------------------------------------

    def collector(self, name: str, w: World, p: Party) -> Moves:
        if p.step == "idle":
            for at in range(w.floor + 1, w.tip + 1):
                yield f"{name} folds what is before {at}", w._replace(folded=max(w.folded, at)), Party("folded", at=at)
        elif p.step == "folded":
            step = "claims" if self.order == "claims" else "entries"
            yield f"{name} raises the floor to {p.at}", w._replace(floor=max(w.floor, p.at)), p._replace(step=step)
        elif p.step == "claims":
            rows = (*(None for _ in range(p.at)), *w.rows[p.at :])
            step = "staged" if self.order == "claims" else "idle"
            after = Party(step, at=p.at) if step == "staged" else Party()
            yield f"{name} makes a range claim below {p.at}", w._replace(rows=rows, below=max(w.below, p.at)), after
        elif p.step == "staged":
            staged = frozenset(one for one in w.staged if one[0] >= p.at)
            yield f"{name} deletes staged bytes below {p.at}", w._replace(staged=staged), p._replace(step="entries")
        else:
            finals = (*(frozenset[Entry]() for _ in range(p.at)), *w.finals[p.at :])
            after = Party() if self.order == "claims" else p._replace(step="claims")
            yield f"{name} deletes entries below {p.at}", w._replace(finals=finals), after

    # -- trouble -----------------------------------------------------------------------------------

    def forgets(self, name: str, w: World, p: Party) -> Moves:
        newest = max((at for at, one in enumerate(w.rows) if one is not None), default=-1)
        if p.faults and newest >= 0:
            after = w._replace(rows=replaced(w.rows, newest, None))
            yield f"{name}: the registry forgets its claim of {newest}", after, p._replace(faults=p.faults - 1)

    def strays(self, name: str, w: World, p: Party) -> Moves:
        for at, entry in w.staged if p.faults else ():
            after = w._replace(staged=w.staged - {(at, entry)})
            yield f"{name}: a third party removes the staged bytes of {entry.call}", after, p._replace(faults=0)

    def loses(self, name: str, w: World, p: Party) -> Moves:
        for at in range(w.floor, w.tip - 1) if p.faults else ():
            after = w._replace(finals=replaced(w.finals, at, frozenset()), lost=True)
            yield f"{name}: a third party removes entry {at}", after, p._replace(faults=0)


def replaced(places: tuple, at: int, one: object) -> tuple:
    return (*places[:at], one, *places[at + 1 :])
