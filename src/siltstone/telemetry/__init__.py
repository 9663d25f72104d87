"""Telemetry: metrics and spans through OpenTelemetry, and structured logs; nothing of it unless asked for.

What must hold:
- A process that did not ask has no sink, configures no logging and does not load OpenTelemetry.
- Telemetry never decides anything: with it, without it and with a broken collector the same happens to tables.
"""

from __future__ import annotations

import importlib
import os
import warnings
from typing import TYPE_CHECKING, Any

from siltstone.errors import InvalidInputError, MissingDependencyError
from siltstone.telemetry import events, metrics
from siltstone.telemetry.logs import JsonFormatter, log_to_stderr
from siltstone.telemetry.otel import OtelSink
from siltstone.telemetry.seams import sink, use

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["JsonFormatter", "disable", "enable", "events", "flush", "is_enabled", "log_to_stderr", "metrics"]

VARIABLE = "SILTSTONE_TELEMETRY"
FLUSH_MS = 2000
_OFF = frozenset({"", "0", "false", "no", "off"})
_ON = frozenset({"1", "true", "yes", "on"})


def enable(tracer_provider: Any = None, meter_provider: Any = None, *, requests: bool = False) -> None:
    """Tell OpenTelemetry what siltstone does, from now on, in this process.

    Providers are those given, or OpenTelemetry's global ones. With ``requests`` each request to a store or commit
    store is a span of its own. Stores that were opened before count no requests; all else is told of them too. Called
    again, the last call counts.

    Raises:
        MissingDependencyError: OpenTelemetry is not installed; the hint names the command.
        InvalidInputError: what was given is no provider.
    """
    if not isinstance(requests, bool):
        raise InvalidInputError(f"requests must be True or False, got {type(requests).__name__}")
    use(OtelSink(tracer_provider, meter_provider, requests=requests))


def disable() -> None:
    """Tell nobody any more; providers stay as they are. Off already is fine."""
    use(None)


def is_enabled() -> bool:
    """Whether somebody is told."""
    return sink() is not None


def flush(timeout_ms: int = FLUSH_MS) -> None:
    """Hand on what providers hold, where they can; for processes that end without notice, as tasks of Spark do."""
    hears = sink()
    if hears is not None:
        hears.flush(timeout_ms)


def _enable_as_environment_says() -> None:
    """A process that some framework started has nobody to call ``enable``."""
    setting = os.environ.get(VARIABLE, "").strip()
    if setting.lower() in _OFF:
        return
    try:
        if setting.lower() not in _ON:
            _set_up(setting)()
        enable()
    except (MissingDependencyError, InvalidInputError) as error:  # no reason to keep a program from its work
        warnings.warn(f"{VARIABLE} is set, and telemetry stays off: {error}", RuntimeWarning, stacklevel=2)


def _set_up(setting: str) -> Callable[[], object]:
    """The function that a setting names, which sets the global providers up."""
    module, _, name = setting.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise InvalidInputError(
            f"it names a function that can't be found ({type(error).__name__})",
            hint=f"set {VARIABLE}=1, or {VARIABLE}=package.module:function, which is called first",
        ) from error
    return found  # type: ignore[no-any-return]


_enable_as_environment_says()
