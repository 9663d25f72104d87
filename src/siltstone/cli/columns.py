"""The columns of a table: ``column list|add|drop|rename|widen``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from siltstone.cli.documents import COLUMNS_SHAPE, WRITE_SHAPE, column_documents, say_columns, say_version
from siltstone.cli.errors import DONE, UsageError
from siltstone.cli.opening import reading, writing
from siltstone.cli.options import add_group, add_table, add_verb
from siltstone.cli.schemas import parse_type
from siltstone.cli.texts import UnreadableTextError, typed_column
from siltstone.errors import InvalidInputError
from siltstone.table.types import shown

if TYPE_CHECKING:
    import argparse

    from siltstone.cli.options import Verbs
    from siltstone.cli.output import Output

_COLUMN = """\
No row is rewritten: files keep their columns, and readers fill in what is new.

Examples:
  siltstone column list reviews
  siltstone column add reviews lang string --default en
  siltstone column rename reviews lang language
"""
_LIST = """\
Example:
  siltstone column list reviews@3
"""
_ADD = """\
Rows that are there have the default in it, or null. Only booleans, numbers and texts can have a default.

Examples:
  siltstone column add reviews lang string
  siltstone column add reviews votes int64 --default 0
"""
_DROP = """\
Earlier versions still have it.

Example:
  siltstone column drop reviews lang
"""
_RENAME = """\
Example:
  siltstone column rename reviews lang language
"""
_WIDEN = """\
To a type that holds all values of the old one: a larger integer, double for float, more digits for decimals of the
same scale, ms or us for timestamps; or with --nullable so that it may hold nulls.

Examples:
  siltstone column widen reviews stars int64
  siltstone column widen reviews text --nullable
"""


def add_verbs(verbs: Verbs) -> None:
    """The verbs that work on columns."""
    group = add_group(
        verbs,
        "column",
        says="See and change the columns of a table.",
        teaches=_COLUMN,
        inside=("list", "add", "drop", "rename", "widen"),
    )
    parser = add_verb(group, "list", _list, says="List the columns.", teaches=_LIST, shape=COLUMNS_SHAPE)
    add_table(parser, reads=True)

    parser = add_verb(group, "add", _add, says="Add a column.", teaches=_ADD, shape=WRITE_SHAPE)
    add_table(parser)
    _add_name(parser)
    parser.add_argument("type", metavar="TYPE", help="as in `siltstone create --schema`")
    parser.add_argument("--default", metavar="VALUE", help="what rows have that are there, written as in CSV")

    parser = add_verb(group, "drop", _drop, says="Drop a column.", teaches=_DROP, shape=WRITE_SHAPE)
    add_table(parser)
    _add_name(parser)

    parser = add_verb(group, "rename", _rename, says="Rename a column.", teaches=_RENAME, shape=WRITE_SHAPE)
    add_table(parser)
    _add_name(parser)
    parser.add_argument("to", metavar="TO", help="its new name")

    parser = add_verb(group, "widen", _widen, says="Let a column hold more values.", teaches=_WIDEN, shape=WRITE_SHAPE)
    add_table(parser)
    _add_name(parser)
    parser.add_argument("type", metavar="TYPE", nargs="?", help="the wider type")
    parser.add_argument("--nullable", action="store_true", help="let it hold nulls")


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the column")


def _list(arguments: argparse.Namespace, output: Output) -> int:
    with reading(arguments) as table:
        output.result(
            {
                "uri": table.uri,
                "version": table.version,
                "key": list(table.key),
                "columns": column_documents(table.schema),
            }
        )
        say_columns(table, output)
    return DONE


def _add(arguments: argparse.Namespace, output: Output) -> int:
    kind = parse_type(arguments.type)
    default = None if arguments.default is None else _value(arguments.default, kind)
    with writing(arguments) as table:
        say_version(table, table.add_column(arguments.name, kind, default=default), output)
    return DONE


def _value(text: str, kind: pa.DataType) -> object:
    try:
        return typed_column(pa.array([text], pa.string()), pa.field("--default", kind))[0].as_py()
    except (UnreadableTextError, pa.ArrowException) as error:
        hint = error.hint if isinstance(error, UnreadableTextError) else ""
        raise InvalidInputError(f"--default {shown(text)} is no {kind}", hint=hint) from error


def _drop(arguments: argparse.Namespace, output: Output) -> int:
    with writing(arguments) as table:
        say_version(table, table.drop_column(arguments.name), output)
    return DONE


def _rename(arguments: argparse.Namespace, output: Output) -> int:
    with writing(arguments) as table:
        say_version(table, table.rename_column(arguments.name, arguments.to), output)
    return DONE


def _widen(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.type is None and not arguments.nullable:
        raise UsageError("widen needs a TYPE or --nullable")
    kind = None if arguments.type is None else parse_type(arguments.type)
    with writing(arguments) as table:
        say_version(table, table.widen_column(arguments.name, kind, nullable=arguments.nullable), output)
    return DONE
