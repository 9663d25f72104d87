"""The floor, when it can't be read, is asked by two at once, or passed a writer that was idle."""

from __future__ import annotations

import sys
import threading

import pytest

from siltstone import paths
from siltstone.errors import CommitUnknownError, FencedError
from siltstone.format.records import Header, encode_entry
from siltstone.log import floors
from siltstone.testing.peek import bodies
from siltstone.testing.stores import Fault, Interleaves
from worlds import FOR_EVER, MODES, World, attempt

OP = "ab" * 16
OTHER = "cd" * 16
TRUST_MS = 30_000


def entry_positions(world: World) -> list[int]:
    return [paths.parse_entry("", info.key)[0] for info in world.store().list(paths.ENTRIES)]


# -- a fence whose floor can't be read ------------------------------------------------------------------------


def unreadable_after_the_fence(world: World):
    """A handle on a store that no longer shows its floors once an entry was written, and that store."""
    store = world.fault_store()
    steps = Interleaves(store)
    log = world.open(steps, writer="me")

    def go_dark() -> None:
        store.on("list", Fault.REFUSE, key=paths.FLOOR, times=FOR_EVER)

    steps.after("put" if world.mode == "fork" else "create", go_dark, key=f"{paths.ENTRIES}/")
    return log, store


@pytest.mark.parametrize("mode", MODES)
def test_fence__floor_can_not_be_read_afterwards__is_unknown_and_running_it_again_succeeds(mode):
    world = World(mode, trust_ms=TRUST_MS).seeded()
    log, store = unreadable_after_the_fence(world)
    with pytest.raises(CommitUnknownError) as caught:
        log.fence(1)
    op = caught.value.facts["op"]
    store.script.clear()
    end = log.fence(1, op=op)
    assert end == log.fence(1, op=op)
    assert world.open(writer="me").fence(1, op=op) == end
    assert [(entry.kind, entry.op) for entry in world.open().entries()][3:] == [("fence", op)]
    assert log.append(b"x", after=end, epoch=1).position == end.position + 1


@pytest.mark.parametrize("mode", MODES)
def test_fence__op_given__is_the_entrys(mode):
    world = World(mode).seeded()
    end = world.open().fence(1, op=OP)
    assert world.check()[-1].op == OP
    assert world.check()[-1].end == end


@pytest.mark.parametrize("mode", MODES)
def test_fence__epoch_is_taken_by_another_op__fenced(mode):
    world = World(mode).seeded()
    world.open().fence(1, op=OTHER)
    with pytest.raises(FencedError):
        world.open().fence(1, op=OP)
    assert [entry.op for entry in world.check() if entry.kind == "fence"] == [OTHER]


@pytest.mark.parametrize("mode", MODES)
def test_fence__run_again_when_another_went_past_it__fenced(mode):
    world = World(mode).seeded()
    world.open().fence(1, op=OP)
    world.open().fence(2, op=OTHER)
    with pytest.raises(FencedError):
        world.open().fence(1, op=OP)


# -- a writer that was idle -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_add__idle_while_its_tip_was_truncated__goes_on_at_the_tip_and_leaves_no_litter(mode):
    world = World(mode, trust_ms=TRUST_MS)
    idle = world.open()
    idle.add(b"zero")
    busy = world.open()
    for number in range(5):
        end = busy.add(b"%d" % number)
    busy.truncate(end)
    world.clock.advance(4 * TRUST_MS / 1000)
    assert busy.truncate(end).deleted_below == 6
    assert idle.add(b"fresh").position == 7
    assert entry_positions(world) == [6]
    assert not [*world.store().list(paths.STAGED)]


# -- two threads that look at the floor ------------------------------------------------------------------------


class StepIn:
    """Runs something else once, at the n-th instruction that a thread executes in one module."""

    def __init__(self, file: str, nth: int, action) -> None:
        self.seen = 0
        self._file = file
        self._nth = nth
        self._action = action

    def run(self, call) -> None:
        """Make a call in a thread of its own, stepping in on its way."""

        def main() -> None:
            sys.settrace(self._enter)
            try:
                call()
            finally:
                sys.settrace(None)

        thread = threading.Thread(target=main)
        thread.start()
        thread.join()

    def _enter(self, frame, event, argument):
        if frame.f_code.co_filename != self._file:
            return None
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, frame, event, argument):
        if event == "opcode":
            self.seen += 1
            if self.seen == self._nth:
                self._action()
        return self._step


def floor_after_a_race(nth: int) -> tuple[int, bool]:
    """The floor that a handle knows after two looks, one begun before a truncation; whether there is an n-th step."""
    world = World("conditional").seeded(2)
    shared, collector = world.open(), world.open()
    end = collector.tip()
    newer = threading.Thread(target=shared.floors)

    def look() -> None:
        collector.truncate(end)
        newer.start()
        newer.join(0.02)  # where the older look keeps it waiting, it has to go on first

    older = StepIn(floors.__file__, nth, look)
    older.run(shared.floors)
    reached = older.seen >= nth
    if reached:
        newer.join()
    return shared.floor_now(trust_ms=FOR_EVER), reached


def test_floors__older_look_is_overtaken_at_any_step__known_floor_never_falls():
    nth = 1
    while True:
        floor, reached = floor_after_a_race(nth)
        if not reached:
            break
        assert floor == 2, f"lost at step {nth}"
        nth += 1
    assert nth > 20


# -- a latecomer's entry below the floor -----------------------------------------------------------------------


def littered():
    """A world whose first three entries are gone, the marks behind them, and litter in the second's place."""
    world = World("conditional")
    log = world.open()
    marks = [log.add(b"%d" % number, op=op) for number, op in enumerate((world.new_op(), OTHER, OP))]
    assert log.truncate(marks[2]).deleted_below == 3
    header = Header(log=log.identity.log, position=1, epoch=0, op="ef" * 16, nonce="12" * 16, prev=marks[0].digest)
    world.store().create(paths.entry("", 1), encode_entry(header, b"late"))
    return world, marks


def test_append__run_again_behind_a_latecomers_litter__is_unknown_and_not_invalid():
    world, marks = littered()
    told = attempt(lambda: world.open().append(b"2", after=marks[1], op=OP))
    assert isinstance(told, CommitUnknownError)
    assert told.facts["op"] == OP


def test_append__run_again_behind_a_latecomers_litter_and_folded__returns_where_it_was():
    world, marks = littered()
    log = world.open(lookup={OP: marks[2]}.get)
    assert log.append(b"2", after=marks[1], op=OP) == marks[2]
    assert bodies(log) == []
    assert log.tip() == marks[2]
