"""Checks of what users hand to a table's calls; each error names the argument and what is accepted."""

from __future__ import annotations

import datetime as dt
import re
import reprlib
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from siltstone.errors import InvalidInputError, LimitExceededError, NotFoundError
from siltstone.ids import is_id
from siltstone.table.once import Once
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

LABEL_CHARACTERS_MAX = 256
MESSAGE_CHARACTERS_MAX = 4096
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 60


def shown_object(value: object) -> str:
    """A Python value as a message shows it: escaped, and cut where it is long."""
    try:
        text = str(value) if isinstance(value, dt.date | dt.time | dt.timedelta) else _REPR.repr(value)
    except Exception:  # a number of 5,000 digits has no text, and a user's __repr__ may raise anything
        text = f"<{type(value).__name__}>"
    return shown(text)[1:-1]


def check_label(label: object, what: str) -> str:
    """A tag's or setting's name."""
    text = _check_text(label, what, LABEL_CHARACTERS_MAX)
    if not _TAG.fullmatch(text) or text.isdigit():
        raise InvalidInputError(
            f"{what} {shown(text)} is not allowed", hint="use letters, digits and _ . -, and not digits alone"
        )
    return text


def check_once(once: object, stream: object = None, batch: object = None) -> Once:
    """What makes a transaction one that is applied once: an id, or a stream and the number of a batch."""
    if (stream is None) != (batch is None):
        raise InvalidInputError("stream= and batch= belong together, and one of them is missing", hint="give both")
    if once is not None and stream is not None:
        raise InvalidInputError("once= and stream= are both given", hint="give one of them")
    if batch is None:
        return Once(id="" if once is None else _check_text(once, "once", LABEL_CHARACTERS_MAX))
    if type(batch) is not int or not 0 <= batch < 2**63:
        raise InvalidInputError(
            f"batch must be a whole number from 0 on, got {shown_object(batch)}",
            hint="number the batches of a stream in their order",
        )
    return Once(stream=_check_text(stream, "stream", LABEL_CHARACTERS_MAX), batch=batch)


def check_message(message: object) -> str:
    """What a version says of itself."""
    return "" if message is None or message == "" else _check_text(message, "message", MESSAGE_CHARACTERS_MAX)


def _check_text(text: object, what: str, most: int) -> str:
    if not isinstance(text, str):
        raise InvalidInputError(f"{what} must be a string, got {type(text).__name__}", hint="write it in quotes")
    if not text.strip():
        raise InvalidInputError(f"{what} must not be empty", hint="leave it out, or write something")
    if len(text) > most:
        raise LimitExceededError(
            f"{what} has {len(text)} characters, at most {most} are allowed",
            hint="use a shorter one, or keep the text in a column",
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"{what} {shown(text)} is not valid UTF-8", hint="remove the lone surrogates") from None
    return text


def check_values(values: Mapping[str, str]) -> dict[str, str]:
    """New values of ``update``."""
    if not hasattr(values, "items") or not values:
        raise InvalidInputError("values must map columns to expressions", hint='such as {"lang": "\'en\'"}')
    for name, text in values.items():
        if not isinstance(name, str):
            raise InvalidInputError(
                f"values names the column {shown_object(name)}, which is no string", hint="write it in quotes"
            )
        if not isinstance(text, str):
            raise InvalidInputError(
                f"the new value of {shown(name)} must be a SQL expression in a string, got {type(text).__name__}",
                hint='write numbers as "1" and strings as "\'text\'"',
            )
    return dict(values)


def check_where(where: object) -> str | None:
    """A filter, or None for every row."""
    if where is None:
        return None
    if not isinstance(where, str) or not where.strip():
        raise InvalidInputError(
            f'where must be a SQL condition such as "stars < 2", got {shown_object(where)}',
            hint="give None for every row",
        )
    return where


def check_settings(settings: Mapping[str, str | None]) -> dict[str, str | None]:
    """Settings; None removes one."""
    if not hasattr(settings, "items"):
        raise InvalidInputError(
            f"settings must be a mapping, got {type(settings).__name__}", hint='such as {"owner": "search"}'
        )
    for name, value in settings.items():
        check_label(name, "the name of a setting")
        if value is not None:
            _check_text(value, f"the setting {shown(name)}", MESSAGE_CHARACTERS_MAX)
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
    try:
        return pa.field(column, kind)
    except UnicodeEncodeError:
        raise InvalidInputError(
            f"the column name {shown(column)} is not valid UTF-8", hint="remove the lone surrogates"
        ) from None


def check_flag(flag: object, what: str) -> bool:
    """True or False, and nothing that is merely taken for one of them."""
    if not isinstance(flag, bool):
        raise InvalidInputError(f"{what} must be True or False, got {shown_object(flag)}", hint="pass one of the two")
    return flag


def check_limit(limit: object, *, hint: str = "leave it out for all") -> int | None:
    """How many there may be at most, or None for all."""
    if limit is None:
        return None
    if isinstance(limit, np.integer):
        limit = int(limit)
    if type(limit) is not int or not 0 <= limit < 2**63:
        raise InvalidInputError(f"limit must be a whole number from 0 on, got {shown_object(limit)}", hint=hint)
    return limit


def check_progress(progress: object) -> None:
    """What is told how far a compaction is."""
    if progress is not None and not callable(progress):
        raise InvalidInputError(
            f"progress must be a function, got {type(progress).__name__}",
            hint="it is called with the rows that are done and the rows that there are",
        )


def check_op(op: object) -> str:
    """The id of an operation."""
    if not is_id(op):
        raise InvalidInputError(
            f"op must be 32 lower-case hex digits, got {shown_object(op)}",
            hint='pass facts["op"] of the error, or the op of a version',
        )
    return str(op)


def check_version(version: object, *, newest: int, what: str = "version") -> int:
    """A version that exists."""
    if type(version) is not int:
        raise InvalidInputError(
            f"{what} must be a whole number, got {type(version).__name__}", hint=f"the newest version is {newest}"
        )
    if version < 0:
        raise InvalidInputError(
            f"{what} must not be negative, got {shown_object(version)}", hint=f"the newest version is {newest}"
        )
    if version > newest:
        raise NotFoundError(
            f"there is no version {shown_object(version)}", hint=f"the newest version is {newest}", newest=newest
        )
    return version


def moment_ms(timestamp: object) -> int:
    """A moment in milliseconds since 1970 (UTC), from a datetime, an ISO 8601 string or such a number."""
    if isinstance(timestamp, str):
        text = timestamp
        try:
            timestamp = dt.datetime.fromisoformat(text)
        except ValueError:
            raise InvalidInputError(
                f"timestamp {shown(text)} is not ISO 8601", hint="such as 2026-11-14T09:30:00+00:00"
            ) from None
    if isinstance(timestamp, dt.datetime):
        moment = timestamp if timestamp.tzinfo is not None else timestamp.replace(tzinfo=dt.UTC)
        return round(moment.timestamp() * 1000)
    if type(timestamp) is int:
        return timestamp
    raise InvalidInputError(
        f"timestamp must be a datetime, an ISO 8601 string or milliseconds, got {type(timestamp).__name__}",
        hint="such as 2026-11-14T09:30:00+00:00",
    )


def sql_name(uri: str) -> str:
    """What a table is called in SQL: the last part of its URI."""
    last = uri.rstrip("/").rpartition("/")[2]
    name = re.sub(r"\W", "_", last) or "table"
    return f"_{name}" if name[0].isdigit() else name


_SHARD_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
TEXT_CHARACTERS_MAX = 256


def check_shard_name(name: str) -> str:
    """The name of a shard."""
    if not _SHARD_NAME.fullmatch(name):
        raise InvalidInputError(
            f"a shard can't be called {shown(name)}",
            hint="use small letters, digits, _ and -, at most 64 of them, the first one a letter or a digit",
        )
    return name


def check_text(text: object, what: str) -> str:
    """A short text for people."""
    if not isinstance(text, str) or len(text) > TEXT_CHARACTERS_MAX or not text.isprintable():
        raise InvalidInputError(f"{what} must be a string of at most {TEXT_CHARACTERS_MAX} printable characters")
    return text


def is_held(data: object) -> bool:
    """Whether rows are all there, and the same however often they are read."""
    if isinstance(data, list | tuple):
        return all(isinstance(one, dict | pa.Table | pa.RecordBatch) for one in data)
    return isinstance(data, dict | pa.Table | pa.RecordBatch) or hasattr(data, "columns")
