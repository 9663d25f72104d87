"""What a driver's words about TLS mean to its user.

What must hold:
- A server that could not be verified is not "unavailable": trying again changes nothing, and the error says what does.
- A connection that broke while TLS was being set up may have been a broken network: that stays one to try again.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from siltstone.errors import InvalidInputError, PermissionDeniedError, SiltstoneError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.commit.location import Location

_CAUSES_MAX = 16
_OTHER_HOST = ("hostname mismatch", "ip address mismatch", "does not match host name")
_NOT_TRUSTED = ("certificate verify failed", "certificate_verify_failed")
_NO_TLS = ("does not support ssl", "ssl is required but the server doesn't support it", "wrong_version_number")
_BROKEN = ("eof occurred in violation of protocol", "record_layer_failure", "handshake operation timed out")


def tls_error(error: BaseException, location: Location) -> SiltstoneError | None:
    """The error for what went wrong with TLS; None where it was something else."""
    words = " ".join(str(one) for one in _causes(error))
    found, uri = words.lower(), location.shown
    facts = {"subject": uri, "host": location.host}
    authorities = location.options.get("ca_file", "")
    if authorities and not _is_readable(authorities):
        return InvalidInputError(
            f"ca_file {authorities!a} can't be read, or holds no certificate of an authority",
            hint="give the path of a PEM file with the certificates to trust",
            **facts,
        )
    shown = location.scrub(" ".join(words.split()))[:500]
    if any(one in found for one in _OTHER_HOST):
        return PermissionDeniedError(
            f"the server that answers for {uri} has no certificate for the host name {location.host}: {shown}",
            hint="write the host as the certificate has it; insecure=True verifies nothing",
            **facts,
        )
    if any(one in found for one in _NOT_TRUSTED):
        return PermissionDeniedError(
            f"the certificate of {uri} is not signed by an authority that is trusted here: {shown}",
            hint="pass ca_file= with the certificate of its authority; insecure=True verifies nothing",
            **facts,
        )
    plain = location.scheme.removesuffix("s") if location.scheme in {"rediss", "etcds"} else location.scheme
    if any(one in found for one in _NO_TLS):
        return PermissionDeniedError(
            f"{uri} does not speak TLS: {shown}",
            hint=f"switch it on there, or use {plain}:// with insecure=True on a network you trust",
            **facts,
        )
    if any(one in found for one in _BROKEN):
        return UnavailableError(
            f"{uri} was silent or ended the connection while TLS was set up: {shown}",
            hint=f"check that it runs and speaks TLS; or use {plain}:// with insecure=True on a network you trust",
            **facts,
        )
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    one: BaseException | None = error
    for _ in range(_CAUSES_MAX):
        if one is None:
            return
        yield one
        one = one.__cause__ or one.__context__


def _is_readable(path: str) -> bool:
    try:
        ssl.create_default_context(cafile=path)
    except (OSError, ValueError):  # ssl.SSLError is one
        return False
    return True
