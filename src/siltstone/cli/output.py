"""What the command line prints.

What must hold:
- Standard output holds the result and nothing else: text for people, or with ``--json`` one JSON document, or
  JSON lines from a verb that gives rows.
- Colours and progress appear on a terminal only, and no colour where NO_COLOR is set. There tables fit its width; in a
  pipe nothing is cut.
- What was read from a store can't steer the terminal: control characters are shown, not sent.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from typing import TYPE_CHECKING, Any, Literal, TextIO

from siltstone.cli.widths import GAP, cut, fitted, padded, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

Colour = Literal["red", "green", "yellow", "bold", "dim"]
_CODES: dict[Colour, str] = {"red": "31", "green": "32", "yellow": "33", "bold": "1", "dim": "2"}


def clean(text: object, *, lines: bool = False) -> str:
    """``text`` with control characters written out; ``lines`` leaves line ends and tabs as they are."""
    kept = "\n\t" if lines else ""
    return "".join(c if c.isprintable() or c in kept else ascii(c)[1:-1] for c in str(text))


class Output:
    """Where a verb's result goes."""

    def __init__(self, *, as_json: bool, stdout: TextIO | None = None, stderr: TextIO | None = None) -> None:
        self.as_json = as_json
        self._stdout = stdout or sys.stdout
        self._stderr = stderr or sys.stderr
        self._colours = not as_json and _takes_colours(self._stdout)
        self._live = self._stderr.isatty()
        self._progress = ""
        self._lock = threading.RLock()  # a line of progress is drawn by a thread of its own

    @property
    def live(self) -> bool:
        """Whether progress is shown: standard error is a terminal."""
        return self._live

    @property
    def width(self) -> int:
        """How wide a table may be; 0 where it may be as wide as it likes."""
        return shutil.get_terminal_size().columns if self.on_terminal else 0

    @property
    def on_terminal(self) -> bool:
        """Whether standard output is a terminal."""
        return self._stdout.isatty()

    def line(self, text: str = "") -> None:
        """One line of text for people; ``clean`` what came from a store."""
        if not self.as_json:
            with self._lock:
                self._clear()
                print(text, file=self._stdout)

    def result(self, document: dict[str, Any]) -> None:
        """The JSON document; ignored where text is wanted."""
        if self.as_json:
            with self._lock:
                self._clear()
                print(json.dumps(document, indent=2, ensure_ascii=True), file=self._stdout)

    def paint(self, text: str, colour: Colour) -> str:
        """``text`` in a colour, where there are colours."""
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if self._colours else text

    def verdict(self, *, good: bool) -> str:
        """``ok`` or ``NO``, two characters wide."""
        return self.paint("ok", "green") if good else self.paint("NO", "red")

    def fields(self, pairs: Sequence[tuple[str, object]]) -> None:
        """Names and values in two columns."""
        width = max((len(name) for name, _ in pairs), default=0)
        for name, value in pairs:
            self.line(f"{self.paint(f'{name:<{width}}', 'dim')}  {clean(value)}")

    def table(
        self,
        heads: Sequence[str],
        rows: Sequence[Sequence[object]],
        *,
        right: frozenset[str] = frozenset(),
        whole: frozenset[str] = frozenset(),
    ) -> None:
        """Rows in columns: aligned right where ``right`` says so, never cut where ``whole`` does."""
        cells = [[clean(cell) for cell in row] for row in rows]
        widths = [max([len(head), *(width_of(row[n]) for row in cells)]) for n, head in enumerate(heads)]
        if self.width:
            widths = fitted(widths, self.width, whole={n for n, head in enumerate(heads) if head in whole})

        def joined(row: Sequence[str]) -> str:
            parts = [
                padded(cut(text, width), width, right=head in right)
                for head, text, width in zip(heads, row, widths, strict=True)
            ]
            return GAP.join(parts).rstrip()

        self.line(self.paint(joined(heads), "bold"))
        for row in cells:
            self.line(joined(row))

    def note(self, text: str) -> None:
        """A line on standard error, whatever is on standard output."""
        with self._lock:
            self._clear()
            print(text, file=self._stderr, flush=True)

    def progress(self, text: str) -> None:
        """A line on standard error that the next one replaces; nothing where it is no terminal."""
        if self._live:
            with self._lock:
                self._clear()
                # A line that is as wide as the terminal would end on the next one, and stay.
                self._progress = cut(clean(text), shutil.get_terminal_size().columns - 1)
                print(self._progress, end="\r", file=self._stderr, flush=True)

    def clear(self) -> None:
        """Take the last progress line away."""
        with self._lock:
            self._clear()

    def end(self) -> None:
        """Take the last progress line away and hand everything on."""
        with self._lock:
            self._clear()
            self._stdout.flush()

    def _clear(self) -> None:
        if self._progress:
            print(" " * width_of(self._progress), end="\r", file=self._stderr, flush=True)
            self._progress = ""


def _takes_colours(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
