"""Rows in aligned columns, for people.

What must hold: columns are as wide as the first rows need; on a terminal all of them fit its width, and cells that
don't are cut. Nothing in a cell or a name reaches the terminal but printable characters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.types as kinds

from siltstone.cli.output import clean
from siltstone.cli.texts import plain
from siltstone.cli.widths import CUT, GAP, cut, fitted, padded, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

SAMPLE_ROWS = 1000
CELL_CHARACTERS_MAX = 10_000  # in a pipe


class TextTable:
    """Writes rows as text. ``width`` is the terminal's, 0 in a pipe; ``bold`` goes around the heads."""

    def __init__(self, schema: pa.Schema, sink: BinaryIO, *, width: int = 0, bold: tuple[str, str] = ("", "")) -> None:
        self._heads = [clean(name) for name in schema.names]
        self._right = [_is_number(kind) for kind in schema.types]
        self._sink = sink
        self._width = width
        self._bold = bold
        self._waiting: list[list[str]] = []
        self._widths: list[int] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Some rows."""
        columns = [cells(array) for array in batch.columns]
        rows = [list(row) for row in zip(*columns, strict=True)] if columns else []
        if self._widths:
            self._print(rows)
            return
        self._waiting += rows
        if len(self._waiting) >= SAMPLE_ROWS:
            self._begin()

    def close(self) -> None:
        """There are no more."""
        if not self._widths:
            self._begin()
        self._sink.flush()

    def _begin(self) -> None:
        rows, self._waiting = self._waiting, []
        needed = [
            max([width_of(head), *(width_of(row[number]) for row in rows[:SAMPLE_ROWS])])
            for number, head in enumerate(self._heads)
        ]
        self._widths = fitted(needed, self._width) if self._width else needed
        head = self._joined(self._heads)
        self._write([f"{self._bold[0]}{head}{self._bold[1]}"])
        self._print(rows)

    def _print(self, rows: Sequence[list[str]]) -> None:
        self._write([self._joined(row) for row in rows])

    def _joined(self, row: Sequence[str]) -> str:
        cells = []
        for text, width, right in zip(row, self._widths, self._right, strict=True):
            cells.append(padded(cut(text, width) if self._width else text, width, right=right))
        return GAP.join(cells).rstrip()

    def _write(self, lines: Sequence[str]) -> None:
        if lines:
            self._sink.write(("\n".join(lines) + "\n").encode(errors="backslashreplace"))


def cells(array: pa.Array) -> list[str]:
    """The values of a column, each as text that can't steer a terminal."""
    made = plain(array)
    if kinds.is_floating(made.type) or kinds.is_integer(made.type):
        made = made.cast(pa.string())
    return [_cell(value) for value in made.to_pylist()]


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if len(text) > CELL_CHARACTERS_MAX:
        text = text[:CELL_CHARACTERS_MAX] + CUT
    return text if text.isascii() and text.isprintable() else clean(text)


def _is_number(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))
