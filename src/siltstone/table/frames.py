"""Rows as frames of other libraries.

What must hold:
- What a library can't hold is an error that names the column and says how to get at its values, never an error of that
  library's own, nor its panic.
- Nothing is read where the library is missing, or lacks a type.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.types as kinds

from siltstone.errors import MissingDependencyError, UnsupportedTypeError
from siltstone.table.types import shown, shown_type

if TYPE_CHECKING:
    from collections.abc import Callable

_WAYS_OUT = "read it with to_arrow(), cast it in sql(), or leave it out"


class Rows(Protocol):
    """Rows that are read on demand."""

    @property
    def schema(self) -> pa.Schema:
        """Their columns."""

    def to_arrow(self) -> pa.Table:
        """All of them."""


def to_pandas(rows: Rows) -> Any:
    """All rows as a pandas DataFrame.

    Raises:
        UnsupportedTypeError: pandas can't hold a column, or one of its values.
    """
    _need("pandas")
    return _framed(rows.to_arrow(), "pandas", pa.Table.to_pandas, (Exception,))


def to_polars(rows: Rows) -> Any:
    """All rows as a polars DataFrame.

    Raises:
        UnsupportedTypeError: polars can't hold a column.
    """
    _need("polars")
    import polars as pl  # noqa: PLC0415 - optional

    for field in rows.schema:
        if _lacks(field.type):  # or polars would say on standard error that it panics
            raise _refused(field, "polars", "polars holds decimals of up to 128 bits")
    failures = (Exception, pl.exceptions.PanicException)  # which is no Exception
    return _framed(rows.to_arrow(), "polars", lambda part: pl.from_arrow(part, rechunk=False), failures)


def _framed(
    table: pa.Table, library: str, make: Callable[[pa.Table], Any], failures: tuple[type[BaseException], ...]
) -> Any:
    try:
        return make(table)
    except MemoryError:
        raise
    except failures as error:
        for index, field in enumerate(table.schema):
            try:
                make(table.select([index]))
            except failures as own:
                raise _refused(field, library, _said(own)) from error
        raise UnsupportedTypeError(
            f"{library} can't hold these rows: {_said(error)}", hint="read them with to_arrow()"
        ) from error


def _refused(field: pa.Field, library: str, why: str) -> UnsupportedTypeError:
    return UnsupportedTypeError(
        f"{library} can't hold column {shown(field.name)} of type {shown_type(field.type)}: {why}",
        hint=_WAYS_OUT,
        column=field.name,
    )


def _said(error: BaseException) -> str:
    return shown(str(error).partition("\n")[0])[1:-1]


def _lacks(kind: pa.DataType) -> bool:
    """Whether polars has no such type."""
    parts = (kind.field(number).type for number in range(kind.num_fields))
    return bool(kinds.is_decimal256(kind)) or any(_lacks(part) for part in parts)


def _need(package: str) -> None:
    if find_spec(package) is None:
        raise MissingDependencyError(f"{package} is not installed", hint=f"pip install {package}")
