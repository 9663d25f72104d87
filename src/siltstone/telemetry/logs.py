"""Log lines: one JSON object each, or one line of text; and how a command line asks for them.

What must hold:
- One record is one line, whatever is in it; no control character and no secret reaches the stream.
- The names ``time``, ``level``, ``logger``, ``event``, ``message`` and ``error`` mean the same in every line.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from siltstone.errors import InvalidInputError
from siltstone.telemetry.events import ROOT
from siltstone.telemetry.seams import message_of
from siltstone.telemetry.text import told

if TYPE_CHECKING:
    from collections.abc import Iterable

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}
STABLE = ("time", "level", "logger", "event", "message", "error")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "event"}


class _Formatter(logging.Formatter):
    """What both kinds of lines have in common."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._secrets = tuple(secrets)

    def document(self, record: logging.LogRecord) -> dict[str, object]:
        """A record by its stable names, then what it came with."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        found: dict[str, object] = {
            "time": when.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": self._told(record.name),
            "event": self._told(getattr(record, "event", "")),
            "message": self._told(_message(record)),
        }
        for name, value in vars(record).items():
            if name not in _STANDARD and not name.startswith("_"):
                found[f"{name}_" if name in STABLE else name] = self._value(value)
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            found["error"] = {"type": type(error).__name__, "message": self._told(message_of(error))}
        return found

    def _told(self, value: object) -> str:
        return told(str(value), self._secrets)

    def _value(self, value: object) -> object:
        if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
            return value
        return self._told(value)


class JsonFormatter(_Formatter):
    """For any handler of ``logging``: each record is one JSON object in one line, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        line = json.dumps(self.document(record), ensure_ascii=True)
        return line.replace("\x7f", "\\u007f")


class TextFormatter(_Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        found = self.document(record)
        event = f" {found['event']}" if found["event"] else ""
        error = found.get("error")
        kind = f" ({error['type']})" if isinstance(error, dict) else ""
        return f"{found['time']} {found['level']} {found['logger']}{event}: {found['message']}{kind}"


class _ToStderr(logging.StreamHandler):  # type: ignore[type-arg]  # generic in the stubs only
    """Our own handler, so that asking twice does not log twice."""


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # a text that does not fit its values is no reason to lose the record
        return str(record.msg)


def log_to_stderr(setting: str, *, secrets: Iterable[str] = ()) -> None:
    """Log to standard error: ``debug``, ``info`` or ``warning``, with ``,json`` behind it for JSON lines.

    Asked again, the last setting counts; an empty one ends it. ``secrets`` are masked beside what looks like one.
    """
    level, as_json = _parsed(setting)
    logger = logging.getLogger(ROOT)
    for handler in [*logger.handlers]:
        if isinstance(handler, _ToStderr):
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)
    if level is None:
        return
    handler = _ToStderr(sys.stderr)
    handler.setFormatter(JsonFormatter(secrets) if as_json else TextFormatter(secrets))
    logger.addHandler(handler)
    logger.setLevel(level)


def _parsed(setting: object) -> tuple[int | None, bool]:
    if not isinstance(setting, str):
        raise InvalidInputError(f"a setting of logs must be a string, got {type(setting).__name__}")
    name, comma, form = setting.strip().lower().partition(",")
    if not name and not comma:
        return None, False
    if name not in LEVELS or (comma and form != "json"):
        raise InvalidInputError(
            f"{setting[:40]!a} is no setting of logs (SILTSTONE_LOG)",
            hint="it is debug, info or warning, with ,json behind it for JSON lines",
        )
    return LEVELS[name], bool(comma)
