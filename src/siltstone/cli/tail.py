"""``tail``: the WAL of a shard, as it grows.

What must hold: it writes nothing; each entry is shown once, in order; where entries were removed before they could be
read it says which, and goes on behind them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from siltstone.cli.entries import mark_at, time_text
from siltstone.cli.errors import DONE
from siltstone.cli.formats import json_lines
from siltstone.cli.grammar.tail import LAST_ENTRIES
from siltstone.cli.opening import sharded, state_of
from siltstone.cli.output import clean
from siltstone.cli.progress import size_text
from siltstone.cli.shards import place_of
from siltstone.errors import TruncatedError
from siltstone.shard.chunks import to_columns
from siltstone.shard.manifest import to_cursor
from siltstone.shard.wal import WalTailer, decode

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator, Iterator, Sequence

    from siltstone.api import Table
    from siltstone.cli.output import Output
    from siltstone.log import Entry, Log, Mark
    from siltstone.shard.place import Logs, ShardPlace
    from siltstone.shard.wal import WalEntry

LOOK_EVERY_S = 0.2

_HEADS = ("position", "time", "epoch", "kind", "rows", "deleted", "bytes", "writer")
_WIDTHS = (">8", "<24", ">5", "<5", ">9", ">7", ">8", "")


def run_tail(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``tail``."""
    with sharded(arguments) as table:
        place = place_of(table, arguments.shard)
        shown = _Shown(output, rows=arguments.show_rows)
        try:
            for entry, rows in _Follower(table, place, output, start=arguments.start).entries(follow=arguments.follow):
                shown.entry(entry, rows)
        except KeyboardInterrupt:
            if not arguments.follow:
                raise
    return DONE


class _Follower:
    """The entries of one shard's WAL, with their rows."""

    def __init__(self, table: Table, place: ShardPlace, output: Output, *, start: int | None) -> None:
        self._table = table
        self._place = place
        self._output = output
        self._start = start
        self._tailer: WalTailer | None = None
        self._look = True  # whether the shard may have been sealed since
        self._sealed = False

    def entries(self, *, follow: bool) -> Iterator[tuple[Entry, WalEntry | None]]:
        """All entries up to the end, and with ``follow`` those to come, until the shard is sealed."""
        while True:
            logs = self._place.read(now=follow)
            if logs is not None:
                yield from self._new(logs)
            elif not follow:
                self._output.note(f"note: nothing was ever put into shard {clean(self._place.name)}")
            if not follow or self._sealed:
                return
            self._output.end()  # whoever reads gets what is there
            self._place.log.env.clock.sleep(LOOK_EVERY_S)

    def _new(self, logs: Logs) -> Iterator[tuple[Entry, WalEntry | None]]:
        """What came since."""
        tailer = self._tailer or WalTailer(logs.wal, after=to_cursor(self._first(logs.wal)))
        if tailer.log is not logs.wal:  # it was moved: the new one begins where that one ends
            yield from self._rest(tailer)
            tailer = WalTailer(logs.wal, after=to_cursor(tailer.end))
        self._tailer = tailer
        if (yield from self._rest(tailer)) and self._look:
            self._look = False
            state = logs.manifest.read()
            self._sealed = state.sealed and tailer.end.epoch >= state.epoch
            if self._sealed:
                self._output.note(f"note: shard {clean(self._place.name)} is sealed: its keys are in other shards")

    def _rest(self, tailer: WalTailer) -> Generator[tuple[Entry, WalEntry | None], None, bool]:
        """What a WAL has behind what was read; whether all of it was there."""
        schema = None
        try:
            for entry in tailer.entries():
                self._look |= entry.kind == "fence"
                if entry.kind != "data" or entry.dead:
                    yield entry, None
                    continue
                schema = schema or state_of(self._table).schema  # columns may be new since the last time
                yield entry, decode(entry, schema, tailer.log)
        except TruncatedError:
            first = tailer.log.first()
            if first.position <= tailer.end.position:
                raise
            gone = f"{tailer.end.position} to {first.position - 1}"
            self._output.note(f"note: entries {gone} were removed before they were read; they were flushed or merged")
            self._tailer, self._look = WalTailer(tailer.log, after=to_cursor(first)), True
            return False
        return True

    def _first(self, log: Log) -> Mark:
        if self._start is None:
            return mark_at(log, max(0, log.tip().position - LAST_ENTRIES))
        first = mark_at(log, self._start)
        if first.position > self._start:
            self._output.note(f"note: the WAL begins at entry {first.position}: what was before is flushed or merged")
        return first


class _Shown:
    """Entries for people, as JSON lines, or as their rows."""

    def __init__(self, output: Output, *, rows: bool) -> None:
        self._output = output
        self._rows = rows
        self._lines = json_lines(output)
        if not rows:
            output.line(output.paint(_line(_HEADS), "bold"))

    def entry(self, entry: Entry, found: WalEntry | None) -> None:
        """One more."""
        if self._rows:
            if found is not None:
                self._lines.write_table(to_columns(found.chunk))
            return
        document = _document(entry, found)
        if self._output.as_json:
            self._lines.write_objects([document])
            return
        kind = "dead" if entry.dead else entry.kind
        rows, deleted = (f"{document[name]:,}" if found else "" for name in ("rows", "deleted"))
        size = size_text(document["bytes"])
        time = time_text(entry.time_ms)
        writer = clean(entry.writer)
        self._output.line(_line((str(entry.position), time, str(entry.epoch), kind, rows, deleted, size, writer)))


def _line(cells: Sequence[str]) -> str:
    """Columns as wide as they mostly need: what is to come is not known."""
    parts = [f"{cell:{width}}" for cell, width in zip(cells, _WIDTHS, strict=True)]
    return "  ".join(parts).rstrip()


def _document(entry: Entry, found: WalEntry | None) -> dict[str, Any]:
    gone = None if found is None else found.chunk.deleted
    deleted = 0 if gone is None else int(np.count_nonzero(gone))
    return {
        "position": entry.position,
        "time": time_text(entry.time_ms).replace(" ", "T", 1),
        "epoch": entry.epoch,
        "kind": "dead" if entry.dead else entry.kind,
        "rows": 0 if found is None else found.chunk.count - deleted,
        "deleted": deleted,
        "bytes": len(entry.body),
        "writer": entry.writer,
        "op": entry.op,
        "once": [] if found is None else list(found.header.once),
        "batches": {} if found is None else dict(found.header.batches),
    }
