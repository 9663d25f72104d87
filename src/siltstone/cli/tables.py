"""Reading tables: ``scan``, ``sql``, ``get`` and ``changes``."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from siltstone.cli.errors import DONE, UsageError
from siltstone.cli.formats import Target
from siltstone.cli.opening import opened, parse_named, reading
from siltstone.cli.options import names
from siltstone.cli.output import clean
from siltstone.cli.texts import UnreadableTextError, typed_column
from siltstone.cli.unread import say_waiting, waiting
from siltstone.errors import InvalidInputError, NotFoundError
from siltstone.table.types import shown

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from siltstone.api import Table
    from siltstone.cli.output import Output

_TAKEN = frozenset({"self", "query", "fresh"})  # arguments of ``sql`` have these names


def _columns(arguments: argparse.Namespace) -> list[str] | None:
    return names(arguments.columns) or None


# -- scan ----------------------------------------------------------------------------------------


def run_scan(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``scan``."""
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
            if found == 0:
                say_waiting(table, arguments, output)
            return DONE
        # Without a condition the number of rows is known before one is read.
        total = scan.count() if target.path is not None and arguments.where is None and not arguments.fresh else 0
        rows = target.write(scan.schema, scan.to_batches(), what=f"scan {table.name}", total=total)
        _say_rows(target, rows, output, cut=arguments.limit is None)
        if not rows and limit != 0:
            say_waiting(table, arguments, output)
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


def run_sql(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``sql``."""
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


def run_get(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``get``."""
    target = Target(arguments, output)
    with reading(arguments) as table:
        keys = _parse_keys(arguments.keys, table)
        found = table.get(keys, _columns(arguments), fresh=arguments.fresh)
        if not found.num_rows:
            asked = ", ".join(shown(one)[1:-1] for one in arguments.keys[:5])
            hint = waiting(table, arguments) or "see `siltstone scan`"
            raise NotFoundError(f"there is no row with the key {asked}", hint=hint)
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


def run_changes(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``changes``."""
    target = Target(arguments, output)
    limit = arguments.limit if arguments.limit is not None else target.rows_max
    with reading(arguments) as table:
        changes = table.changes(arguments.since, arguments.until, _columns(arguments))
        rows = target.write(changes.schema, _first(changes.to_batches(), limit), what="changes")
        _say_rows(target, rows, output, cut=arguments.limit is None)
    return DONE
