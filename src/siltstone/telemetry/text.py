"""Texts that leave the process: names without paths, messages without secrets, lines without control characters.

What must hold: whatever is told to a collector or a log passes through here first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME_CHARACTERS_MAX = 64
TEXT_CHARACTERS_MAX = 1000
SECRET_CHARACTERS_MIN = 4  # shorter ones stand in ordinary words
HIDDEN = "***"

_USERINFO = re.compile(r"\b([a-z][a-z0-9+.-]*://)[^\s/?#]*@", re.IGNORECASE)
_NAMED = re.compile(
    r"\b([\w-]*(?:password|passwd|pwd|secret|token|credential|signature|account_key|access_key|api_key|sas_key)[\w-]*"
    r"|sig|authorization)(\"?\s*[=:]\s*\"?)(?:(?:bearer|basic)\s+)?[^\s&;,'\"]+",
    re.IGNORECASE,
)


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` without userinfo of URIs, without what is named like a secret, and without ``secrets``."""
    for secret in secrets:
        if len(secret) >= SECRET_CHARACTERS_MIN:
            text = text.replace(secret, HIDDEN)
    return _NAMED.sub(rf"\1\2{HIDDEN}", _USERINFO.sub(rf"\1{HIDDEN}@", text))


def clean(text: str) -> str:
    """``text`` in one line, with characters that steer a terminal written out."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def told(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` as it may leave the process."""
    return clean(masked(text[:TEXT_CHARACTERS_MAX], secrets))


def name_of(uri: str) -> str:
    """What a table is called where it stands beside numbers: the last part of its URI."""
    scheme, _, rest = uri.rpartition("://")
    last = rest.rstrip("/").rpartition("/")[2].rpartition("@")[2]
    return clean(last or scheme)[:NAME_CHARACTERS_MAX]
