"""Truncation against a stalled writer and a stalled reader: when is an earlier look at the floor good enough?

One place p. The victim looked at the floor, then sends its entry for p; the request may be under way for any
time. Another writer takes p first; a collector raises the floor past p and, at least ``keep`` ticks later by the
store's clock, deletes p's entry. The victim's put then finds the place empty. A reader that began before may read
the place at any time.

Knobs: ``trust`` ticks for which a look at the floor counts, on the victim's own clock, which may run at
half the store's rate (``slow``); ``keep`` ticks that the collector waits; ``look`` whether the floor is looked at
(after the put; after the read) once the trust has run out; ``floor_first``.

Holds exactly when the floor is raised first, is looked at after the put and after the read, and is kept for
twice the trusted time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

EMPTY, OTHER, VICTIM = "empty", "other's", "the victim's"


class State(NamedTuple):
    """Everything that matters; ``seen`` is None until the reader has read, ``told`` until the victim knows."""

    now: int = 0
    own: int = 0  # the victim's and the reader's clock
    looked: int = 0  # on that clock
    slot: str = EMPTY
    raised: int = -1  # when the floor passed p
    put: str = "not sent"
    told: str = ""
    seen: str = ""
    shown: str = ""


class Floor:
    """The model, with its knobs."""

    def __init__(
        self, *, trust: int = 2, keep: int = 4, slow: bool = True, look: bool = True, floor_first: bool = True
    ) -> None:
        self.trust, self.keep, self.slow, self.look, self.floor_first = trust, keep, slow, look, floor_first
        self.end = 2 * (keep + trust) + 3

    def init(self) -> State:
        return State()

    def steps(self, s: State) -> Iterator[tuple[str, State]]:
        if s.now < self.end:
            yield "time passes", s._replace(now=s.now + 1, own=s.own + 1)
            if self.slow and 2 * s.own > s.now:
                yield "time passes, the victim's clock stands still", s._replace(now=s.now + 1)
        if s.slot == EMPTY and s.raised < 0:
            yield "another writer takes p", s._replace(slot=OTHER)
        yield from self._collector(s)
        yield from self._victim(s)
        yield from self._reader(s)

    def _collector(self, s: State) -> Iterator[tuple[str, State]]:
        if s.slot == OTHER and s.raised < 0:
            if self.floor_first:
                yield "the floor is raised past p", s._replace(raised=s.now)
            else:
                yield "p is deleted, the floor is raised afterwards", s._replace(slot=EMPTY, raised=s.now + self.end)
        if s.slot == OTHER and 0 <= s.raised <= s.now - self.keep:
            yield "p is deleted", s._replace(slot=EMPTY)

    def _victim(self, s: State) -> Iterator[tuple[str, State]]:
        if s.put == "not sent":
            yield "the victim sends its entry", s._replace(put="under way")
        elif s.put == "under way":
            if s.slot == EMPTY:
                yield "the victim's put finds p empty", s._replace(slot=VICTIM, put="written")
            else:
                yield "the victim's put is refused", s._replace(put="refused", told="conflict")
        elif s.put == "written" and not s.told:
            yield "the victim is answered", s._replace(told=self._verdict(s))

    def _reader(self, s: State) -> Iterator[tuple[str, State]]:
        if not s.seen and s.slot != EMPTY:
            yield "the reader reads p", s._replace(seen=s.slot)
        if s.seen and not s.shown:
            yield "the reader shows p or not", s._replace(shown=s.seen if self._verdict(s) == "committed" else "no")

    def _verdict(self, s: State) -> str:
        """The rule in question: trust an earlier look, or look now."""
        if s.own - s.looked < self.trust:
            return "committed"
        passed = 0 <= s.raised <= s.now
        return "unknown" if self.look and passed else "committed"

    def wrong(self, s: State) -> str:
        others = s.raised >= 0 or s.slot == OTHER  # p belongs to the other writer for ever
        if others and s.told == "committed":
            return "the victim was told 'committed' for a place that is another's"
        if others and s.shown == VICTIM:
            return "a reader was shown an entry that is in no history"
        return ""


VARIANTS: dict[str, tuple[Floor, bool]] = {
    "the rule: floor first, kept for twice the trusted time": (Floor(), True),
    "the same, clocks in step, kept for the trusted time": (Floor(keep=2, slow=False), True),
    "no trust at all: the floor is looked at every time": (Floor(trust=0, keep=0), True),
    "kept only for the trusted time, a slow clock": (Floor(keep=2), False),
    "kept for no time": (Floor(keep=0), False),
    "the floor is never looked at": (Floor(look=False), False),
    "deleted first, floor raised afterwards": (Floor(floor_first=False), False),
}
