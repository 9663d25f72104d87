"""Whether a prepared change may be committed behind what landed meanwhile. Pure: it reads nothing.

What must hold: the table equals what running the acknowledged operations one after another, in the order of their
versions, would give. So a change stands as it is only where what landed could not have altered it.

=====================  ==========================================================================
mine                   is run again where this landed
=====================  ==========================================================================
all but labels         columns changed
append, no key         nothing else
append or upsert, key  rows were added (their keys may be mine); fragments that I mask were touched
delete, update         rows were added (they may match); fragments that I mask were touched
overwrite, restore     rows or fragments changed at all
compact                rows of my sources were deleted (they are mapped to the new fragments)
merge, split           as upsert; shards were moved that I read or move; keys were spread anew
all that look at rows  a shard came into being: what is in it came before me
tag, settings, index   the same names
tag, checkpoint,       which versions are kept changed: a tag, a checkpoint or the floor of versions
restore, collect, drop
checkpoint of itself   anything: it names the version that it makes
=====================  ==========================================================================

An operation of a table with shards that looks at their rows, or takes them into the table, reads those shards as a
merge does. Whatever depends on rows chooses its shards by how keys are spread, so it is run again where that changed. A
merge that landed brought rows as an upsert does, and moved shards.

A compaction that landed has the same rows: it concerns only who touches the fragments that it replaced. A
compaction of mine whose sources are gone is the one real conflict: its work is of no use.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siltstone.format.table import Change


class Verdict(Enum):
    """What becomes of a prepared change."""

    KEEP = "commit it as it is"
    RERUN = "run it again on the newer version; what was read is remembered"
    CONFLICT = "it can't be done any more"


@dataclass(frozen=True)
class Footprint:
    """What a prepared change depends on and touches."""

    rows: bool = False  # depends on which rows there are: a filter, or keys that must be unique
    whole: bool = False  # replaces all there is
    columns: bool = False  # depends on the columns, or changes them
    touches: frozenset[str] = frozenset()  # fragments that it masks or removes
    rewrites: bool = False  # the same rows in other files
    tags: frozenset[str] = frozenset()
    settings: frozenset[str] = frozenset()
    indexes: frozenset[str] = frozenset()
    shards: frozenset[str] = frozenset()  # that it read or moves
    kept: bool = False  # depends on which versions are kept, or changes it
    numbered: bool = False  # names the version that it makes


def verdict(mine: Footprint, landed: Change) -> Verdict:
    """What becomes of ``mine``, now that ``landed`` came first."""
    removed = frozenset(landed.remove)
    masked = frozenset(landed.mask) | frozenset(landed.unmask)
    if mine.rewrites and mine.touches & removed:
        return Verdict.CONFLICT
    brought_rows = bool(landed.add or landed.unmask or landed.revives) and not landed.rewrite
    again = (
        (mine.rows and brought_rows)
        or (mine.whole and bool(landed.add or removed or masked))
        or (mine.columns and landed.schema is not None)
        or bool(mine.touches & (removed | masked))
        or bool(mine.tags & landed.tags.keys())
        or bool(mine.settings & landed.settings.keys())
        or bool(mine.indexes & landed.indexes.keys())
        or bool(mine.shards & landed.shards.keys())
        or ((mine.rows or mine.whole) and any(to is not None and to.position == 0 for to in landed.shards.values()))
        or (landed.sharding is not None and bool(mine.rows or mine.whole or mine.shards))
        or (mine.kept and bool(landed.tags or landed.checkpoints or landed.floor is not None))
        or mine.numbered
        or landed.dropped
    )
    return Verdict.RERUN if again else Verdict.KEEP


def verdict_of_all(mine: Footprint, landed: list[Change]) -> Verdict:
    """The worst of several."""
    verdicts = {verdict(mine, change) for change in landed}
    return next((one for one in (Verdict.CONFLICT, Verdict.RERUN) if one in verdicts), Verdict.KEEP)
