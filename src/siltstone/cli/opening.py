"""Opening tables by what a command line says: ``TABLE``, or ``TABLE@`` and a version, a tag or a checkpoint.

What must hold:
- An ``@`` counts only behind the last slash of a path, so a user or account in a URI is never taken for a version.
- A name behind it is a tag and, only where there is none of that name, a checkpoint.
- A verb that writes refuses an earlier version instead of writing to the newest.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from siltstone.api import open_table
from siltstone.cli.errors import UsageError
from siltstone.cli.options import storage_options, wal_of
from siltstone.errors import InvalidInputError, NotFoundError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from siltstone.api import Table
    from siltstone.table.state import State


class Named(NamedTuple):
    """A table as a command line names it: the URI, and the version or the tag behind the ``@``.

    What is a tag here may be the name of a checkpoint.
    """

    uri: str
    version: int | None = None
    tag: str | None = None

    @property
    def is_newest(self) -> bool:
        """Whether no version is named."""
        return self.version is None and self.tag is None


def parse_named(text: str) -> Named:
    """Take TABLE@VERSION-OR-TAG apart."""
    scheme = text.find("://")
    at = text.rfind("@")
    # Without a path, what is behind the scheme is a bucket, or an account with an @ of its own.
    if at < text.rfind("/") or at < 0 or (scheme >= 0 and text.find("/", scheme + 3) < 0):
        return Named(text)
    uri, behind = text[:at], text[at + 1 :]
    if not behind or not uri:
        raise UsageError(
            f"{text[-80:]!a} names no {'version' if uri else 'table'} {'behind' if uri else 'before'} the @",
            hint="write TABLE@3 or TABLE@tag; a directory with an @ in its name is written with a slash at its end",
        )
    if behind.isascii() and behind.isdigit():
        if len(behind) > 19:
            raise UsageError(f"version {behind[:40]} is too large")
        return Named(uri, version=int(behind))
    return Named(uri, tag=behind)


def newest_only(text: str, verb: str, *, does: str = "makes a new version and") -> str:
    """The URI of a table, for a verb that no earlier version can be named with."""
    named = parse_named(text)
    if not named.is_newest:
        behind = text[len(named.uri) :]
        raise UsageError(
            f"{verb} {does} can't work on an earlier one: {behind[:80]!a} is too much",
            hint=f"leave {behind[:80]} out; a directory with an @ in its name is written with a slash at its end",
        )
    return named.uri


@contextlib.contextmanager
def reading(arguments: argparse.Namespace) -> Iterator[Table]:
    """The table to read, at the version that was named."""
    with opened(parse_named(arguments.table), arguments) as table:
        yield table


@contextlib.contextmanager
def opened(named: Named, arguments: argparse.Namespace) -> Iterator[Table]:
    """A table, or one version of it."""
    with open_table(
        named.uri, commits=arguments.commits, storage_options=storage_options(arguments), **wal_of(arguments)
    ) as table:
        yield table if named.is_newest else _at(table, named)


def _at(table: Table, named: Named) -> Table:
    return table.at(**which(table, named))


class Which(TypedDict, total=False):
    """The version that is meant, as ``at`` and ``restore`` take it."""

    version: int
    tag: str
    checkpoint: str


def which(table: Table, named: Named) -> Which:
    """What the name behind an ``@`` is."""
    if named.tag is None:
        return {} if named.version is None else {"version": named.version}
    state = state_of(table)
    if named.tag in state.checkpoints:
        tagged, kept = state.tags.get(named.tag), state.checkpoints[named.tag].version
        if tagged is not None and tagged != kept:
            raise InvalidInputError(
                f"{named.tag!a} is a tag of version {tagged} and a checkpoint of version {kept}",
                hint=f"name the version that is meant: TABLE@{tagged} or TABLE@{kept}",
            )
        return {"checkpoint": named.tag}
    if named.tag not in state.tags:
        known = ", ".join(sorted([*state.tags, *state.checkpoints])[:10]) or "none"
        raise NotFoundError(f"there is no tag and no checkpoint {named.tag!a}", hint=f"there are: {known}")
    return {"tag": named.tag}


@contextlib.contextmanager
def writing(arguments: argparse.Namespace) -> Iterator[Table]:
    """The table to write to."""
    with opened(Named(newest_only(arguments.table, arguments.verb)), arguments) as table:
        yield table


@contextlib.contextmanager
def sharded(arguments: argparse.Namespace) -> Iterator[Table]:
    """The table whose shards are to be looked at or written to; no version of it is made by that."""
    uri = newest_only(arguments.table, arguments.verb, does="works on the shards of the newest version and")
    with opened(Named(uri), arguments) as table:
        yield table


def state_of(table: Table) -> State:
    """The version that a read sees now, as it is recorded."""
    return table._now()  # noqa: SLF001 - a handle shows columns as Arrow has them, which leaves ids and defaults out


def defaults_of(table: Table) -> frozenset[str]:
    """The columns that rows need not give: those that were added with a default."""
    return frozenset(one.name for one in state_of(table).schema.fields if one.optional or one.default is not None)
