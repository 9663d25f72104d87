"""What a kind of step is: its keys, what it does, and where it leaves the mark that it was applied.

What must hold: a value that reaches a step was checked against its key; a step checks nothing that a key can say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from siltstone.api import open_table
from siltstone.errors import SiltstoneError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from siltstone.api import Table
    from siltstone.table.versions import Version

Takes = Literal["text", "table", "texts", "whole", "flag", "map", "types", "rows", "tables"]
SAYS: dict[Takes, str] = {
    "text": "text",
    "table": "the URI of a table",
    "texts": "a text or a list of texts",
    "whole": "a whole number from 0 on",
    "flag": "true or false",
    "map": "names and values",
    "types": "columns and their types",
    "rows": "a list of rows, each a list of values, or one value",
    "tables": "names and tables",
}


class CheckFailedError(SiltstoneError):
    """A count, or an answer, is not what the pipeline expects."""

    kind = "check-failed"


@dataclass(frozen=True)
class Key:
    """What may stand behind a key."""

    says: str
    takes: Takes = "text"
    needed: bool = False
    choices: tuple[str, ...] = ()


REACH: dict[str, Key] = {
    "storage": Key("options of the store, as in docs/stores.md", "map"),
    "commits": Key("the commit store that decides, as in docs/commit-stores.md"),
    "wal": Key("the store of the shards' WALs, where it is not the table's own"),
}


@dataclass(frozen=True)
class Done:
    """What a step did: the version that it ended in, and its words for people."""

    says: str
    rows: int = 0  # that it wrote, deleted, or counted
    versions: int = 0  # that it made
    version: int | None = None
    lines: tuple[str, ...] = ()  # what else there is to see, such as the best rows of a search


@dataclass(frozen=True)
class Task:
    """A step as it is run: its settings, Spark, and what makes it one that is applied once."""

    settings: Mapping[str, Any]
    connect: Callable[[], SparkSession]
    once: str
    message: str
    say: Callable[[str], None] = lambda _: None

    @property
    def spark(self) -> SparkSession:
        """The session, which is started by the first step that needs it."""
        return self.connect()

    def get(self, key: str) -> Any:
        """A setting; None where it is left out."""
        return self.settings.get(key)

    def table(self, key: str = "table") -> Table:
        """The table behind a key."""
        return self.open(self.settings[key])

    def open(self, uri: str, *, version: int | None = None, tag: str | None = None) -> Table:
        """A table, reached as the step says."""
        return open_table(
            uri,
            version=version,
            tag=tag,
            commits=self.get("commits"),
            storage_options=self.get("storage"),
            wal=self.get("wal"),
        )


@dataclass(frozen=True)
class Kind:
    """A kind of step.

    ``marks`` is the key of the table whose log says that the step was applied. A step without one is run again
    until one behind it was applied, so that it must do no harm twice.
    """

    name: str
    says: str
    run: Callable[[Task], Done]
    keys: Mapping[str, Key]
    marks: str = ""
    one_of: tuple[str, ...] = ()  # at least one of these keys must be there
    check: Callable[[Mapping[str, Any]], object] = lambda _: None  # what keys must say together
    also: Mapping[str, Key] = field(default_factory=lambda: dict(REACH))

    @property
    def all_keys(self) -> dict[str, Key]:
        """Its keys, with those that tell how its tables are reached."""
        return {**self.keys, **self.also}

    def marked_in(self, settings: Mapping[str, Any]) -> str | None:
        """The table that is marked, if any: a query without a table to write to marks none."""
        return settings.get(self.marks) if self.marks else None


COUNTS = {
    "rows": Key("how many there must be", "whole"),
    "at_least": Key("how many there must be at least", "whole"),
    "at_most": Key("how many there may be at most", "whole"),
}


def check_count(task: Task, rows: int, *, which: str, version: int, hint: str) -> None:
    """Stop where ``rows`` is not what a step's keys say."""
    for key, holds in {"rows": rows.__eq__, "at_least": rows.__ge__, "at_most": rows.__le__}.items():
        wanted = task.get(key)
        if wanted is not None and not holds(wanted):
            message = f"there are {rows:,} rows{which}, and {key} says {wanted:,} (version {version})"
            raise CheckFailedError(message, hint=hint, rows=rows)


def made(version: Version, what: str, rows: int) -> Done:
    """The words for a step that made one version, or found that there was nothing to change."""
    if version.operation == "none":
        return Done(f"{what} nothing", version=version.version)
    return Done(f"{what} {rows:,} rows", rows, 1, version.version)
