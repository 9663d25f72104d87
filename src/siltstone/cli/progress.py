"""How far long work is: its share, rows, bytes, their rate and the time that is left, on a terminal only.

What must hold: a line is drawn at most ten times a second, and goes on telling the time while nothing is heard of the
work; it is gone when the work is done.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.cli.output import Output

BAR_WIDTH = 20
SHOW_EVERY_S = 0.1
TICK_S = 0.5
REMAINING_AFTER_S = 1.0  # before that a guess is worth nothing
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


class Progress:
    """A line that is drawn anew, in a ``with`` block also while nothing is told.

    ``total`` is how much there is to do, in ``unit``: bytes, rows, or things of another name.
    """

    def __init__(self, output: Output, what: str, *, total: int = 0, unit: str = "bytes") -> None:
        self._output = output
        self._what = what
        self._total = total
        self._unit = unit
        self._detail = ""
        self._since: float | None = None
        self._part = 0
        self._began = time.monotonic()
        self._shown = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.rows = 0
        self.bytes = 0

    def __enter__(self) -> Self:
        if self._output.live:
            self._thread = threading.Thread(target=self._tick, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._output.clear()

    def add(self, *, rows: int = 0, size: int = 0) -> None:
        """Some more was done."""
        self.rows += rows
        self.bytes += size
        self._part = self.rows if self._unit == "rows" else self.bytes
        self._show()

    def done(self, part: int, total: int) -> None:
        """So much of the whole was done."""
        self._part, self._total = part, total
        if self._unit == "rows":
            self.rows = part
        elif self._unit == "bytes":
            self.bytes = part
        self._show()

    def stages(self, name: str) -> Callable[[str, int, int], None]:
        """Told of stages of the work on an index, one behind the other: rows that are indexed, then files."""

        def told(stage: str, part: int, total: int) -> None:
            what = f"{stage} {name}"
            if what != self._what or not self._total:
                self._what, self._unit = what, "rows" if stage == "index" else "files"
                self._began, self.rows, self._shown = time.monotonic(), 0, 0.0
            self.done(part, total)

        return told

    def say(self, detail: str, *, since: float | None = None) -> None:
        """What is being done right now; with ``since``, a moment of the monotonic clock, also for how long."""
        self._detail, self._since = detail, since
        self._show()

    def _tick(self) -> None:
        while not self._stop.wait(TICK_S):
            self._show()

    def _show(self) -> None:
        now = time.monotonic()
        if self._output.live and now - self._shown >= SHOW_EVERY_S:
            self._shown = now
            self._output.progress(self.text(self._part, now - self._began))

    def text(self, part: int, seconds: float) -> str:
        """The line."""
        parts = [f"{self._what}: {self._detail}" if self._detail else self._what]
        if self._since is not None:
            parts[0] += f" ({time_text(time.monotonic() - self._since)})"
        if self._total:
            share = min(1.0, part / self._total)
            filled = round(BAR_WIDTH * share)
            parts.append(f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {share:4.0%}")
            if self._unit not in {"rows", "bytes"}:
                parts.append(f"{part:,} of {self._total:,} {self._unit}")
        if self.rows:
            parts += [f"{self.rows:,} rows", f"{self.rows / max(seconds, 0.001):,.0f} rows/s"]
        if self.bytes:
            parts += [size_text(self.bytes), f"{size_text(self.bytes / max(seconds, 0.001))}/s"]
        left = seconds * (self._total - part) / part if part else 0.0
        if self._since is None and 0 < part < self._total and seconds >= REMAINING_AFTER_S:
            parts.append(f"{time_text(left)} left")
        elif self._since is None and not part:
            parts.append(time_text(seconds))
        return "  ".join(parts)


def time_text(seconds: float) -> str:
    """A duration for people."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def size_text(size: float) -> str:
    """Bytes for people."""
    for unit in _UNITS[:-1]:
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} {_UNITS[-1]}"
