"""HTTP/1.1 on an asyncio.Protocol: as little as S3 clients need, and fast.

What must hold:
- A handler sees whole requests only: a connection that ends inside a body has no effect.
- Bytes kept for a request are bounded before they are read; whatever can't be parsed is answered once and the
  connection closed. No input ends the server.
- One request at a time per connection, answered in order. A request that was received whole is carried out even if
  its client is gone meanwhile, as a real service does.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

from siltstone.testing.s3server.messages import NO_ANSWER, Refusal, Request, Response, refusal_response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

HEAD_BYTES_MAX = 64 * 1024
BODY_BYTES_MAX = 1024 * 1024 * 1024
WAITING_BYTES_MAX = 256 * 1024  # read ahead of a request in work
_CHUNK_LINE_BYTES_MAX = 4 * 1024
_JOIN_BYTES_MAX = 64 * 1024

_log = logging.getLogger(__name__)
_REQUEST_LINE = re.compile(r"([A-Z]{1,16}) (\S+) HTTP/1\.([01])")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_REASONS = {status.value: status.phrase for status in HTTPStatus}


def _bad(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def _parse_head(head: bytes) -> tuple[str, str, str, dict[str, str]]:
    """Method, target, minor version and headers of a request head."""
    first, *lines = head.decode("latin-1").split("\r\n")
    match = _REQUEST_LINE.fullmatch(first)
    if match is None:
        raise _bad("the request line is not HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or _HEADER_NAME.fullmatch(name) is None:
            raise _bad("a header line has no valid name")
        name = name.lower()
        value = value.strip(" \t")
        if name in headers:
            if name in {"content-length", "host", "transfer-encoding"}:
                raise _bad(f"header {name} is given twice")
            value = f"{headers[name]},{value}"
        headers[name] = value
    return match[1], match[2], match[3], headers


def _body_length(headers: dict[str, str]) -> int:
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise _bad("content-length is not a number")
    return _within_limit(int(text))


def _within_limit(length: int) -> int:
    if length > BODY_BYTES_MAX:
        raise Refusal(413, "EntityTooLarge", f"a body is at most {BODY_BYTES_MAX} bytes here")
    return length


class RequestParser:
    """Bytes in, whole requests out; knows no socket."""

    def __init__(self, on_continue: Callable[[], None]) -> None:
        self._buffer = bytearray()
        self._on_continue = on_continue
        self._steps = self._requests()
        self.close_after = False

    @property
    def waiting_bytes(self) -> int:
        """Bytes received and not parsed yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Take bytes from the connection."""
        self._buffer += data

    def next(self) -> Request | None:
        """The next whole request, or None while it is not complete. Raises Refusal."""
        return next(self._steps)

    def _requests(self) -> Generator[Request | None, None, None]:
        while True:
            head = yield from self._until(b"\r\n\r\n", HEAD_BYTES_MAX)
            method, target, minor, headers = _parse_head(head)
            self.close_after = minor == "0" or headers.get("connection", "").lower() == "close"
            coding = headers.get("transfer-encoding", "").lower()
            if coding and (coding != "chunked" or "content-length" in headers):
                raise Refusal(501, "NotImplemented", "the only transfer coding is chunked, without content-length")
            length = _body_length(headers)
            if headers.get("expect", "").lower() == "100-continue" and (coding or length):
                self._on_continue()
            body = (yield from self._chunked()) if coding else (yield from self._exactly(length))
            path, _, query = target.partition("?")
            yield Request(method, path, query, headers, body)

    def _until(self, end: bytes, limit: int) -> Generator[None, None, bytes]:
        searched = 0
        while (found := self._buffer.find(end, searched)) < 0:
            if len(self._buffer) > limit:
                break
            searched = max(0, len(self._buffer) - len(end) + 1)
            yield
        if found < 0 or found > limit:
            raise Refusal(431, "RequestHeaderSectionTooLarge", f"a request head is at most {limit} bytes here")
        taken = bytes(self._buffer[:found])
        del self._buffer[: found + len(end)]
        return taken

    def _exactly(self, length: int) -> Generator[None, None, bytes]:
        while len(self._buffer) < length:
            yield
        taken = bytes(self._buffer[:length])
        del self._buffer[:length]
        return taken

    def _chunked(self) -> Generator[None, None, bytes]:
        body = bytearray()
        while True:
            line = yield from self._until(b"\r\n", _CHUNK_LINE_BYTES_MAX)
            size = chunk_size(line)
            if size == 0:
                break
            _within_limit(len(body) + size)
            body += yield from self._exactly(size)
            if (yield from self._exactly(2)) != b"\r\n":
                raise _bad("a chunk does not end where it says")
        while (yield from self._until(b"\r\n", _CHUNK_LINE_BYTES_MAX)):
            pass  # trailers carry nothing the server acts on
        return bytes(body)


def chunk_size(line: bytes) -> int:
    """The size at the start of a chunk line, extensions left aside."""
    digits = line.partition(b";")[0].strip()
    if re.fullmatch(rb"[0-9A-Fa-f]{1,12}", digits) is None:
        raise _bad("a chunk has no size")
    return int(digits, 16)


class _DateHeader:
    """The Date header, made once a second."""

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def __str__(self) -> str:
        now = int(time.time())
        if now != self._second:
            self._second, self._text = now, formatdate(now, usegmt=True)
        return self._text


_date = _DateHeader()


def _encode(response: Response, *, close: bool) -> bytes:
    """The head of an answer; to HEAD it names the length of the body that is then left out."""
    lines = [f"HTTP/1.1 {response.status} {_REASONS.get(response.status, 'Status')}"]
    lines += [f"{name}: {value}" for name, value in response.headers]
    if response.status not in {204, 304}:
        lines.append(f"content-length: {len(response.body)}")
    lines.append(f"connection: {'close' if close else 'keep-alive'}")
    lines.append(f"date: {_date}\r\nserver: siltstone-fault-server\r\n\r\n")
    return "\r\n".join(lines).encode("latin-1", "replace")


class Connection(asyncio.Protocol):
    """One client's connection; hands whole requests to ``handle``."""

    def __init__(self, handle: Callable[[Request], Awaitable[Response]], connections: set[Connection]) -> None:
        self._handle = handle
        self._connections = connections
        self._parser = RequestParser(self._send_continue)
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._task: asyncio.Task[None] | None = None
        self._paused = False
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed(data)
        if self._task is None:
            self._start_next()
        elif self._parser.waiting_bytes > WAITING_BYTES_MAX and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        # A client may end its side and still wait for the answers to what it sent.
        self._ended = True
        return self._task is not None

    def abort(self) -> None:
        """Drop the connection and what it is doing."""
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()

    def _send_continue(self) -> None:
        self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _start_next(self) -> None:
        try:
            request = self._parser.next()
        except Refusal as refusal:
            response = refusal_response(refusal, resource="", request_id="unparsed")
            self._transport.write(_encode(response, close=True) + response.body)
            self._transport.close()
            return
        if request is not None:
            self._task = asyncio.get_running_loop().create_task(self._serve(request))

    async def _serve(self, request: Request) -> None:
        try:
            response = await self._handle(request)
        except Exception:
            _log.exception("%s %s failed inside the fault server", request.method, request.path)
            refusal = Refusal(500, "InternalError", "the fault server itself failed; its log says how")
            response = refusal_response(refusal, resource=request.path, request_id="failed")
        self._task = None
        if self._transport.is_closing():
            return
        if response is NO_ANSWER:
            self._transport.close()
            return
        self._write(response, head_only=request.method == "HEAD")
        if self._parser.close_after:
            self._transport.close()
            return
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        if self._parser.waiting_bytes:
            self._start_next()
        if self._ended and self._task is None:
            self._transport.close()

    def _write(self, response: Response, *, head_only: bool) -> None:
        head = _encode(response, close=self._parser.close_after)
        if head_only or not response.body:
            self._transport.write(head)
        elif len(response.body) <= _JOIN_BYTES_MAX:
            self._transport.write(head + response.body)
        else:
            self._transport.write(head)
            self._transport.write(response.body)
