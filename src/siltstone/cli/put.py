"""``put``: rows into the shards of a table, durable without a version of their own.

What must hold:
- Shards are taken over only when there is something to put: input that can't be read fences nobody.
- Whatever ends the command, it says how many rows are durable; they stay.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from siltstone.cli.errors import DONE, UsageError
from siltstone.cli.files import FORMATS, STDIN, Rows, find_inputs
from siltstone.cli.opening import defaults_of, sharded
from siltstone.cli.options import add_table, add_verb, count
from siltstone.cli.progress import Progress
from siltstone.cli.shards import shard_of
from siltstone.errors import InvalidInputError, SiltstoneError
from siltstone.shard.config import ShardWriterConfig

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from siltstone.api import Table
    from siltstone.cli.files import InputFile
    from siltstone.cli.options import Verbs
    from siltstone.cli.output import Output
    from siltstone.shard.routed import RoutedWriter
    from siltstone.shard.writer import ShardWriter

BATCH_ROWS = 10_000
WRITER = "siltstone put"

_SHAPE = ("uri", "rows", "deleted", "entries", "bytes", "seconds", "shards")
_PUT = f"""\
Rows are durable as soon as they are in the WAL of their shard, and make no version: `scan --fresh` sees them at once,
`siltstone merge` takes them into the table. Each takes the place of the row with its key. In a table without a key
--shard names where they go, and they are added.

Files are JSON lines, Parquet, CSV or Arrow, told by their names or by --format; without any, or with -, standard input
is read, JSON lines as they come. Rows are put {BATCH_ROWS:,} at a time, each batch when the one before is durable. It
is no transaction: what was put before an error stays, and is counted. With a key, putting it again does no harm.

A shard has one writer: whoever has it now is fenced, and told so at its next put.

Examples:
  siltstone put events today.jsonl
  my-source | siltstone put events --no-wait
  siltstone put events gone.jsonl --delete
  siltstone put lines --shard worker-1 part-1.parquet
"""


def add_verbs(verbs: Verbs) -> None:
    """The verb ``put``."""
    parser = add_verb(verbs, "put", _put, says="Put rows into the shards of a table.", teaches=_PUT, shape=_SHAPE)
    add_table(parser)
    parser.add_argument("files", metavar="FILE", nargs="*", default=[], help="a file of rows; default: -")
    parser.rest = "files"
    parser.add_argument("--format", choices=FORMATS, help="the format of all files; default: by their names")
    parser.add_argument("--shard", metavar="SHARD", help="only this one: rows that belong to others are refused")
    parser.add_argument("--delete", action="store_true", help="delete the rows with these keys instead")
    parser.add_argument(
        "--no-wait", action="store_true", help="read on while rows are written; they are durable when it ends"
    )
    parser.add_argument("--batch-rows", type=count, default=BATCH_ROWS, metavar="N", help="default: %(default)s")
    parser.add_argument("--writer", default=WRITER, metavar="NAME", help="shown by `siltstone shards`")


class _Opened(NamedTuple):
    """A writer, and what it consists of."""

    all: RoutedWriter | ShardWriter
    each: Sequence[ShardWriter]
    starts: Sequence[int]  # where each one's WAL ended when it was opened

    @property
    def durable(self) -> int:
        """Rows that are in the WAL; tombstones are rows too."""
        return sum(one.wal_stats().rows for one in self.each)


def _put(arguments: argparse.Namespace, output: Output) -> int:
    files = find_inputs(arguments.files or [STDIN], format=arguments.format)
    began = time.monotonic()
    opened: list[_Opened] = []
    with sharded(arguments) as table:
        shard = None if arguments.shard is None else shard_of(table, arguments.shard, new=True)
        _check(table, arguments)
        try:
            with contextlib.ExitStack() as stack:
                for rows, first, batch in _batches(files, table, arguments, output):
                    if not opened:
                        opened.append(_open(table, shard, arguments, stack))
                    with rows.named_errors(first=first):
                        writer = opened[0].all
                        writer.delete(batch) if arguments.delete else writer.put(batch)
        except SiltstoneError as error:
            error.facts["appended"] = sum(one.durable for one in opened)
            if error.facts["appended"]:
                error.hint = f"{error.hint}; {error.facts['appended']:,} rows were put and stay".removeprefix("; ")
            raise
        except KeyboardInterrupt:
            output.note(f"{sum(one.durable for one in opened):,} rows were put and stay")
            raise
        _say(table, opened, time.monotonic() - began, output)
    return DONE


def _check(table: Table, arguments: argparse.Namespace) -> None:
    if table.key and not table.shards():
        raise InvalidInputError(
            "this table has no shards",
            hint=f"`siltstone split {arguments.table} 4` gives it some; `siltstone upsert` does without",
        )
    if not table.key and arguments.shard is None:
        raise UsageError(
            "rows of a table without a key go to a shard of your choice", hint="name one, such as --shard worker-1"
        )


def _open(table: Table, shard: int | str | None, arguments: argparse.Namespace, stack: contextlib.ExitStack) -> _Opened:
    config = ShardWriterConfig(durable_write=not arguments.no_wait)
    if shard is None:
        routed = stack.enter_context(table.writer(config, name=arguments.writer))
        return _Opened(routed, routed.writers, _ends(routed.writers))
    one = stack.enter_context(table.shard(shard).writer(config, name=arguments.writer))
    return _Opened(one, (one,), _ends((one,)))


def _ends(writers: Sequence[ShardWriter]) -> list[int]:
    return [one.wal_stats().next_wal_entry_position for one in writers]


def _batches(
    files: Sequence[InputFile], table: Table, arguments: argparse.Namespace, output: Output
) -> Iterator[tuple[Rows, int, pa.Table]]:
    """What is to be put, with the number of its first row."""
    total = sum(file.size for file in files) if all(file.format in {"csv", "jsonl"} for file in files) else 0
    progress = Progress(output, f"put {table.name}", total=total)
    key = list(table.key)
    # Of a row that is to go only the key counts: the rest may be left out.
    given = frozenset(table.schema.names) - set(key) if arguments.delete else defaults_of(table)
    rows = Rows(files, table.schema, defaults=given, progress=progress, live=True)
    for read in rows:
        found = read.select(key) if arguments.delete and set(key) <= set(read.schema.names) else read
        for start in range(0, max(1, found.num_rows), arguments.batch_rows):
            part = found.slice(start, arguments.batch_rows)
            if part.num_rows:
                yield rows, rows.rows + start, part


def _say(table: Table, opened: Sequence[_Opened], seconds: float, output: Output) -> None:
    each = [_document(writer, start) for one in opened for writer, start in zip(one.each, one.starts, strict=True)]
    rows, deleted, entries, size = (sum(one[name] for one in each) for name in ("rows", "deleted", "entries", "bytes"))
    document: dict[str, Any] = {"uri": table.uri, "rows": rows, "deleted": deleted, "entries": entries, "bytes": size}
    document |= {"seconds": round(seconds, 3), "shards": each}
    output.result(document)
    if not entries:
        output.line("nothing to do: there were no rows")
        return
    done, thing = (deleted, "key") if deleted else (rows, "row")
    what = f"1 {thing} is" if done == 1 else f"{done:,} {thing}s are"
    what += " deleted, durably" if deleted else " durable"
    output.line(f"{what}, in {entries:,} {'entry' if entries == 1 else 'entries'} of the WAL, {seconds:.1f} s")
    heads = ("shard", "epoch", "rows", "deleted", "entries", "positions")
    cells = [(one["shard"], one["epoch"], *(f"{one[name]:,}" for name in heads[2:5]), _positions(one)) for one in each]
    output.table(heads, cells, right=frozenset(heads[1:5]))


def _document(writer: ShardWriter, start: int) -> dict[str, Any]:
    wal, stats = writer.wal_stats(), writer.stats()
    return {
        "shard": writer.place.name,
        "epoch": stats.epoch,
        "rows": wal.rows - stats.deletes,
        "deleted": stats.deletes,
        "entries": wal.entries,
        "bytes": wal.bytes,
        "first": start,
        "until": wal.next_wal_entry_position,
    }


def _positions(one: dict[str, Any]) -> str:
    first, until = one["first"], one["until"]
    return "" if first == until else f"{first}" if until == first + 1 else f"{first} to {until - 1}"
