"""The console's HTTP server: on this machine alone, GET and HEAD alone.

What must hold:
- It listens on 127.0.0.1 and nowhere else.
- Nothing of a request gets into a file's name: what is served is a list.
- Every answer has the headers of ``guard``, errors too, and no answer repeats a secret.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from siltstone.cli.errors import unexpected
from siltstone.closing import Closing
from siltstone.console.api import Api, status_of
from siltstone.console.guard import HEADERS, TOKEN, Guard, Refusal
from siltstone.console.params import Params
from siltstone.console.root import Root
from siltstone.errors import InvalidInputError, PermissionDeniedError, SiltstoneError, UnavailableError

if TYPE_CHECKING:
    from siltstone.console.budget import Budget
    from siltstone.console.root import Given

HOST = "127.0.0.1"
CONNECTIONS_MAX = 64
IDLE_S = 60.0
POLL_S = 0.05  # how soon it ends
_HTML, _CSS, _JS, _SVG = "text/html", "text/css", "text/javascript", "image/svg+xml"
ASSETS = {
    "/static/console.css": _CSS,
    "/static/console.js": _JS,
    "/static/dom.js": _JS,
    "/static/graph.js": _JS,
    "/static/live.js": _JS,
    "/static/panel.js": _JS,
    "/static/panels.js": _JS,
    "/static/rows.js": _JS,
    "/static/text.js": _JS,
    "/static/icon.svg": _SVG,
}
_NO_TOKEN = Refusal(
    403, "this console needs the token that was printed", "open the address that `siltstone console` printed"
)


class Answer(NamedTuple):
    """What goes back."""

    status: int
    body: bytes
    kind: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class Console(Closing):
    """A console at work: serves in threads of its own from ``start`` on, until it is closed."""

    def __init__(self, given: Given, *, port: int = 0, token: str = "", budget: Budget | None = None) -> None:
        self.root = Root(given)
        self.api = Api(self.root, budget=budget)
        try:
            self._server = _Server((HOST, port), self)
        except (OSError, OverflowError) as error:
            self.root.close()
            raise UnavailableError(
                f"port {port} of {HOST} can't be used: {getattr(error, 'strerror', None) or error}",
                hint="choose another with --port, or leave it out for a free one",
            ) from error
        self.port: int = self._server.server_address[1]
        self.guard = Guard(self.port, token=token)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_S,), daemon=True)
        self._assets = {path: _asset(path.rpartition("/")[2]) for path in ASSETS}
        self._page = _asset("index.html")

    @property
    def address(self) -> str:
        """Where it is, without the token."""
        return f"http://{HOST}:{self.port}/"

    @property
    def url(self) -> str:
        """The address to open, with the token."""
        return f"{self.address}?{TOKEN}={self.guard.token}"

    @property
    def url_once(self) -> str:
        """An address that can be opened once."""
        return f"{self.address}?{TOKEN}={self.guard.once()}"

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def wait(self) -> None:
        """Until it ends, or the process is interrupted."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """End the server and every handle; closing twice is fine."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        self.root.close()

    # -- answers -----------------------------------------------------------------------------------

    def answer(self, target: str, headers: Any) -> Answer:
        """The answer to a GET."""
        path, _, query = target.partition("?")
        is_page = path == "/"
        refused = self.guard.refusal(headers, is_page=is_page)
        if refused is not None:
            return self._refused(refused)
        try:
            return self._page_of(query, headers) if is_page else self._other(path, query, headers)
        except SiltstoneError as error:
            return self._failed(error)
        except Exception as error:  # no answer at all would say less
            return self._failed(unexpected(error))

    def _page_of(self, query: str, headers: Any) -> Answer:
        params = Params(query)
        given = params.text(TOKEN, "")
        if not self.guard.is_known(headers, given):
            return Answer(_NO_TOKEN.status, f"{_NO_TOKEN.message}: {_NO_TOKEN.hint}\n".encode(), "text/plain")
        return Answer(200, self._page, _HTML, (("Set-Cookie", self.guard.set_cookie()),))

    def _other(self, path: str, query: str, headers: Any) -> Answer:
        if not self.guard.is_known(headers, ""):
            return self._refused(_NO_TOKEN)
        if path in self._assets:
            return Answer(200, self._assets[path], ASSETS[path])
        if not path.startswith("/api/"):
            return _json(404, {"error": {"kind": "not-found", "message": "there is nothing here", "hint": ""}})
        document = self.api.call(path.removeprefix("/api/"), Params(query))
        made = _json(200, document)
        tag = f'"{sha256(made.body).hexdigest()[:32]}"'
        if headers.get("If-None-Match") == tag:
            return Answer(304, b"", headers=(("ETag", tag),))
        return made._replace(headers=(("ETag", tag),))

    def _refused(self, refused: Refusal) -> Answer:
        kind = PermissionDeniedError.kind if refused.status == 403 else InvalidInputError.kind
        return _json(refused.status, {"error": {"kind": kind, "message": refused.message, "hint": refused.hint}})

    def _failed(self, error: SiltstoneError) -> Answer:
        return _json(status_of(error), {"error": self.api.tell(error)})


def _asset(name: str) -> bytes:
    return (files("siltstone.console") / "static" / name).read_bytes()


def _json(status: int, document: dict[str, Any]) -> Answer:
    # In ASCII, so that half a character in a name, which UTF-8 does not have, can be written too.
    return Answer(status, json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # an idle connection of a browser would keep us
    allow_reuse_address = True
    request_queue_size = CONNECTIONS_MAX

    def __init__(self, address: tuple[str, int], console: Console) -> None:
        self.console = console
        self._places = threading.BoundedSemaphore(CONNECTIONS_MAX)
        self._open: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # The standard one asks for this machine's name, which may take long and is not needed.
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = HOST, self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._open.add(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.discard(request)
            self._places.release()

    def server_close(self) -> None:
        super().server_close()
        for one in list(self._open):  # browsers keep theirs, and would be answered on
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        """Nothing: whoever asked went away, or sent what is no HTTP."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_S
    server: _Server

    def do_GET(self) -> None:
        """Answer with a body."""
        self._send(self._answer(), body=True)

    def do_HEAD(self) -> None:
        """Answer without one."""
        self._send(self._answer(), body=False)

    def _answer(self) -> Answer:
        if not self.path.startswith("/") or self.path.startswith("//"):
            return _json(400, {"error": {"kind": "invalid-input", "message": "the address is no path", "hint": ""}})
        return self.server.console.answer(self.path, self.headers)

    def _send(self, answer: Answer, *, body: bool) -> None:
        self.send_response(answer.status)
        for name, value in (*HEADERS.items(), *answer.headers):
            self.send_header(name, value)
        if answer.status != 304:
            self.send_header("Content-Type", f"{answer.kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(answer.body)))
        if answer.status == 400:
            self.close_connection = True  # what follows may be the rest of what was not understood
            self.send_header("Connection", "close")
        self.end_headers()
        if body and answer.body:
            with contextlib.suppress(ConnectionError):
                self.wfile.write(answer.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard server refuses by itself: methods other than ours, and what is no HTTP."""
        del message, explain
        self.close_connection = True
        if code == 501:
            code = 405
        kind = "method-not-allowed" if code == 405 else "invalid-input"
        said = "only GET and HEAD are answered" if code == 405 else "the request can't be understood"
        made = _json(code, {"error": {"kind": kind, "message": said, "hint": "the console only reads"}})
        more = (("Allow", "GET, HEAD"),) if code == 405 else ()
        with contextlib.suppress(ConnectionError):
            self._send(made._replace(headers=(*more, ("Connection", "close"))), body=self.command != "HEAD")

    def version_string(self) -> str:
        """Nothing that tells versions."""
        return "siltstone"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base's
        """Nothing: addresses may hold the token."""
