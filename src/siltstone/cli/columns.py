"""The columns of a table: ``column list|add|drop|rename|widen``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from siltstone.cli.documents import column_documents, say_columns, say_version
from siltstone.cli.errors import DONE, UsageError
from siltstone.cli.opening import reading, writing
from siltstone.cli.schemas import parse_type
from siltstone.cli.texts import UnreadableTextError, typed_column
from siltstone.errors import InvalidInputError
from siltstone.table.types import shown

if TYPE_CHECKING:
    import argparse

    from siltstone.cli.output import Output


def run_list(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``list``."""
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


def run_add(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``add``."""
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


def run_drop(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``drop``."""
    with writing(arguments) as table:
        say_version(table, table.drop_column(arguments.name), output)
    return DONE


def run_rename(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``rename``."""
    with writing(arguments) as table:
        say_version(table, table.rename_column(arguments.name, arguments.to), output)
    return DONE


def run_widen(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``widen``."""
    if arguments.type is None and not arguments.nullable:
        raise UsageError("widen needs a TYPE or --nullable")
    kind = None if arguments.type is None else parse_type(arguments.type)
    with writing(arguments) as table:
        say_version(table, table.widen_column(arguments.name, kind, nullable=arguments.nullable), output)
    return DONE
