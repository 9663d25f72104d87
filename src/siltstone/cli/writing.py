"""Making tables and changing their rows: ``create``, ``append``, ``upsert``, ``overwrite``, ``delete``, ``update``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.api import create_table, open_table
from siltstone.cli.documents import column_documents, say_columns, say_version
from siltstone.cli.errors import DONE, UsageError
from siltstone.cli.files import Rows, find_inputs, total_of
from siltstone.cli.inference import infer_schema
from siltstone.cli.opening import defaults_of, newest_only, writing
from siltstone.cli.options import names, storage_options, wal_of
from siltstone.cli.output import clean
from siltstone.cli.progress import Progress
from siltstone.cli.schemas import parse_schema
from siltstone.errors import NotFoundError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from siltstone.api import Table
    from siltstone.cli.output import Output
    from siltstone.table.versions import Version


# -- create --------------------------------------------------------------------------------------


def run_create(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``create``."""
    uri = newest_only(arguments.table, "create")
    if arguments.format and not arguments.like:
        raise UsageError("--format goes with --like")
    schema = parse_schema(arguments.schema) if arguments.schema is not None else infer_schema(arguments)
    key = names(arguments.key)
    options = storage_options(arguments)
    created = not (arguments.exist_ok and _is_there(uri, arguments))
    with create_table(
        uri,
        schema=schema,
        key=key or None,
        commits=arguments.commits,
        exist_ok=arguments.exist_ok,
        shards=arguments.shards,
        shard_config=_shard_config(arguments.shard_config),
        storage_options=options,
        **wal_of(arguments),
    ) as table:
        version, columns, shards = table.version, table.schema, len(table.shards())
        output.result(
            {
                "uri": table.uri,
                "version": version,
                "created": created,
                "key": list(table.key),
                "columns": column_documents(columns),
                "shards": shards,
            }
        )
        behind = f", {shards} {'shard' if shards == 1 else 'shards'}" if shards else ""
        output.line(f"{'created' if created else 'found'} {clean(table.uri)}, version {version}{behind}")
        say_columns(table, output)
    return DONE


def _shard_config(given: Sequence[str]) -> dict[str, str] | None:
    knobs: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError("--shard-config takes KNOB=VALUE", hint="such as --shard-config max_memtable_rows=100000")
        if name in knobs:
            raise UsageError(f"--shard-config gives {name[:80]!a} twice")
        knobs[name] = value
    return knobs or None


def _is_there(uri: str, arguments: argparse.Namespace) -> bool:
    try:
        open_table(uri, commits=arguments.commits, storage_options=storage_options(arguments)).close()
    except NotFoundError:
        return False
    return True


# -- rows from files -----------------------------------------------------------------------------


def run_append(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``append``."""
    return _insert(arguments, output)


def run_upsert(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``upsert``."""
    return _insert(arguments, output)


def run_overwrite(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``overwrite``."""
    return _insert(arguments, output)


def _insert(arguments: argparse.Namespace, output: Output) -> int:
    uri = newest_only(arguments.table, arguments.verb)
    files = find_inputs(arguments.files, format=arguments.format)
    total, unit = total_of(files)
    progress = Progress(output, f"{arguments.verb} {uri.rpartition('/')[2]}", total=total, unit=unit)
    with writing(arguments) as table:
        rows = Rows(files, table.schema, defaults=defaults_of(table), progress=progress)
        with progress:
            version = _write(table, rows, arguments)
        say_version(table, version, output)
    return DONE


def _write(table: Table, rows: Rows, arguments: argparse.Namespace) -> Version | None:
    with rows.named_errors(), table.transaction(once=arguments.once, message=arguments.message) as transaction:
        {"append": transaction.append, "upsert": transaction.upsert, "overwrite": transaction.overwrite}[
            arguments.verb
        ](rows)
    return transaction.result


# -- rows by condition ---------------------------------------------------------------------------


def run_delete(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``delete``."""
    with writing(arguments) as table:
        with (
            Progress(output, f"delete rows of {table.name}"),
            table.transaction(once=arguments.once, message=arguments.message) as transaction,
        ):
            transaction.delete(arguments.where)
        say_version(table, transaction.result, output)
    return DONE


def run_update(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``update``."""
    values: dict[str, str] = {}
    for given in arguments.set:
        name, equals, text = given.partition("=")
        if not equals or not name.strip() or not text.strip():
            raise UsageError("--set takes COLUMN=EXPRESSION", hint="for example --set lang=\"'en'\"")
        if name.strip() in values:
            raise UsageError(f"--set gives {name.strip()[:80]!a} twice")
        values[name.strip()] = text
    with writing(arguments) as table:
        with (
            Progress(output, f"update {table.name}"),
            table.transaction(once=arguments.once, message=arguments.message) as transaction,
        ):
            transaction.update(values, arguments.where)
        say_version(table, transaction.result, output)
    return DONE
