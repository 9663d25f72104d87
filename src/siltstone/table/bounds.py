"""Statistics of columns, as the log keeps them for pruning.

What must hold:
- ``low`` is at or below every value that is not null, ``high`` at or above; None where that is not known.
- A column with a NaN has neither, since engines differ on where NaN sorts; a zero bounds both zeros.
- The same values give the same bounds, however they are chunked.
"""

from __future__ import annotations

import codecs
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.format.table import Bounds, Field, Schema, Statistic

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS_MAX = 32
CHARACTERS_MAX = 16
BYTES_MAX = 16
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)

Pair = tuple[Statistic, Statistic]
_UNKNOWN: Pair = (None, None)


def bounds_of(table: pa.Table, schema: Schema) -> dict[str, Bounds]:
    """Statistics of the first columns and of the key, by field id as text."""
    return {str(field.id): _bounds(table.column(field.name)) for field in _chosen(schema)}


def _chosen(schema: Schema) -> list[Field]:
    return [field for place, field in enumerate(schema.fields) if place < COLUMNS_MAX or field.id in schema.key]


def _bounds(column: pa.ChunkedArray) -> Bounds:
    nulls = column.null_count
    measure = _MEASURES.get(column.type.id)
    low, high = _UNKNOWN if measure is None or nulls == len(column) else measure(column)
    return Bounds(low, high, nulls)


def _integers(column: pa.ChunkedArray) -> Pair:
    found = pc.min_max(column)
    return int(found["min"].as_py()), int(found["max"].as_py())  # bool is a number too


def _times(column: pa.ChunkedArray) -> Pair:
    found = pc.min_max(column)
    return found["min"].value, found["max"].value


def _durations(column: pa.ChunkedArray) -> Pair:
    return _integers(column.cast(pa.int64()))


def _floats(column: pa.ChunkedArray) -> Pair:
    if pc.any(pc.is_nan(column)).as_py():
        return _UNKNOWN
    found = pc.min_max(column)
    low, high = found["min"].as_py(), found["max"].as_py()
    # JSON has no infinities. Which of two zeros is the least is up to the engine.
    return (
        (-0.0 if low == 0 else low) if math.isfinite(low) else None,
        (0.0 if high == 0 else high) if math.isfinite(high) else None,
    )


def _strings(column: pa.ChunkedArray) -> Pair:
    found = pc.min_max(column)
    try:
        low, _ = _first_characters(found["min"])
        high, whole = _first_characters(found["max"])
    except UnicodeDecodeError:
        return _UNKNOWN
    return low, high if whole else after_text(high)


def _first_characters(value: pa.Scalar) -> tuple[str, bool]:
    """The first characters of a string, and whether they are all of it; a long one is not decoded whole."""
    data = memoryview(value.as_buffer())
    most = 4 * CHARACTERS_MAX
    text = codecs.getincrementaldecoder("utf-8")().decode(bytes(data[:most]), final=len(data) <= most)
    return text[:CHARACTERS_MAX], len(data) <= most and len(text) <= CHARACTERS_MAX


def term(value: Any) -> Any:
    """A value to compare many bounds with: of a text that ends in NUL, numpy would leave out these."""
    if not isinstance(value, str):
        return value
    found = np.empty(1, dtype=object)
    found[0] = value
    return found


def after_text(text: str) -> str | None:
    """The shortest text above all that begin with ``text``; None where there is none."""
    while text:
        point = ord(text[-1]) + 1
        text = text[:-1]
        if point in _SURROGATES:
            point = _SURROGATES.stop
        if point <= _LAST_CHARACTER:
            return text + chr(point)
    return None


def _bytes(column: pa.ChunkedArray) -> Pair:
    found = pc.min_max(column)
    low, high = (memoryview(found[name].as_buffer()) for name in ("min", "max"))
    cut = bytes(high[:BYTES_MAX])
    last = cut.hex() if len(high) <= BYTES_MAX else _after_bytes(cut)
    return bytes(low[:BYTES_MAX]).hex(), last


def _after_bytes(data: bytes) -> str | None:
    data = data.rstrip(b"\xff")
    return (data[:-1] + bytes([data[-1] + 1])).hex() if data else None


_MEASURES: dict[int, Callable[[pa.ChunkedArray], Pair]] = {
    **dict.fromkeys(
        (
            kind.id
            for kind in (
                pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(),
                pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
            )
        ),
        _integers,
    ),
    **dict.fromkeys(
        (kind.id for kind in (pa.date32(), pa.time32("s"), pa.time64("us"), pa.timestamp("us"))),
        _times,
    ),
    pa.duration("s").id: _durations,
    pa.float32().id: _floats,
    pa.float64().id: _floats,
    pa.string().id: _strings,
    pa.binary().id: _bytes,
    pa.binary(1).id: _bytes,
}  # fmt: skip
