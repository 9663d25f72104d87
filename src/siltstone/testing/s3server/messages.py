"""Requests, answers and refusals of the fault server, free of sockets.

What must hold: whatever a handler refuses is a ``Refusal`` with an S3 error code, so that a client sees the same
XML as from a real service; nothing that came from a client reaches XML unescaped.
"""

from __future__ import annotations

from typing import NamedTuple
from xml.sax.saxutils import escape

XML_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
XML_TYPE = ("content-type", "application/xml")
# XML 1.0 has no way at all to write these; a key holding one is only readable with encoding-type=url.
_NOT_XML = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF), "\ufffd")
_ESCAPES = {"\r": "&#13;", '"': "&quot;"}


class Request(NamedTuple):
    """One whole request: raw path and query, header names in lower case, transfer coding removed."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


class Response(NamedTuple):
    """One answer; the connection adds length, date and framing."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


# The connection is closed without a byte: to the client, the answer got lost.
NO_ANSWER = Response(0)


class Refusal(Exception):  # noqa: N818 - an answer the client asked for, not a fault of the server
    """A request answered with an S3 error."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message


def xml_text(text: str) -> str:
    """Text as it stands between two tags."""
    return escape(text.translate(_NOT_XML), _ESCAPES)


def element(name: str, value: object) -> str:
    """One XML element around plain text."""
    return f"<{name}>{xml_text(str(value))}</{name}>"


def document(name: str, inner: str) -> bytes:
    """A whole S3 answer document."""
    return f'{XML_HEAD}<{name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{inner}</{name}>'.encode()


def refusal_response(refusal: Refusal, *, resource: str, request_id: str) -> Response:
    """The error document that S3 clients parse."""
    inner = (
        element("Code", refusal.code)
        + element("Message", refusal.message)
        + element("Resource", resource)
        + element("RequestId", request_id)
    )
    return Response(refusal.status, (XML_TYPE,), f"{XML_HEAD}<Error>{inner}</Error>".encode())
