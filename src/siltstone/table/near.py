"""Which fragments of a table may have keys in common with another one, by what the log says of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from siltstone.table.bounds import term

if TYPE_CHECKING:
    from siltstone.format.rollup import Live
    from siltstone.format.table import Fragment
    from siltstone.table.state import State


def near_fragments(state: State, fragment: Fragment) -> list[Live]:
    """The fragments whose keys the statistics don't tell apart from those of another one."""
    fragments = state.fragments
    keep = np.ones(fragments.slots, np.bool_)
    for field_id in state.schema.key:
        mine, theirs = fragment.bounds.get(str(field_id)), fragments.bounds(field_id)
        if mine is None or mine.low is None or mine.high is None or theirs is None:
            continue
        if isinstance(mine.low, str) != (theirs.low.dtype == object):
            continue  # the column was widened since
        low, high = term(mine.low), term(mine.high)
        keep &= ((theirs.low <= high) & (theirs.high >= low)) | ~theirs.known
    return fragments.select(keep)
