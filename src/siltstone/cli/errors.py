"""From errors to exit codes and messages.

What must hold: no traceback and no secret reaches the user; hints are in the command line's words; with ``--json`` an
error is a JSON document too.

Exit codes: 0 done, 1 error or "not safe" or problems found, 2 wrong usage, 3 conflict or fenced, 130 interrupted,
141 whoever read our output has gone.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from siltstone.cli.hints import on_command_line
from siltstone.cli.output import clean
from siltstone.errors import ConflictError, FencedError, InternalError, SiltstoneError

if TYPE_CHECKING:
    from collections.abc import Iterable

DONE = 0
FAILED = 1
USAGE = 2
CONFLICT = 3
INTERRUPTED = 130  # as a shell reports SIGINT
PIPE_CLOSED = 141  # as a shell reports SIGPIPE

# What a script needs to look an operation up; all other facts are in the message.
_SHOWN_FACTS = ("op", "position", "appended")


class UsageError(SiltstoneError):
    """The command line itself is wrong."""

    kind = "usage"


def exit_code(error: SiltstoneError) -> int:
    """The exit code that an error asks for."""
    if isinstance(error, UsageError):
        return USAGE
    return CONFLICT if isinstance(error, ConflictError | FencedError) else FAILED


def unexpected(error: Exception) -> InternalError:
    """An error that should have been one of siltstone's."""
    return InternalError(
        f"{type(error).__name__}: {error}", hint="please report it; SILTSTONE_TRACEBACK=1 shows where it came from"
    )


def show(error: SiltstoneError, *, as_json: bool, one_line: bool = False, secrets: Iterable[str] = ()) -> None:
    """Print an error: JSON on standard output (``one_line`` behind rows), or text on standard error."""
    message, hint = (without(text, secrets) for text in (error.message, on_command_line(error.hint)))
    facts = {name: error.facts[name] for name in _SHOWN_FACTS if error.facts.get(name) is not None}
    if as_json:
        document: dict[str, Any] = {"kind": error.kind, "message": message, "hint": hint} | facts
        indent = None if one_line else 2
        print(json.dumps({"error": document}, indent=indent, ensure_ascii=True), file=sys.stdout, flush=True)
        return
    print(f"error: {clean(message)}", file=sys.stderr)
    if "op" in facts:
        hint = f"{hint} (op {facts['op']})".strip()
    if hint:
        print(f"hint: {clean(hint)}", file=sys.stderr)


def without(text: str, secrets: Iterable[str]) -> str:
    """The library masks what it knows to be secret; this is for words that a driver or server made up."""
    for secret in secrets:
        if len(secret) > 3:  # shorter ones hide nothing
            text = text.replace(secret, "***")
    return text
