"""What went wrong in a step, as an error of ours: with the step, the reason, and how to go on.

What must hold: an error of ours that was raised in a task comes back as what it was, whatever Spark wrapped it in;
and nothing that came from the environment is in a message.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from siltstone import errors
from siltstone.errors import InvalidInputError, SiltstoneError, UnavailableError
from siltstone.pipeline.variables import without

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from siltstone.pipeline.file import Step

AGAIN = "steps before it stay applied; mend this and run the same again: it goes on here"
REASON_CHARACTERS_MAX = 1000

_OURS = re.compile(r"siltstone\.errors\.(\w+): ([^\n]+)")
_REFUSALS = ("AnalysisException", "ParseException", "IllegalArgumentException")
_CONDITION = re.compile(r"^\[[\w.]+\] ")  # Spark's name for an error


@contextmanager
def explained(step: Step, secrets: Iterable[str]) -> Iterator[None]:
    """Give every error the step that it came from."""
    try:
        yield
    except SiltstoneError as error:
        # A cause would be shown with it, and nobody took the secrets out of that.
        cause = None if any(secret in f"{error} {error.__cause__}" for secret in secrets) else error
        raise _named(error, step, secrets) from cause
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j", "grpc")):
            raise
        raise _named(from_spark(error), step, secrets) from None


def _named(error: SiltstoneError, step: Step, secrets: Iterable[str]) -> SiltstoneError:
    message = without(f"{step.label} in line {step.line}: {error.message}", secrets)
    hint = without("; ".join(filter(None, [error.hint, AGAIN])), secrets)
    return type(error)(message, hint=hint, **error.facts)


def from_spark(error: Exception) -> SiltstoneError:
    """An error of Spark as one of ours."""
    text = str(error)
    if found := _OURS.search(text):
        kind = getattr(errors, found[1], SiltstoneError)
        if isinstance(kind, type) and issubclass(kind, SiltstoneError):
            return kind(_cut(found[2]))
    said = text.strip() or type(error).__name__
    if type(error).__name__ in _REFUSALS:
        return InvalidInputError(f"Spark refuses it: {_cut(_first(said))}")
    return UnavailableError(f"Spark gave up: {_cut(_cause(said))}")


def _first(text: str) -> str:
    return _CONDITION.sub("", text.splitlines()[0])


def _cause(text: str) -> str:
    """The line that says why: the last cause, where a Java trace has some."""
    causes = re.findall(r"^Caused by: (.+)$", text, re.MULTILINE)
    return causes[-1] if causes else _first(text)


def _cut(text: str) -> str:
    shown = ascii(text)[1:-1]
    return shown if len(shown) <= REASON_CHARACTERS_MAX else shown[:REASON_CHARACTERS_MAX] + "..."
