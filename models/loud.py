"""A store that lets several win one place: who is told, and when.

Mirrors ``log/guard.py`` (witnesses), ``log/log.py`` (``_append``, ``_add_once``, ``_checked``, ``close``),
``log/truncate.py`` and what ``verify`` finds (``verify/findings.py``). Creates may overwrite whatever is there, at any
later time, and again; puts of other names and listings are what they should be. On an honest store nobody may be
alarmed.

What must hold: with witnesses, one place is acknowledged to one call at most; an acknowledged operation is in the log,
or in what was folded, or ``verify`` names it, or it was set aside, or will be by the next collection, or somebody was
alarmed; nobody goes on behind an entry that replaced one that was acknowledged before. With receipts, ``verify`` names
what is gone as long as someone holds them.

The code does less than the rule in one knob: ``met`` is left out.

Knobs, the first value being the rule:

===============  ===============================================================================================
``lie``          whether creates overwrite
``guard``        ``witness``; or ``receipt``, which whoever was acknowledged holds; or ``none``
``alone``        the place's witnesses are listed before an acknowledgement; or not
``found``        an operation found in the log gets its ``witness`` before it is acknowledged; or ``none``
``tip``          its witnesses are looked at before it is built upon; or not
``met``          the same of an entry that is met in one's place; or not
``chain``        is checked; or not
``floor``        is looked at once more ``after`` the witness was found alone; or only ``before`` it is put
``compares``     witnesses below the floor are compared, before they go, with the ``chain`` that the floor ends; or with
                 what is in their ``place`` then; or with ``none``
``stops``        comparing ends at a place that is empty, which had been compared before it was emptied; or goes on
===============  ===============================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS = 10  # of one process, at most


class Entry(NamedTuple):
    """What a place holds. ``call`` names its bytes, ``prev`` those before it."""

    op: int
    call: int
    prev: int


class Store(NamedTuple):
    """What is shared; ``acked`` are places, and who was told that they are its own."""

    places: tuple[Entry | None, ...]
    witnesses: frozenset[tuple[int, Entry]] = frozenset()
    floor: int = 0
    before: int = 0  # the bytes before the floor
    folded: frozenset[int] = frozenset()
    aside: frozenset[int] = frozenset()  # operations whose witnesses told of what was not folded
    acked: frozenset[tuple[int, Entry]] = frozenset()
    held: frozenset[tuple[int, int]] = frozenset()  # receipts
    alarmed: bool = False
    wrong: str = ""

    @property
    def tip(self) -> int:
        """The first place from the floor on that is free."""
        return next((at for at in range(self.floor, len(self.places)) if self.places[at] is None), len(self.places))

    @property
    def chain(self) -> list[Entry]:
        """The entries from the floor to the tip."""
        return [one for one in self.places[self.floor : self.tip] if one is not None]

    @property
    def is_whole(self) -> bool:
        """Whether each entry follows the one before it."""
        calls = [self.before, *(one.call for one in self.chain)]
        return all(one.prev == call for one, call in zip(self.chain, calls, strict=False))


class Party(NamedTuple):
    """A writer, or a collector."""

    step: str = "idle"
    call: int = 0
    at: int = 0
    prev: int = 0
    winner: Entry | None = None
    sent: frozenset[tuple[int, Entry]] = frozenset()
    plan: tuple[Entry | None, ...] = ()
    listed: frozenset[tuple[int, Entry]] = frozenset()
    deaths: int = 0


Moves: TypeAlias = "Iterator[tuple[str, Store, Party]]"


class Loud:
    """The model, with its knobs. ``ops`` are what the processes run; ``others`` are one letter each: c collects."""

    def __init__(
        self,
        *ops: int,
        others: str = "",
        places: int = 2,
        deaths: int = 1,
        lie: bool = True,
        guard: str = "witness",
        alone: bool = True,
        found: str = "witness",
        tip: bool = True,
        met: bool = True,
        chain: bool = True,
        floor: str = "after",
        compares: str = "chain",
        stops: bool = True,
    ) -> None:
        self.ops, self.kinds, self.places, self.deaths, self.lie = ops, others, places, deaths, lie
        self.guard, self.alone, self.found, self.tip, self.met, self.chain = guard, alone, found, tip, met, chain
        self.floor, self.compares, self.stops = floor, compares, stops

    def init(self) -> tuple[Store, tuple[Party, ...]]:
        writers = [Party(call=1 + n * CALLS, deaths=self.deaths) for n in range(len(self.ops))]
        return Store((None,) * self.places), (*writers, *(Party() for _ in self.kinds))

    def moves(self, number: int, s: Store, p: Party) -> Moves:
        if number >= len(self.ops):
            yield from self._collector(f"c{number}", s, p)
            return
        name, op = f"W{number}", self.ops[number]
        for at, entry in p.sent:
            if s.places[at] is None or (self.lie and s.places[at] != entry):
                yield f"{name}: {entry} arrives at {at}, nobody hears it", _placed(s, at, entry), p
        if p.deaths and p.step not in {"idle", "over"}:
            yield f"{name} dies, and is run again", *self._dead(s, p)
        if p.step in {"idle", "tip"}:
            yield from self._looks(name, s, p, op)
        elif p.step in {"send", "waiting", "decided", "met"}:
            yield from self._appends(name, s, p, op)
        else:
            yield from self._guards(name, s, p)

    # -- one call ----------------------------------------------------------------------------------

    def _looks(self, name: str, s: Store, p: Party, op: int) -> Moves:
        mine = next((at for at in range(s.floor, s.tip) if s.places[at].op == op), None)
        if self.chain and not s.is_whole:
            yield f"{name} finds that the chain is broken: it is alarmed", *_alarmed(s, p)
        elif p.step == "tip":
            yield from self._checked(name, s, p)
        elif mine is not None:
            after = p._replace(at=mine, winner=s.places[mine], step="witness" if self.found == "witness" else "acks")
            yield f"{name} finds its operation at {mine}", s, after
        elif op in s.folded:
            yield f"{name} finds its operation in what was folded", s, _over(p)
        elif s.tip < self.places:
            wrong = "" if s.is_whole else "someone goes on though the chain is broken"
            prev = s.chain[-1].call if s.chain else s.before
            yield f"{name} will be at {s.tip}", s._replace(wrong=wrong), p._replace(step="tip", at=s.tip, prev=prev)

    def _checked(self, name: str, s: Store, p: Party) -> Moves:
        """``Log._checked``: the witnesses of the newest entry."""
        looks = self.guard == "witness" and self.tip and s.floor < p.at
        if looks and self._contradicted(s, p.at - 1, p.prev):
            yield f"{name} finds another witness at {p.at - 1}: it is alarmed", *_alarmed(s, p)
        else:
            yield f"{name} builds on {p.prev}", self._built(s, p.at, p.prev), p._replace(step="send")

    def _contradicted(self, s: Store, at: int, call: int) -> bool:
        return any(place == at and one.call != call for place, one in s.witnesses)

    def _built(self, s: Store, at: int, prev: int) -> Store:
        """Nobody may go on behind what replaced an entry that was acknowledged; below the floor nothing counts."""
        other = any(place == at - 1 and one.call != prev for place, one in s.acked)
        bad = self.guard == "witness" and other and s.floor < at
        return s._replace(wrong="someone goes on behind what replaced an acknowledged entry") if bad else s

    def _appends(self, name: str, s: Store, p: Party, op: int) -> Moves:
        mine = Entry(op, p.call, p.prev)
        if p.step == "send":
            if p.at < self.places:
                yield f"{name} sends {mine} to {p.at}", s, p._replace(step="waiting", sent=p.sent | {(p.at, mine)})
        elif p.step == "waiting":
            there = s.places[p.at]
            if there is None or self.lie:
                after = p._replace(step="decided", winner=mine)
                yield f"{name} hears that {mine} was created over {there}", _placed(s, p.at, mine), after
            if there is not None:
                yield f"{name} is refused, and reads {there}", s, p._replace(step="decided", winner=there)
        elif p.step == "decided":
            yield from self._judges(name, s, p, op)
        elif self.met and self.guard == "witness" and self._contradicted(s, p.at - 1, p.prev):
            yield f"{name} finds another witness at {p.at - 1}: it is alarmed", *_alarmed(s, p)
        else:
            yield f"{name} goes behind {p.prev}", self._built(s, p.at, p.prev), p._replace(step="send")

    def _judges(self, name: str, s: Store, p: Party, op: int) -> Moves:
        winner = p.winner
        assert winner is not None  # noqa: S101 - set with the step
        if p.at < s.floor:
            yield f"{name} finds that the floor has passed {p.at}", *self._unknown(s, p)
        elif winner.op == op:
            yield f"{name} has won {p.at}", s, p._replace(step="witness")
        elif self.chain and winner.prev != p.prev:
            yield f"{name} finds what does not follow: it is alarmed", *_alarmed(s, p)
        else:
            yield f"{name} is told of a conflict", s, _over(p)
            yield f"{name} met {winner}", s, p._replace(step="met", at=p.at + 1, prev=winner.call, winner=None)

    # -- before and after an acknowledgement -------------------------------------------------------

    def _guards(self, name: str, s: Store, p: Party) -> Moves:
        winner = p.winner
        if p.step == "held":
            there = s.places[p.at]
            if p.at >= s.floor and (there is None or there.call != p.prev):
                yield f"{name} finds that its receipt does not hold: it is alarmed", *_alarmed(s, p)
        elif winner is None:
            return
        elif p.step == "witness" and self.guard != "witness":
            yield f"{name} needs no witness", s, p._replace(step="acks")
        elif p.step == "witness":
            after = s._replace(witnesses=s.witnesses | {(p.at, winner)})
            yield f"{name} leaves its witness at {p.at}", after, p._replace(step="list" if self.alone else "floor")
        elif p.step == "list":
            if self._contradicted(s, p.at, winner.call):
                yield f"{name} finds another witness at {p.at}: it is alarmed", *_alarmed(s, p)
            else:
                yield f"{name} finds its witness alone", s, p._replace(step="floor")
        elif p.step == "floor" and self.floor == "after" and p.at < s.floor:
            yield f"{name} finds that the floor has passed {p.at}", *self._unknown(s, p)
        else:
            yield f"{name} is acknowledged at {p.at}", *self._acked(s, p, winner)

    def _acked(self, s: Store, p: Party, winner: Entry) -> tuple[Store, Party]:
        if self.guard == "witness" and any(at == p.at and one.call != winner.call for at, one in s.acked):
            return s._replace(wrong="two were acknowledged in one place"), p
        s = s._replace(acked=s.acked | {(p.at, winner)})
        if self.guard != "receipt":
            return s, _over(p)
        held = Party("held", p.call, p.at, winner.call, sent=p.sent, deaths=p.deaths)
        return s._replace(held=s.held | {(p.at, winner.call)}), held

    def _unknown(self, s: Store, p: Party) -> tuple[Store, Party]:
        return self._dead(s, p) if p.deaths else (s, _over(p))

    def _dead(self, s: Store, p: Party) -> tuple[Store, Party]:
        if p.step == "held":
            return s._replace(held=s.held - {(p.at, p.prev)}), _over(p)
        return s, Party(call=p.call + 1, sent=p.sent, deaths=p.deaths - 1)

    # -- a collector -------------------------------------------------------------------------------

    def _collector(self, name: str, s: Store, p: Party) -> Moves:
        if p.step == "idle":
            yield from self._folds(name, s)
        elif p.step == "folded":
            there = s.places[p.at - 1]
            if p.at <= s.floor or there is None or there.call != p.prev:
                yield f"{name} is refused", s, Party()
            else:
                folded = s.folded.union(one.op for one in p.plan if one is not None)
                after = s._replace(floor=p.at, before=there.call, folded=folded)
                yield f"{name} raises the floor to {p.at}", after, Party()
        else:
            yield f"{name} dies", s, Party()
            yield from self._removes(name, s, p)

    def _folds(self, name: str, s: Store) -> Moves:
        if not s.is_whole:
            yield f"{name} finds that the chain is broken: it is alarmed", s._replace(alarmed=True), Party()
            return
        for count in range(1, len(s.chain) + 1):
            read = tuple(s.chain[:count])
            after = Party("folded", at=s.floor + count, prev=read[-1].call, plan=read)
            yield f"{name} folds {count} entries", s, after
        if any(at < s.floor for at, _ in s.witnesses) or any(s.places[: s.floor]):
            yield f"{name} will remove what is below {s.floor}", s, self._removing(s)

    def _removing(self, s: Store) -> Party:
        step = "list" if self.guard == "witness" and self.compares != "none" else "delete"
        return Party(step, at=s.floor, prev=s.before)

    def _removes(self, name: str, s: Store, p: Party) -> Moves:
        if p.step == "list":
            listed = frozenset(one for one in s.witnesses if one[0] < p.at)
            yield f"{name} lists witnesses", s, p._replace(step="read", listed=listed)
        elif p.step == "read":
            yield f"{name} reads entries", s, p._replace(step="aside", plan=s.places[: p.at])
        elif p.step == "aside":
            lost = {one.op for one in self._unfolded(p)} - {one.op for one in s.chain}
            after = s._replace(aside=s.aside | lost)
            yield f"{name} sets {lost or 'nothing'} aside", after, Party("delete", at=p.at)
        elif p.step == "delete":
            left = frozenset(one for one in s.witnesses if one[0] >= p.at)
            yield f"{name} removes witnesses below {p.at}", s._replace(witnesses=left), Party("entries", at=p.at)
        else:
            places = (*(None for _ in range(p.at)), *s.places[p.at :])
            yield f"{name} removes entries below {p.at}", s._replace(places=places), Party()

    def _unfolded(self, p: Party) -> list[Entry]:
        """Witnesses of something else than was folded, by what the floor and each entry say of the one before."""
        found: list[Entry] = []
        want = p.prev
        folded: set[int] = set()
        for at in range(p.at - 1, -1, -1):
            there = p.plan[at]
            if self.stops and there is None:
                break
            here = {one.call: one for place, one in p.listed if place == at}
            known = here | ({there.call: there} if there is not None else {})
            if self.compares == "place":
                want = there.call if there is not None else 0
            found += [one for call, one in here.items() if call != want]
            if want in known:
                folded.add(known[want].op)
            last = known.get(want, there)
            want = last.prev if last is not None else 0
        return [one for one in found if one.op not in folded]

    # -- what must not be --------------------------------------------------------------------------

    def wrong(self, s: Store) -> str:
        if s.wrong:
            return s.wrong
        if not self.lie and (s.alarmed or s.aside):
            return "a false alarm"
        if s.alarmed:
            return ""
        there = {one.op for one in s.chain} | s.folded
        lost = {one.op for _, one in s.acked} - there
        named = s.aside.union(one.op for at, one in s.witnesses if all(s.places[at : s.floor]))
        calls = {at: one.call for at, one in enumerate(s.chain, s.floor)}
        missed = {one.op for at, one in s.acked if (at, one.call) in s.held and calls.get(at) != one.call}
        if lost - named - missed and (s.is_whole or not self.chain):
            return f"operation {min(lost - named - missed)} was acknowledged and is gone, and nobody can tell"
        if not self.lie and lost:
            return "an acknowledged operation is gone"
        return ""


def _placed(s: Store, at: int, entry: Entry) -> Store:
    return s._replace(places=(*s.places[:at], entry, *s.places[at + 1 :]))


def _alarmed(s: Store, p: Party) -> tuple[Store, Party]:
    return s._replace(alarmed=True), _over(p)


def _over(p: Party) -> Party:
    return Party("over", sent=p.sent)


VARIANTS: dict[str, tuple[Loud, bool]] = {
    "witnesses": (Loud(1, 2), True),
    "witnesses, three writers": (Loud(1, 2, 3, deaths=0), True),
    "witnesses, one operation in two processes": (Loud(1, 1, 2, deaths=0), True),
    "witnesses, a collector": (Loud(1, 2, others="c", deaths=0), True),
    "witnesses on an honest store": (Loud(1, 2, 3, lie=False, deaths=0, places=3), True),
    "witnesses on an honest store, a collector": (Loud(1, 2, others="c", lie=False), True),
    "receipts that are held": (Loud(1, 2, 3, guard="receipt", deaths=0), True),
    "receipts whose holder is gone": (Loud(1, 2, guard="receipt"), False),
    "the chain alone": (Loud(1, 2, guard="none"), False),
    "no chain": (Loud(1, 2, places=3, chain=False), False),
    "a witness is left, and nobody looks for others": (Loud(1, 2, alone=False), False),
    "an operation that is found gets no witness": (Loud(1, 2, found="none"), False),
    "the tip's witnesses are not looked at": (Loud(1, 2, 3, tip=False, deaths=0), False),
    "those of an entry that is met are not looked at": (Loud(1, 2, 3, met=False, deaths=0), False),
    "the floor is not looked at behind the witness": (Loud(1, 2, others="c", deaths=0, floor="before"), False),
    "witnesses on an honest store, two collectors": (Loud(1, 2, others="cc", lie=False, deaths=0), True),
    "witnesses are deleted without a look": (Loud(1, 2, others="c", deaths=0, compares="none"), False),
    "witnesses are compared with what is in their place": (
        Loud(1, 2, others="c", deaths=0, compares="place"),
        False,
    ),
    "comparing goes on where a place is empty": (Loud(1, 2, others="c", lie=False, deaths=0, stops=False), False),
}
LARGE: dict[str, tuple[Loud, bool]] = {
    "witnesses, writers that die twice": (Loud(1, 2, deaths=2), True),
    "witnesses on an honest store, writers that die twice": (Loud(1, 2, lie=False, deaths=2), True),
    "witnesses on an honest store, three writers and a collector": (
        Loud(1, 2, 3, others="c", lie=False, deaths=0),
        True,
    ),
}
