"""Every event that siltstone logs: one for each thing that an operator would want to know when it happened.

What must hold:
- Names and fields stay as they are; docs/observe.md lists them. No field is a row, a key or a secret.
- Nothing is shown unless a program asked for logs: loggers are the standard library's, below ``siltstone``, with a
  handler that drops everything.
- Where spans are told, an event is noted in the one that is under way.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.errors import CommitUnknownError, SiltstoneError
from siltstone.telemetry import metrics, seams
from siltstone.telemetry.text import name_of, told

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = "siltstone"
logging.getLogger(ROOT).addHandler(logging.NullHandler())

ALL: dict[str, Event] = {}


@dataclass(frozen=True)
class Event:
    """Something that may happen. ``text`` says it with ``fields``; ``table`` is given as a URI."""

    name: str
    logger: logging.Logger
    level: int
    text: str
    fields: tuple[str, ...]

    def tell(self, **fields: object) -> None:
        """It happened."""
        hears, logs = seams.sink(), self.logger.isEnabledFor(self.level)
        if hears is None and not logs:
            return
        safe = {name: _safe(name, fields[name]) for name in self.fields if name in fields}
        if hears is not None:
            hears.note(self.name, {f"siltstone.{name}": value for name, value in safe.items()})
        if logs:
            self.logger.log(self.level, self.text, _Fields(safe), extra={"event": self.name, **safe}, stacklevel=2)


class _Fields(dict[str, object]):
    """For a text: what was not given is shown as a question mark."""

    def __missing__(self, name: str) -> str:
        return "?"


def _safe(name: str, value: object) -> str | int | float | bool:
    if isinstance(value, bool | int | float):
        return value
    return name_of(str(value)) if name == "table" else told(str(value))


def _event(part: str, name: str, level: int, text: str, fields: str) -> Event:
    ALL[name] = Event(name, logging.getLogger(f"{ROOT}.{part}"), level, text, tuple(fields.split()))
    return ALL[name]


FENCED = _event(
    "shard", "fenced", logging.WARNING,
    "shard %(shard)s of %(table)s: another writer took over, this one ended: %(reason)s", "table shard reason",
)  # fmt: skip
TAKEOVER = _event(
    "shard", "takeover", logging.INFO,
    "shard %(shard)s of %(table)s was taken over, with epoch %(epoch)s", "table shard epoch",
)  # fmt: skip
REPLAYED = _event(
    "shard", "replayed", logging.INFO,
    "shard %(shard)s of %(table)s: %(entries)s entries with %(rows)s rows were replayed", "table shard entries rows",
)  # fmt: skip
BACKPRESSURE_BEGINS = _event(
    "shard", "backpressure_begins", logging.WARNING,
    "shard %(shard)s of %(table)s: put waits, %(held_bytes)s bytes are not flushed, the limit is %(limit_bytes)s",
    "table shard held_bytes limit_bytes",
)  # fmt: skip
BACKPRESSURE_ENDS = _event(
    "shard", "backpressure_ends", logging.INFO,
    "shard %(shard)s of %(table)s: put waited for %(waited_ms)s ms", "table shard waited_ms",
)  # fmt: skip
FLUSH_FAILED = _event(
    "shard", "flush_failed", logging.WARNING,
    "shard %(shard)s of %(table)s: a memtable could not be flushed (%(kind)s): %(reason)s", "table shard kind reason",
)  # fmt: skip
CONFLICT = _event(
    "table", "conflict", logging.INFO,
    "%(table)s: others were first %(losses)s times; going on behind version %(version)s", "table losses version",
)  # fmt: skip
LOST_ANSWER = _event(
    "log", "lost_answer", logging.INFO,
    "entry %(position)s of %(log)s: the answer was lost, and the entry is there", "log position",
)  # fmt: skip
UNKNOWN = _event(
    "log", "commit_unknown", logging.ERROR,
    "nobody can tell what became of op %(op)s: %(reason)s", "op position reason",
)  # fmt: skip
ALARM = _event(
    "log", "alarm", logging.CRITICAL,
    "%(kind)s: %(reason)s", "kind position reason",
)  # fmt: skip
COLLECTED = _event(
    "retain", "collected", logging.INFO,
    "%(table)s: %(objects)s objects with %(bytes)s bytes were removed, the floor is %(floor)s, %(left)s steps are left",
    "table objects bytes floor left",
)  # fmt: skip
FINALIZED = _event(
    "index", "index_finalized", logging.INFO,
    "%(table)s: build %(build)s is at its end, with %(parts)s parts of %(rows)s rows", "table build parts rows",
)  # fmt: skip
TELEMETRY_FAILED = _event(
    "telemetry", "telemetry_failed", logging.WARNING,
    "telemetry could not be told, and is not counted: %(kind)s", "kind",
)  # fmt: skip


def _tell_alarm(error: SiltstoneError) -> None:
    facts: Mapping[str, object] = {name: error.facts[name] for name in ("op", "position") if name in error.facts}
    reason = seams.message_of(error)
    if isinstance(error, CommitUnknownError):
        metrics.UNKNOWN.add()
        UNKNOWN.tell(**facts, reason=reason)
    else:
        metrics.ALARMS.add(kind=error.kind)
        ALARM.tell(**facts, kind=error.kind, reason=reason)


seams.on_alarm(_tell_alarm)
