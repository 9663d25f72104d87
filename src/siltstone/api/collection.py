"""What a table's handle does to let go of what nobody needs any more."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING

from siltstone.errors import InvalidInputError
from siltstone.retain.expiry import DAY_MS, KEEP_DAYS_MAX
from siltstone.retain.gc import Collected, Collection, Handle, Wanted
from siltstone.table import arguments
from siltstone.table.transaction import Operations

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.shard.shards import Shards
    from siltstone.table.history import History
    from siltstone.table.origins import OpensOthers
    from siltstone.table.state import State
    from siltstone.table.tools import Tools

KEEP_DAYS = 7.0
KEEP_DAYS_SETTING = "gc.keep_days"


class Collecting(Operations):
    """The part of a table's handle that collects."""

    _history: History
    _own_tools: Tools
    _shards: Shards
    _others: OpensOthers

    def gc(
        self,
        *,
        keep_days: float | None = None,
        keep_versions: int = 1,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Collected:
        """Remove what no version needs that is kept, and what crashes left behind.

        Kept is every version that was the newest one at some time within ``keep_days`` (7, or what the table's setting
        ``gc.keep_days`` says), by the store's clock; at least ``keep_versions`` of them; and whatever is tagged or
        checkpointed. With ``dry_run`` nothing is removed, and each object that would be is named with the reason.

        Nothing that is in use is lost: a transaction that was begun on a version which is collected meanwhile is
        refused with ConflictError when it commits. Whoever reads such a version finds files missing.

        Raises ConflictError (other collections went further all the time), CommitUnknownError (run it again).
        """
        keep_versions = _check_versions(keep_versions)
        arguments.check_flag(dry_run, "dry_run")
        arguments.check_progress(progress)
        state = self._looked()
        keep_ms = _keep_ms(keep_days, state.settings.get(KEEP_DAYS_SETTING))
        handle = Handle(self._history, self._own_tools, self._shards, self._looked, self._others)
        collection = Collection(handle, Wanted(keep_ms, keep_versions), progress=progress)
        return collection.plan() if dry_run else collection.run()

    @abstractmethod
    def _looked(self) -> State:
        """The newest version."""


def _check_versions(keep_versions: object) -> int:
    if type(keep_versions) is not int or not 1 <= keep_versions < 2**63:
        raise InvalidInputError(
            f"keep_versions must be a whole number from 1 on, got {arguments.shown_object(keep_versions)}",
            hint="1 keeps the newest version, and what keep_days= keeps",
        )
    return keep_versions


def _keep_ms(keep_days: object, setting: str | None) -> int:
    """How long versions are kept: as a caller says, or the table, or the default."""
    if keep_days is not None:
        return _checked_ms(keep_days, "keep_days", hint="0 keeps no version but the newest")
    if setting is None:
        return round(KEEP_DAYS * DAY_MS)
    hint = f"change it: table.set({{{KEEP_DAYS_SETTING!r}: '7'}}), or pass keep_days="
    try:
        number = float(setting)
    except ValueError:
        raise InvalidInputError(
            f"the table's setting {KEEP_DAYS_SETTING} is no number: {arguments.shown_object(setting)}", hint=hint
        ) from None
    return _checked_ms(number, f"the table's setting {KEEP_DAYS_SETTING}", hint=hint)


def _checked_ms(days: object, what: str, *, hint: str) -> int:
    number = days if isinstance(days, int | float) and not isinstance(days, bool) else math.nan
    if not 0 <= number <= KEEP_DAYS_MAX:
        raise InvalidInputError(
            f"{what} must be a number of days from 0 to {KEEP_DAYS_MAX}, got {arguments.shown_object(days)}", hint=hint
        )
    return math.ceil(number * DAY_MS)
