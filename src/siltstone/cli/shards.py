"""The shards of a table: ``shards``, ``merge`` and ``split``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from siltstone.cli.documents import say_version
from siltstone.cli.entries import time_text
from siltstone.cli.errors import DONE
from siltstone.cli.opening import sharded, writing
from siltstone.cli.output import clean
from siltstone.cli.progress import Progress
from siltstone.errors import NotFoundError
from siltstone.table.types import shown

if TYPE_CHECKING:
    import argparse

    from siltstone.api import Table
    from siltstone.cli.output import Output
    from siltstone.shard.place import ShardPlace
    from siltstone.shard.shards import ShardStatus

NAMED_MOST = 8


def shard_of(table: Table, text: str, *, new: bool = False) -> int | str:
    """The shard that a command line names: by its number or its name; ``new`` where it need not be there yet.

    Raises NotFoundError where the table has no such shard.
    """
    there = [one.name for one in table.shards()]
    if table.key:
        if text in there:
            return there.index(text)
        if text.isascii() and text.isdigit() and int(text[:19]) < len(there) and len(text) < 20:
            return int(text)
        hint = (
            f"it has the shards 0 to {len(there) - 1}" if there else "it has no shards; `siltstone split` gives it some"
        )
        raise NotFoundError(f"the table has no shard {shown(text)}", hint=hint)
    if text in there or new:
        return text
    names = ", ".join(there[:NAMED_MOST]) + (", ..." if len(there) > NAMED_MOST else "")
    raise NotFoundError(
        f"the table has no shard {shown(text)}",
        hint=f"it has {names}" if there else "the first `siltstone put` makes it",
    )


def place_of(table: Table, text: str) -> ShardPlace:
    """Where the logs and fragments of the shard are that a command line names."""
    return table._shards.a_place(table.shard(shard_of(table, text)).name)  # noqa: SLF001 - a reader's view of it


# -- shards --------------------------------------------------------------------------------------


def run_shards(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``shards``."""
    with sharded(arguments) as table:
        found = table.shards()
        documents = [asdict(one) | {"wal_lag": one.wal_lag} for one in found]
        output.result({"uri": table.uri, "version": table.version, "shards": documents})
        if not found:
            output.line(f"{clean(table.uri)} has no shards; `siltstone split` gives it some where it has a key")
            return DONE
    heads = ("shard", "epoch", "writer", "since", "lag", "fragments", "rows", "merged", "end", "")
    right = frozenset({"epoch", "lag", "fragments", "rows", "merged", "end"})
    output.table(heads, [_cells(one) for one in found], right=right)
    waiting = sum(one.wal_lag for one in found), sum(one.fragment_rows for one in found)
    output.line(
        f"{len(found)} {'shard' if len(found) == 1 else 'shards'}; to be merged: {waiting[1]:,} rows in fragments, "
        f"{waiting[0]:,} {'entry' if waiting[0] == 1 else 'entries'} of WALs"
    )
    return DONE


def _cells(one: ShardStatus) -> tuple[object, ...]:
    state = "sealed" if one.sealed else ""
    error = f"error: {one.last_error}" if one.last_error else ""
    since = time_text(one.claimed_ms) if one.claimed_ms else ""
    said = ", ".join(text for text in (state, error) if text)
    return (
        one.name, one.epoch, one.writer, since, one.wal_lag, one.fragments, one.fragment_rows, one.merged_until,
        one.wal_end, said,
    )  # fmt: skip


# -- merge and split -----------------------------------------------------------------------------


def run_merge(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``merge``."""
    with writing(arguments) as table:
        with Progress(output, f"merge {table.name}") as bar:
            found = table.shards()
            bar.say(f"{sum(one.fragment_rows for one in found):,} rows in fragments of {len(found)} shards, and WALs")
            made = table.merge_shards()
        say_version(table, made, output)
    return DONE


def run_split(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``split``."""
    with writing(arguments) as table:
        with Progress(output, f"split {table.name}"):
            made = table.split_shards(arguments.count)
        say_version(table, made, output)
        output.line(f"keys are spread over {len(table.shards())} shards now; writers open the table again")
    return DONE
