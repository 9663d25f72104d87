"""Appends that a registry decides: stage, claim, publish, acknowledge. Readers help; the registry may forget.

Mirrors ``commit/external.py``, ``commit/checks.py`` (``judge``: what a registry answers), ``log/truncate.py`` (claims,
then staged bytes, then entries) and, from ``log/log.py`` and ``log/guard.py``, what follows a decision. A writer's
search for its operation is one step here; ``commit.py`` takes it apart.

Claims and puts that were sent may take effect at any later time, and again; answers get lost; a writer dies anywhere,
or is told that nobody knows, and its operation is run again with the same op id. The registry may forget its newest
claim (a failover, an old backup), and a third party may remove what is none of its business.

What must hold: an operation is in the log at most once; who is acknowledged is in it, who is told otherwise is not; a
reader is shown the log, with all that was acknowledged when it began; whatever is decided can be finished by
whoever comes next; nobody is alarmed unless the registry forgot or a third party removed something. Who is alarmed
does not know what became of the operation: that is no "failed".

Knobs, the first value being the rule:

===============  ===============================================================================================
``publish``      by ``create``, or by ``fork``: both are rules; or what is there is replaced: ``put``
``alone``        published by fork, the place is listed; or not
``named``        finals by fork have names from their ``bytes``; or from the ``attempt``
``silence``      of the registry: claimed ``again``; or it is a ``conflict``, and the staged bytes are removed
``ack``          when it is ``published``; or when it is ``claimed``
``parent``       the registry asks for the predecessor; or not
``shows``        a reader publishes before it shows: ``published``; or shows the ``claimed``
``loser``        publishes ``nothing`` of its own; or its ``own`` bytes
``staged``       bytes go when their final is ``there``; or once they are ``claimed``
``help_fails``   who lost a claim and can't publish the winner's bytes is told ``unknown``; or ``failed``
``gone``         a claim without bytes is closed where it is the ``newest`` and published by create; or by fork
                 too: ``any way``; or wherever it is: ``anywhere``
``order``        ``claims`` go before entries when the log is truncated; or ``entries`` before claims
``look``         at the floor, after a place was decided; or not
===============  ===============================================================================================
"""

from __future__ import annotations

from claims import SPLIT, Claims, Entry, Moves, Party, World, replaced

CALLS = 10  # of one process, at most


class External(Claims):
    """The model, with its knobs.

    ``ops`` are what the processes run; ``others`` are one letter each: r reads, c collects, f is the registry that
    forgets its newest claim, s a third party that removes staged bytes, e one that removes an entry
    (not the newest, which would look as if it had never been, and not between two steps of whoever closes its place).
    """

    def __init__(
        self,
        *ops: int,
        others: str = "",
        places: int = 2,
        faults: int = 0,
        deaths: int = 1,
        publish: str = "create",
        alone: bool = True,
        named: str = "bytes",
        silence: str = "again",
        ack: str = "published",
        parent: bool = True,
        shows: str = "published",
        loser: str = "nothing",
        staged: str = "there",
        help_fails: str = "unknown",
        gone: str = "newest",
        order: str = "claims",
        look: bool = True,
    ) -> None:
        super().__init__(others, places=places, publish=publish, parent=parent, order=order)
        self.ops, self.faults, self.deaths, self.alone, self.named = ops, faults, deaths, alone, named
        self.silence, self.ack, self.shows, self.loser, self.staged = silence, ack, shows, loser, staged
        self.help_fails, self.gone, self.look = help_fails, gone, look

    def init(self) -> tuple[World, tuple[Party, ...]]:
        none, nothing = (None,) * self.places, (frozenset[Entry](),) * self.places
        writers = [Party(call=1 + n * CALLS, faults=self.faults, deaths=self.deaths) for n in range(len(self.ops))]
        return World(nothing, none, none, (0,) * self.places), (*writers, *(Party(faults=1) for _ in self.kinds))

    def wrong(self, world: World) -> str:
        return world.wrong

    def moves(self, number: int, w: World, p: Party) -> Moves:
        kind = "w" if number < len(self.ops) else self.kinds[number - len(self.ops)]
        name = f"{kind}{number}"
        if kind in "wr":
            yield from self._late(name, w, p)
            acts = self._writer(name, w, p, self.ops[number]) if kind == "w" else self._reader(name, w, p)
            yield from acts
        else:
            yield from {"c": self.collector, "f": self.forgets, "s": self.strays, "e": self.loses}[kind](name, w, p)

    def _late(self, name: str, w: World, p: Party) -> Moves:
        """What was sent arrives, and nobody hears it."""
        for at, entry, parent in p.asked:
            after = self.claimed(w, at, entry, parent)[0]
            if after != w:
                yield f"{name}: its claim of {at} for {entry.call} arrives, nobody hears it", after, p
        for at, entry in p.puts:
            after = self.put(w, at, entry)
            if after != w:
                yield f"{name}: {entry.call} arrives at {at}, nobody hears it", after, p

    # -- a writer ----------------------------------------------------------------------------------

    def _writer(self, name: str, w: World, p: Party, op: int) -> Moves:
        if p.deaths and p.step not in {"idle", "over"}:
            yield f"{name} dies, and is run again", w, _again(p)
        if p.step == "idle":
            yield from self._begins(name, w, p, op)
        elif p.step in {"stage", "claim", "asking"}:
            yield from self._claims(name, w, p, op)
        elif p.step in {"decided", "passed"}:
            yield from self._judges(name, w, p, op)
        elif p.step != "over":
            yield from self._helps(name, w, p)

    def _begins(self, name: str, w: World, p: Party, op: int) -> Moves:
        """``_add_once``: the log up to its tip, helping there, and what was folded."""
        at = w.tip
        there = [one for places in w.finals[w.floor : at] for one in places]
        if any(len(places) > 1 for places in w.finals[w.floor : at]):
            yield f"{name} finds a split: it is alarmed", self.alarm(w, SPLIT), _over(p)
        elif any(w.finals[at + 1 :]) and self.gone == "newest":  # it looks past the end
            yield f"{name} misses {at}: it is alarmed", self.alarm(w, "missing"), _over(p)
        elif any(one.op == op for one in (*there, *w.history[: w.folded]) if one is not None):
            yield f"{name} finds its operation", w, _over(p)
        elif at < self.places:
            last = there[-1].call if there else w.before(at)
            after = p._replace(step="stage", at=at, prev=last, parent=last)
            yield f"{name} will be at {at}", w, after
            row = w.rows[at]
            if row is not None:
                yield f"{name} finds the claim of {row.call}", w, after._replace(step="help", row=row, then="idle")

    def _claims(self, name: str, w: World, p: Party, op: int) -> Moves:
        mine = Entry(op, p.call, p.prev)
        if p.step == "stage":
            staged = w._replace(staged=w.staged | {(p.at, mine)})
            yield f"{name} stages {p.call} for {p.at}", staged, p._replace(step="claim")
        elif p.step == "claim":
            asked = p.asked | {(p.at, mine, p.parent)}
            yield f"{name} claims {p.at} for {p.call}", w, p._replace(step="asking", asked=asked)
        else:
            yield from self._answered(name, *self.claimed(w, p.at, mine, p.parent), p=p, mine=mine)
            if p.faults:
                less = p._replace(faults=p.faults - 1)
                if self.silence == "conflict":
                    dropped = w._replace(staged=w.staged - {(p.at, mine)})
                    yield f"{name} hears nothing: a conflict", *self._refused(dropped, less)
                else:
                    yield f"{name} hears nothing", w, less._replace(step="claim", doubt=True)

    def _answered(self, name: str, w: World, row: Entry | None, why: str, *, p: Party, mine: Entry) -> Moves:
        if row == mine:
            if self.staged == "claimed":
                w = w._replace(staged=w.staged - {(p.at, mine)})
            step = "decided" if self.ack == "claimed" else "publish"
            yield f"{name} has won {p.at}", w, p._replace(step=step, row=mine, winner=mine)
        elif row is not None:
            after = p._replace(step="publish", row=mine) if self.loser == "own" else p._replace(step="help", row=row)
            yield f"{name} has lost {p.at} to {row.call}", w, after
        elif why == "truncated":
            yield f"{name} hears that {p.at} was truncated", w, p._replace(step="passed")
        else:
            yield from self._behind(name, w, p)

    def _behind(self, name: str, w: World, p: Party) -> Moves:
        found = w.rows[p.at - 1]
        there = w.finals[p.at - 1]
        if found is not None and p.parent == p.prev and any(one.call == -found.call == p.prev for one in there):
            yield f"{name} claims behind an abort", w, p._replace(step="claim", parent=found.call)
        else:
            yield f"{name} hears that the registry is behind: it is alarmed", self.alarm(w, "behind"), _over(p)

    # -- publishing, one's own or another's --------------------------------------------------------

    def _helps(self, name: str, w: World, p: Party) -> Moves:
        """``_help``, ``_close`` and ``_publish``."""
        row = p.row
        assert row is not None  # noqa: S101 - set with the step
        there = w.finals[p.at]
        if p.step in {"help", "close?"} and len(there) > 1:
            yield f"{name} finds a split: it is alarmed", self.alarm(w, SPLIT), _over(p)
        elif p.step in {"help", "close?"} and there:
            yield f"{name} finds {p.at} published", *self._settled(w, p, next(iter(there)))
        elif p.step == "help":
            yield f"{name} finds nothing at {p.at}", w, p._replace(step="fetch")
        elif p.step == "fetch":
            step = "publish" if (p.at, row) in w.staged else "newest"
            yield f"{name} looks for the staged bytes of {row.call}", w, p._replace(step=step)
        elif p.step == "newest":
            newest = max((at for at, one in enumerate(w.rows) if one is not None), default=-1)
            yield f"{name} asks for the newest claim", w, p._replace(step="close?", newest=newest, aware=w.lost)
        elif p.step == "close?":
            yield f"{name} finds no bytes", w, p._replace(step="close")
        elif p.step == "close" and (not w.lost or p.aware):
            yield from self._closes(name, w, p, row)
        elif p.step != "close":
            yield from self._publishes(name, w, p, row)
        if p.step in {"help", "fetch"} and p.faults and p.call and p.then == "decided":
            less = p._replace(faults=p.faults - 1)
            after = self._unknown(w, less) if self.help_fails == "unknown" else self._refused(w, less)
            yield f"{name} can't help: {self.help_fails}", *after

    def _closes(self, name: str, w: World, p: Party, row: Entry) -> Moves:
        if w.rows[p.at] is None:
            yield f"{name} finds {p.at} truncated", w, p._replace(step="passed") if p.call else Party(faults=p.faults)
        elif (p.newest > p.at and self.gone != "anywhere") or (self.publish == "fork" and self.gone == "newest"):
            yield f"{name} misses {p.at}: it is alarmed", self.alarm(w, "missing"), _over(p)
        else:
            abort = Entry(0, -row.call, row.prev)
            yield f"{name} will close {p.at}", w, p._replace(step="publish", row=abort)

    def _publishes(self, name: str, w: World, p: Party, row: Entry) -> Moves:
        final = row._replace(by=p.call if self.named == "attempt" else 0)
        if p.step == "publish":
            yield f"{name} sends {row.call} to {p.at}", w, p._replace(step="putting", puts=p.puts | {(p.at, final)})
        elif p.step == "putting":
            after = self.put(w, p.at, final)
            if self.publish == "fork" and self.alone:
                yield f"{name} hears that {row.call} was put at {p.at}", after, p._replace(step="listing")
            else:
                there = final if self.publish == "fork" else next(iter(after.finals[p.at]))
                yield f"{name} has published at {p.at}", *self._settled(after, p, there)
            if p.faults and p.call:
                yield f"{name} hears nothing of its put", w, p._replace(step="publish", faults=p.faults - 1)
        elif w.finals[p.at] == {final}:
            yield f"{name} finds it alone", *self._settled(w, p, final)
        elif w.finals[p.at]:
            yield f"{name} finds a split: it is alarmed", self.alarm(w, SPLIT), _over(p)
        else:
            yield f"{name} finds {p.at} truncated", w, p._replace(step="passed") if p.call else Party(faults=p.faults)

    def _settled(self, w: World, p: Party, there: Entry) -> tuple[World, Party]:
        """The place is published. Staged bytes go, one's own and the winner's, as soon as someone comes by."""
        row, own = p.row, {(p.at, one) for at, one, _ in p.asked if at == p.at and one.call == p.call}
        w = w._replace(staged=w.staged - own - ({(p.at, row)} if row is not None else set()))
        step = "reading" if not p.call else p.then
        return w, p._replace(
            step=step, winner=there if step == "decided" else None, row=None, newest=0, aware=False, then="decided"
        )

    # -- what is said ------------------------------------------------------------------------------

    def _judges(self, name: str, w: World, p: Party, op: int) -> Moves:
        if p.step == "passed":
            if any(one is not None and one.op == op for one in w.history[: w.folded]):
                yield f"{name} looks it up: it is there", w, _over(p)
            else:
                yield f"{name} can't tell", *self._unknown(w, p)
            return
        winner = p.winner
        assert winner is not None  # noqa: S101 - set with the step
        if self.look and p.at < w.floor:
            yield f"{name} finds that the floor has passed {p.at}", w, p._replace(step="passed")
        elif winner.op == op:
            yield f"{name} is acknowledged at {p.at}", self._acked(w, p, op), _over(p)
        elif winner.prev != p.prev:
            yield f"{name} finds what does not follow: it is alarmed", self.alarm(w, "corrupt"), _over(p)
        else:
            yield f"{name} is told of a conflict", *self._refused(w, p)
            if p.at + 1 < self.places:
                after = p._replace(step="stage", at=p.at + 1, prev=winner.call, parent=winner.call, doubt=False)
                yield f"{name} goes behind {winner.call}", w, after._replace(winner=None)

    def _acked(self, w: World, p: Party, op: int) -> World:
        there = w.history[p.at]
        if there is None or there.op != op:
            if self.ack == "claimed" and there is None and w.rows[p.at] is not None:  # it may come yet
                return w._replace(shown=replaced(w.shown, p.at, p.call))
            return w._replace(wrong="an operation was acknowledged and is not in the log")
        if w.unasked >> p.at & 1:
            return w._replace(wrong="acknowledged by a registry that had forgotten what was before")
        return w._replace(known=max(w.known, p.at + 1))

    def _refused(self, w: World, p: Party) -> tuple[World, Party]:
        if any(one is not None and one.call == p.call for one in w.history):
            return w._replace(wrong="an operation was told that it failed, and is in the log"), p
        return w._replace(refused=w.refused | {p.call}), _over(p)

    def _unknown(self, w: World, p: Party) -> tuple[World, Party]:
        return w, _again(p) if p.deaths else _over(p)

    # -- a reader ----------------------------------------------------------------------------------

    def _reader(self, name: str, w: World, p: Party) -> Moves:
        fresh = Party(faults=p.faults, puts=p.puts)
        there = w.finals[p.at] if p.at < self.places else frozenset()
        row = w.rows[p.at] if p.at < self.places else None
        if p.step == "idle":
            after = fresh._replace(step="reading", start=w.floor, at=w.floor, prev=w.before(w.floor), promised=w.known)
            yield f"{name} begins", w, after
        elif p.step == "reading" and len(there) > 1:
            yield f"{name} finds a split: it is alarmed", self.alarm(w, SPLIT), fresh
        elif p.step == "reading" and there:
            yield f"{name} reads {p.at}", *self._reads(w, p, next(iter(there)), fresh)
        elif p.step == "reading" and row is not None and self.shows == "claimed":
            w = w if w.history[p.at] else w._replace(shown=replaced(w.shown, p.at, row.call))
            yield f"{name} reads the claim of {p.at}", *self._reads(w, p, row, fresh)
        elif p.step == "reading":
            yield f"{name} finds nothing at {p.at}", w, p._replace(step="end")
            if row is not None:
                yield f"{name} finds a claim at {p.at}", w, p._replace(step="help", row=row)
        elif p.step == "end":
            yield from self._ends(name, w, p, fresh)
        else:
            yield from self._helps(name, w, p)

    def _ends(self, name: str, w: World, p: Party, fresh: Party) -> Moves:
        if w.floor > p.start:
            yield f"{name} finds that the floor has moved", w, fresh
        elif any(w.finals[p.at + 1 :]) and w.finals[p.at]:  # it looks past the end
            yield f"{name} finds that the log goes on", w, p._replace(step="reading")
        elif any(w.finals[p.at + 1 :]):
            yield f"{name} misses {p.at}: it is alarmed", self.alarm(w, "missing"), fresh
        else:
            wrong = "a reader is shown what is not the log" if p.odd else ""
            wrong = wrong or ("a reader misses what was acknowledged" if p.at < p.promised else "")
            yield f"{name} shows what it has read", w._replace(wrong=wrong), fresh

    def _reads(self, w: World, p: Party, found: Entry, fresh: Party) -> tuple[World, Party]:
        if found.prev != p.prev:
            return (w if w.floor > p.start else self.alarm(w, "corrupt")), fresh
        decided = w.history[p.at]
        odd = p.odd or (decided is not None and found.call != decided.call)
        return w, p._replace(at=p.at + 1, prev=found.call, odd=odd)


def _again(p: Party) -> Party:
    """Another call of the same operation; what was sent stays on its way."""
    return Party(call=p.call + 1, asked=p.asked, puts=p.puts, faults=p.faults, deaths=p.deaths - 1)


def _over(p: Party) -> Party:
    return Party("over" if p.call else "idle", asked=p.asked, puts=p.puts)


VARIANTS: dict[str, tuple[External, bool]] = {
    "by create": (External(1, 2, faults=1), True),
    "by fork": (External(1, 2, publish="fork"), True),
    "one operation in two processes": (External(1, 1, others="r", faults=1, deaths=0), True),
    "by create, a collector and a reader": (External(1, 2, others="cr", deaths=0), True),
    "by fork, a collector": (External(1, 2, others="c", faults=1, deaths=0, publish="fork"), True),
    "by create, the registry forgets": (External(1, 2, others="f"), True),
    "by fork, the registry forgets": (External(1, 2, others="f", publish="fork"), True),
    "by create, it forgets, answers are lost": (External(1, 2, others="f", faults=2, deaths=0), True),
    "by fork, it forgets, answers are lost": (External(1, 2, others="f", faults=2, deaths=0, publish="fork"), True),
    "by create, it forgets, a reader": (External(1, 2, others="rf", deaths=0), True),
    "by fork, it forgets, a reader": (External(1, 2, others="rf", deaths=0, publish="fork"), True),
    "by create, it forgets, a collector": (External(1, 2, others="cf", deaths=0), True),
    "by fork, it forgets, a collector": (External(1, 2, others="cf", deaths=0, publish="fork"), True),
    "by create, staged bytes are removed": (External(1, 2, others="rs", deaths=0), True),
    "by fork, staged bytes are removed": (External(1, 2, others="rs", deaths=0, publish="fork"), True),
    "by create, an entry is removed": (External(1, 2, others="re", places=3, deaths=0), True),
    "by fork, an entry is removed": (External(1, 2, others="re", places=3, deaths=0, publish="fork"), True),
    "a lost answer of the registry is a conflict": (External(1, 2, faults=1, deaths=0, silence="conflict"), False),
    "acknowledged when it is claimed": (External(1, 2, others="f", deaths=0, ack="claimed"), False),
    "published over what is there": (External(1, 2, others="f", deaths=0, publish="put"), False),
    "by fork, the place is not listed": (External(1, 2, others="f", deaths=0, publish="fork", alone=False), False),
    "by fork, names from the attempt": (External(1, 2, deaths=0, publish="fork", named="attempt"), False),
    "the predecessor is not asked for": (External(1, 2, others="f", deaths=0, parent=False), False),
    "a reader shows what is claimed": (External(1, 2, others="rf", deaths=0, shows="claimed"), False),
    "by create, a loser publishes": (External(1, 2, deaths=0, loser="own"), False),
    "by fork, a loser publishes": (External(1, 2, deaths=0, publish="fork", loser="own"), False),
    "by fork, staged bytes go when claimed": (External(1, 2, publish="fork", staged="claimed"), False),
    "a loser that can't help is told that it failed": (
        External(1, 2, others="f", faults=1, deaths=0, help_fails="failed"),
        False,
    ),
    "by fork, a place without bytes is closed": (External(1, 2, others="s", publish="fork", gone="any way"), False),
    "a place is closed where later ones are claimed": (
        External(1, 2, others="re", places=3, deaths=0, gone="anywhere"),
        False,
    ),
    "entries are deleted before claims": (External(1, 2, others="c", order="entries"), False),
    "by create, the floor is not looked at": (External(1, 2, others="cf", deaths=0, look=False), False),
    "by fork, the floor is not looked at": (
        External(1, 2, others="cf", deaths=0, publish="fork", look=False),
        False,
    ),
}
LARGE: dict[str, tuple[External, bool]] = {
    f"by {publish}, {name}": (model, True)
    for publish in ("create", "fork")
    for name, model in {
        "three writers": External(1, 2, 3, faults=1, deaths=0, publish=publish),
        "one operation in two processes": External(1, 1, others="r", faults=1, publish=publish),
        "the registry forgets twice": External(1, 2, others="ff", publish=publish),
        "the registry forgets, three writers": External(1, 2, 3, others="f", deaths=0, publish=publish),
        "the registry forgets, a collector and a reader": External(1, 2, others="cfr", deaths=0, publish=publish),
        "staged bytes are removed, three places": External(1, 2, others="s", places=3, publish=publish),
    }.items()
}
