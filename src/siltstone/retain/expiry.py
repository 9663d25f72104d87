"""Until when something is kept, by the clock of the store.

What must hold:
- The clock of a process decides nothing: two of them may be hours apart.
- Nothing is over too early: a store tells the time of a write in whole seconds, so one such grain is added.
- Being over takes nothing away. Only an entry of the log does, and whoever writes it looks at the newest version.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from siltstone.errors import InvalidInputError
from siltstone.log.truncate import CLOCK_GRAIN_MS, store_now_ms
from siltstone.table.arguments import shown_object

if TYPE_CHECKING:
    from siltstone.format.table import Checkpoint
    from siltstone.log import Log

DAY_MS = 86_400_000
PENDING_MS = DAY_MS  # one that was begun and is not ended by then was given up
KEEP_DAYS_MAX = 366_000  # a thousand years


def now_ms(log: Log) -> int:
    """The time by the store's clock; takes a write and a look."""
    return store_now_ms(log)


def check_keep_days(keep_days: object, *, hint: str = "leave it out, or give None, to keep it for ever") -> int | None:
    """How long something is to be kept, in milliseconds; None for ever."""
    if keep_days is None:
        return None
    number = isinstance(keep_days, int | float) and not isinstance(keep_days, bool)
    if not number or not math.isfinite(keep_days) or not 0 < keep_days <= KEEP_DAYS_MAX:  # type: ignore[arg-type, operator]
        raise InvalidInputError(
            f"keep_days must be a number above 0, and at most {KEEP_DAYS_MAX}, got {shown_object(keep_days)}", hint=hint
        )
    return max(1, round(keep_days * DAY_MS))  # type: ignore[operator]


def expires_ms(now: int, keep_ms: int | None) -> int | None:
    """When something that is kept so long from now on is over."""
    return None if keep_ms is None else now + keep_ms


def is_expired(checkpoint: Checkpoint, now: int) -> bool:
    """Whether a checkpoint is no promise any more, so that a collection may remove it. A clone's never is."""
    if checkpoint.holder is not None:
        return False
    if checkpoint.pending:
        return now - CLOCK_GRAIN_MS >= checkpoint.created_ms + PENDING_MS
    return checkpoint.expires_ms is not None and now - CLOCK_GRAIN_MS >= checkpoint.expires_ms
