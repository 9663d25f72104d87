"""Listings of buckets and objects, as S3 writes them.

What must hold: pages joined by their continuation give every key once, in order, however the pages are cut.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from siltstone.testing.s3server.messages import XML_TYPE, Refusal, Response, document, element

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.testing.s3server.objects import Bucket, Buckets

PAGE_KEYS_MAX = 1000
_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def iso(seconds: float) -> str:
    """A time as S3 writes it in documents."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(seconds * 1000) % 1000:03d}Z"


def check_bucket_name(name: str) -> None:
    """Refuse names that S3 would not accept."""
    if _BUCKET_NAME.fullmatch(name) is None:
        raise Refusal(400, "InvalidBucketName", "a bucket has 3 to 63 small letters, digits, dots and hyphens")


def list_buckets(buckets: Buckets) -> Response:
    """Answer ListBuckets."""
    items = "".join(
        f"<Bucket>{element('Name', bucket.name)}{element('CreationDate', iso(bucket.created))}</Bucket>"
        for _, bucket in sorted(buckets.by_name.items())
    )
    owner = "<Owner><ID>siltstone</ID></Owner>"
    return Response(200, (XML_TYPE,), document("ListAllMyBucketsResult", f"{owner}<Buckets>{items}</Buckets>"))


def list_objects(bucket: Bucket, params: dict[str, str]) -> Response:
    """Answer ListObjects, version 1 or 2."""
    second = params.get("list-type") == "2"
    if "list-type" in params and not second:
        raise Refusal(400, "InvalidArgument", "list-type is 2")
    encoded = params.get("encoding-type", "")
    if encoded not in {"", "url"}:
        raise Refusal(400, "InvalidArgument", "encoding-type is url")
    write: Callable[[str], str] = (lambda text: quote(text, safe="/")) if encoded else str
    limit = _page_limit(params.get("max-keys", str(PAGE_KEYS_MAX)))
    prefix, delimiter = params.get("prefix", ""), params.get("delimiter", "")
    token = params.get("continuation-token", "")
    start = params.get("start-after" if second else "marker", "")
    after = _key_of_token(token) if token else start
    page = bucket.list(prefix=prefix, delimiter=delimiter, after=after, limit=limit)

    parts = [element("Name", bucket.name), element("Prefix", write(prefix)), element("MaxKeys", limit)]
    if delimiter:
        parts.append(element("Delimiter", write(delimiter)))
    if encoded:
        parts.append(element("EncodingType", encoded))
    parts.append(element("IsTruncated", "true" if page.resume else "false"))
    if second:
        parts.append(element("KeyCount", len(page.keys) + len(page.prefixes)))
        parts += [element("StartAfter", write(start))] if start else []
        parts += [element("ContinuationToken", token)] if token else []
        parts += [element("NextContinuationToken", _token_of(page.resume))] if page.resume else []
    else:
        parts.append(element("Marker", write(start)))
        parts += [element("NextMarker", write(page.resume))] if page.resume else []
    for key in page.keys:
        stored = bucket.objects[key]
        parts.append(
            f"<Contents>{element('Key', write(key))}{element('LastModified', iso(stored.modified))}"
            f"{element('ETag', stored.etag)}{element('Size', len(stored.body))}"
            "<StorageClass>STANDARD</StorageClass></Contents>"
        )
    parts += [f"<CommonPrefixes>{element('Prefix', write(rolled))}</CommonPrefixes>" for rolled in page.prefixes]
    return Response(200, (XML_TYPE,), document("ListBucketResult", "".join(parts)))


def _page_limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise Refusal(400, "InvalidArgument", "max-keys is a number")
    return min(int(text), PAGE_KEYS_MAX)


def _token_of(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode()).decode()


def _key_of_token(token: str) -> str:
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise Refusal(400, "InvalidArgument", "the continuation token is not one of ours") from None
