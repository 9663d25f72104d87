"""The value that a column has in rows from before it was added.

What must hold:
- A default is stored as JSON and means the same value for ever: a column that is widened later keeps it.
"""

from __future__ import annotations

import math
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from siltstone.errors import InvalidInputError, LimitExceededError, UnsupportedTypeError
from siltstone.table.types import shown, shown_type

Default = int | float | str | bool
DEFAULT_CHARACTERS_MAX = 4096


def stored_default(value: object, kind: pa.DataType, *, column: str) -> Default:
    """``value`` as the default of a column is stored; refused where the column could not hold it exactly."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and not isinstance(value, bool) and kinds.is_floating(kind):
        value = _as_float(value, kind, column=column)
    if isinstance(value, float) and kinds.is_float32(kind):
        with np.errstate(over="ignore"):
            # Rounded here, once: read as a double after the column was widened it must be the same number.
            value = float(np.float32(value))
    return check_default(value, kind, column=column)


def check_default(value: object, kind: pa.DataType, *, column: str) -> Default:
    """Return ``value`` if it is what ``stored_default`` gives for a column of this type."""
    if kinds.is_boolean(kind):
        if type(value) is bool:
            return value
        _refuse(value, "True or False", column=column)
    if kinds.is_integer(kind):
        low = -(2 ** (kind.bit_width - 1)) if kinds.is_signed_integer(kind) else 0
        high = low + 2**kind.bit_width - 1
        if type(value) is int and low <= value <= high:
            return value
        _refuse(value, f"a whole number from {low} to {high}", column=column)
    if kinds.is_float32(kind) or kinds.is_float64(kind):
        if type(value) is float and math.isfinite(value) and _fits(value, kind):
            return value
        _refuse(value, f"a finite number that fits {kind}", column=column)
    if kinds.is_string(kind):
        return _check_text(value, column=column)
    raise UnsupportedTypeError(
        f"column {column} of type {shown_type(kind)} can't have a default",
        hint="only bool, integer, float and string columns can; add it as nullable without one",
        column=column,
    )


def _check_text(value: object, *, column: str) -> str:
    if type(value) is not str:
        _refuse(value, "a string", column=column)
    if len(value) > DEFAULT_CHARACTERS_MAX:
        raise LimitExceededError(
            f"the default of column {column} has {len(value)} characters, over the limit of {DEFAULT_CHARACTERS_MAX}",
            hint="add it as nullable and update the rows",
            column=column,
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        _refuse(value, "valid UTF-8", column=column)
    return value


def _as_float(value: int, kind: pa.DataType, *, column: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        _refuse(value, f"a number that fits {kind}", column=column)
    if number != value or not _fits(number, kind):
        _refuse(value, f"a number that {kind} holds exactly", column=column)
    return number


def _fits(value: float, kind: pa.DataType) -> bool:
    with np.errstate(over="ignore"):
        return bool(kinds.is_float64(kind) or float(np.float32(value)) == value)


def _refuse(value: object, wanted: str, *, column: str) -> NoReturn:
    raise InvalidInputError(
        f"the default of column {column} must be {wanted}, got {shown(repr(value))[1:-1]}",
        hint="give a default that the column can hold",
        column=column,
    )
