"""Pins: what a checkpoint needs of a shard, as the shard's manifest says it.

What must hold:
- Whatever is pinned stays: entries of the WAL from the lowest ``replay_from`` of all pins on, and the objects of
  fragments that a pin names. Whoever removes something asks here, with a state that was read before it removes it.
- A pin covers what the manifest said when it was put; one that is there and put again covers both.
- A pin is put behind the entry of the table that names it, and removed only where its checkpoint is gone. Whoever
  removes some reads the manifest first and the table's version then: so none that is just being made is taken for a
  leftover.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from siltstone.format.shard import ShardPin

if TYPE_CHECKING:
    from collections.abc import Collection

    from siltstone.format.shard import ShardState
    from siltstone.format.table import Cursor
    from siltstone.shard.manifest import Manifest


def keep_from(state: ShardState) -> Cursor:
    """Where the WAL must begin at the latest."""
    cursors = (state.replay_from, *(pin.replay_from for pin in state.pins.values()))
    return min(cursors, key=lambda one: one.position)


def pinned_names(state: ShardState) -> frozenset[str]:
    """Fragments whose objects must stay, though the shard itself may be done with them."""
    return frozenset(name for pin in state.pins.values() for name in pin.fragments)


def add_pin(manifest: Manifest, pin: str) -> ShardState:
    """Pin what the shard is now; the state that is pinned."""

    def edit(state: ShardState) -> ShardState | None:
        names = tuple(one.fragment.name for one in state.fragments)
        had = state.pins.get(pin)
        if had is None:
            new = ShardPin(replay_from=state.replay_from, fragments=names)
        else:
            news = tuple(name for name in names if name not in had.fragments)
            new = msgspec.structs.replace(had, fragments=(*had.fragments, *news))
        return None if new == had else msgspec.structs.replace(state, pins={**state.pins, pin: new})

    return manifest.change(edit)


def remove_pins(manifest: Manifest, pins: Collection[str]) -> ShardState:
    """Let go of pins; those that are not there stay so."""

    def edit(state: ShardState) -> ShardState | None:
        kept = {pin: one for pin, one in state.pins.items() if pin not in pins}
        return None if len(kept) == len(state.pins) else msgspec.structs.replace(state, pins=kept)

    return manifest.change(edit)
