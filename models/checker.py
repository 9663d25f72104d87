"""An explicit-state model checker: every interleaving, breadth first, shortest counterexample.

A model is one of two things:

- ``Model``: ``init() -> state``, ``steps(state) -> iterable of (label, next state)`` and ``wrong(state) -> str`` (empty
  where the state is fine). States are hashable.
- ``Parts``: parties that meet only in what they share. ``init() -> (shared, parts)``, ``moves(number, shared, part) ->
  iterable of (label, shared, part)`` and ``wrong(shared) -> str``. A party's moves are worked out once for each
  pair of its own state and what is shared; a state of the whole is one number, and a move adds to it.

What is reported as holding was enumerated: there is no sampling and no reduction, and states are kept themselves, not
their hashes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping

STATES_MAX = 40_000_000
SHARED_BITS = 24
PART_BITS = 20

State = TypeVar("State", bound="Hashable")


class Model(Protocol):
    """What can be checked."""

    def init(self) -> Hashable:
        """The first state."""
        ...

    def steps(self, state: Any) -> Iterable[tuple[str, Hashable]]:
        """What may happen next."""
        ...

    def wrong(self, state: Any) -> str:
        """What must not be, or nothing."""
        ...


class Parts(Protocol):
    """What can be checked faster: parties, and what they share."""

    def init(self) -> tuple[Hashable, tuple[Hashable, ...]]:
        """What is shared at first, and each party's state."""
        ...

    def moves(self, number: int, shared: Any, part: Any) -> Iterable[tuple[str, Hashable, Hashable]]:
        """What one party may do next."""
        ...

    def wrong(self, shared: Any) -> str:
        """What must not be, or nothing."""
        ...


class Verdict(NamedTuple):
    """What was found: how many states, and the shortest way to a wrong one."""

    states: int
    wrong: str
    trace: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether no reachable state is wrong."""
        return not self.wrong


def check(model: Model | Parts) -> Verdict:
    """Enumerate every reachable state, or stop at the first wrong one."""
    return _Whole(model).check() if hasattr(model, "moves") else _check(model)


def _check(model: Model) -> Verdict:
    first = model.init()
    came_from: dict[Hashable, tuple[Hashable, str] | None] = {first: None}
    level = [first]
    while level:
        after_it = []
        for state in level:
            wrong = model.wrong(state)
            if wrong:
                return Verdict(len(came_from), wrong, _trace(came_from, state))
            for label, after in model.steps(state):
                if after not in came_from:
                    came_from[after] = (state, label)
                    after_it.append(after)
        level = after_it
        _check_size(len(came_from))
    return Verdict(len(came_from), "", ())


def _check_size(states: int) -> None:
    if states > STATES_MAX:
        message = f"over {STATES_MAX} states: bound the model"
        raise RuntimeError(message)


def _trace(came_from: Mapping[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    labels = []
    while True:
        link = came_from[state]
        if link is None:
            return tuple(reversed(labels))
        state, label = link
        labels.append(label)


class _Whole:
    """All parties together. What is shared and each party's state have a number; the lowest bits are what is shared."""

    def __init__(self, model: Parts) -> None:
        self.model = model
        self.shared: list[Hashable] = []
        self.parts: list[Hashable] = []
        self.numbers: tuple[dict[Hashable, int], dict[Hashable, int]] = ({}, {})
        shared, parts = model.init()
        self.first = self._number(0, shared)
        for number, part in enumerate(parts):
            self.first |= self._number(1, part) << _shift(number)
        self.moves: tuple[dict[int, tuple[int, ...]], ...] = tuple({} for _ in parts)
        self.labels: dict[tuple[int, int, int], tuple[tuple[str, int], ...]] = {}  # of moves, for a trace

    def check(self) -> Verdict:
        low, few, seen, level = (1 << SHARED_BITS) - 1, (1 << PART_BITS) - 1, {self.first}, [self.first]
        parties = list(enumerate(self.moves))
        while level:
            after_it: list[int] = []
            add, append = seen.add, after_it.append
            for state in level:
                shared, rest = state & low, state >> SHARED_BITS
                for number, known in parties:
                    key = (rest & few) << SHARED_BITS | shared
                    rest >>= PART_BITS
                    moves = known.get(key)
                    if moves is None:
                        moves = known[key] = tuple({move for _, move in self._worked_out(number, state)} - {0})
                        for move in moves:
                            wrong = self.model.wrong(self.shared[state + move & low])
                            if wrong:
                                return Verdict(len(seen), wrong, self._trace(state + move))
                    for move in moves:
                        after = state + move
                        if after not in seen:
                            add(after)
                            append(after)
            level = after_it
            _check_size(len(seen))
        return Verdict(len(seen), "", ())

    def _worked_out(self, number: int, state: int) -> Iterator[tuple[str, int]]:
        """What one party may do, each as what it adds to the state."""
        here, at = state & (1 << SHARED_BITS) - 1, state >> _shift(number) & (1 << PART_BITS) - 1
        for label, shared, part in self.model.moves(number, self.shared[here], self.parts[at]):
            yield label, self._number(0, shared) - here + (self._number(1, part) - at << _shift(number))

    def _trace(self, last: int) -> tuple[str, ...]:
        """The labels of a shortest way, gone once more: links would take more room than the states."""
        came_from: dict[int, tuple[int, str] | None] = {self.first: None}
        level = [self.first]
        while last not in came_from:
            after_it = []
            for state in level:
                for label, after in self._steps(state):
                    if after not in came_from:
                        came_from[after] = (state, label)
                        after_it.append(after)
            level = after_it
        return _trace(came_from, last)

    def _steps(self, state: int) -> Iterator[tuple[str, int]]:
        for number in range(len(self.moves)):
            key = (number, state & (1 << SHARED_BITS) - 1, state >> _shift(number) & (1 << PART_BITS) - 1)
            if key not in self.labels:
                self.labels[key] = tuple(self._worked_out(number, state))
            for label, move in self.labels[key]:
                yield label, state + move

    def _number(self, kind: int, value: Hashable) -> int:
        numbers, values = self.numbers[kind], (self.shared, self.parts)[kind]
        number = numbers.setdefault(value, len(values))
        if number == len(values):
            values.append(value)
            if number >> (SHARED_BITS, PART_BITS)[kind]:
                message = "too many states of one part: bound the model"
                raise RuntimeError(message)
        return number


def _shift(number: int) -> int:
    return SHARED_BITS + number * PART_BITS
