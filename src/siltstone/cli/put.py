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
from siltstone.cli.files import STDIN, Rows, find_inputs, total_of
from siltstone.cli.opening import defaults_of, sharded
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
    from siltstone.cli.output import Output
    from siltstone.shard.routed import RoutedWriter
    from siltstone.shard.writer import ShardWriter


class _Opened(NamedTuple):
    """A writer, and what it consists of."""

    all: RoutedWriter | ShardWriter
    each: Sequence[ShardWriter]
    starts: Sequence[int]  # where each one's WAL ended when it was opened

    @property
    def durable(self) -> int:
        """Rows that are in the WAL; tombstones are rows too."""
        return sum(one.wal_stats().rows for one in self.each)


def run_put(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``put``."""
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
    total, unit = total_of(files)
    progress = Progress(output, f"put {table.name}", total=total, unit=unit)
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
