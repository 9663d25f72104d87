"""Filters: SQL expressions that say yes or no to the rows of one table.

What must hold:
- A filter says yes or no to each row from that row alone, and says the same today and tomorrow.
- Rows keep their order; a null is no.
- Where NaN is compared, it equals itself and is above every number. Only pruning must know that too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from siltstone.errors import InternalError, InvalidInputError
from siltstone.table import engine
from siltstone.table.types import is_nested, shown, shown_type

if TYPE_CHECKING:
    from datafusion import Expr

WHERE = "where"


@dataclass(frozen=True, eq=False)
class Predicate:
    """A filter. Threads may share it; evaluating it takes about 0.4 ms and the time for the rows."""

    text: str
    columns: frozenset[str]
    schema: pa.Schema
    expr: Expr  # with its constants folded
    lists_floats: bool  # DataFusion looks values up in a list by their bits, and there are two zeros

    def mask(self, table: pa.Table) -> pa.ChunkedArray:
        """Whether each row matches. The table has at least ``columns``.

        Raises:
            InvalidInputError: a row can't be evaluated (division by zero, a text that is no number).
        """
        if not self.columns or not table.num_rows:
            return pa.chunked_array([pa.repeat(pa.scalar(bool(table.num_rows) and self._constant()), table.num_rows)])
        with engine.words(WHERE, self.text, self.schema.names):
            columns = engine.columns_for(table, _only(self.schema, self.columns))
            found = engine.evaluate([self.expr], [_one_zero(one) for one in columns] if self.lists_floats else columns)
        mask = pa.chunked_array([batch.column(0) for batch in found], type=pa.bool_())
        if len(mask) != table.num_rows:
            raise InternalError(f"where {shown(self.text)} gave {len(mask)} answers for {table.num_rows} rows")
        return pc.fill_null(mask, False)

    def _constant(self) -> bool:
        with engine.words(WHERE, self.text, ()):
            one_row = pa.record_batch([pa.nulls(1)], names=["_"])
            return bool(engine.evaluate([self.expr], [one_row])[0].column(0)[0].as_py())

    def __reduce__(self) -> tuple[object, ...]:
        return (parse_predicate, (self.text, self.schema))


def parse_predicate(text: str, schema: pa.Schema) -> Predicate:
    """Parse a filter over the columns of a schema.

    Raises:
        InvalidInputError: it is no SQL expression that says yes or no to one row of these columns.
    """
    parsed = engine.parse(text, engine.plain(schema), what=WHERE)
    if parsed.changing:
        raise InvalidInputError(
            f"where {shown(text)} calls {min(parsed.changing)}(), which gives another value each time",
            hint="pass the value itself, so that a retry chooses the same rows",
        )
    if not kinds.is_boolean(parsed.kind):
        raise InvalidInputError(
            f"where {shown(text)} is {shown_type(parsed.kind)}, not true or false", hint="compare it with something"
        )
    return Predicate(text, parsed.columns, engine.plain(schema), parsed.expr, _lists_floats(parsed.expr, schema))


def _lists_floats(expr: Expr, schema: pa.Schema) -> bool:
    """Whether floats are looked for in a list; many alternatives of one column become a list, too."""
    stack = [expr]
    while stack:
        part = stack.pop()
        if part.variant_name() == "InList":
            names = engine.columns_of(part)
            if any(kinds.is_floating(schema.field(name).type) or is_nested(schema.field(name).type) for name in names):
                return True
        stack += engine.parts_of(part)
    return False


def _one_zero(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, in which zero has no sign."""
    columns = [
        pc.add(column, pa.scalar(0.0, column.type)) if kinds.is_floating(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _only(schema: pa.Schema, columns: frozenset[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in sorted(columns)])
