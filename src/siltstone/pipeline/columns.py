"""Columns of a table as a pipeline file names them: ``{id: int64 not null, at: "timestamp[us, UTC]"}``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from siltstone.errors import InvalidInputError
from siltstone.table.types import plain_type, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALIASES = {
    "boolean": "bool", "float32": "float", "float64": "double", "text": "string", "bytes": "binary",
    "date": "date32[day]", "date32": "date32[day]", "timestamp": "timestamp[us]",
}  # fmt: skip
_NOT_NULL = re.compile(r"(.*\S)\s+not\s+null", re.IGNORECASE)
_ZONE = re.compile(r"(timestamp\[\w+,) *(?:tz=)?([^\]]+)\]")
KNOWN = (
    "bool, int8 to int64, uint8 to uint64, float, double, string, binary, date, timestamp[us, UTC], decimal128(10, 2)"
)


def parse_columns(columns: Mapping[str, str]) -> pa.Schema:
    """The schema of columns and types. Raises InvalidInputError, which names the column."""
    fields = []
    for name, text in columns.items():
        null = _NOT_NULL.fullmatch(text.strip())
        kind = parse_type(null[1] if null else text.strip())
        if kind is None:
            raise InvalidInputError(
                f"column {shown(name)} has the type {shown(text)}, which is none of those that can be named here",
                hint=f"types are {KNOWN}; tables with nested columns are made with `siltstone create`",
                column=name,
            )
        fields.append(pa.field(name, kind, nullable=null is None))
    return pa.schema(fields)


def parse_type(text: str) -> pa.DataType | None:
    """The type that a text names, or None."""
    text = re.sub(r"\s+", " ", text)
    return plain_type(_ZONE.sub(r"\1 tz=\2]", _ALIASES.get(text.lower(), text)))
