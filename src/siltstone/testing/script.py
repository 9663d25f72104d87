"""Scripts of faults: which call is hit, and what happens to it.

What must hold:
- Which call a rule hits depends on the order of calls only, never on chance or time.
- A rule that can't happen (a lying delete, a stale claim) is refused when it is written, not ignored later.
- Whatever a fault raises before the effect, the inner store or registry never saw the call.
"""

from __future__ import annotations

import enum
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from siltstone.errors import (
    AlreadyExistsError,
    InvalidInputError,
    PermissionDeniedError,
    SiltstoneError,
    StoreFullError,
    UnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")
ANY = "*"


class Crashed(BaseException):
    """The process of a test ended here; no handler of the code under test may catch it."""


class Fault(enum.Enum):
    """What happens to a call."""

    REFUSE = "UnavailableError, without effect"
    LOSE = "the effect, then no answer (UnavailableError)"
    FAIL_AFTER = "the effect, then a 503 (UnavailableError)"
    EXISTS_OWN = "the effect, then AlreadyExistsError for one's own object, as after a retry inside a client"
    EXISTS_NOTHING = "AlreadyExistsError, without effect and with nothing there, as a 409 of S3"
    CRASH_BEFORE = "Crashed, without effect"
    CRASH_AFTER = "the effect, then Crashed"
    DELAY = "UnavailableError; the effect comes when the test calls release()"
    DENY = "PermissionDeniedError, without effect"
    FULL = "StoreFullError, without effect"
    LIE = "a create that replaces what is there and says it was the first"
    STALE = "a listing without the object that was written last through this handle"


ONLY_FOR = {
    Fault.EXISTS_OWN: frozenset({"create"}),
    Fault.EXISTS_NOTHING: frozenset({"create"}),
    Fault.LIE: frozenset({"create"}),
    Fault.STALE: frozenset({"list"}),
    Fault.FULL: frozenset({"create", "put", "copy"}),
}


class Call(NamedTuple):
    """One call that passed: its verb, and the key or scope it was about."""

    verb: str
    key: str


@dataclass(frozen=True)
class Rule:
    """Calls ``nth`` to ``nth + times - 1`` of those that match are hit."""

    fault: Fault
    verb: str
    key: str
    nth: int
    times: int


class Script:
    """Counts calls, keeps what was called, and applies the faults that were asked for."""

    def __init__(self, verbs: Iterable[str]) -> None:
        self.verbs = frozenset(verbs)
        self.calls: list[Call] = []
        self._lock = threading.Lock()
        self._rules: list[tuple[Rule, list[int]]] = []
        self._delayed: list[Callable[[], object]] = []

    def on(self, verb: str, fault: Fault, *, key: str = "", nth: int = 1, times: int = 1) -> None:
        """Hit the ``nth`` call of ``verb`` (``"*"``: of any) on such a key, and ``times - 1`` more after it."""
        if verb != ANY and verb not in self.verbs:
            raise InvalidInputError(f"there is no verb {verb!r}", hint=f"known are {', '.join(sorted(self.verbs))}")
        if verb != ANY and not self.applies(fault, verb):
            raise InvalidInputError(f"{fault.name} can't happen to {verb}")
        if nth < 1 or times < 1:
            raise InvalidInputError(f"nth and times count from 1, got {nth} and {times}")
        with self._lock:
            self._rules.append((Rule(fault, verb, key, nth, times), [0]))

    @staticmethod
    def applies(fault: Fault, verb: str) -> bool:
        """Whether a fault can happen to a verb."""
        return verb in ONLY_FOR.get(fault, (verb,))

    def clear(self) -> None:
        """Forget all rules and calls; what was delayed stays so."""
        with self._lock:
            self._rules.clear()
            self.calls.clear()

    def release(self) -> int:
        """Let delayed calls take effect, oldest first, and say how many there were."""
        with self._lock:
            due, self._delayed = self._delayed, []
        for effect in due:
            try:
                effect()
            except SiltstoneError:  # nobody is left to hear it
                continue
        return len(due)

    def run(self, verb: str, key: str, effect: Callable[[], T], special: Callable[[Fault], T] | None = None) -> T:
        """Make a call, or what the script makes of it; ``special`` performs faults that only the caller can."""
        fault = self._next(verb, key)
        if fault is None:
            return effect()
        if fault in {Fault.LIE, Fault.STALE}:
            assert special is not None, f"{fault.name} is not offered here"
            return special(fault)
        if fault is Fault.DELAY:
            with self._lock:
                self._delayed.append(effect)
        _refuse(fault, verb, key)
        effect()
        if fault is Fault.CRASH_AFTER:
            raise Crashed(f"after {verb} {key}")
        if fault is Fault.EXISTS_OWN:
            raise AlreadyExistsError(f"{verb} {key}: scripted, for one's own object", object=key)
        status = "503" if fault is Fault.FAIL_AFTER else ""
        raise UnavailableError(f"{verb} {key}: scripted, after the effect", object=key, status=status)

    def _next(self, verb: str, key: str) -> Fault | None:
        hit: Fault | None = None
        with self._lock:
            self.calls.append(Call(verb, key))
            for rule, seen in self._rules:
                if rule.verb not in {verb, ANY} or rule.key not in key or not self.applies(rule.fault, verb):
                    continue
                seen[0] += 1
                if hit is None and rule.nth <= seen[0] < rule.nth + rule.times:
                    hit = rule.fault
        return hit


def _refuse(fault: Fault, verb: str, key: str) -> None:
    """Raise where a fault comes before the effect."""
    what = f"{verb} {key}: scripted"
    if fault is Fault.CRASH_BEFORE:
        raise Crashed(f"before {verb} {key}")
    if fault in {Fault.REFUSE, Fault.DELAY}:
        raise UnavailableError(what, object=key)
    if fault is Fault.EXISTS_NOTHING:
        raise AlreadyExistsError(what, object=key)
    if fault is Fault.DENY:
        raise PermissionDeniedError(what, hint="this is a test", object=key)
    if fault is Fault.FULL:
        raise StoreFullError(what, hint="this is a test", object=key)
