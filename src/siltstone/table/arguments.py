"""Checks of what users hand to a table's calls; each error names the argument and what is accepted."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from siltstone.errors import InvalidInputError, LimitExceededError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

LABEL_CHARACTERS_MAX = 256
MESSAGE_CHARACTERS_MAX = 4096
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-/]*")


def check_label(label: object, what: str) -> str:
    """A tag's or setting's name."""
    text = _check_text(label, what, LABEL_CHARACTERS_MAX)
    if not _TAG.fullmatch(text) or text.isdigit():
        raise InvalidInputError(
            f"{what} {text!a} is not allowed", hint="use letters, digits and _ . - /, and not digits alone"
        )
    return text


def check_once(once: object) -> str:
    """The id of a transaction that is to be applied once."""
    return "" if once is None else _check_text(once, "once", LABEL_CHARACTERS_MAX)


def check_message(message: object) -> str:
    """What a version says of itself."""
    return "" if message in {None, ""} else _check_text(message, "message", MESSAGE_CHARACTERS_MAX)


def _check_text(text: object, what: str, most: int) -> str:
    if not isinstance(text, str):
        raise InvalidInputError(f"{what} must be a string, got {type(text).__name__}")
    if not text.strip():
        raise InvalidInputError(f"{what} must not be empty")
    if len(text) > most:
        raise LimitExceededError(f"{what} has {len(text)} characters, at most {most} are allowed")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"{what} {text!a} is not valid UTF-8") from None
    return text


def check_values(values: Mapping[str, str]) -> dict[str, str]:
    """New values of ``update``."""
    if not hasattr(values, "items") or not values:
        raise InvalidInputError("values must map columns to expressions", hint='such as {"lang": "\'en\'"}')
    for name, text in values.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise InvalidInputError(
                f"the new value of {name!a} must be a SQL expression in a string, got {type(text).__name__}",
                hint='write numbers as "1" and strings as "\'text\'"',
            )
    return dict(values)


def check_where(where: object) -> str | None:
    """A filter, or None for every row."""
    if where is None:
        return None
    if not isinstance(where, str) or not where.strip():
        raise InvalidInputError(
            f'where must be a SQL condition such as "stars < 2", got {where!a:.60}', hint="leave it out for every row"
        )
    return where


def check_settings(settings: Mapping[str, str | None]) -> dict[str, str | None]:
    """Settings; None removes one."""
    if not hasattr(settings, "items"):
        raise InvalidInputError(f"settings must be a mapping, got {type(settings).__name__}")
    for name, value in settings.items():
        check_label(name, "the name of a setting")
        if value is not None:
            _check_text(value, f"setting {name!a}", MESSAGE_CHARACTERS_MAX)
    return dict(settings)


def as_field(column: object, kind: object) -> pa.Field:
    """A column that is to be added: a field, or a name and a type."""
    if isinstance(column, pa.Field):
        if kind is not None:
            raise InvalidInputError("a field has its type already", hint="leave type out")
        return column
    if not isinstance(column, str) or not isinstance(kind, pa.DataType):
        raise InvalidInputError(
            "a column is given as a pyarrow field, or as its name and a pyarrow type",
            hint='such as add_column("lang", pa.string())',
        )
    return pa.field(column, kind)


def check_version(version: object, *, newest: int, what: str = "version") -> int:
    """A version that exists."""
    if type(version) is not int:
        raise InvalidInputError(
            f"{what} must be a whole number, got {type(version).__name__}", hint=f"the newest version is {newest}"
        )
    if version < 0:
        raise InvalidInputError(f"{what} must not be negative, got {version}", hint=f"the newest version is {newest}")
    if version > newest:
        raise NotFoundError(f"there is no version {version}", hint=f"the newest version is {newest}", newest=newest)
    return version


def moment_ms(timestamp: object) -> int:
    """A moment in milliseconds since 1970 (UTC), from a datetime, an ISO 8601 string or such a number."""
    if isinstance(timestamp, str):
        try:
            timestamp = datetime.fromisoformat(timestamp)
        except ValueError:
            raise InvalidInputError(
                f"timestamp {timestamp!a} is not ISO 8601", hint="such as 2026-11-14T09:30:00+00:00"
            ) from None
    if isinstance(timestamp, datetime):
        moment = timestamp if timestamp.tzinfo is not None else timestamp.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)
    if type(timestamp) is int:
        return timestamp
    raise InvalidInputError(
        f"timestamp must be a datetime, an ISO 8601 string or milliseconds, got {type(timestamp).__name__}"
    )


def sql_name(uri: str) -> str:
    """What a table is called in SQL: the last part of its URI."""
    last = uri.rstrip("/").rpartition("/")[2]
    name = re.sub(r"\W", "_", last) or "table"
    return f"_{name}" if name[0].isdigit() else name
