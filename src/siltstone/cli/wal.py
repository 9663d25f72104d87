"""``wal``: where the WALs of a table's shards are, and what still needs them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from siltstone.cli.errors import DONE
from siltstone.cli.opening import sharded, state_of
from siltstone.cli.output import clean
from siltstone.shard.wal_status import wal_status

if TYPE_CHECKING:
    import argparse

    from siltstone.api import Table
    from siltstone.cli.output import Output
    from siltstone.shard.wal_status import WalStatus

OWN = "the table's own"


def run_wal(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``wal``."""
    with sharded(arguments) as table:
        state, found = state_of(table), _statuses(table)
        store = None if state.wal is None else {"id": state.wal.id, "uri": state.wal.uri}
        documents = [asdict(one) | {"needed": bool(one.needs)} for one in found]
        output.result({"uri": table.uri, "version": state.version, "store": store, "wals": documents})
        if not found:
            output.line(f"{clean(table.uri)} has no shards, and no WALs")
            return DONE
    heads = ("shard", "store", "id", "positions", "flushed", "merged", "needed by")
    output.table(heads, [_cells(one) for one in found], right=frozenset({"flushed", "merged"}))
    for one in found:
        if one.problem:
            output.note(f"note: shard {clean(one.shard)} was not looked at: {clean(one.problem)}")
    needed = sum(bool(one.needs) for one in found)
    output.line(f"{len(found)} {'WAL' if len(found) == 1 else 'WALs'}, {needed} of them needed")
    return DONE


def _statuses(table: Table) -> list[WalStatus]:
    state = state_of(table)
    return [wal_status(reader, state) for reader in table._shards.readers(state)]  # noqa: SLF001 - a reader's view


def _cells(one: WalStatus) -> tuple[object, ...]:
    positions = "not known"
    if one.first is not None and one.next is not None:
        positions = f"{one.first} to {one.next - 1}" if one.next > one.first else "none"
    return (
        one.shard, OWN if one.store is None else one.uri, one.store or "", positions, one.replay_from,
        one.merged_until, "; ".join(one.needs) or "nothing",
    )  # fmt: skip
