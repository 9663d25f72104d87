"""Where a commit store is: a URI taken apart once, so that its password goes nowhere else.

What must hold:
- ``shown`` holds no userinfo and no option that is not meant to be seen; it is built from what was
  understood, never from the text that was given.
- A message about a URI that was not understood repeats none of it.
- A host that is not this machine is spoken to through verified TLS unless the caller said ``insecure``.
"""

from __future__ import annotations

import difflib
import importlib
import ipaddress
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec

from siltstone.errors import InvalidInputError, MissingDependencyError, PermissionDeniedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 5.0

COMMON_OPTIONS: Mapping[str, type] = {"timeout_s": float, "insecure": bool, "password_env": str, "ca_file": str}
SECRET_CHARACTERS_MIN = 4
"""A shorter secret is not looked for in text: it stands in ordinary words, and taking it out would show it."""
_SHOWN_OPTIONS = ("table", "namespace", "prefix", "region", "endpoint", "socket")
_TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class Location(msgspec.Struct, frozen=True):
    """A commit store's URI in pieces."""

    scheme: str
    host: str
    port: int
    path: str
    user: str
    password: str
    options: dict[str, Any]

    def __repr__(self) -> str:
        return f"Location({self.shown!r})"

    @property
    def shown(self) -> str:
        """The URI for people: no userinfo, and only harmless options."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = f":{self.port}" if self.port and self.host else ""
        given = [(name, self.options[name]) for name in _SHOWN_OPTIONS if name in self.options]
        shown = [f"{name}={quote(str(value), safe=':/')}" for name, value in given]
        return f"{self.scheme}://{host}{port}{quote(self.path)}" + (f"?{'&'.join(shown)}" if shown else "")

    @property
    def timeout_s(self) -> float:
        """How long one request may take."""
        return float(self.options.get("timeout_s", TIMEOUT_S))

    @property
    def connect_timeout_s(self) -> float:
        """How long connecting may take."""
        return min(CONNECT_TIMEOUT_S, self.timeout_s)

    @property
    def verify_tls(self) -> bool:
        """Whether only a verified TLS connection will do."""
        return not (self.options.get("insecure", False) or self.is_local)

    @property
    def is_local(self) -> bool:
        """Whether the service is on this machine."""
        return "socket" in self.options or is_loopback(self.host)

    def secret(self) -> str:
        """The password, from the URI or the named environment variable, looked up when it is needed."""
        name = self.options.get("password_env")
        if name is None:
            return self.password
        found = os.environ.get(name)
        if found is None:
            raise PermissionDeniedError(
                f"no password for {self.shown}", hint=f"set the environment variable {name}", variable=name
            )
        return found

    def scrub(self, text: str) -> str:
        """``text`` without any secret that was given."""
        given = [self.password, os.environ.get(self.options.get("password_env", ""), "")]
        given += [str(value) for name, value in self.options.items() if "secret" in name or "token" in name]
        for secret in given:
            if len(secret) >= SECRET_CHARACTERS_MIN:
                text = text.replace(secret, "***")
        return text

    def refuse_plain(self, *, secure_scheme: str) -> None:
        """Raise unless plain text is all right for this host."""
        if self.verify_tls:
            raise InvalidInputError(
                f"{self.shown} is not on this machine and would be spoken to without TLS",
                hint=f"use {secure_scheme}://, or insecure=True on a network you trust",
                host=self.host,
            )


def is_loopback(host: str) -> bool:
    """Whether a host name can only mean this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_location(
    uri: str, options: Mapping[str, Any], *, accepts: Mapping[str, type], default_port: int = 0
) -> Location:
    """Take ``scheme://user:password@host:port/path?option=...`` apart; keyword options join those of the query."""
    try:
        parts = urlsplit(uri)
        port = parts.port or default_port
        host = parts.hostname or ""
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        # The parser's own words may repeat a piece of a password that was not percent-encoded.
        raise _malformed(uri) from None
    path = unquote(parts.path)
    if parts.fragment or "@" in parts.path or any(ord(c) < 32 or ord(c) == 127 for c in unquote(uri)):
        raise _malformed(uri)
    merged = _merge_options(query, options, {**COMMON_OPTIONS, **accepts})
    return Location(
        scheme=parts.scheme,
        host=host,
        port=port,
        path=path,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        options=merged,
    )


def _malformed(uri: str) -> InvalidInputError:
    scheme = uri.partition(":")[0]
    shape = scheme if scheme.isalnum() and len(scheme) < 16 else "scheme"
    return InvalidInputError(
        "the commit store's URI can't be understood",
        hint=f"expected {shape}://user:password@host:port/name?option=value; percent-encode @ : / ? # % in a password",
    )


def _merge_options(
    query: Iterable[tuple[str, str]], options: Mapping[str, Any], accepts: Mapping[str, type]
) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for name, value in [*query, *options.items()]:
        if name not in accepts:
            near = difflib.get_close_matches(name, accepts, n=1)
            raise InvalidInputError(
                f"unknown option {name!r} for this commit store",
                hint=(f"did you mean {near[0]!r}? " if near else "") + f"it takes {', '.join(sorted(accepts))}",
                option=name,
            )
        if name in merged:
            raise InvalidInputError(f"option {name!r} is given twice", hint="give it once", option=name)
        merged[name] = _as_type(name, value, accepts[name])
    return merged


def _as_type(name: str, value: Any, wanted: type) -> Any:
    if wanted is bool and isinstance(value, str):
        value = _TRUTHS.get(value.lower(), value)
    if wanted is float and isinstance(value, (str, int)) and not isinstance(value, bool):
        try:
            value = float(value)
        except ValueError:
            value = None
    if not isinstance(value, wanted) or (isinstance(value, float) and not 0 < value < 86_400):
        raise InvalidInputError(f"option {name!r} has a wrong value", hint=f"give a {wanted.__name__}", option=name)
    return value


def require_driver(module: str, *, extra: str) -> Any:
    """Import an optional driver, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"this commit store needs the package {module!r}", hint=f"pip install 'siltstone[{extra}]'", package=module
        ) from error
