"""From a URI to a commit store's registry, ours or one of an installed package."""

from __future__ import annotations

import difflib
import importlib
import re
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, cast

from siltstone.errors import InvalidInputError, SiltstoneError

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.commit.registry import Registry

ENTRY_POINT_GROUP = "siltstone.commit_stores"

# Ours are found without installed metadata, and no other package can take their names.
_OURS = {
    "sqlite": "sql",
    "postgresql": "sql",
    "mysql": "sql",
    "mariadb": "sql",
    "redis": "redis",
    "rediss": "redis",
    "etcd": "etcd",
    "etcds": "etcd",
    "dynamodb": "dynamodb",
    "memory": "memory",
}
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)


def open_registry(uri: str, **options: Any) -> Registry:
    """Open the registry that a commit store's URI names; nothing is connected before its first call.

    Options differ by kind and may also stand in the URI's query. Raises InvalidInputError for a URI or
    option that is not understood, MissingDependencyError where the driver is not installed.
    """
    opener = _opener(uri)
    try:
        return opener(uri, **options)
    except SiltstoneError:
        raise
    except TypeError as error:
        raise InvalidInputError(f"the commit store did not take its options: {error}") from error


def supported_schemes() -> list[str]:
    """Every scheme that ``open_registry`` knows here."""
    return sorted({*_OURS, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})


def _opener(uri: str) -> Callable[..., Registry]:
    found = _SCHEME.match(uri) if isinstance(uri, str) else None
    if found is None:
        raise InvalidInputError("a commit store is named by a URI", hint=f"start it with one of {_listed()}")
    scheme = found[1].lower()
    if scheme != found[1]:
        raise InvalidInputError(f"the scheme {found[1]!r} is not in lower case", hint=f"use {scheme}:")
    if scheme in _OURS:
        module = importlib.import_module(f"siltstone.commit.{_OURS[scheme]}")
        return cast("Callable[..., Registry]", module.open_registry)
    for point in entry_points(group=ENTRY_POINT_GROUP, name=scheme):
        return cast("Callable[..., Registry]", point.load())
    near = difflib.get_close_matches(scheme, supported_schemes(), n=1)
    raise InvalidInputError(
        f"no commit store has the scheme {scheme!r}",
        hint=(f"did you mean {near[0]}://? " if near else "") + f"supported: {_listed()}",
        found=scheme,
    )


def _listed() -> str:
    return ", ".join(f"{scheme}:" if scheme == "sqlite" else f"{scheme}://" for scheme in supported_schemes())
