"""What the fault server does wrong, and when.

What must hold:
- ``Faults()`` is an honest server. Each field adds one fault, and fields may be combined.
- Which request is hit depends on counts only, never on chance or time, and the counts start anew with every change.
- An answer is lost only after its effect; a failure comes before any effect.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from siltstone.errors import InvalidInputError
from siltstone.testing.s3server.messages import NO_ANSWER, Refusal, Response, refusal_response

if TYPE_CHECKING:
    from collections.abc import Mapping

Lie = Literal["never", "always", "check-then-put"]
Right = Literal["put", "get", "list", "delete"]

UNLIMITED = 2**53  # the largest count that JSON carries everywhere

_CODES = {
    400: "InvalidRequest",
    403: "AccessDenied",
    404: "NoSuchKey",
    408: "RequestTimeout",
    409: "OperationAborted",
    412: "PreconditionFailed",
    429: "TooManyRequests",
    500: "InternalError",
    501: "NotImplemented",
    503: "SlowDown",
    507: "InsufficientStorage",
}


@dataclass(frozen=True, kw_only=True)
class Faults:
    """The faults in force; every default is "none"."""

    # If-None-Match and If-Match: ignored ("always"), or checked and then, window_ms later, not looked at again.
    lie: Lie = "never"
    window_ms: float = 2.0
    # Honest for so many conditional puts; then as `lie` says, or "always" where it says "never".
    lie_after: int = 0
    # Conditional puts are answered with this status, as by services that know no conditions: 501, or 400.
    refuse_conditions: int = 0
    # Every n-th effect on a key with this substring has no answer, or this status for an answer.
    lose_answer_every: int = 0
    lose_answer_match: str = ""
    lose_answer_max: int = UNLIMITED
    status_after_effect: int = 0
    # Every n-th request on a key with this substring fails before it does anything.
    fail_every: int = 0
    fail_match: str = ""
    fail_max: int = UNLIMITED
    fail_status: int = 503
    # Every n-th conditional put is answered 409 with nothing stored.
    conflict_without_effect_every: int = 0
    # Requests on a key with this substring take longer; they overlap.
    latency_ms: float = 0.0
    latency_match: str = ""
    # What credentials do not allow, whether puts find the store full, and puts kept waiting until released.
    deny: tuple[Right, ...] = ()
    full: bool = False
    full_status: int = 507
    hold: str = ""

    def __post_init__(self) -> None:
        """Refuse values that would make a fault silently not happen."""
        for field in fields(self):
            # JSON has no tuples.
            if isinstance(field.default, tuple) and isinstance(getattr(self, field.name), list):
                object.__setattr__(self, field.name, tuple(getattr(self, field.name)))
            _check_value(field.name, getattr(self, field.name), field.default)
        if self.lie not in get_args(Lie):
            raise InvalidInputError(f"lie is one of {', '.join(get_args(Lie))}, not {self.lie!r}")
        if unknown := set(map(str, self.deny)) - set(get_args(Right)):
            raise InvalidInputError(f"deny takes {', '.join(get_args(Right))}, not {sorted(unknown)}")
        _check_status("fail_status", self.fail_status, lowest=400)
        _check_status("full_status", self.full_status, lowest=400)
        if self.refuse_conditions:
            _check_status("refuse_conditions", self.refuse_conditions, lowest=400)
        if self.status_after_effect:
            _check_status("status_after_effect", self.status_after_effect, lowest=500)
            if not (self.lose_answer_every or self.lose_answer_match):
                raise InvalidInputError("status_after_effect needs lose_answer_every or lose_answer_match beside it")

    def changed(self, changes: Mapping[str, Any]) -> Faults:
        """These faults with some fields changed. Raises InvalidInputError."""
        if unknown := set(changes) - {field.name for field in fields(self)}:
            known = ", ".join(field.name for field in fields(self))
            raise InvalidInputError(f"there are no faults {sorted(unknown)}", hint=f"known are {known}")
        return dataclasses.replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """The fields by name, for the control endpoint."""
        return dataclasses.asdict(self)


def _check_value(name: str, value: object, default: object) -> None:
    wanted = (int, float) if isinstance(default, float) else type(default)
    if not isinstance(value, wanted) or isinstance(value, bool) != isinstance(default, bool):
        raise InvalidInputError(f"{name} is a {type(default).__name__}, not {value!r}")
    if isinstance(value, (int, float)) and not 0 <= value <= UNLIMITED:
        raise InvalidInputError(f"{name} is 0 or more, not {value!r}")


def _check_status(name: str, status: int, *, lowest: int) -> None:
    if not lowest <= status <= 599:
        raise InvalidInputError(f"{name} is an HTTP status from {lowest} to 599, not {status}")


class Subject(NamedTuple):
    """What a fault rule looks at in a request."""

    key: str  # of a multi-object delete: all keys, a line each
    right: Right
    mutates: bool
    conditional: bool


class FaultPlan:
    """Counts requests and picks those that a fault hits."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self._requests = 0
        self._effects = 0
        self._conditional = 0
        self._conflicts = 0
        self._failed = 0
        self._lost = 0

    def delay_s(self, subject: Subject) -> float:
        """How long the request takes to arrive."""
        return self.faults.latency_ms / 1000 if self.faults.latency_match in subject.key else 0.0

    def refuse(self, subject: Subject) -> None:
        """Raise Refusal where a fault stops the request before it has any effect."""
        faults = self.faults
        if subject.right in faults.deny:
            raise Refusal(403, "AccessDenied", f"{subject.right} is not allowed")
        if faults.full and subject.right == "put":
            code = "QuotaExceeded" if faults.full_status == 403 else _CODES.get(faults.full_status, "QuotaExceeded")
            raise Refusal(faults.full_status, code, "the store is full")
        every = faults.fail_every or int(bool(faults.fail_match))
        if every and faults.fail_match in subject.key:
            self._requests += 1
            if self._requests % every == 0 and self._failed < faults.fail_max:
                self._failed += 1
                raise _failure(faults.fail_status, "asked to fail before the effect")
        if subject.conditional and faults.refuse_conditions:
            raise _failure(faults.refuse_conditions, "this service knows no conditions of writes")
        if subject.conditional and faults.conflict_without_effect_every:
            self._conflicts += 1
            if self._conflicts % faults.conflict_without_effect_every == 0:
                raise Refusal(409, "ConditionalRequestConflict", "a conflicting request is in work; try again")

    def next_lie(self) -> Lie:
        """How the next conditional put is treated; counts it."""
        faults = self.faults
        self._conditional += 1
        if self._conditional <= faults.lie_after:
            return "never"
        return "always" if faults.lie_after and faults.lie == "never" else faults.lie

    def answer_after(self, subject: Subject, response: Response) -> Response:
        """What the client gets to see of a request that took effect."""
        faults = self.faults
        every = faults.lose_answer_every or int(bool(faults.lose_answer_match))
        if not every or not subject.mutates or faults.lose_answer_match not in subject.key:
            return response
        self._effects += 1
        if self._effects % every or self._lost >= faults.lose_answer_max:
            return response
        self._lost += 1
        if not faults.status_after_effect:
            return NO_ANSWER
        failure = _failure(faults.status_after_effect, "asked to fail after the effect")
        return refusal_response(failure, resource=subject.key, request_id="after-effect")


def _failure(status: int, message: str) -> Refusal:
    return Refusal(status, _CODES.get(status, "InternalError"), message)
