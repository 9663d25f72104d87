"""The control endpoints, below paths that no bucket can have.

What must hold: they are not subject to the faults, not counted, and show the state as it is.

``GET /_faults``, ``POST /_faults`` (change some fields), ``PUT /_faults`` (replace all), ``GET /_stats``,
``DELETE /_stats`` (start counting anew), ``GET /_objects``, ``GET /_object?bucket=b&key=k``,
``GET /_held?count=n&timeout_ms=t`` (waits for n held puts), ``POST /_release`` with ``{"match": "", "limit": n}``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from siltstone.testing.s3server.faults import UNLIMITED, FaultPlan, Faults
from siltstone.testing.s3server.messages import Refusal, Request, Response
from siltstone.testing.s3server.route import parse_query

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from siltstone.testing.s3server.s3 import S3Service

HELD_TIMEOUT_MS_MAX = 60_000


class Control:
    """Sends control requests to their handlers and all others to the S3 verbs."""

    def __init__(self, service: S3Service) -> None:
        self._service = service
        self._handlers: dict[tuple[str, str], Callable[[Request], Awaitable[Response]]] = {
            ("GET", "/_faults"): self._get_faults,
            ("POST", "/_faults"): self._change_faults,
            ("PUT", "/_faults"): self._replace_faults,
            ("GET", "/_stats"): self._get_stats,
            ("DELETE", "/_stats"): self._reset_stats,
            ("GET", "/_objects"): self._get_objects,
            ("GET", "/_object"): self._get_object,
            ("GET", "/_held"): self._wait_held,
            ("POST", "/_release"): self._release,
        }

    async def handle(self, request: Request) -> Response:
        """Answer any request."""
        if not request.path.startswith("/_"):
            return await self._service.handle(request)
        handler = self._handlers.get((request.method, request.path))
        if handler is None:
            return _json({"error": f"there is no control endpoint {request.method} {request.path}"}, status=404)
        try:
            return await handler(request)
        except ValueError as error:
            return _json({"error": str(error)}, status=400)
        except Refusal as refusal:
            return _json({"error": refusal.message}, status=refusal.status)

    async def _get_faults(self, _: Request) -> Response:
        return _json(self._service.plan.faults.to_json())

    async def _change_faults(self, request: Request) -> Response:
        self._service.plan = FaultPlan(self._service.plan.faults.changed(_fields(request)))
        return _json(self._service.plan.faults.to_json())

    async def _replace_faults(self, request: Request) -> Response:
        self._service.plan = FaultPlan(Faults().changed(_fields(request)))
        return _json(self._service.plan.faults.to_json())

    async def _get_stats(self, _: Request) -> Response:
        service = self._service
        counts = {
            "verbs": service.verb_counts,
            "statuses": service.status_counts,
            "conditional": service.condition_counts,
            "held": service.gate.keys,
        }
        return _json(counts)

    async def _reset_stats(self, _: Request) -> Response:
        for counts in (self._service.verb_counts, self._service.status_counts, self._service.condition_counts):
            counts.clear()
        return Response(204)

    async def _get_objects(self, _: Request) -> Response:
        facts = [
            {"bucket": name, "key": key, "size": len(stored.body), "etag": stored.etag, "writes": stored.writes}
            for name, bucket in sorted(self._service.buckets.by_name.items())
            for key, stored in sorted(bucket.objects.items())
        ]
        return _json(facts)

    async def _get_object(self, request: Request) -> Response:
        params = parse_query(request.query)
        stored = self._service.buckets.get(params.get("bucket", "")).get(params.get("key", ""))
        return Response(200, (("content-type", "application/octet-stream"),), stored.body)

    async def _wait_held(self, request: Request) -> Response:
        params = parse_query(request.query)
        count = int(params.get("count", "0"))
        timeout_ms = min(int(params.get("timeout_ms", "0")), HELD_TIMEOUT_MS_MAX)
        gate = self._service.gate
        try:
            return _json(await gate.wait_held(count=count, timeout_s=timeout_ms / 1000))
        except TimeoutError:
            message = f"{len(gate.keys)} puts are held after {timeout_ms} ms, not {count}: {gate.keys}"
            return _json({"error": message}, status=408)

    async def _release(self, request: Request) -> Response:
        fields = {"match": "", "limit": UNLIMITED} | _fields(request)
        if not isinstance(fields["match"], str) or not isinstance(fields["limit"], int):
            return _json({"error": "match is a string and limit a number"}, status=400)
        return _json(await self._service.gate.release(match=fields["match"], limit=fields["limit"]))


def _fields(request: Request) -> dict[str, Any]:
    fields = json.loads(request.body or b"{}")
    if not isinstance(fields, dict):
        raise ValueError("the body is a JSON object")  # noqa: TRY004 - answered as 400, like any bad value
    return fields


def _json(value: object, *, status: int = 200) -> Response:
    return Response(status, (("content-type", "application/json"),), json.dumps(value).encode())
