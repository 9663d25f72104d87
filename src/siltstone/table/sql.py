"""Queries over tables, answered by DataFusion as a stream.

What must hold:
- A query only reads, and only the tables it is given: no statement, no file and no URL is reached from its text.
- Rows are read when the answer is, in bounded memory; sorts and groups that outgrow it go to temporary files.
- A fragment is left out only where every scan of its table would filter out each of its rows.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.types as kinds

from siltstone.errors import ForkedError, InvalidInputError
from siltstone.table import engine, frames
from siltstone.table.decimals import as_written, check_folded, decimal_names
from siltstone.table.lanes import Lanes, Run, Source, lanes_type
from siltstone.table.prune import prune_by
from siltstone.table.schema import first_names, near_names
from siltstone.table.sqltext import check_text
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import polars as pl
    from datafusion import DataFrame, Expr, SessionContext, SQLOptions
    from datafusion.plan import LogicalPlan

__all__ = ["Result", "Source", "run_sql"]

QUERY_BYTES_MAX = 1024 * 1024
MEMORY_BYTES_MIN = 16 * 1024 * 1024
LANES_MAX = 16

_ALL = 2**62  # rows: a limit that ends no scan, and that no filter is moved past
_LIMIT = f"Limit: skip=0, fetch={_ALL}"
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*([A-Za-z_]*)", re.DOTALL)
_QUERIES = frozenset({"SELECT", "WITH", "EXPLAIN", "VALUES"})
_NO_TABLE = re.compile(r"table '(?:datafusion\.public\.)?(.*?)' not found", re.DOTALL)
_NO_QUERY = re.compile(r"(?:DDL|DML|Statement) not supported|only supports a single SQL statement")


class Result:
    """The answer to a query. Nothing of it is kept: whenever it is read, the query runs."""

    def __init__(self, query: _Query) -> None:
        self._query = query
        self._planned: list[_Plan] = [query.plan()]
        self.schema = self._planned[0].schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as they come.

        Raises:
            InvalidInputError: a row can't be evaluated.
            LimitExceededError: the query needs more memory than it may use.
        """
        _check_process()
        plan = self._take()
        try:
            with self._query.reading(plan.run):
                for batch in plan.frame.execute_stream():
                    yield self._plain(batch.to_pyarrow())
        finally:
            plan.run.close()

    def to_arrow(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_batches(self.to_batches(), schema=self.schema)

    def to_pandas(self) -> Any:
        """All rows as a pandas frame.

        Raises:
            UnsupportedTypeError: pandas can't hold a column, or one of its values.
        """
        return frames.to_pandas(self)

    def to_polars(self) -> pl.DataFrame:
        """All rows as a polars frame.

        Raises:
            UnsupportedTypeError: polars can't hold a column.
        """
        return frames.to_polars(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.schema, self.to_batches())
        return reader.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"Result({shown(self._query.text)})"

    def _take(self) -> _Plan:
        try:
            return self._planned.pop()
        except IndexError:
            return self._query.plan()

    def _plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(batch.columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema) if arrays else batch


def run_sql(query: str, tables: Mapping[str, Source], *, memory_bytes_max: int | None = None) -> Result:
    """Plan a query over tables by their names; rows are read when the result is.

    ``memory_bytes_max`` bounds what sorts, groups and joins hold; by default half of the machine's memory.

    Raises:
        InvalidInputError: it is no SELECT, WITH, VALUES or EXPLAIN over these tables and their columns.
    """
    _check_process()
    check_text(query, what="sql", bytes_max=QUERY_BYTES_MAX)
    match = _FIRST_WORD.match(query)
    if match is None or match[1].upper() not in _QUERIES:
        raise _no_query(query)
    return Result(_Query(query, dict(tables), _memory(memory_bytes_max)))


class _Plan(NamedTuple):
    """A query that is ready to run, once."""

    frame: DataFrame
    run: Run

    @property
    def schema(self) -> pa.Schema:
        """The columns of the answer."""
        return pa.schema([pa.field(one.name, _plain_type(one.type), one.nullable) for one in self.frame.schema()])


@dataclass(frozen=True)
class _Query:
    text: str
    tables: dict[str, Source]
    memory_bytes_max: int

    def plan(self) -> _Plan:
        """Everything but reading rows."""
        run = Run()
        context = _session(self.memory_bytes_max)
        lanes = {name: _register(context, name, source, run) for name, source in self.tables.items()}
        text = as_written(self.text, decimal_names(source.schema for source in self.tables.values()))
        with self.planning():
            frame = context.sql(text, options=_read_only())
            plan = frame.optimized_logical_plan()
            check_folded(plan.display_indent(), text, what="sql")
            filtered = _filtered(plan, lanes)
            if filtered:
                for name in filtered:
                    _fence(context, name)
                frame = context.sql(text, options=_read_only())
                plan = frame.optimized_logical_plan()
        _prune(plan, lanes)
        return _Plan(frame, run)

    @contextmanager
    def planning(self) -> Iterator[None]:
        """Raises what is wrong with the text in siltstone's words."""
        with engine.words("sql", self.text, self._columns()):
            try:
                yield
            except ValueError as error:
                message = str(error)
                if _NO_QUERY.search(message):
                    raise _no_query(self.text) from error
                if match := _NO_TABLE.search(message):
                    raise self._no_table(match[1]) from error
                raise

    @contextmanager
    def reading(self, run: Run) -> Iterator[None]:
        """Raises what is wrong with rows: the error of a source as it is, others in siltstone's words."""
        with engine.words("sql", self.text, self._columns()):
            try:
                yield
            except Exception as error:
                if run.failure is not None:
                    raise run.failure from error
                raise

    def _columns(self) -> list[str]:
        return sorted({name for source in self.tables.values() for name in source.schema.names})

    def _no_table(self, name: str) -> InvalidInputError:
        names = list(self.tables)
        near = near_names(names, name)
        return InvalidInputError(
            f"sql {shown(self.text)} names table {shown(name)}, which is not there",
            hint=near if near.startswith("did") else f"tables are {first_names(names)}",
            table=name,
        )


def _check_process() -> None:
    if engine.is_forked():
        raise ForkedError(
            "DataFusion was used before os.fork(), and its threads are not in this process",
            hint="start processes with multiprocessing's 'spawn' or 'forkserver' method",
        )


def _memory(bytes_max: int | None) -> int:
    if bytes_max is None:
        return max(MEMORY_BYTES_MIN, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    if type(bytes_max) is not int or bytes_max < MEMORY_BYTES_MIN:
        raise InvalidInputError(
            f"memory_bytes_max must be an int of at least {MEMORY_BYTES_MIN}, got {bytes_max!a}",
            hint="leave it out for half of the machine's memory",
        )
    return bytes_max


def _read_only() -> SQLOptions:
    return engine.datafusion().SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)


def _session(memory_bytes_max: int) -> SessionContext:
    config = (
        engine.config()
        # As joins all scans of a query are in its plan, where pruning looks for them.
        .set("datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery", "false")
        # The default wants 10 MB at once for each sort, whatever the limit.
        .set("datafusion.execution.sort_spill_reservation_bytes", str(min(10 << 20, memory_bytes_max // 16)))
    )
    runtime = engine.datafusion().RuntimeEnvBuilder().with_disk_manager_os().with_fair_spill_pool(memory_bytes_max)
    return engine.datafusion().SessionContext(config, runtime)


def _register(context: SessionContext, name: str, source: Source, run: Run) -> Lanes:
    lanes_max = min(LANES_MAX, max(2, os.cpu_count() or 1))
    lanes = lanes_type()(source, engine.plain(source.schema), lanes_max=lanes_max, run=run)
    context.register_table(_quoted(name), lanes)
    return lanes


def _fence(context: SessionContext, name: str) -> None:
    """Keep filters above the scans of a table, where DataFusion applies them itself."""
    # Only where there are filters: with nothing between, a sort takes the limit for its own and keeps all in memory.
    fenced = context.table(_quoted(name)).limit(_ALL)
    context.deregister_table(_quoted(name))
    context.register_view(_quoted(name), fenced)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """A type without views, which not every reader knows."""
    if kinds.is_string_view(kind):
        return pa.string()
    if kinds.is_binary_view(kind):
        return pa.binary()
    if kinds.is_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if kinds.is_struct(kind):
        return pa.struct([_plain_field(kind.field(place)) for place in range(kind.num_fields)])
    return kind


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain_type(field.type))


# -- pruning -------------------------------------------------------------------------------------


def _filtered(plan: LogicalPlan, lanes: Mapping[str, Lanes]) -> list[str]:
    """The tables that filters are handed down to; all of them where that is not seen."""
    scans = _scans(plan)
    if _some_hidden(plan, scans):
        return list(lanes)
    return [name for name in lanes if any(scan.table == name and scan.handed_down for scan in scans)]


def _prune(plan: LogicalPlan, lanes: Mapping[str, Lanes]) -> None:
    """Tell each source which rows no scan of it needs."""
    scans = _scans(plan)
    if _some_hidden(plan, scans):
        return
    for name, lane in lanes.items():
        ways = [scan.filters for scan in scans if scan.table == name]
        if ways and all(ways):
            lane.where = prune_by(ways, lane.schema)


class _Scan(NamedTuple):
    """A scan of a table, with the filters right above it."""

    table: str
    filters: list[Expr]
    handed_down: bool


def _some_hidden(plan: LogicalPlan, scans: list[_Scan]) -> bool:
    # A query inside of an expression is shown in the text of a plan, and is not among its nodes.
    return len(scans) != plan.display_indent().count("TableScan: ")


def _scans(plan: LogicalPlan) -> list[_Scan]:
    found: list[_Scan] = []
    stack: list[tuple[LogicalPlan, list[Expr]]] = [(plan, [])]
    while stack:
        node, filters = stack.pop()
        # Some nodes have no Python form; none of those is looked for.
        line = node.display()
        if line.startswith("TableScan: "):
            scan = node.to_variant()
            found.append(_Scan(scan.fqn()[2], filters, bool(scan.filters())))
        elif line.startswith("Filter: "):
            filters = [*filters, engine.datafusion().Expr(node.to_variant().predicate())]
        elif line != _LIMIT and not line.startswith("SubqueryAlias: "):
            filters = []
        stack += [(one, filters) for one in node.inputs()]
    return found


def _no_query(query: str) -> InvalidInputError:
    return InvalidInputError(
        f"sql {shown(query)} is not one query",
        hint="it may be one SELECT, WITH, VALUES or EXPLAIN; rows are changed with the methods of a table",
    )
