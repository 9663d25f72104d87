"""Opening the tables that a clone shares objects with.

What must hold:
- A table is read from only where it is the very one that was cloned: its log has the recorded id.
- What is recorded of it is a URI without credentials. Those of the clone are used for it only where both are in the
  same bucket; else it is opened as it was told, or with what is in the environment.
- A recorded URI was written by others: it is one that a store gives itself, and a table in a bucket makes nobody look
  at files of the machine that reads it, unless its user said so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Protocol

from siltstone.errors import InvalidInputError, MissingObjectError, PermissionDeniedError
from siltstone.log.open import read_identity
from siltstone.paths import LOG
from siltstone.store.base import Store
from siltstone.store.connect import open_store
from siltstone.store.options import parse_uri
from siltstone.store.origins import OriginsStore
from siltstone.table.arguments import shown_object
from siltstone.table.types import shown

if TYPE_CHECKING:
    from siltstone.commit.registry import Registry
    from siltstone.format.table import Origin

_OF_THIS_MACHINE = frozenset({"file", "memory"})
URI, COMMITS = "uri", "commits"  # what origins= may say of a table beside its storage options
Given = str | PathLike[str] | Store | Mapping[str, object]


class OpensOthers(Protocol):
    """Whatever opens the store of another table; it pickles."""

    def __call__(self, uri: str, number: int = 0) -> Store:
        """The store at a URI that was recorded, which has no credentials, for the table of a number."""

    def commits(self, uri: str, number: int = 0) -> str | Registry | None:
        """The commit store that decides that table's versions, where it was told."""

    def options_for(self, uri: str) -> Mapping[str, str] | None:
        """The options of this table's own store, where a URI is in the same bucket."""


@dataclass(frozen=True)
class Others:
    """Opens other tables as their user said, or else like the table at ``home``."""

    home: str = ""
    options: Mapping[str, str] | None = field(default=None, repr=False)
    given: Mapping[str, Given] = field(default_factory=dict, repr=False)  # by URI, or by number
    sync: bool = True

    def __call__(self, uri: str, number: int = 0) -> Store:
        """The store of one of them."""
        given = self._given(uri, number)
        if isinstance(given, Store):
            return given
        if isinstance(given, Mapping):
            options = {name: str(value) for name, value in given.items() if name not in {URI, COMMITS}}
            return open_store(str(given.get(URI, uri)), options or self.options_for(uri), sync=self.sync)
        place = self._recorded(uri) if given is None else str(given)
        return open_store(place, self.options_for(place), sync=self.sync)

    def commits(self, uri: str, number: int = 0) -> str | Registry | None:
        """What ``origins=`` says."""
        given = self._given(uri, number)
        return given.get(COMMITS) if isinstance(given, Mapping) else None  # type: ignore[return-value] # see check

    def but(self, given: Mapping[str, Given]) -> Others:
        """The same, knowing some tables better."""
        return Others(self.home, self.options, {**given, **self.given}, self.sync)

    def _given(self, uri: str, number: int) -> Given | None:
        return self.given.get(uri, self.given.get(str(number)))

    def _recorded(self, uri: str) -> str:
        """A URI that only the table itself vouches for.

        Raises:
            PermissionDeniedError: it names what a table must not make its readers open.
        """
        there = parse_uri(uri) if "://" in uri else None
        if there is None or (there.scheme == "file" and str(there) != uri):
            raise _refused(uri, "which no store is called")
        if there.scheme in _OF_THIS_MACHINE and self.home and parse_uri(self.home).scheme not in _OF_THIS_MACHINE:
            raise _refused(uri, "on the machine that reads it, and is in a bucket itself")
        return uri

    def options_for(self, uri: str) -> Mapping[str, str] | None:
        """The options of this table's own store, where a URI is in the same bucket."""
        if not self.home:
            return None
        here, there = parse_uri(self.home), parse_uri(uri)
        return self.options if here[:2] == there[:2] else None


def _refused(uri: str, why: str) -> PermissionDeniedError:
    return PermissionDeniedError(
        f"this table says that rows of it are at {shown(uri)}, {why}",
        hint="where you trust it, open it with origins= that says where the other table is",
        object=uri,
    )


open_other = Others()


def check_origins(given: object) -> dict[str, Given]:
    """What ``origins=`` says: for each table, by its URI or number, where it is or how it is opened."""
    hint = "such as {'s3://bucket/parent': {'region': 'eu-central-1'}}, or a URI or a Store by that"
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInputError(f"origins must be a mapping, got {type(given).__name__}", hint=hint)
    found: dict[str, Given] = {}
    for name, how in given.items():
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise InvalidInputError(
                f"origins names a table by {shown_object(name)}", hint="name it by its URI, or by its number"
            )
        if isinstance(how, Mapping):
            _check_options(name, how)
        elif not isinstance(how, str | PathLike | Store):
            raise InvalidInputError(f"origins says {type(how).__name__} of {shown_object(name)}", hint=hint)
        text = str(name)
        found[text if text.isdigit() else str(open_store(text).uri)] = how
    return found


def _check_options(name: object, options: Mapping[object, object]) -> None:
    for option, value in options.items():
        if not isinstance(option, str) or not (isinstance(value, str) or option == COMMITS):
            raise InvalidInputError(
                f"origins has an option {shown_object(option)} of {shown_object(name)} that is no text",
                hint="give texts by names, as in storage_options=",
            )


def with_origins(store: Store, origins: Mapping[str, Origin], opens: OpensOthers) -> Store:
    """A table's store, with those of the tables that it shares objects with."""
    if not origins:
        return store
    others = {int(number): open_origin(one, int(number), opens) for number, one in origins.items()}
    return OriginsStore(store, others)


def open_origin(origin: Origin, number: int, opens: OpensOthers) -> Store:
    """The store of one of them.

    Raises:
        MissingObjectError: the table is not there, or another one is.
    """
    store = opens(origin.uri, number)
    found = read_identity(store, LOG)
    if found is None or found.identity.log != origin.table:
        raise MissingObjectError(
            f"rows of this table are in another one, and {origin.uri} is {'not there' if found is None else 'not it'}",
            hint="put it back, or open the clone with origins= that says where it is now",
            object=origin.uri,
        )
    return store
