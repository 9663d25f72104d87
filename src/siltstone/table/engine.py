"""How DataFusion is asked: sessions, the parsing of one expression, and its errors in siltstone's words.

What must hold:
- Text is parsed as one expression or one query and checked before it is evaluated; no text opens a file.
- Names of columns and tables are as they were given, upper and lower case apart.
- What the clock gives is told by the caller: it is the same wherever, and however often, text is parsed.
- An error of DataFusion, and a panic in it, becomes a ``SiltstoneError``.
"""

from __future__ import annotations

import importlib
import os
import re
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from siltstone.errors import InternalError, InvalidInputError, LimitExceededError, SiltstoneError
from siltstone.table.decimals import as_written, check_folded, decimal_names
from siltstone.table.schema import near_names
from siltstone.table.sqltext import check_text, nested
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from datafusion import DataFrame, Expr, SessionConfig, SessionContext

DEPTH_MAX = 500  # of operators: evaluating takes stack, and time that grows with the square

_MESSAGE_MAX = 300
_NO_FIELD = re.compile(r"No field named (.+?)\.(?:\s|$)")
_FIRST_WORDS = re.compile(
    r"^(?:DataFusion error|Arrow error|Error during planning|Execution error|SQL error|Schema error|Internal error"
    r"|External error|Cast error|Compute error|Parser error|Optimizer rule '\w+' failed|caused by)(?::\s*|\s*\n\s*)"
)
_NOT_SQL = re.compile(r"ParserError|TokenizerError|\bsqlparser\b")
_PARSER = re.compile(r'(?:Parser|Tokenizer)Error\("(.*)"\)', re.DOTALL)
_LAST_WORDS = re.compile(
    r"\s*(?:This issue was likely caused by|This was likely caused by|Valid fields are|No function matches"
    r"|Candidate functions|\bbacktrace:).*",
    re.DOTALL | re.IGNORECASE,
)
_PARTS = frozenset({
    "Alias", "Column", "Literal", "BinaryExpr", "Like", "RLike", "SimilarTo", "Not", "IsNull", "IsNotNull", "IsTrue",
    "IsNotTrue", "IsFalse", "IsNotFalse", "IsUnknown", "IsNotUnknown", "Negative", "Between", "Case", "Cast",
    "TryCast", "ScalarFunction", "InList",
})  # fmt: skip
_REFUSED = {
    "AggregateFunction": "a function over many rows",
    "WindowFunction": "a function over many rows",
    "ScalarSubquery": "a query",
    "InSubquery": "a query",
    "Exists": "a query",
    "Placeholder": "a placeholder",
}
# All but the one that folds constants: it alone works on an expression by itself.
_RULES = (
    "rewrite_set_comparison", "optimize_unions", "replace_distinct_aggregate", "eliminate_join",
    "decorrelate_predicate_subquery", "decorrelate_lateral_join", "scalar_subquery_to_join",
    "extract_equijoin_predicate", "eliminate_duplicated_expr", "eliminate_filter", "eliminate_cross_join",
    "eliminate_limit", "propagate_empty_relation", "filter_null_join_keys", "eliminate_outer_join",
    "push_down_limit", "push_down_filter", "single_distinct_aggregation_to_group_by", "eliminate_group_by_constant",
    "common_sub_expression_eliminate", "extract_leaf_expressions", "push_down_leaf_projections",
    "optimize_projections",
)  # fmt: skip


_CLOCK = {
    "now": pa.timestamp("ns", "+00:00"),
    "current_timestamp": pa.timestamp("ns", "+00:00"),
    "current_date": pa.date32(),
    "today": pa.date32(),
    "current_time": pa.time64("ns"),
}


class Parsed(NamedTuple):
    """An expression with its constants folded, the type of its values, and what it is made of."""

    expr: Expr
    kind: pa.DataType
    columns: frozenset[str]
    changing: frozenset[str]  # functions that give another value at another time
    whole: Expr  # with nothing folded
    frame: DataFrame  # that it was parsed on: its columns, and its clock


class _Process:
    started = False
    forked = False


@cache
def datafusion() -> Any:
    """The engine, loaded when it is first needed: it takes as long to import as all the rest."""
    return importlib.import_module("datafusion")


def config() -> SessionConfig:
    """What all sessions have in common."""
    _Process.started = True
    return (
        datafusion()
        .SessionConfig()
        .set("datafusion.sql_parser.enable_ident_normalization", "false")
        .set("datafusion.sql_parser.map_string_types_to_utf8view", "false")
        .set("datafusion.execution.time_zone", "+00:00")
    )


def is_forked() -> bool:
    """Whether the threads that queries run on were left behind in the process that this one was forked from."""
    return _Process.forked


def _after_fork() -> None:
    _Process.forked = _Process.started


os.register_at_fork(after_in_child=_after_fork)


def _planner() -> SessionContext:
    context = datafusion().SessionContext(config().with_target_partitions(1))
    for rule in _RULES:
        context.remove_optimizer_rule(rule)
    return context


_shared_planner = cache(_planner)


@cache
def _evaluator() -> SessionContext:
    # What it is given was planned before. One partition, or rows would change their order.
    return datafusion().SessionContext(config().with_target_partitions(1).set("datafusion.optimizer.max_passes", "0"))


@cache
def _changing() -> frozenset[str]:
    """The functions that DataFusion does not call deterministic."""
    session = datafusion().SessionContext(datafusion().SessionConfig().with_information_schema())
    found = session.sql("select routine_name from information_schema.routines where not is_deterministic")
    return frozenset(found.to_pydict()["routine_name"])


@lru_cache(maxsize=32)
def _empty(schema: pa.Schema) -> DataFrame:
    return _shared_planner().read_batches([_no_rows(schema)])


def _empty_at(moment: int, schema: pa.Schema) -> DataFrame:
    """As ``_empty``, in a session where the clock stands still: DataFusion's own is that of the frame's making."""
    planner = _planner()
    time = pa.array([moment], pa.timestamp("ns"))
    for name, kind in _CLOCK.items():
        # Called once, for the one row that constants are folded on.
        function = partial(_same, time.cast(kind, safe=False))
        planner.register_udf(datafusion().udf(function, [], kind, "immutable", name))
    return planner.read_batches([_no_rows(schema)])


def _same(value: pa.Array) -> pa.Array:
    return value


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)


def plain(schema: pa.Schema) -> pa.Schema:
    """The names and types alone. Every column may be null: nothing is simplified by what a schema says of nulls."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])


# -- parsing -------------------------------------------------------------------------------------


def parse(text: str, schema: pa.Schema, *, what: str, moment: int | None = None) -> Parsed:
    """Parse one expression over the columns of a plain schema; ``what`` is how errors call it.

    The clock gives ``moment``, in nanoseconds since 1970. Without one, what it gives means nothing.
    """
    check_text(text, what=what)
    exact = as_written(text, decimal_names([schema]))
    with words(what, text, schema.names):
        frame = _empty(schema)
        expr = frame.parse_sql_expr(exact)
        functions = _check_parts(expr, what=what, text=text)
        if moment is not None and not functions.isdisjoint(_CLOCK):
            frame = _empty_at(moment, schema)
            expr = frame.parse_sql_expr(exact)
        whole, kind = expr, types_of([expr], frame)[0]
        expr = folded(whole, frame)
        check_folded(expr.canonical_name(), exact, what=what)
        # What can be parsed and not be run fails here, not at the first row.
        evaluate([expr], [_no_rows(schema)])
    changing = functions & _changing() if functions else frozenset()
    return Parsed(expr, kind, columns_of(expr), changing, whole, frame)


def types_of(exprs: Sequence[Expr], frame: DataFrame) -> list[pa.DataType]:
    """The types of what expressions over the columns of a frame give."""
    chosen = [expr.alias(f"value{place}") for place, expr in enumerate(exprs)]
    return list(frame.select(*chosen).schema().types)


def folded(expr: Expr, frame: DataFrame) -> Expr:
    """An expression over the columns of a frame with its constants folded, fit to be evaluated."""
    plan = frame.select(expr.alias("value")).optimized_logical_plan().to_variant()
    if type(plan).__name__ == "Projection":
        expr = datafusion().Expr(plan.projections()[0])
    while expr.variant_name() == "Alias":
        expr = expr.rex_call_operands()[0]
    return expr


def _check_parts(expr: Expr, *, what: str, text: str) -> frozenset[str]:
    """Refuse what is no expression over one row; the functions it calls."""
    functions = set()
    if expr.variant_name() == "Alias" and expr.rex_call_operands()[0].variant_name() != "ScalarFunction":
        raise InvalidInputError(f"{what} {shown(text)} gives a name", hint="leave out what begins with AS")
    stack = [(expr, 1)]
    while stack:
        part, depth = stack.pop()
        variant = part.variant_name()
        if variant not in _PARTS:
            refused = _REFUSED.get(variant, f"what DataFusion calls {variant}")
            raise InvalidInputError(
                f"{what} {shown(text)} holds {refused}", hint="it may only use the columns of one row"
            )
        if depth > DEPTH_MAX:
            raise LimitExceededError(
                f"{what} {shown(text)} is more than {DEPTH_MAX} operators deep",
                hint="write column IN (value, ...) for many values of one column",
            )
        if variant == "ScalarFunction":
            functions.add(part.rex_call_operator())
        stack += [(one, depth + 1) for one in parts_of(part)]
    return frozenset(functions)


def parts_of(expr: Expr) -> list[Expr]:
    """The operands of an expression."""
    return [] if expr.variant_name() in {"Column", "Literal"} else expr.rex_call_operands()


def columns_of(expr: Expr) -> frozenset[str]:
    """The names of the columns that an expression reads."""
    found, stack = set(), [expr]
    while stack:
        part = stack.pop()
        if part.variant_name() == "Column":
            found.add(part.to_variant().name())
        stack += parts_of(part)
    return frozenset(found)


# -- evaluating ----------------------------------------------------------------------------------


def evaluate(exprs: Sequence[Expr], batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The values of expressions for the rows of batches, in their order; without the interpreter's lock."""
    chosen = [expr.alias(f"value{place}") for place, expr in enumerate(exprs)]
    found: list[pa.RecordBatch] = _evaluator().read_batches(list(batches)).select(*chosen).collect()
    return found


def columns_for(table: pa.Table, schema: pa.Schema) -> list[pa.RecordBatch]:
    """The rows of a table as batches of exactly the columns of a plain schema."""
    lacking = [name for name in schema.names if name not in table.column_names]
    if lacking:
        raise InternalError(f"the rows lack column {shown(lacking[0])}, which an expression reads")
    arrays = [
        column if (column := table.column(field.name)).type == field.type else column.cast(field.type)
        for field in schema
    ]
    return [batch for batch in pa.Table.from_arrays(arrays, schema=schema).to_batches() if batch.num_rows]


# -- errors --------------------------------------------------------------------------------------


@contextmanager
def words(what: str, text: str, names: Sequence[str]) -> Iterator[None]:
    """Raise what DataFusion raises in siltstone's words; ``names`` are the columns that there are."""
    try:
        yield
    except (SiltstoneError, MemoryError, RecursionError, AttributeError, NameError):
        raise
    except Exception as error:
        raise reworded(error, what=what, text=text, names=names) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # the one of Rust, which is no Exception
            raise
        raise InternalError(f"DataFusion failed on {what} {shown(text)}: {told(error)}") from error


def reworded(error: Exception, *, what: str, text: str, names: Sequence[str]) -> SiltstoneError:
    """An error of DataFusion as the one a user meets."""
    message = str(error)
    if "RecursionLimitExceeded" in message:
        return nested(text, what)
    if "Resources exhausted" in message:
        return LimitExceededError(
            f"{what} {shown(text)} needs more memory than it may use: {told(error)}",
            hint="read fewer columns or rows, or allow it more memory",
        )
    if match := _NO_FIELD.search(message):
        name = match[1].rpartition(".")[2] if match[1].startswith('"?table?"') else match[1]
        name = name[1:-1] if len(name) > 1 and name[0] == name[-1] == '"' else name
        return InvalidInputError(
            f"{what} {shown(text)} names column {shown(name)}, which is not there",
            hint=f"{near_names(names, name)}; text is written in single quotes",
            column=name,
        )
    if _NOT_SQL.search(message):
        return InvalidInputError(
            f"{what} {shown(text)} is not SQL: {told(error)}",
            hint="write odd names in double quotes and text in single quotes",
        )
    return InvalidInputError(
        f"{what} {shown(text)} can't be evaluated: {told(error)}",
        hint="check the types of what it compares and computes, or use CAST, TRY_CAST or NULLIF",
    )


def told(error: BaseException) -> str:
    """What an error of DataFusion says, without the words around it."""
    message = str(error).replace('"?table?".', "").replace("?table?.", "")
    while match := _FIRST_WORDS.match(message):
        message = message[match.end() :]
    if match := _PARSER.search(message):
        message = match[1].replace('\\"', '"')
    message = " ".join(_LAST_WORDS.sub("", message).split())
    return ascii(message if len(message) <= _MESSAGE_MAX else message[:_MESSAGE_MAX] + "...")[1:-1]
