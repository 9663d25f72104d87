"""A proxy before a server that loses answers, and the registries it is tried with."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from services import BUCKET, HOST
from siltstone.ids import SystemIds

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 20.0


class LossyProxy:
    """Passes bytes both ways on loopback. ``lose`` says what happens to the next answer, once it was received."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        self.lost = threading.Event()
        self._mode = ""
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def lose(self, mode: str) -> None:
        """``cut`` closes the connection instead of passing the next answer on, ``freeze`` leaves it silent."""
        self.lost.clear()
        self._mode = mode

    def close(self) -> None:
        with self._lock:
            sockets = [self._listener, *self._sockets]
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _start(self, run, *args) -> None:
        thread = threading.Thread(target=run, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection((HOST, self._target))
                with self._lock:
                    self._sockets += [client, server]
                self._start(self._pass_on, client, server, False)
                self._start(self._pass_on, server, client, True)

    def _pass_on(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                mode = self._mode if answers else ""
                if mode:
                    self._mode = ""
                    self.lost.set()
                if mode == "freeze":
                    while source.recv(65536):
                        pass
                if mode:
                    break
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Deployment:
    """A server, and the URI and options of a fresh registry on it."""

    def __init__(self, server, options: dict[str, object], table: str = BUCKET) -> None:
        self.server = server
        self.options = options
        self._table = table

    def uri(self, port: int | None = None) -> str:
        there, here = f"{HOST}:{self.server.port}", f"{HOST}:{port or self.server.port}"
        return self.server.commits_uri.replace(there, here).replace(f"dynamodb://{BUCKET}", f"dynamodb://{self._table}")


FIXTURES = {
    "postgresql": "postgresql",
    "mysql": "mariadb",
    "redis": "redis_server",
    "etcd": "etcd",
    "dynamodb": "dynamodb",
}
NAMES = {"postgresql": "table", "mysql": "table", "redis": "namespace", "etcd": "prefix"}


@pytest.fixture(params=FIXTURES)
def deployment(request: pytest.FixtureRequest) -> Deployment:
    """Each kind of server in turn."""
    server, name = request.getfixturevalue(FIXTURES[request.param]), f"t{SystemIds().new()}"
    if request.param == "dynamodb":
        return Deployment(server, {"create": True, **server.commits_options}, name)
    return Deployment(server, {NAMES[request.param]: name})


@pytest.fixture
def proxy(deployment: Deployment) -> Iterator[LossyProxy]:
    made = LossyProxy(deployment.server.port)
    yield made
    made.close()
