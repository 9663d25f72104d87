"""An S3 server that remembers every request: of which kind, how many bytes, from when to when.

What must hold:
- What is counted is what arrives over HTTP from the real client, not what the package believes to have asked.
- Two requests of which one waited for the other's answer never overlap here. The longest row of requests that do not
  overlap is therefore at least as long as the longest chain of answers waited for; and it is no longer where the server
  takes more time to answer than its client takes to send what does not wait.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import siltstone as ss
from siltstone.errors import ClosedError, UnavailableError
from siltstone.testing.s3server import Faults
from siltstone.testing.s3server.faults import FaultPlan
from siltstone.testing.s3server.messages import Refusal
from siltstone.testing.s3server.route import route
from siltstone.testing.s3server.server import serve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from siltstone.store.base import Store
    from siltstone.testing.s3server.messages import Request, Response
    from siltstone.testing.s3server.s3 import S3Service

BUCKET = "bkt"
START_SECONDS_MAX = 30.0
QUIET_SECONDS_MAX = 10.0
LATENCY_MS = 25.0  # while rounds are counted: long beside what a busy machine takes to send a request
PUT, CREATE, GET, RANGE, HEAD, LIST, DELETE = KINDS = (
    "PUT",
    "PUT if absent",
    "GET",
    "GET range",
    "HEAD",
    "LIST",
    "DELETE",
)


class Asked(NamedTuple):
    """One request as the server saw it."""

    kind: str
    key: str
    sent_bytes: int
    received_bytes: int
    began_s: float
    ended_s: float


class Cost(NamedTuple):
    """What an operation asked of the store."""

    requests: dict[str, int]
    rounds: int
    sent_bytes: int
    received_bytes: int

    @property
    def total(self) -> int:
        """Requests of all kinds."""
        return sum(self.requests.values())

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {**self._asdict(), "total": self.total}


def cost_of(asked: Sequence[Asked]) -> Cost:
    """What some requests come to."""
    counts = Counter(one.kind for one in asked)
    return Cost(
        requests={kind: counts[kind] for kind in KINDS if counts[kind]},
        rounds=rounds_of(asked),
        sent_bytes=sum(one.sent_bytes for one in asked),
        received_bytes=sum(one.received_bytes for one in asked),
    )


def rounds_of(asked: Sequence[Asked]) -> int:
    """The longest row of requests each of which began when the one before had ended."""
    rounds, free_s = 0, float("-inf")
    for one in sorted(asked, key=lambda one: one.ended_s):
        if one.began_s >= free_s:
            rounds += 1
            free_s = one.ended_s
    return rounds


class RecordingServer:
    """An S3 server in a thread of this process, and what it was asked."""

    def __init__(self) -> None:
        self._asked: list[Asked] = []
        self._under_way = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name="scale-server", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._service: S3Service | None = None
        self._port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(START_SECONDS_MAX) or not self._port:
            raise UnavailableError("the S3 server did not start")
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_SECONDS_MAX)

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        await serve(Faults(), buckets=(BUCKET,), port=0, on_ready=self._note, stop=self._stop, fill=self._watch)

    def _note(self, port: int) -> None:
        self._port = port
        self._ready.set()

    def _watch(self, service: S3Service) -> None:
        """Stand between the server and its verbs."""
        self._service = service
        answer = service.handle

        async def handle(request: Request) -> Response:
            began_s = time.perf_counter()
            self._under_way += 1
            try:
                response = await answer(request)
                self._asked.append(_seen(request, response, began_s))
            finally:
                self._under_way -= 1
            return response

        service.handle = handle  # type: ignore[method-assign]

    def _running(self) -> S3Service:
        if self._service is None:
            raise ClosedError("the S3 server is not running", hint="use it inside its with block")
        return self._service

    # -- what it was asked -------------------------------------------------------------------------

    def take(self) -> list[Asked]:
        """What was asked since this was called last; waits for requests that are under way."""
        end = time.monotonic() + QUIET_SECONDS_MAX
        while self._under_way and time.monotonic() < end:
            time.sleep(0.001)
        taken, self._asked = self._asked, []
        return taken

    def slow_down(self, latency_ms: float) -> None:
        """Let every request take so long from now on."""
        self._running().plan = FaultPlan(Faults(latency_ms=latency_ms))

    def fill(self, objects: Mapping[str, bytes], *, below: str) -> None:
        """Objects, past HTTP."""
        bucket = self._running().buckets.get(BUCKET)
        for key, data in objects.items():
            bucket.put(f"{below}/{key}", data, headers=())

    def empty(self) -> None:
        """Forget all objects: a listing takes longer the more there are."""
        buckets = self._running().buckets
        del buckets.by_name[BUCKET]
        buckets.create(BUCKET)

    def store(self, name: str) -> Store:
        """The store below a name, over HTTP."""
        options = {
            "aws_access_key_id": "siltstone",
            "aws_secret_access_key": "siltstone",
            "aws_region": "us-east-1",
            "aws_endpoint": f"http://127.0.0.1:{self._port}",
            "aws_allow_http": "true",
        }
        return ss.open_store(f"s3://{BUCKET}/{name}", options)


def _seen(request: Request, response: Response, began_s: float) -> Asked:
    return Asked(
        kind=_kind(request),
        key=request.path,
        sent_bytes=len(request.body),
        received_bytes=0 if request.method == "HEAD" else len(response.body),
        began_s=began_s,
        ended_s=time.perf_counter(),
    )


def _kind(request: Request) -> str:
    try:
        verb = route(request).verb.name
    except Refusal:
        return "other"
    if verb == "get":
        return RANGE if "range" in request.headers else GET
    if verb in {"put", "copy", "upload-part", "create-upload", "complete-upload"}:
        return CREATE if "if-none-match" in request.headers else PUT
    return {"head": HEAD, "list": LIST, "delete": DELETE, "delete-many": DELETE}.get(verb, "other")
