"""Clones of tables, and doing away with tables: ``clone``, ``detach`` and ``drop``."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from siltstone.api import drop_table
from siltstone.cli.documents import say_version
from siltstone.cli.errors import DONE, UsageError
from siltstone.cli.opening import Named, newest_only, opened, parse_named, state_of, writing
from siltstone.cli.options import storage_options, wal_of
from siltstone.cli.output import clean
from siltstone.cli.progress import Progress
from siltstone.errors import SiltstoneError
from siltstone.store.options import parse_uri

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from siltstone.cli.output import Output
    from siltstone.format.table import WalStore

NAMED_MOST = 8


def run_clone(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``clone``."""
    named = parse_named(arguments.table)
    uri = newest_only(arguments.uri, "clone", does="makes a table and")
    at = named.version if named.tag is None else named.tag
    with (
        opened(Named(named.uri), arguments) as table,
        Progress(output, f"clone {table.name}"),
        table.clone(
            uri,
            at=at,
            where=arguments.where,
            wal=arguments.clone_wal,
            commits=arguments.clone_commits,
            storage_options=_options(named.uri, uri, arguments),
        ) as made,
    ):
        state = state_of(made)
        version = next((one.version for one in state.origins.values() if one.uri == table.uri), 0)
        rows = state.fragments.rows
        document = {"uri": made.uri, "version": made.version, "rows": rows, "parent": table.uri}
        output.result(document | {"parent_version": version, "where": arguments.where or ""})
        output.line(f"{clean(made.uri)} is a clone of {clean(table.uri)} at version {version}: {rows:,} rows")
    return DONE


def _options(parent: str, uri: str, arguments: argparse.Namespace) -> Mapping[str, str]:
    """Options of the clone's store."""
    if arguments.clone_option:
        return storage_options(arguments, name="clone_option")
    return storage_options(arguments) if parse_uri(parent)[:2] == parse_uri(uri)[:2] else {}


def run_detach(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``detach``."""
    with writing(arguments) as table:
        with Progress(output, f"detach {table.name}") as bar:
            made = table.detach(progress=bar.done)
        say_version(table, made, output)
    return DONE


def _known_of(uri: str, arguments: argparse.Namespace) -> tuple[WalStore | None, list[str]]:
    """The store that the WALs of a table's shards are in, if it is another one, and its checkpoints that are not over.

    A place that no table can be opened at has neither: `drop` does away with what is left there too.
    """
    with contextlib.suppress(SiltstoneError), opened(Named(uri), arguments) as table:
        now = datetime.now(UTC)
        kept = [one for one in table.checkpoints() if one.holder is None and (one.expires is None or one.expires > now)]
        return state_of(table).wal, [one.name for one in kept]
    return None, []


def _named(checkpoints: list[str]) -> str:
    more = f" and {len(checkpoints) - NAMED_MOST} more" if len(checkpoints) > NAMED_MOST else ""
    what = "checkpoint" if len(checkpoints) == 1 else "checkpoints"
    return f"{what} {', '.join(checkpoints[:NAMED_MOST])}{more}"


def run_drop(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``drop``."""
    uri = newest_only(arguments.table, "drop", does="does away with all versions and")
    left, kept = _known_of(uri, arguments)
    if not arguments.yes:
        also = f", and with its {_named(kept)}, which would be kept otherwise" if kept else ""
        raise UsageError(f"drop does away with {uri[-200:]!a} and all its rows{also}", hint="write --yes to do it")
    with Progress(output, "drop"):
        drop_table(
            uri,
            missing_ok=arguments.missing_ok,
            commits=arguments.commits,
            storage_options=storage_options(arguments),
            **wal_of(arguments),
        )
    output.result({"uri": uri, "dropped": True, "checkpoints": kept})
    output.line(f"{clean(uri)} is gone{clean(f', and its {_named(kept)}') if kept else ''}")
    if left is not None and arguments.wal is None:
        output.note(f"note: what is left of its WALs, without rows that are needed, is still at {clean(left.uri)}")
    return DONE
