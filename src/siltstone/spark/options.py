"""The options of the format "siltstone": where a table is, how it is reached, what is read or written.

What must hold:
- An option that is not known is refused: a typing mistake in ``once`` must not go unnoticed. So are those of other
  formats that mean something: who sets ``mergeSchema`` counts on it.
- Nothing secret is shown. Spark writes options to its event log, and hides only those whose name says that they
  are secret, so a commit store's URI with a password is taken as ``commits_secret`` alone.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from siltstone.api import open_table
from siltstone.errors import InvalidInputError
from siltstone.store.options import is_plain_option
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from siltstone.api import Table

STORAGE = "storage."
SECRET_STORAGE = "storage_secret."  # noqa: S105 - the same, under a name that Spark hides
_HIDDEN = re.compile(r"secret|password|token|credential")  # names whose values Spark hides, in lower case
_NO_SECRET = re.compile(r"(aws_)?access_key(_id)?")
_SPARK_OWN = {"path", "checkpointlocation", "queryname", "outputmode"}
PLACE = {"path", "commits", "commits_secret", "wal"}
READING = {"version", "tag", "checkpoint", "where", "fresh"}
PINS = ("version", "tag", "checkpoint")  # what names a version
WRITING = {"operation", "once", "message", "key"}
STREAMING = {"changes", "since", "rows_per_batch", "versions_per_batch"}
KNOWN = {
    "read": READING,
    "readStream": STREAMING,
    "write": WRITING,
    "writeStream": WRITING - {"once"},
}  # besides those of the place
# Spark's workers are given names in lower case, whatever a user wrote.
_BATCH_OR_STREAM = {
    "changes": "use spark.readStream, or table.changes(since, until) for what versions did",
    "since": "use spark.readStream, or table.changes(since, until) for what versions did",
    "once": "leave it out: each batch of a query counts once by itself",
}
_OTHERS = {
    "versionasof": ("versionAsOf", "the option is version here"),
    "timestampasof": ("timestampAsOf", "read with siltstone.spark.read(spark, table.at(timestamp=...))"),
    "mergeschema": ("mergeSchema", "add columns first, with table.add_column(name, type); a write changes none"),
    "overwriteschema": ("overwriteSchema", "change columns first, with table.add_column() and table.drop_column()"),
    "replacewhere": ("replaceWhere", "call delete(where) and append(rows) in one table.transaction()"),
    "readchangefeed": ("readChangeFeed", "use spark.readStream with option changes, or table.changes(since, until)"),
    "startingversion": ("startingVersion", "the option is since here, and begins behind the version it names"),
    "startingtimestamp": ("startingTimestamp", "give option since, with table.at(timestamp=...).version"),
    "maxfilespertrigger": ("maxFilesPerTrigger", "the options are versions_per_batch and rows_per_batch here"),
    "ignorechanges": ("ignoreChanges", "set option changes, and look at the column _change"),
    "ignoredeletes": ("ignoreDeletes", "set option changes, and look at the column _change"),
    "skipchangecommits": ("skipChangeCommits", "set option changes, and look at the column _change"),
    "txnappid": ("txnAppId", "the option is once here, with an id for each write"),
    "txnversion": ("txnVersion", "the option is once here, with an id for each write"),
    "usermetadata": ("userMetadata", "the option is message here"),
}


@dataclass(frozen=True)
class Place:
    """Where a table is and how it is reached."""

    uri: str
    commits: str | None = field(default=None, repr=False)
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    wal: str | None = None  # another store of its shards' WALs; with the same options where it is of the same kind

    def open(self, *, version: int | None = None, tag: str | None = None) -> Table:
        """Open it."""
        return open_table(
            self.uri,
            version=version,
            tag=tag,
            commits=self.commits,
            storage_options=dict(self.storage) or None,
            wal=self.wal,
        )


@dataclass(frozen=True)
class Options:
    """Options that were looked at: those of the place, and the others by name in lower case."""

    place: Place
    others: Mapping[str, str]

    def text(self, name: str) -> str | None:
        """An option as it is."""
        return self.others.get(name)

    def whole(self, name: str) -> int | None:
        """An option that is a whole number from 0 on."""
        text = self.others.get(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit()):
            raise InvalidInputError(f"option {name} is {shown(text)}, not a whole number from 0 on", hint="as in 3")
        return int(text)

    def flag(self, name: str) -> bool:
        """An option that is true or false; false where it is left out."""
        text = self.others.get(name, "false").lower()
        if text not in {"true", "false"}:
            raise InvalidInputError(f"option {name} is {shown(text)}, not true or false", hint="write true or false")
        return text == "true"

    def open(self) -> Table:
        """Open the table, at the version, tag or checkpoint that is asked for."""
        given = [name for name in PINS if self.text(name) is not None]
        if len(given) > 1:
            raise InvalidInputError(f"options {' and '.join(given)} are both given", hint="give one of them")
        checkpoint = self.text("checkpoint")
        if checkpoint is not None:
            return self.place.open().at(checkpoint=checkpoint)
        return self.place.open(version=self.whole("version"), tag=self.text("tag"))

    @property
    def is_pinned(self) -> bool:
        """Whether a version is asked for, by whatever name."""
        return any(self.text(name) is not None for name in PINS)


def read_options(given: Mapping[str, str], *, doing: str) -> Options:
    """Look at options of ``read``, ``readStream``, ``write`` or ``writeStream``."""
    options = {name.lower(): value for name, value in given.items()}
    storage = _storage(options)
    rest = {name: value for name, value in options.items() if not name.startswith((STORAGE, SECRET_STORAGE))}
    for spelled in sorted(given):
        name = spelled.lower()
        if name in rest and name not in KNOWN[doing] | PLACE | _SPARK_OWN:
            _refuse(spelled, rest[name], doing)
    uri = rest.get("path")
    if not uri:
        raise InvalidInputError("no table is named", hint="give its URI to load(), save() or start()")
    place = Place(uri, _commits(rest), storage, rest.get("wal"))
    return Options(place, {name: one for name, one in rest.items() if name not in PLACE})


def _refuse(spelled: str, value: str, doing: str) -> None:
    """Raise for an option that is not known here; other formats' switches that are off ask for nothing."""
    name = spelled.lower()
    if name in _OTHERS:
        theirs, hint = _OTHERS[name]
        if value.lower() != "false":
            raise InvalidInputError(f"there is no option {theirs} here", hint=hint)
        return
    owners = [one for one, known in KNOWN.items() if name in known]
    if owners:
        hint = _BATCH_OR_STREAM.get(name, f"options of {doing} are {_listed(doing)}")
        raise InvalidInputError(f"option {name} is one of {' and '.join(owners)}, not of {doing}", hint=hint)
    near = difflib.get_close_matches(name, KNOWN[doing] | PLACE, n=1)
    raise InvalidInputError(
        f"there is no option {shown(spelled)} here",
        hint=f"did you mean {near[0]}?" if near else f"options of {doing} are {_listed(doing)}",
    )


def _listed(doing: str) -> str:
    return f"{', '.join(sorted(KNOWN[doing] | PLACE - {'path'}))}, {STORAGE}NAME and {SECRET_STORAGE}NAME"


def _storage(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The options of the store, of which those that are secret must have names that Spark hides."""
    found: dict[str, str] = {}
    for name, value in options.items():
        prefix = next((one for one in (STORAGE, SECRET_STORAGE) if name.startswith(one)), None)
        if prefix is None:
            continue
        plain = name.removeprefix(prefix)
        if prefix == STORAGE and not (is_plain_option(plain) or _HIDDEN.search(plain) or _NO_SECRET.fullmatch(plain)):
            raise InvalidInputError(
                f"option {shown(name)} may be a secret, which Spark would write to its event log",
                hint=f"pass it as {SECRET_STORAGE}{plain}, which Spark hides",
            )
        if plain in found:
            raise InvalidInputError(f"storage option {shown(plain)} is given twice", hint="give it once")
        found[plain] = value
    return tuple(sorted(found.items()))


def _commits(options: Mapping[str, str]) -> str | None:
    plain, secret = options.get("commits"), options.get("commits_secret")
    if plain is not None and secret is not None:
        raise InvalidInputError("options commits and commits_secret are both given", hint="give one of them")
    if plain is not None:
        rest = plain.partition("://")[2]
        if ":" in rest.rpartition("@")[0] or _HIDDEN.search(rest.partition("?")[2].lower()):
            raise InvalidInputError(
                "option commits holds a password, which Spark would write to its event log",
                hint="pass the URI as option commits_secret, which Spark hides, or leave the password out of it",
            )
    return plain if plain is not None else secret
