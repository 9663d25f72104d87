"""Reading tables: ``scan``, ``sql``, ``get`` and ``changes``."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from siltstone.cli.errors import DONE, UsageError
from siltstone.cli.formats import Target, add_output
from siltstone.cli.opening import opened, parse_named, reading
from siltstone.cli.options import add_table, add_verb, names, whole_number
from siltstone.cli.output import clean
from siltstone.cli.texts import UnreadableTextError, typed_column
from siltstone.errors import InvalidInputError, NotFoundError
from siltstone.table.types import shown

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from siltstone.api import Table
    from siltstone.cli.options import Verbs
    from siltstone.cli.output import Output

_TAKEN = frozenset({"self", "query", "fresh"})  # arguments of ``sql`` have these names
_ROWS = """\
Rows are shown as a table, on a terminal the first hundred; --format or FILE's name says otherwise. With --json, and
in jsonl, each row is a JSON object on a line of its own: times are ISO 8601, decimals are text, bytes are
hexadecimal, maps are lists of {"key": ..., "value": ...}, NaN and infinities are null.
"""
_SCAN = f"""\
{_ROWS}
Examples:
  siltstone scan reviews --columns id,stars --where "stars >= 4" --limit 10
  siltstone scan reviews@3 --output march.parquet
  siltstone scan s3://bucket/reviews@v1 --count
  siltstone scan reviews --where "id = 7" --explain
  siltstone scan events --fresh
"""
_SQL = """\
In the query the table is called by the last part of its URI, others by the names that --table gives them.
Rows are written as `siltstone scan --help` says.

Examples:
  siltstone sql reviews "select lang, avg(stars) from reviews group by lang order by lang"
  siltstone sql reviews "select count(*) from reviews join old using (id)" --table old=reviews@3
"""
_GET = f"""\
Keys are written as in JSON lines; those of several columns with commas between them, or as a JSON list. Keys that are
not there are left out; where none is, the exit code is 1.
{_ROWS}
Examples:
  siltstone get reviews 7 12 --columns id,text
  siltstone get sales@v1 2026-11-14,berlin '["2026-11-15", "new york, ny"]'
"""
_CHANGES = f"""\
The rows that changed after version N, version by version. _change says what happened to a row: insert, delete,
update_before or update_after; _version says when.
{_ROWS}
Examples:
  siltstone changes reviews --since 3
  siltstone changes reviews --since 3 --until 5 --columns id --json
"""


def add_verbs(verbs: Verbs) -> None:
    """The verbs that read rows."""
    parser = add_verb(verbs, "scan", _scan, says="Read the rows of a table.", teaches=_SCAN, rows=True)
    add_table(parser, reads=True)
    _add_columns(parser)
    parser.add_argument("--where", metavar="CONDITION", help="only rows that match this SQL condition")
    _add_limit(parser)
    _add_fresh(parser)
    add_output(parser)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--count", action="store_true", help="only say how many rows there are")
    instead.add_argument("--explain", action="store_true", help="only say what would be read")

    parser = add_verb(verbs, "sql", _sql, says="Answer a query.", teaches=_SQL, rows=True)
    add_table(parser, reads=True)
    parser.add_argument("query", metavar="QUERY", help="a SELECT")
    parser.add_argument(
        "--table", action="append", default=[], dest="tables", metavar="NAME=TABLE", help="one more; may be repeated"
    )
    _add_limit(parser)
    _add_fresh(parser)
    add_output(parser)

    parser = add_verb(verbs, "get", _get, says="Read the rows with some keys.", teaches=_GET, rows=True)
    add_table(parser, reads=True)
    parser.add_argument("keys", metavar="KEY", nargs="+", help="the key of a row")
    _add_columns(parser)
    _add_fresh(parser)
    add_output(parser)

    parser = add_verb(verbs, "changes", _changes, says="Read the rows that changed.", teaches=_CHANGES, rows=True)
    add_table(parser, reads=True)
    parser.add_argument("--since", type=whole_number, required=True, metavar="N", help="changes after this version")
    parser.add_argument("--until", type=whole_number, metavar="N", help="up to this version; default: the newest")
    _add_columns(parser)
    _add_limit(parser)
    add_output(parser)


def _add_columns(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--columns", action="append", metavar="NAMES", help="only these, with commas between them")


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=whole_number, metavar="N", help="at most so many rows")


def _add_fresh(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fresh", action="store_true", help="with rows that are in shards and not merged yet")


def _columns(arguments: argparse.Namespace) -> list[str] | None:
    return names(arguments.columns) or None


# -- scan ----------------------------------------------------------------------------------------


def _scan(arguments: argparse.Namespace, output: Output) -> int:
    target = Target(arguments, output)
    limit = arguments.limit if arguments.limit is not None else target.rows_max
    with reading(arguments) as table:
        only = arguments.count or arguments.explain
        scan = table.scan(
            _columns(arguments),
            where=arguments.where,
            limit=arguments.limit if only else limit,
            fresh=arguments.fresh,
        )
        if only:
            found: int | str = scan.count() if arguments.count else scan.explain()
            what = "count" if arguments.count else "explain"
            output.result({"uri": table.uri, "version": scan.version, what: found})
            output.line(clean(found, lines=True))
            return DONE
        rows = target.write(scan.schema, scan.to_batches(), what="scan")
        _say_rows(target, rows, output, cut=arguments.limit is None)
    return DONE


def _say_rows(target: Target, rows: int, output: Output, *, cut: bool) -> None:
    """On a terminal, what people want to know behind the rows; in a pipe nothing but rows."""
    count = "1 row" if rows == 1 else f"{rows:,} rows"
    if target.path is not None:
        output.note(f"{count} written to {clean(target.path)}")
    elif target.rows_max is not None:
        more = cut and rows >= target.rows_max
        text = f"the first {count}; --limit N shows more, --output FILE writes all" if more else count
        output.line(output.paint(f"({text})", "dim"))


def _first(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The first rows of a stream."""
    left = limit
    for batch in batches:
        if left is not None and batch.num_rows >= left:
            yield batch.slice(0, left)
            return
        left = None if left is None else left - batch.num_rows
        yield batch


# -- sql -----------------------------------------------------------------------------------------


def _sql(arguments: argparse.Namespace, output: Output) -> int:
    target = Target(arguments, output)
    with contextlib.ExitStack() as stack:
        table = stack.enter_context(reading(arguments))
        others: dict[str, Table] = {}
        for given in arguments.tables:
            name, equals, text = given.partition("=")
            if not equals or not name.isidentifier():
                raise UsageError(
                    "--table takes NAME=TABLE, and NAME letters, digits and _", hint="for example old=reviews@3"
                )
            if name in others or name == table.name:
                raise UsageError(f"two tables are called {name!a}", hint="choose another name")
            if name in _TAKEN:
                raise UsageError(f"no other table can be called {name!a}", hint="choose another name")
            others[name] = stack.enter_context(opened(parse_named(text), arguments))
        result = table.sql(arguments.query, fresh=arguments.fresh, **others)
        limit = arguments.limit if arguments.limit is not None else target.rows_max
        rows = target.write(result.schema, _first(result.to_batches(), limit), what="sql")
        _say_rows(target, rows, output, cut=arguments.limit is None)
    return DONE


# -- get -----------------------------------------------------------------------------------------


def _get(arguments: argparse.Namespace, output: Output) -> int:
    target = Target(arguments, output)
    with reading(arguments) as table:
        keys = _parse_keys(arguments.keys, table)
        found = table.get(keys, _columns(arguments), fresh=arguments.fresh)
        if not found.num_rows:
            asked = ", ".join(shown(one)[1:-1] for one in arguments.keys[:5])
            raise NotFoundError(f"there is no row with the key {asked}", hint="see `siltstone scan`")
        rows = target.write(found.schema, found.to_batches(), what="get")
        _say_rows(target, rows, output, cut=False)
        missing = len(set(arguments.keys)) - rows
        if missing > 0:
            output.note(f"note: {missing} of {len(set(arguments.keys))} keys are not there")
    return DONE


def _parse_keys(texts: Sequence[str], table: Table) -> pa.Table:
    """The key columns of what is on the command line."""
    fields = [table.schema.field(name) for name in table.key]
    if not fields:
        raise InvalidInputError("get needs a key, and this table has none", hint="use scan --where")
    parts = [[text] if len(fields) == 1 else _parts(text, len(fields)) for text in texts]
    columns = []
    for field, values in zip(fields, zip(*parts, strict=True), strict=True):
        try:
            columns.append(typed_column(pa.array(values, pa.string()), field))
        except UnreadableTextError as error:
            raise InvalidInputError(f"key {shown(texts[error.index])}: {error.problem}", hint=error.hint) from error
    return pa.table(columns, names=[field.name for field in fields])


def _parts(text: str, count: int) -> list[str]:
    parts: list[Any] = text.split(",")
    if text.lstrip().startswith("["):
        try:
            parts = msgspec.json.decode(text, type=list[str | int | float | bool])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInputError(f"key {shown(text)} is no JSON list: {error}", hint='such as ["a", 1]') from None
    if len(parts) != count:
        raise InvalidInputError(
            f"key {shown(text)} has {len(parts)} parts, the table's has {count}",
            hint='write them with commas between them, or as a JSON list such as ["a, b", 1]',
        )
    return [part if isinstance(part, str) else msgspec.json.encode(part).decode() for part in parts]


# -- changes -------------------------------------------------------------------------------------


def _changes(arguments: argparse.Namespace, output: Output) -> int:
    target = Target(arguments, output)
    limit = arguments.limit if arguments.limit is not None else target.rows_max
    with reading(arguments) as table:
        changes = table.changes(arguments.since, arguments.until, _columns(arguments))
        rows = target.write(changes.schema, _first(changes.to_batches(), limit), what="changes")
        _say_rows(target, rows, output, cut=arguments.limit is None)
    return DONE
