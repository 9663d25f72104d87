"""The S3 verbs, over the bucket state and under the fault plan.

What must hold:
- Without a lie, a condition is checked in the same step as the write, so exactly one of many creates wins.
- A lie breaks exactly what it names: "always" never looks, "check-then-put" looks once and writes later.
- Every request is counted once, under its verb and under the status its client saw (0: no answer).
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from email.utils import formatdate, parsedate_to_datetime
from itertools import count
from typing import TYPE_CHECKING

from siltstone.testing.s3server import listing
from siltstone.testing.s3server import route as verbs
from siltstone.testing.s3server.faults import FaultPlan, Faults
from siltstone.testing.s3server.gate import Gate
from siltstone.testing.s3server.messages import (
    NO_ANSWER,
    XML_TYPE,
    Refusal,
    Request,
    Response,
    document,
    element,
    refusal_response,
)
from siltstone.testing.s3server.objects import Buckets, StoredObject, etag_matches, etag_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from siltstone.testing.s3server.route import Action, Verb

PART_NUMBER_MAX = 10_000
DELETE_KEYS_MAX = 1000
_KEPT_HEADERS = ("content-type", "cache-control", "content-disposition", "content-language", "expires")
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


class S3Service:
    """One server's state and verbs."""

    def __init__(self, faults: Faults) -> None:
        self.buckets = Buckets()
        self.plan = FaultPlan(faults)
        self.gate = Gate()
        self.verb_counts: Counter[str] = Counter()
        self.status_counts: Counter[int] = Counter()
        self.condition_counts: Counter[str] = Counter()
        self._request_ids = count(1)
        self._handlers: dict[Verb, Callable[[Action], Response | Awaitable[Response]]] = {
            verbs.LIST_BUCKETS: lambda _: listing.list_buckets(self.buckets),
            verbs.LIST: lambda action: listing.list_objects(self.buckets.get(action.bucket), action.params),
            verbs.LOCATION: self._location,
            verbs.HEAD_BUCKET: self._head_bucket,
            verbs.CREATE_BUCKET: self._create_bucket,
            verbs.DELETE_BUCKET: self._delete_bucket,
            verbs.DELETE_MANY: self._delete_many,
            verbs.GET: self._get,
            verbs.HEAD: self._get,
            verbs.PUT: self._put,
            verbs.COPY: self._copy,
            verbs.DELETE: self._delete,
            verbs.CREATE_UPLOAD: self._create_upload,
            verbs.UPLOAD_PART: self._upload_part,
            verbs.UPLOAD_PART_COPY: self._upload_part_copy,
            verbs.COMPLETE_UPLOAD: self._complete_upload,
            verbs.ABORT_UPLOAD: self._abort_upload,
        }

    async def handle(self, request: Request) -> Response:
        """Answer one S3 request."""
        request_id = f"{next(self._request_ids):016X}"
        verb = "unknown"
        try:
            action = verbs.route(request)
            verb = action.verb.name
            response = await self._perform(action)
        except Refusal as refusal:
            response = refusal_response(refusal, resource=request.path, request_id=request_id)
        self.verb_counts[verb] += 1
        self.status_counts[response.status] += 1
        if response is NO_ANSWER:
            return response
        return response._replace(headers=(*response.headers, ("x-amz-request-id", request_id)))

    async def _perform(self, action: Action) -> Response:
        subject = verbs.subject_of(action)
        if delay_s := self.plan.delay_s(subject):
            await asyncio.sleep(delay_s)
        self.plan.refuse(subject)
        answer = self._handlers[action.verb](action)
        response = answer if isinstance(answer, Response) else await answer
        return self.plan.answer_after(subject, response)

    # -- buckets -------------------------------------------------------------------------------

    def _location(self, action: Action) -> Response:
        self.buckets.get(action.bucket)
        return Response(200, (XML_TYPE,), document("LocationConstraint", ""))

    def _head_bucket(self, action: Action) -> Response:
        self.buckets.get(action.bucket)
        return Response(200, (("x-amz-bucket-region", "us-east-1"),))

    def _create_bucket(self, action: Action) -> Response:
        listing.check_bucket_name(action.bucket)
        self.buckets.create(action.bucket)
        return Response(200, (("location", f"/{action.bucket}"),))

    def _delete_bucket(self, action: Action) -> Response:
        self.buckets.delete(action.bucket)
        return Response(204)

    def _delete_many(self, action: Action) -> Response:
        bucket = self.buckets.get(action.bucket)
        tree = verbs.parse_xml(action.body, "Delete")
        keys = [item.findtext("Key", "") for item in tree.iter("Object")]
        if not 1 <= len(keys) <= DELETE_KEYS_MAX or "" in keys:
            raise Refusal(400, "MalformedXML", f"a Delete names 1 to {DELETE_KEYS_MAX} keys")
        for key in keys:
            bucket.delete(key)
        quiet = tree.findtext("Quiet", "").strip().lower() == "true"
        deleted = "" if quiet else "".join(f"<Deleted>{element('Key', key)}</Deleted>" for key in keys)
        return Response(200, (XML_TYPE,), document("DeleteResult", deleted))

    # -- objects -------------------------------------------------------------------------------

    def _get(self, action: Action) -> Response:
        stored = self.buckets.get(action.bucket).get(action.key)
        headers = action.request.headers
        facts: tuple[tuple[str, str], ...] = (
            ("etag", stored.etag),
            ("last-modified", formatdate(stored.modified, usegmt=True)),
            ("accept-ranges", "bytes"),
        )
        if not _wanted(headers, stored):
            return Response(304, facts)
        facts = (*facts, *stored.headers)
        size = len(stored.body)
        chosen = _byte_range(headers.get("range", ""), size)
        start, end = chosen or (0, size)
        if chosen is None:
            return Response(200, facts, stored.body)
        return Response(206, (*facts, ("content-range", f"bytes {start}-{end - 1}/{size}")), stored.body[start:end])

    async def _put(self, action: Action) -> Response:
        stored = await self._write(action, action.body, _kept_headers(action.request))
        return Response(200, (("etag", stored.etag),))

    async def _copy(self, action: Action) -> Response:
        source = self._copied(action)
        replaces = action.request.headers.get("x-amz-metadata-directive", "COPY").upper() == "REPLACE"
        headers = _kept_headers(action.request) if replaces else source.headers
        stored = await self._write(action, source.body, headers)
        inner = element("LastModified", listing.iso(stored.modified)) + element("ETag", stored.etag)
        return Response(200, (XML_TYPE,), document("CopyObjectResult", inner))

    def _copied(self, action: Action) -> StoredObject:
        bucket, key = verbs.copy_source(action.request)
        source = self.buckets.get(bucket).get(key)
        wanted = action.request.headers.get("x-amz-copy-source-if-match", "*")
        unwanted = action.request.headers.get("x-amz-copy-source-if-none-match", "")
        if not etag_matches(wanted, source.etag) or (unwanted and etag_matches(unwanted, source.etag)):
            raise Refusal(412, "PreconditionFailed", "the source has another ETag")
        return source

    def _delete(self, action: Action) -> Response:
        self.buckets.get(action.bucket).delete(action.key)
        return Response(204)

    async def _write(
        self, action: Action, body: bytes, headers: tuple[tuple[str, str], ...], *, etag: str = ""
    ) -> StoredObject:
        """Store an object under the request's condition, as honestly as the faults allow."""
        bucket = self.buckets.get(action.bucket)
        condition = action.condition
        if condition.if_none_match not in {"", "*"}:
            raise Refusal(501, "NotImplemented", "If-None-Match on a write takes * only")
        hold = bool(self.plan.faults.hold) and self.plan.faults.hold in action.key
        lie = self.plan.next_lie() if condition else "always"
        if lie == "check-then-put":
            self._check(action)
            await asyncio.sleep(self.plan.faults.window_ms / 1000)
        async with self.gate.passing(action.key, hold=hold):
            if lie == "never":
                self._check(action)
            if condition:
                self.condition_counts["honoured" if lie == "never" else "ignored"] += 1
            if condition.if_none_match and lie != "never" and action.key in bucket.objects:
                self.condition_counts["overwrote"] += 1
            return bucket.put(action.key, body, headers=headers, etag=etag)

    def _check(self, action: Action) -> None:
        try:
            self.buckets.get(action.bucket).check(action.key, action.condition)
        except Refusal:
            self.condition_counts["honoured"] += 1
            self.condition_counts["refused"] += 1
            raise

    # -- multipart uploads ---------------------------------------------------------------------

    def _create_upload(self, action: Action) -> Response:
        upload_id = self.buckets.get(action.bucket).start_upload(action.key, _kept_headers(action.request))
        inner = element("Bucket", action.bucket) + element("Key", action.key) + element("UploadId", upload_id)
        return Response(200, (XML_TYPE,), document("InitiateMultipartUploadResult", inner))

    def _upload_part(self, action: Action) -> Response:
        return Response(200, (("etag", self._keep_part(action, action.body)),))

    def _upload_part_copy(self, action: Action) -> Response:
        source = self._copied(action)
        size = len(source.body)
        start, end = _byte_range(action.request.headers.get("x-amz-copy-source-range", ""), size) or (0, size)
        etag = self._keep_part(action, source.body[start:end])
        inner = element("LastModified", listing.iso(source.modified)) + element("ETag", etag)
        return Response(200, (XML_TYPE,), document("CopyPartResult", inner))

    def _keep_part(self, action: Action, body: bytes) -> str:
        upload = self.buckets.get(action.bucket).upload(action.params["uploadId"], action.key)
        number = action.params.get("partNumber", "")
        if not (number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= PART_NUMBER_MAX):
            raise Refusal(400, "InvalidArgument", f"partNumber is 1 to {PART_NUMBER_MAX}")
        etag = etag_of(body)
        upload.parts[int(number)] = (body, etag)
        return etag

    async def _complete_upload(self, action: Action) -> Response:
        bucket = self.buckets.get(action.bucket)
        upload_id = action.params["uploadId"]
        upload = bucket.upload(upload_id, action.key)
        parts = []
        last = 0
        for item in verbs.parse_xml(action.body, "CompleteMultipartUpload").iter("Part"):
            text = item.findtext("PartNumber", "").strip()
            number = int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else 0
            if number <= last:
                raise Refusal(400, "InvalidPartOrder", "parts are not in ascending order")
            last = number
            body, etag = upload.parts.get(number, (b"", ""))
            if not etag or not etag_matches(item.findtext("ETag", ""), etag):
                raise Refusal(400, "InvalidPart", f"part {number} was not uploaded, or has another ETag")
            parts.append((body, etag))
        if not parts:
            raise Refusal(400, "MalformedXML", "an upload has at least one part")
        digests = b"".join(bytes.fromhex(etag.strip('"')) for _, etag in parts)
        whole = f'"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"'
        stored = await self._write(action, b"".join(body for body, _ in parts), upload.headers, etag=whole)
        bucket.uploads.pop(upload_id, None)
        inner = (
            element("Location", f"/{action.bucket}/{action.key}")
            + element("Bucket", action.bucket)
            + element("Key", action.key)
            + element("ETag", stored.etag)
        )
        return Response(200, (XML_TYPE,), document("CompleteMultipartUploadResult", inner))

    def _abort_upload(self, action: Action) -> Response:
        bucket = self.buckets.get(action.bucket)
        bucket.upload(action.params["uploadId"], action.key)
        del bucket.uploads[action.params["uploadId"]]
        return Response(204)


def _kept_headers(request: Request) -> tuple[tuple[str, str], ...]:
    """The headers of a put that come back with every get."""
    headers = request.headers
    kept = [(name, headers[name]) for name in _KEPT_HEADERS if name in headers]
    kept += [(name, value) for name, value in headers.items() if name.startswith("x-amz-meta-")]
    codings = [item.strip() for item in headers.get("content-encoding", "").split(",")]
    if coding := ", ".join(item for item in codings if item not in {"", "aws-chunked"}):
        kept.append(("content-encoding", coding))
    if "content-type" not in headers:
        kept.append(("content-type", "binary/octet-stream"))
    return tuple(kept)


def _wanted(headers: dict[str, str], stored: StoredObject) -> bool:
    """Whether a conditional read is answered with the object (False: 304). Raises Refusal (412)."""
    modified = int(stored.modified)
    if "if-match" in headers:
        if not etag_matches(headers["if-match"], stored.etag):
            raise Refusal(412, "PreconditionFailed", "If-Match: the object has another ETag")
    elif "if-unmodified-since" in headers and modified > _seconds(headers["if-unmodified-since"]):
        raise Refusal(412, "PreconditionFailed", "If-Unmodified-Since: the object is newer")
    if "if-none-match" in headers:
        return not etag_matches(headers["if-none-match"], stored.etag)
    return "if-modified-since" not in headers or modified > _seconds(headers["if-modified-since"])


def _seconds(date: str) -> float:
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        raise Refusal(400, "InvalidArgument", "a date header can't be read") from None


def _byte_range(header: str, size: int) -> tuple[int, int] | None:
    """First byte and end of a single range; None where the header is none and is left aside. Raises Refusal (416)."""
    match = _RANGE.fullmatch(header)
    if match is None:
        return None
    first, last = match.groups()
    if first and last and int(last) < int(first):
        return None
    if first:
        start, end = int(first), min(size, int(last) + 1 if last else size)
    elif last:
        start, end = max(0, size - int(last)), size
    else:
        return None
    if start >= end:
        raise Refusal(416, "InvalidRange", f"the range is outside the object's {size} bytes")
    return start, end
