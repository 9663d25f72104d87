"""Rows that a read passed over, or had to read at length: those that wait in shards, those that no index has.

What must hold: it is said beside the rows, never among them, and finding it out costs a few small requests.
"""

from __future__ import annotations

import contextlib
import shlex
from typing import TYPE_CHECKING, NamedTuple

from siltstone.cli.opening import parse_named, state_of
from siltstone.cli.output import clean
from siltstone.errors import SiltstoneError

if TYPE_CHECKING:
    import argparse

    from siltstone.api import Table
    from siltstone.cli.output import Output

SHARDS_LOOKED_AT_MAX = 16


class NotIndexed(NamedTuple):
    """Rows of a column that a search reads because no index has them."""

    rows: int
    of: int
    name: str | None = None  # of the index, where there is one

    def say(self, arguments: argparse.Namespace, output: Output) -> None:
        """A note, with what to do."""
        if not self.rows or arguments.json:
            return
        named = parse_named(arguments.table)
        words = ["optimize", named.uri, self.name] if self.name is not None else ["create", named.uri, arguments.column]
        do = f": siltstone index {shlex.join(words)}" if named.is_newest else ""
        which = "an index" if self.name is None else "the index"
        are = "is not in" if self.rows == 1 else "are not in"
        was = "was" if self.rows == 1 else "were"
        count = f"{self.rows:,} of {self.of:,} {'row' if self.of == 1 else 'rows'}"
        output.note(clean(f"note: {count} {are} {which}, and {was} read{do}"))


def not_indexed(table: Table, column: str, index: str | None) -> NotIndexed:
    """How much of a column a search by this index, or by that of the column, reads."""
    there = [one for one in table.indexes() if one.column == column]
    by_name = {one.name: one for one in there}
    chosen = by_name.get(column if index is None else index) or next(iter(there), None)
    if chosen is None:
        rows = state_of(table).fragments.rows
        return NotIndexed(rows, rows)
    return NotIndexed(chosen.unindexed_rows, chosen.indexed_rows + chosen.unindexed_rows, chosen.name)


def waiting(table: Table, arguments: argparse.Namespace) -> str:
    """What waits in shards, where a read that found nothing did not look there; nothing where that is not cheap."""
    if arguments.fresh or arguments.json or not parse_named(arguments.table).is_newest:
        return ""
    if not 0 < len(state_of(table).shards) <= SHARDS_LOOKED_AT_MAX:
        return ""
    with contextlib.suppress(SiltstoneError):  # what was asked for is answered, whatever shards are like
        found = table.shards()
        entries, rows = sum(one.wal_lag for one in found), sum(one.fragment_rows for one in found)
        parts = [f"{rows:,} {'row' if rows == 1 else 'rows'} in fragments"] if rows else []
        parts += [f"{entries:,} {'entry' if entries == 1 else 'entries'} of WALs"] if entries else []
        wait = "waits" if len(parts) == 1 and rows + entries == 1 else "wait"
        return f"{' and '.join(parts)} {wait} in shards: --fresh reads them too" if parts else ""
    return ""


def say_waiting(table: Table, arguments: argparse.Namespace, output: Output) -> None:
    """Behind a read that found nothing."""
    said = waiting(table, arguments)
    if said:
        output.note(f"note: {said}")
