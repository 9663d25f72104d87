"""The types a column can have, and how they are written down.

What must hold:
- A type has exactly one text, and a text that is not the one of a type is no type.
- Types that differ only in how Arrow lays them out (large, view, dictionary) are stored as one.
- ``widens`` is true only where every value of the narrow type is a value of the wide one.
"""

from __future__ import annotations

import re
import zoneinfo

import pyarrow as pa
import pyarrow.types as kinds

from siltstone.errors import LimitExceededError, UnsupportedTypeError

LIST, STRUCT, MAP = "list", "struct", "map"
FIXED_BYTES_MAX = 2**20  # that a row has by its type alone, null or not: fixed_size_binary and fixed_size_list
SUPPORTED = (
    "bool, int8 to int64, uint8 to uint64, float, double, string, binary, fixed_size_binary, date32, time32, time64, "
    "timestamp, duration, decimal128, decimal256, list, fixed_size_list, struct and map"
)

_TEXT_MAX = 100
_PLAIN: dict[str, pa.DataType] = {
    str(one): one
    for one in (
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
        pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32(),
        pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
        *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    )
}  # fmt: skip
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=([A-Za-z0-9_+:/-]{1,64}))?\]")
_DECIMAL = re.compile(r"decimal(128|256)\(([1-9][0-9]?), (0|[1-9][0-9]?)\)")
_FIXED_BINARY = re.compile(r"fixed_size_binary\[([1-9][0-9]{0,6})\]")
_FIXED_LIST = re.compile(r"fixed_size_list\[([1-9][0-9]{0,6})\]")
_PRECISION_MAX = {"128": 38, "256": 76}
_UNITS = {"s": 0, "ms": 1, "us": 2}  # not ns: it ends in the year 2262


def plain_type(text: str) -> pa.DataType | None:
    """The Arrow type that ``text`` names, or None where it names no plain type."""
    if (found := _PLAIN.get(text)) is not None:
        return found
    if match := _TIMESTAMP.fullmatch(text):
        return pa.timestamp(match[1], tz=match[2])
    if match := _DECIMAL.fullmatch(text):
        precision, scale = int(match[2]), int(match[3])
        if precision > _PRECISION_MAX[match[1]] or scale > precision:
            return None
        return pa.decimal128(precision, scale) if match[1] == "128" else pa.decimal256(precision, scale)
    if (match := _FIXED_BINARY.fullmatch(text)) and int(match[1]) <= FIXED_BYTES_MAX:
        return pa.binary(int(match[1]))
    return None


def list_size(text: str) -> int | None:
    """How many values each list of a ``fixed_size_list[n]`` has, or None where ``text`` is no such type."""
    match = _FIXED_LIST.fullmatch(text)
    return int(match[1]) if match and int(match[1]) <= FIXED_BYTES_MAX else None


def fixed_bytes(text: str) -> int:
    """The bytes that each value of a plain type takes, null or not; one at least."""
    try:
        return max(int(plain_type(text).bit_width) // 8, 1)  # type: ignore[union-attr]
    except ValueError:  # as long as the value
        return 1


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists of any length."""
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind))


def is_nested(kind: pa.DataType) -> bool:
    """Whether a column of this type has parts."""
    return bool(is_list(kind) or kinds.is_fixed_size_list(kind) or kinds.is_struct(kind) or kinds.is_map(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether values are strings, in any layout."""
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values are bytes of any length, in any layout."""
    return bool(kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_binary_view(kind))


def decoded(kind: pa.DataType) -> pa.DataType:
    """The type of the values, without the dictionaries they may be encoded with."""
    while kinds.is_dictionary(kind):
        kind = kind.value_type
    return kind


def stored_type(kind: pa.DataType, *, column: str) -> pa.DataType:
    """The plain type that a column of ``kind`` is stored as; ``column`` is for the message where there is none."""
    if is_text(kind):
        return pa.string()
    if is_bytes(kind):
        return pa.binary()
    if kinds.is_date64(kind):
        return pa.date32()
    if isinstance(kind, pa.BaseExtensionType):
        raise UnsupportedTypeError(
            f"column {column} has the extension type {shown_type(kind)}",
            hint=f"cast it to its storage type, {shown_type(kind.storage_type)}",
            column=column,
        )
    if kinds.is_decimal(kind):
        kind = _stored_decimal(kind, column=column)
    if kinds.is_fixed_size_binary(kind) and kind.byte_width > FIXED_BYTES_MAX:
        raise LimitExceededError(
            f"column {column} has values of {kind.byte_width} bytes, over the limit of {FIXED_BYTES_MAX} "
            "for fixed_size_binary",
            hint="use binary",
            column=column,
        )
    if kinds.is_timestamp(kind) and kind.tz is not None:
        _check_zone(kind, column=column)
    if plain_type(str(kind)) is None:
        raise unsupported(kind, column=column)
    return kind


def unsupported(kind: pa.DataType, *, column: str) -> UnsupportedTypeError:
    """The error for a type that no column can have."""
    return UnsupportedTypeError(
        f"column {column} has the type {shown_type(kind)}, which can't be stored",
        hint=f"supported are {SUPPORTED}",
        column=column,
    )


def widens(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Whether ``wide`` is another type that holds every value of ``narrow``."""
    if kinds.is_integer(narrow) and kinds.is_integer(wide):
        same_sign = kinds.is_signed_integer(narrow) == kinds.is_signed_integer(wide)
        return bool(wide.bit_width > narrow.bit_width and (same_sign or kinds.is_signed_integer(wide)))
    if kinds.is_float32(narrow):
        return bool(kinds.is_float64(wide))
    if kinds.is_decimal(narrow) and kinds.is_decimal(wide):
        larger = wide.precision >= narrow.precision and wide.bit_width >= narrow.bit_width
        return bool(wide != narrow and wide.scale == narrow.scale and larger)
    if kinds.is_timestamp(narrow) and kinds.is_timestamp(wide):
        known = narrow.unit in _UNITS and wide.unit in _UNITS
        return bool(known and narrow.tz == wide.tz and _UNITS[narrow.unit] < _UNITS[wide.unit])
    return False


def shown(text: str) -> str:
    """A user's text as a message shows it: escaped, and cut where it is long."""
    return ascii(text if len(text) <= _TEXT_MAX else text[:_TEXT_MAX] + "...")


def shown_type(kind: pa.DataType) -> str:
    """A type as a message shows it; names inside it are a user's text."""
    return shown(str(kind))[1:-1]


def _stored_decimal(kind: pa.DataType, *, column: str) -> pa.DataType:
    if not 0 <= kind.scale <= kind.precision:
        raise UnsupportedTypeError(
            f"column {column} has the type {kind}, whose scale is not between 0 and its precision",
            hint="Parquet holds no such decimals; cast it to another scale",
            column=column,
        )
    # The narrow ones are newer than most readers.
    return kind if kinds.is_decimal256(kind) else pa.decimal128(kind.precision, kind.scale)


def _check_zone(kind: pa.DataType, *, column: str) -> None:
    if plain_type(str(kind)) is None or not _is_zone(kind.tz):
        raise UnsupportedTypeError(
            f"column {column} has the type {shown_type(kind)}, whose time zone is not known",
            hint="use a name such as 'UTC' or 'Europe/Vienna', or an offset such as '+01:00'",
            column=column,
        )


def _is_zone(name: str) -> bool:
    if re.fullmatch(r"[+-][0-9]{2}:[0-9]{2}", name):
        return True
    for known in (name, "UTC"):
        try:
            zoneinfo.ZoneInfo(known)
        except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
            continue
        return known == name
    return True  # a machine without time zones can't tell
