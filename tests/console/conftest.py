"""Consoles over tables that were made with the library, and a client that speaks HTTP by hand."""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import pytest

from console_worlds import make_notes
from siltstone.console.root import Given
from siltstone.console.server import Console

if TYPE_CHECKING:
    from collections.abc import Callable


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str]:
        return self.status, self.json["error"]["kind"]


class Client:
    """Requests to a console, as one who has the token."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def send(
        self, method: str, path: str, headers: dict[str, str] | None = None, *, body: bytes | None = None
    ) -> Reply:
        """A request with exactly these headers, but for Host where none is given."""
        connection = http.client.HTTPConnection("127.0.0.1", self.console.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            given = {"Host": f"127.0.0.1:{self.console.port}"} | (headers or {})
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(body)
            found = connection.getresponse()
            return Reply(found.status, {name.lower(): value for name, value in found.getheaders()}, found.read())
        finally:
            connection.close()

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.console.guard.token}"}

    def get(self, call: str, **params: object) -> Reply:
        """A call of the API."""
        return self.send("GET", f"/api/{call}?{urlencode(params)}".rstrip("?"), self.bearer)

    def __call__(self, call: str, **params: object) -> Any:
        """Its answer."""
        reply = self.get(call, **params)
        assert reply.status == 200, reply.body
        return reply.json

    def until(self, wanted: Callable[[Any], bool], call: str, **params: object) -> Any:
        """Its answer, asked for until it is as wanted: the console looks again when it is asked, now and then."""
        deadline = time.monotonic() + 60
        while True:
            reply = self.get(call, **params)
            if reply.status == 200 and wanted(reply.json):
                return reply.json
            assert time.monotonic() < deadline, reply.body


@pytest.fixture
def start():
    """``start(uri)`` gives the client of a console."""
    started: list[Console] = []

    def go(uri: object, *, budget: Any = None, port: int = 0, **given: Any) -> Client:
        console = Console(Given(str(uri), **given), budget=budget, port=port)
        started.append(console)
        console.start()
        return Client(console)

    yield go
    for console in started:
        console.close()


@pytest.fixture
def notes(tmp_path):
    """A keyed table of texts, open; it is at version 1, with three rows."""
    with make_notes(tmp_path / "lake" / "notes") as table:
        yield table


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """A console over a lake that nobody writes to, for a whole module."""
    lake = tmp_path_factory.mktemp("quiet") / "lake"
    make_notes(lake / "notes").close()
    with Console(Given(str(lake))) as console:
        console.start()
        yield Client(console)


@pytest.fixture
def ask(start, notes, tmp_path):
    """The console over the lake that ``notes`` is in."""
    return start(tmp_path / "lake")
