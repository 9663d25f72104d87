"""What every registry refuses before it asks its service, and how it decides a place.

What must hold:
- No argument reaches a service that could be cut, padded, folded or misread there.
- Registries that can't decide in one request decide with ``judge``, so that all give the same answers.
"""

from __future__ import annotations

import re

import msgspec

from siltstone.commit.registry import POSITION_MAX, SCOPE_BYTES_MAX, VALUE_BYTES_MAX, Behind, Claim, Truncated
from siltstone.errors import CorruptionError, InvalidInputError, LimitExceededError
from siltstone.ids import is_id

DIGEST_PATTERN = re.compile(r"(?:[0-9a-f]{64})?")


class Range(msgspec.Struct, frozen=True):
    """A range claim: every position under ``below`` is taken; ``digest`` is that of the last of them."""

    below: int
    digest: str


NO_RANGE = Range(0, "")


class Standing(msgspec.Struct, frozen=True):
    """All that decides about one place, read at one instant."""

    truncated: Range
    bound: Claim | None
    previous: Claim | None


def judge(claim: Claim, standing: Standing, *, chained: bool) -> Claim | Behind | Truncated | None:
    """What a registry answers to ``claim``; None where the place is free and may be taken."""
    truncated = standing.truncated
    if claim.position < truncated.below:
        return Truncated(truncated.below)
    if standing.bound is not None:
        return standing.bound
    if not chained or claim.position == 0:
        return None
    previous = standing.previous
    if claim.position == truncated.below:
        previous = Claim(claim.scope, truncated.below - 1, truncated.digest, "", "")
    if previous is None or previous.digest != claim.parent:
        return Behind(previous)
    return None


def check_identity(identity: str) -> None:
    """Raise InvalidInputError unless this can be a service's identity."""
    if not is_id(identity):
        raise InvalidInputError("that is no identity of a commit store", hint="give 32 lower-case hex digits")


def check_claim(claim: Claim) -> None:
    """Raise InvalidInputError unless the claim can be kept as it is."""
    check_place(claim.scope, claim.position)
    check_digest(claim.digest, "digest")
    check_digest(claim.parent, "parent")
    _check_text(claim.value, "value", VALUE_BYTES_MAX)


def stored_claim(scope: str, position: object, digest: object, parent: object, value: object) -> Claim:
    """A claim from what a service keeps; raises CorruptionError where that is none of ours."""
    try:
        claim = msgspec.convert([scope, position, digest, parent, value], type=_Row)
        check_claim(found := Claim(claim.scope, claim.position, claim.digest, claim.parent, claim.value))
    except (msgspec.ValidationError, InvalidInputError) as error:
        raise CorruptionError(
            f"the commit store's row of {scope!a} at {position!a} is not a claim: {error}",
            hint="restore the row; `siltstone repair` puts back what is published",
            position=position,
        ) from error
    return found


def parse_row(scope: str, position: int, row: bytes) -> Claim:
    """A claim from ``digest:parent:value``, as services with plain values keep it."""
    digest, parent, value = [*row.decode("utf-8", "replace").split(":", 2), None, None][:3]
    return stored_claim(scope, position, digest, parent, value)


class _Row(msgspec.Struct, array_like=True):
    scope: str
    position: int
    digest: str
    parent: str
    value: str


def check_place(scope: str, position: int) -> None:
    """Raise InvalidInputError unless this can be a place."""
    check_scope(scope)
    check_position(position, "position")


def check_scope(scope: str) -> None:
    """Raise InvalidInputError unless this can name a scope."""
    _check_text(scope, "scope", SCOPE_BYTES_MAX)
    if not scope:
        raise InvalidInputError("scope is empty", hint="name what is decided, such as a log's id")


def check_position(position: int, name: str) -> None:
    """Raise InvalidInputError unless this can be a position."""
    if type(position) is not int or not 0 <= position <= POSITION_MAX:
        raise InvalidInputError(f"{name} is {position!r}", hint="give an integer from 0 to 2**63 - 1", found=position)


def check_digest(digest: str, name: str) -> None:
    """Raise InvalidInputError unless this is a digest or empty."""
    if not isinstance(digest, str) or DIGEST_PATTERN.fullmatch(digest) is None:
        raise InvalidInputError(f"{name} is not a sha256", hint="give 64 lower-case hex digits, or an empty string")


def _check_text(text: str, name: str, bytes_max: int) -> None:
    if not isinstance(text, str):
        raise InvalidInputError(f"{name} is {type(text).__name__}", hint="give a string")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{name} holds half a character", hint="give text that UTF-8 can hold") from error
    if "\0" in text:
        raise InvalidInputError(f"{name} holds a NUL character", hint="remove it")
    if size > bytes_max:
        raise LimitExceededError(f"{name} takes {size} bytes", hint=f"at most {bytes_max}", found=size, limit=bytes_max)
