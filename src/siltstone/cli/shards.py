"""The shards of a table: ``shards``, ``merge`` and ``split``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from siltstone.cli.documents import WRITE_SHAPE, say_version
from siltstone.cli.entries import time_text
from siltstone.cli.errors import DONE
from siltstone.cli.opening import sharded, writing
from siltstone.cli.options import add_table, add_verb, count
from siltstone.cli.output import clean
from siltstone.errors import NotFoundError
from siltstone.shard.place import ShardPlace
from siltstone.table.types import shown

if TYPE_CHECKING:
    import argparse

    from siltstone.api import Table
    from siltstone.cli.options import Verbs
    from siltstone.cli.output import Output
    from siltstone.shard.shards import ShardStatus

NAMED_MOST = 8
_SHARDS = """\
epoch counts a shard's writers, and writer is the newest of them, at work or not. lag is how many entries of its WAL are
neither in fragments nor in the table; fragments and rows are those that wait to be merged; merged is the position up
to which everything is in the table, and end where the WAL ends. Reads only.

Examples:
  siltstone shards events
  siltstone shards s3://bucket/events --json
"""
_MERGE = """\
All that is durable in the shards becomes one version; then the shards drop it. Anyone may do it, at any time, beside
writers and other mergers: no row is taken twice. Run it every few minutes, or whenever reads should see new rows
without --fresh.

Example:
  siltstone merge events
"""
_SPLIT = """\
Spreads the keys of a table over COUNT shards, more or fewer than there are, in one version; gives a table with a key
its first ones too. Writers of the present shards are fenced, and open the table again. One that was cut off
leaves shards that can't be written: run it again to end it.

Example:
  siltstone split events 8
"""


def add_verbs(verbs: Verbs) -> None:
    """The verbs that work on shards."""
    parser = add_verb(
        verbs,
        "shards",
        _shards,
        says="See the shards of a table.",
        teaches=_SHARDS,
        shape=("uri", "version", "shards"),
    )
    add_table(parser)
    parser = add_verb(
        verbs, "merge", _merge, says="Take the rows of shards into their table.", teaches=_MERGE, shape=WRITE_SHAPE
    )
    add_table(parser)
    parser = add_verb(verbs, "split", _split, says="Change the number of shards.", teaches=_SPLIT, shape=WRITE_SHAPE)
    add_table(parser)
    parser.add_argument("count", metavar="COUNT", type=count, help="how many shards there are to be")


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
    return ShardPlace(table._log, table.shard(shard_of(table, text)).name, None)  # noqa: SLF001 - a reader's view of it


# -- shards --------------------------------------------------------------------------------------


def _shards(arguments: argparse.Namespace, output: Output) -> int:
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


def _merge(arguments: argparse.Namespace, output: Output) -> int:
    with writing(arguments) as table:
        output.progress(f"merge {table.name}: {len(table.shards())} shards")
        say_version(table, table.merge_shards(), output)
    return DONE


def _split(arguments: argparse.Namespace, output: Output) -> int:
    with writing(arguments) as table:
        say_version(table, table.split_shards(arguments.count), output)
        output.line(f"keys are spread over {len(table.shards())} shards now; writers open the table again")
    return DONE
