"""Store URIs and options, with credentials kept apart from everything that is shown.

What must hold: a URI with a password, a query or a fragment is refused, and nothing of it is echoed;
an option's value is never part of a message.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from siltstone.errors import InvalidInputError

SCHEMES = {
    "file": "file",
    "memory": "memory",
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "az": "az",
    "abfs": "az",
    "abfss": "az",
}
ENV_REFERENCE = "env:"
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._$-]{0,254}")
PLAIN_OPTIONS = frozenset(
    {
        "account",
        "account_name",
        "allow_http",
        "bucket",
        "bucket_name",
        "conditional_put",
        "connect_timeout",
        "container_name",
        "endpoint",
        "region",
        "skip_signature",
        "timeout",
        "use_emulator",
        "virtual_hosted_style_request",
    }
)


class StoreUri(NamedTuple):
    """A store's URI in parts; ``str`` gives it back in one spelling."""

    scheme: str
    bucket: str
    path: str
    account: str = ""  # of Azure, where an abfss:// URI names it

    def __str__(self) -> str:
        if self.scheme == "file":
            return f"file://{self.path}"
        return f"{self.scheme}://{self.bucket}" + (f"/{self.path}" if self.path else "")


def parse_uri(uri: object) -> StoreUri:
    """Take a store URI (or a local path) apart, or raise InvalidInputError saying what is wrong."""
    text = os.fspath(uri) if isinstance(uri, os.PathLike) else uri
    if not isinstance(text, str):
        raise InvalidInputError(f"a store URI must be a string, got {type(uri).__name__}")
    if not text.strip():
        raise InvalidInputError(
            "a store URI must not be empty", hint="give a directory or a URI such as s3://bucket/path"
        )
    if any(ord(c) < 0x20 or ord(c) == 0x7F for c in text):
        raise InvalidInputError(
            f"the store URI {_shown(text)!a} holds a control character", hint="look for a line end or a tab in it"
        )
    _check_encodable(text)
    if "://" not in text:
        return StoreUri("file", "", os.path.abspath(text))  # noqa: PTH100 - realpath is LocalStore's part
    try:
        parts = urlsplit(text)
        secret = parts.username is not None or parts.password is not None
    except ValueError as error:
        raise InvalidInputError(f"the store URI can't be parsed: {error}", hint="such as s3://bucket/path") from None
    if secret and not parts.scheme.startswith("abfs"):
        raise InvalidInputError(
            "the store URI holds a user or password", hint="pass credentials in storage_options or the environment"
        )
    if parts.query or parts.fragment:
        raise InvalidInputError(
            "the store URI holds a query or fragment", hint="pass options in storage_options, not in the URI"
        )
    scheme = SCHEMES.get(parts.scheme.lower())
    if scheme is None:
        known = ", ".join(sorted({f"{s}://" for s in SCHEMES}))
        raise InvalidInputError(f"unknown scheme {parts.scheme!a} in a store URI", hint=f"supported are {known}")
    return _parse_parts(scheme, parts)


def _check_encodable(text: str) -> None:
    """Refuse what is no name in any store; local names may be bytes of any kind, which Python writes as surrogates."""
    try:
        if "://" in text and not text.lower().startswith("file://"):
            text.encode()
        else:
            os.fsencode(text)
    except UnicodeEncodeError:
        raise InvalidInputError(
            f"the store URI {_shown(text)!a} is not valid UTF-8", hint="remove the lone surrogates"
        ) from None


def _parse_parts(scheme: str, parts: SplitResult) -> StoreUri:
    if scheme == "file":
        if parts.netloc not in {"", "localhost"}:
            raise InvalidInputError(
                f"file://{parts.netloc}/... names a host", hint="write file:///path with three slashes"
            )
        return StoreUri("file", "", os.path.abspath(parts.path or "/"))  # noqa: PTH100
    bucket, account = parts.netloc, ""
    if "@" in bucket:  # abfs[s]://container@account.host/path
        container, _, host = bucket.partition("@")
        if ":" in container:
            raise InvalidInputError("the store URI holds a password", hint="pass credentials in storage_options")
        bucket, account = container, host.partition(".")[0]
    if not bucket and scheme != "memory":
        raise InvalidInputError(f"the store URI {scheme}:// names no bucket", hint=f"write {scheme}://bucket/path")
    if scheme != "memory" and _BUCKET.fullmatch(bucket) is None:
        # It is not repeated: it may be the first half of a user's password.
        raise InvalidInputError(
            f"the bucket of the {scheme}:// URI has a name that no bucket has",
            hint=f"write {scheme}://bucket/path; names are letters, digits and . _ - (and $ on Azure), at most 255",
        )
    path = "/".join(s for s in parts.path.split("/") if s not in {"", "."})
    if ".." in path.split("/"):
        raise InvalidInputError("the store URI holds '..'", hint="name the directory itself")
    return StoreUri(scheme, bucket, path, account)


# What stores are most often told, without the prefixes that names may have.
_OFTEN = (
    *sorted(PLAIN_OPTIONS), "access_key_id", "account_key", "application_credentials", "base_url", "client_id",
    "client_secret", "sas_token", "secret_access_key", "service_account", "service_account_key", "session_token",
    "sse_kms_key_id", "tenant_id",
)  # fmt: skip
_PREFIX = re.compile(r"(?:aws|azure_storage|azure|google)_")


def near_option(name: str) -> str:
    """A question, where a name that no store knows is almost one that some do."""
    plain = name.lower()
    prefix = found[0] if (found := _PREFIX.match(plain)) else ""
    near = difflib.get_close_matches(plain.removeprefix(prefix), _OFTEN, n=1)
    return f"did you mean {prefix}{near[0]}? " if near else ""


def _shown(text: str) -> str:
    return text.rpartition("@")[2][:200]


def resolve_options(options: Mapping[str, str] | None, known: frozenset[str]) -> dict[str, str]:
    """Options with ``env:NAME`` references filled in; an unknown name is refused with a near one."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise InvalidInputError(f"storage_options must be a mapping of strings, got {type(options).__name__}")
    resolved: dict[str, str] = {}
    for name, value in options.items():
        if not isinstance(name, str) or not isinstance(value, str | bool | int):
            raise InvalidInputError(f"storage option {name!a} must be a string, got {type(value).__name__}")
        if known and name.lower() not in known:
            near = difflib.get_close_matches(name.lower(), known, n=1)
            raise InvalidInputError(
                f"unknown storage option {name!a}", hint=f"did you mean {near[0]!r}?" if near else "see docs/stores.md"
            )
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if text.startswith(ENV_REFERENCE):
            variable = text.removeprefix(ENV_REFERENCE)
            if variable not in os.environ:
                raise InvalidInputError(
                    f"storage option {name} refers to the environment variable {variable}, which is not set",
                    hint=f"set {variable}, or give the value itself",
                )
            text = os.environ[variable]
        resolved[name.lower()] = text
    return resolved


def scrub(text: str, options: Mapping[str, str]) -> str:
    """``text`` without the value of any option that could be a secret."""
    for name, value in options.items():
        if not is_plain_option(name) and len(value) > 3 and value in text:
            text = text.replace(value, "***")
    return text


def is_plain_option(name: str) -> bool:
    """Whether a storage option can't be a secret."""
    return name.removeprefix("aws_").removeprefix("azure_storage_").removeprefix("google_") in PLAIN_OPTIONS
