"""Start and end a fault server, in a process of its own or in a thread.

What must hold:
- It listens on 127.0.0.1 and nowhere else.
- It ends with its owner: on leaving the ``with`` block, and in a process of its own also when the owner is killed.
- Faults, statistics and objects are reached over HTTP in both modes, so any process may steer any server.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import urlencode

from siltstone.errors import ClosedError, InternalError, InvalidInputError, NotFoundError, UnavailableError
from siltstone.store.probe import forget
from siltstone.testing.s3server.control import Control
from siltstone.testing.s3server.faults import UNLIMITED, Faults
from siltstone.testing.s3server.http import Connection
from siltstone.testing.s3server.listing import check_bucket_name
from siltstone.testing.s3server.messages import Refusal
from siltstone.testing.s3server.s3 import S3Service

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HOST = "127.0.0.1"
START_SECONDS_MAX = 30.0
END_SECONDS_MAX = 5.0
_OWNER_LOOK_SECONDS = 0.2
_BACKLOG = 1024


class Stats(NamedTuple):
    """What a server counted. Status 0 stands for requests that were left without an answer.

    ``conditional`` counts writes with If-None-Match or If-Match: "honoured" (checked in one step with the write;
    "refused" of them with 412), "ignored" (written without that), and "overwrote" (creates that replaced an object).
    """

    verbs: dict[str, int]
    statuses: dict[int, int]
    conditional: dict[str, int]
    held: tuple[str, ...]

    @property
    def requests(self) -> int:
        """All S3 requests."""
        return sum(self.verbs.values())


class ObjectFacts(NamedTuple):
    """One object as the server holds it; ``writes`` above 1 means that an earlier body was replaced."""

    bucket: str
    key: str
    size: int
    etag: str
    writes: int


async def serve(
    faults: Faults,
    *,
    buckets: Sequence[str],
    port: int,
    on_ready: Callable[[int], None],
    stop: asyncio.Event,
    owner: int = 0,
    fill: Callable[[S3Service], None] = lambda _: None,
) -> None:
    """Serve until ``stop`` is set or the owner process (0: none) is gone; ``on_ready`` gets the port.

    ``fill`` may put objects into the buckets first, past HTTP: a hundred thousand take a second that way.
    """
    service = S3Service(faults)
    for name in buckets:
        check_bucket_name(name)
        service.buckets.create(name)
    fill(service)
    handle = Control(service).handle
    connections: set[Connection] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(handle, connections), HOST, port, backlog=_BACKLOG)
    try:
        on_ready(server.sockets[0].getsockname()[1])
        while not stop.is_set() and (not owner or os.getppid() == owner):
            try:
                await asyncio.wait_for(stop.wait(), _OWNER_LOOK_SECONDS if owner else None)
            except TimeoutError:
                continue
    finally:
        server.close()
        for connection in list(connections):
            connection.abort()


class FaultServer:
    """An S3-compatible server that misbehaves as told; use it as a context manager."""

    def __init__(
        self,
        faults: Faults | None = None,
        *,
        buckets: Sequence[str] = ("bkt",),
        port: int = 0,
        in_thread: bool = False,
    ) -> None:
        self._faults = faults or Faults()
        self._buckets = tuple(buckets)
        self._port = port
        self._runner: _Child | _Thread = _Thread() if in_thread else _Child()
        self._started = False

    def __repr__(self) -> str:
        return f"FaultServer({self.endpoint if self._started else 'not running'}, buckets={self._buckets})"

    def __enter__(self) -> Self:
        try:
            for name in self._buckets:
                check_bucket_name(name)
        except Refusal as refusal:
            raise InvalidInputError(refusal.message, buckets=self._buckets) from None
        chosen, self._port = self._port, self._runner.start(self._faults, self._buckets, self._port)
        self._started = True
        if not chosen:  # a port that the system chose may have been another server's, in this very process
            forget(self.endpoint)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server and forget its objects."""
        self._started = False
        self._runner.end()

    @property
    def pid(self) -> int:
        """The process that serves."""
        return self._runner.pid

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        if not self._started:
            raise ClosedError("the fault server is not running", hint="use it inside its with block")
        return self._port

    @property
    def endpoint(self) -> str:
        """The URL for S3 clients, path style."""
        return f"http://{HOST}:{self.port}"

    @property
    def storage_options(self) -> dict[str, str]:
        """Options as Lance and siltstone take them; the keys are made up and never checked."""
        return {
            "aws_access_key_id": "siltstone",
            "aws_secret_access_key": "siltstone",
            "aws_region": "us-east-1",
            "aws_endpoint": self.endpoint,
            "aws_allow_http": "true",
        }

    @property
    def obstore_options(self) -> dict[str, dict[str, Any]]:
        """Keyword arguments for obstore's ``S3Store``, which takes plain HTTP as a client option only."""
        config = {name: value for name, value in self.storage_options.items() if name != "aws_allow_http"}
        return {"config": config, "client_options": {"allow_http": True}}

    def set(self, faults: Faults | None = None, **changes: Any) -> Faults:
        """Put other faults in force, all of them or some fields; counting for "every n-th" starts anew."""
        if faults is not None:
            answer = self._call("PUT", "/_faults", faults.changed(changes).to_json())
        else:
            answer = self._call("POST", "/_faults", changes)
        return Faults().changed(answer)

    def faults(self) -> Faults:
        """The faults in force."""
        return Faults().changed(self._call("GET", "/_faults"))

    def stats(self) -> Stats:
        """What was counted since the start or the last reset."""
        answer = self._call("GET", "/_stats")
        conditional = {"honoured": 0, "refused": 0, "ignored": 0, "overwrote": 0} | answer["conditional"]
        statuses = {int(status): number for status, number in answer["statuses"].items()}
        return Stats(answer["verbs"], statuses, conditional, tuple(answer["held"]))

    def reset_stats(self) -> None:
        """Start counting anew."""
        self._call("DELETE", "/_stats")

    def objects(self) -> list[ObjectFacts]:
        """Every object, by bucket and key, past any fault."""
        return [ObjectFacts(**facts) for facts in self._call("GET", "/_objects")]

    def read(self, key: str, *, bucket: str = "bkt") -> bytes:
        """An object's bytes, past any fault. Raises NotFoundError."""
        return self._request("GET", "/_object?" + urlencode({"bucket": bucket, "key": key}))

    def wait_held(self, count: int = 1, *, timeout_s: float = 10.0) -> tuple[str, ...]:
        """Keys of the held puts, as soon as there are ``count``. Raises UnavailableError at the time limit."""
        return tuple(self._call("GET", f"/_held?count={count}&timeout_ms={int(timeout_s * 1000)}"))

    def release(self, match: str = "", *, limit: int = UNLIMITED) -> tuple[str, ...]:
        """Let held puts take effect, oldest first, and return their keys once they have."""
        return tuple(self._call("POST", "/_release", {"match": match, "limit": limit}))

    def _call(self, method: str, path: str, fields: dict[str, Any] | None = None) -> Any:
        answer = self._request(method, path, b"" if fields is None else json.dumps(fields).encode())
        return json.loads(answer) if answer else None

    def _request(self, method: str, path: str, body: bytes = b"") -> bytes:
        connection = HTTPConnection(HOST, self.port, timeout=90)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            answer = response.read()
        except OSError as error:
            raise UnavailableError(f"the fault server at {self.endpoint} does not answer: {error}") from error
        finally:
            connection.close()
        if response.status < 300:
            return answer
        message = json.loads(answer)["error"]
        kinds = {404: NotFoundError, 408: UnavailableError, 400: InvalidInputError}
        raise kinds.get(response.status, InternalError)(message, request=f"{method} {path}", status=response.status)


class _Thread:
    """Serves from a thread of this process: starts in a millisecond, shares the interpreter."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name="siltstone-fault-server", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._arguments: tuple[Faults, tuple[str, ...], int] = (Faults(), (), 0)
        self._port = 0
        self.pid = os.getpid()

    def start(self, faults: Faults, buckets: tuple[str, ...], port: int) -> int:
        self._arguments = (faults, buckets, port)
        self._thread.start()
        self._ready.wait(START_SECONDS_MAX)
        if self._failure is not None or not self._port:
            self._thread.join(END_SECONDS_MAX)
            raise UnavailableError(f"the fault server did not start: {self._failure}", port=port) from self._failure
        return self._port

    def end(self) -> None:
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread.ident is not None:
            self._thread.join(END_SECONDS_MAX)

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        faults, buckets, port = self._arguments
        await serve(faults, buckets=buckets, port=port, on_ready=self._note_port, stop=self._stop)

    def _note_port(self, port: int) -> None:
        self._port = port
        self._ready.set()


class _Child:
    """Serves from a child process, which looks whether its parent is still there."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ClosedError("the fault server is not running", hint="use it inside its with block")
        return self._process.pid

    def start(self, faults: Faults, buckets: tuple[str, ...], port: int) -> int:
        self._owner = os.getpid()
        command = [sys.executable, "-P", "-m", "siltstone.testing.s3server", "--port", str(port)]
        command += ["--owner", str(self._owner), "--faults", json.dumps(faults.to_json())]
        for name in buckets:
            command += ["--bucket", name]
        source = str(Path(__file__).parents[3])
        paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
        # A session of its own: Ctrl-C goes to the owner, which may still need the server to clean up.
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        watchdog = threading.Timer(START_SECONDS_MAX, self._process.kill)
        watchdog.start()
        try:
            line = self._process.stdout.readline() if self._process.stdout else b""
        finally:
            watchdog.cancel()
        try:
            return int(line.rsplit(b":", 1)[-1])
        except ValueError:
            self.end()
            raise UnavailableError(
                "the fault server did not start",
                hint="its standard error says why; a fixed port may be in use",
                port=port,
                said=line.decode(errors="replace"),
            ) from None

    def end(self) -> None:
        # A forked copy of the owner must not end the owner's server.
        if self._process is None or os.getpid() != self._owner:
            return
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
