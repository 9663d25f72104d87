"""How far long work is: rows, bytes and their rate, on a terminal only."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siltstone.cli.output import Output

BAR_WIDTH = 20
SHOW_EVERY_S = 0.1
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


class Progress:
    """A line that is drawn again at most ten times a second. ``total`` is in bytes, or in ``whole`` units of work."""

    def __init__(self, output: Output, what: str, *, total: int = 0) -> None:
        self._output = output
        self._what = what
        self._total = total
        self._began = time.monotonic()
        self._shown = 0.0
        self.rows = 0
        self.bytes = 0

    def add(self, *, rows: int = 0, size: int = 0) -> None:
        """Some more was done."""
        self.rows += rows
        self.bytes += size
        self._show(self.bytes)

    def done(self, part: int, total: int) -> None:
        """So much of the whole was done, in whatever unit."""
        self._total = total
        self._show(part)

    def _show(self, part: int) -> None:
        now = time.monotonic()
        if now - self._shown < SHOW_EVERY_S:
            return
        self._shown = now
        self._output.progress(self.text(part, now - self._began))

    def text(self, part: int, seconds: float) -> str:
        """The line."""
        parts = [self._what]
        if self._total:
            share = min(1.0, part / self._total)
            filled = round(BAR_WIDTH * share)
            parts.append(f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {share:4.0%}")
        if self.rows:
            parts.append(f"{self.rows:,} rows")
            parts.append(f"{self.rows / max(seconds, 0.001):,.0f} rows/s")
        if self.bytes:
            parts.append(size_text(self.bytes))
        return "  ".join(parts)


def size_text(size: float) -> str:
    """Bytes for people."""
    for unit in _UNITS[:-1]:
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} {_UNITS[-1]}"
