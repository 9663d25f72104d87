"""Steps that keep a state of a table, make a table of it, and collect what nobody keeps.

What must hold: each may be run again without harm. A checkpoint that is there stays; a clone that is there is the one
that was asked for, or the step fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from siltstone.errors import AlreadyExistsError, InvalidInputError
from siltstone.pipeline.kinds import Done
from siltstone.table import arguments

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from siltstone.api import Table
    from siltstone.pipeline.kinds import Task


def checkpoint(task: Task) -> Done:
    """Keep a table as it is."""
    name: str = task.settings["name"]
    scope: Literal["all", "durable"] = task.get("scope") or "all"
    with task.table() as table:
        there = {one.name: one for one in table.checkpoints() if not one.pending}
        if name in there:
            return Done(f"{name} is there, of version {there[name].version}", version=table.version)
        made = table.checkpoint(name, scope=scope, keep_days=task.get("keep_days"))
        return Done(f"version {made.version} is kept as {name}", 0, 1, table.version)


def clone(task: Task) -> Done:
    """Make a table that begins as another one is."""
    uri = task.settings["into"]
    with task.table() as table:
        at = task.get("at")
        try:
            made = table.clone(uri, at=at, where=task.get("where"), storage_options=task.get("storage"))
        except AlreadyExistsError:
            with task.open(uri) as there:
                if not _is_clone_of(there, table, at):
                    raise
                return Done(f"it is there, at version {there.version}", version=there.version)
        with made:
            rows = made.count()
            return Done(f"a table with {rows:,} rows, and no copy of any", rows, 1, made.version)


def _is_clone_of(there: Table, table: Table, at: object) -> bool:
    """Whether a table is the clone that a step asks for, though it was written to since."""
    made = there._now().clone  # noqa: SLF001 - what it was made of is shown nowhere else
    return made is not None and made.table == table._log.identity.log and (at is None or made.checkpoint == at)  # noqa: SLF001


def collect(task: Task) -> Done:
    """Remove what no version that is kept names."""
    keep = {key: task.get(key) for key in ("keep_days", "keep_versions") if task.get(key) is not None}
    with task.table() as table:
        done = table.gc(**keep)
        return Done(f"{done.deleted:,} objects went; versions from {done.floor} on are kept", version=table.version)


def check_checkpoint(settings: Mapping[str, Any]) -> None:
    """What a name must be."""
    arguments.check_label(settings["name"], "checkpoint")


def check_clone(settings: Mapping[str, Any]) -> None:
    """A table can't be its own clone."""
    if settings["into"] == settings["table"]:
        raise InvalidInputError("into is the table itself", hint="name another place for the clone")
