"""The options of the format "siltstone": where a table is, how it is reached, what is read or written.

What must hold:
- An option that is not known is refused: a typing mistake in ``once`` must not go unnoticed.
- Nothing secret is shown. Spark writes options to its event log, and hides only those whose name says that they
  are secret, so a commit store's URI with a password is taken as ``commits_secret`` alone.
"""

from __future__ import annotations

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
_SPARK_OWN = {"path", "checkpointlocation", "queryname", "mergeschema", "outputmode"}
PLACE = {"path", "commits", "commits_secret"}
READING = {"version", "tag", "where", "fresh"}
WRITING = {"operation", "once", "message", "key"}


@dataclass(frozen=True)
class Place:
    """Where a table is and how it is reached."""

    uri: str
    commits: str | None = field(default=None, repr=False)
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def open(self, *, version: int | None = None, tag: str | None = None) -> Table:
        """Open it."""
        return open_table(
            self.uri, version=version, tag=tag, commits=self.commits, storage_options=dict(self.storage) or None
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
        """Open the table, at the version or tag that is asked for."""
        version, tag = self.whole("version"), self.text("tag")
        if version is not None and tag is not None:
            raise InvalidInputError("options version and tag are both given", hint="give one of them")
        return self.place.open(version=version, tag=tag)


def read_options(given: Mapping[str, str], *, known: set[str]) -> Options:
    """Look at options; ``known`` are the names that make sense here besides those of the place."""
    options = {name.lower(): value for name, value in given.items()}
    storage = _storage(options)
    rest = {name: value for name, value in options.items() if not name.startswith((STORAGE, SECRET_STORAGE))}
    for name in sorted(rest):
        if name not in known | PLACE | _SPARK_OWN:
            raise InvalidInputError(
                f"there is no option {shown(name)} here",
                hint=f"known: {', '.join(sorted(known | PLACE))} and {STORAGE}NAME, {SECRET_STORAGE}NAME",
            )
    uri = rest.get("path")
    if not uri:
        raise InvalidInputError("no table is named", hint="give its URI to load(), save() or start()")
    return Options(Place(uri, _commits(rest), storage), {name: one for name, one in rest.items() if name not in PLACE})


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
