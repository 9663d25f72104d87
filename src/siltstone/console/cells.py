"""Values as the page gets them: as text, and cut where they are long.

What must hold: whatever a table holds, an answer stays small, and says what it left out.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from siltstone.cli.texts import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

CELL_CHARACTERS_MAX = 400
TEXT_CHARACTERS_MAX = 1000  # of names, messages and settings
TIME_MS_MAX = 253_402_300_799_000


def cut(text: str, most: int = TEXT_CHARACTERS_MAX) -> str:
    """A text that is not a cell's, with a mark where it was cut."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def counted(count: int, what: str) -> str:
    """So many of something."""
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{count:,} {what if count == 1 else plural}"


def time_text(milliseconds: int) -> str:
    """A moment in UTC; one that no calendar has is cut."""
    moment = datetime.fromtimestamp(min(max(milliseconds, 0), TIME_MS_MAX) / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def cells(column: pa.ChunkedArray) -> Iterator[Any]:
    """The values of a column: None, a text, or the beginning of one with its length."""
    for chunk in column.chunks:
        yield from _cells(chunk)


def _cells(array: pa.Array) -> Iterator[Any]:
    kind = array.type
    # Long values are cut by Arrow: Python never sees the rest.
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        lengths = pc.utf8_length(array).to_pylist()
        starts = pc.utf8_slice_codeunits(array, 0, CELL_CHARACTERS_MAX).to_pylist()
        return map(_beginning, starts, lengths)
    if kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind):
        data = array.cast(pa.large_binary())
        lengths = pc.binary_length(data).to_pylist()
        starts = pc.binary_slice(data, 0, CELL_CHARACTERS_MAX // 2).to_pylist()
        return (
            None if length is None else _beginning(start.hex(), 2 * length)
            for start, length in zip(starts, lengths, strict=True)
        )
    made = plain(array)
    if kinds.is_floating(made.type) or kinds.is_integer(made.type):
        made = made.cast(pa.string())
    return map(_text, made.to_pylist())


def _beginning(start: str | None, length: int | None) -> Any:
    if start is None or length is None or length <= len(start):
        return start
    return {"text": start, "characters": length}


def _text(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return _beginning(text[:CELL_CHARACTERS_MAX], len(text))
