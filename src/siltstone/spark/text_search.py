"""Searching texts from Spark: the best rows as a DataFrame, and a function for SQL.

What must hold:
- ``search`` runs on the driver, a function of SQL in the one task that evaluates it; both give the rows that
  ``table.search`` gives, best first.
- A query of SQL sees one version, the newest when it was analyzed; with ``fresh``, what is durable when it runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.functions import arrow_udtf, udtf
from pyspark.sql.types import FloatType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from siltstone.api import open_table
from siltstone.api.staging import Staging
from siltstone.errors import InvalidInputError
from siltstone.index.results import SCORE
from siltstone.spark.arguments import as_table, check_session, session_first
from siltstone.spark.types import spark_schema, to_spark
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from siltstone.api import Table
    from siltstone.index.query import Query
    from siltstone.index.results import Search

FUNCTION = "siltstone_search"
LIMIT = 10
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_ANY = "any"  # a query, where the one that is asked is not known yet


@session_first
def search(
    spark: SparkSession,
    table: Table | str,
    column: str | Query,
    query: str | Query | None = None,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    limit: int | None = LIMIT,
    fresh: bool = False,
    index: str | None = None,
    snippets: bool = False,
    indexed_only: bool = False,
) -> DataFrame:
    """The rows whose texts match, best first, with ``_score``, as a DataFrame; arguments as for ``table.search``.

    The search runs now, on the driver, and the rows it finds go to Spark from there: with ``limit=None``, all that
    match have room in the driver's memory, or the call fails. The DataFrame stays as it is.
    """
    check_session(spark)
    found = as_table(table).search(
        column,
        query,
        columns=columns,
        where=where,
        limit=limit,
        fresh=fresh,
        index=index,
        snippets=snippets,
        indexed_only=indexed_only,
    )
    schema = spark_schema(found.schema)
    return spark.createDataFrame(to_spark(found.to_arrow(), schema), schema)


@session_first
def register_search(
    spark: SparkSession,
    name: str = FUNCTION,
    *,
    table: Table | str | None = None,
    columns: Sequence[str] | None = None,
) -> None:
    """Make a table function of SQL that searches: ``SELECT * FROM siltstone_search(uri, 'body', 'late', 100)``.

    Its arguments are ``uri``, ``column``, ``query``, and perhaps ``limit`` (10 without it, NULL for all), ``where``,
    by name ``columns`` (an array), ``fresh`` and ``snippets``; its columns are those of the table that is named, and
    ``_score``. Executors reach the table with what they find in their environment.

    With ``table``, the function searches that table, reached as its handle reaches it, and takes all but ``uri``,
    ``columns`` and ``snippets``. Its columns are those that the table has now, or ``columns``.
    """
    check_session(spark)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInputError(f"name is {shown(str(name))}", hint="use letters, digits and _, as in find_reviews")
    if table is not None:
        spark.udtf.register(name, _function_of(as_table(table), columns))
        return
    if columns is not None:
        raise InvalidInputError("columns is given without a table", hint="name them in the query: columns => array(..)")
    function: Any = udtf(AnySearch)
    spark.udtf.register(name, function)


# -- a table that the query names ------------------------------------------------------------------


@dataclass
class _Analyzed(AnalyzeResult):
    """What is known of a query before it runs."""

    version: int | None = None  # None: the newest, each time it runs


class AnySearch:
    """The function of SQL that searches a table by its URI. Spark asks for its columns with each query."""

    def __init__(self, analyzed: _Analyzed) -> None:
        self._analyzed = analyzed
        self._table: Table | None = None  # one for all rows of a query that has a search for each

    @staticmethod
    def analyze(
        uri: AnalyzeArgument,
        column: AnalyzeArgument,
        query: AnalyzeArgument,
        limit: AnalyzeArgument | None = None,
        where: AnalyzeArgument | None = None,
        *,
        columns: AnalyzeArgument | None = None,
        fresh: AnalyzeArgument | None = None,
        snippets: AnalyzeArgument | None = None,
    ) -> _Analyzed:
        """The columns of the rows; a query that is known is looked at."""
        with open_table(_constant(uri, "uri")) as table:
            now = _constant(fresh, "fresh", default=False)
            found = table.search(
                _constant(column, "column"),
                _if_known(query, _ANY),
                columns=_constant(columns, "columns"),
                snippets=_constant(snippets, "snippets", default=False),
                fresh=now,
                limit=_if_known(limit, LIMIT),
                where=_if_known(where, None),
            )
            return _Analyzed(spark_schema(found.schema), version=None if now else found.version)

    def eval(
        self,
        uri: str,
        column: str,
        query: str,
        limit: int | None = LIMIT,
        where: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        fresh: bool = False,
        snippets: bool = False,
    ) -> Iterator[tuple[object, ...]]:
        """The rows of one search."""
        found = self._opened(uri).search(
            column, query, columns=columns, where=where, limit=limit, fresh=fresh, snippets=snippets
        )
        rows = _rows(found, self._analyzed.schema)
        yield from zip(*(one.to_pylist(maps_as_pydicts="strict") for one in rows.columns), strict=True)

    def cleanup(self) -> None:
        """Close the table."""
        if self._table is not None:
            self._table.close()

    def _opened(self, uri: str) -> Table:
        if self._table is None:
            self._table = open_table(uri, version=self._analyzed.version)
        return self._table


def _constant(argument: AnalyzeArgument | None, name: str, *, default: object = None) -> Any:
    if argument is None:
        return default
    if not argument.isConstantExpression:
        raise InvalidInputError(
            f"{name} is not the same for all rows, and the columns of the answer depend on it",
            hint="write it as a constant; query, limit and where may come from a column",
        )
    return argument.value


def _if_known(argument: AnalyzeArgument | None, default: object) -> Any:
    return argument.value if argument is not None and argument.isConstantExpression else default


def _rows(found: Search, schema: StructType) -> pa.Table:
    return to_spark(found.to_arrow(), schema)


# -- a table that is known when the function is made -----------------------------------------------


def _function_of(table: Table, columns: Sequence[str] | None) -> Any:
    """The function of SQL that searches one table, with its handle."""
    Staging(table, reads=True)  # refuses one that no other process can reach
    chosen = [*table.scan(columns).schema.names]
    schema = spark_schema(table.scan(chosen).schema).add(SCORE, FloatType())

    # Made here, so that it is sent to executors with the handle.
    class TableSearch:
        def eval(
            self, column: pa.Array, query: pa.Array, limit: Any = LIMIT, where: Any = None, *, fresh: Any = False
        ) -> Iterator[pa.Table]:
            asked = {"limit": limit, "where": where, "fresh": fresh}
            found = table.search(
                _value(column), _value(query), columns=chosen, **{key: _value(one) for key, one in asked.items()}
            )
            yield _rows(found, schema)

    return arrow_udtf(TableSearch, returnType=schema)


def _value(given: Any) -> Any:
    """An argument of a call: Spark hands it over as a column of one row, and leaves out what was not given."""
    return given[0].as_py() if isinstance(given, pa.Array) else given
