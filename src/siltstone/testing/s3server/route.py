"""From an HTTP request to an S3 verb, a bucket and a key.

What must hold: a request that asks for something the server does not do is refused with 501, never half done. Keys are
taken as bytes of the path, decoded once; nothing in them is resolved or normalised.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, unquote_to_bytes
from xml.etree import ElementTree as ET

from siltstone.testing.s3server.faults import Subject
from siltstone.testing.s3server.http import chunk_size
from siltstone.testing.s3server.messages import Refusal
from siltstone.testing.s3server.objects import Condition

if TYPE_CHECKING:
    from siltstone.testing.s3server.faults import Right
    from siltstone.testing.s3server.messages import Request

KEY_BYTES_MAX = 1024
XML_BYTES_MAX = 8 * 1024 * 1024


class Verb(NamedTuple):
    """An S3 operation: its name in the statistics, the right it needs, whether it changes objects."""

    name: str
    right: Right
    mutates: bool = False


class Action(NamedTuple):
    """A request understood."""

    verb: Verb
    bucket: str
    key: str
    params: dict[str, str]
    request: Request
    body: bytes  # without aws-chunked framing

    @property
    def condition(self) -> Condition:
        """What the request asks to be true before it writes."""
        headers = self.request.headers
        return Condition(headers.get("if-none-match", ""), headers.get("if-match", ""))


LIST_BUCKETS = Verb("list-buckets", "list")
HEAD_BUCKET = Verb("head-bucket", "list")
CREATE_BUCKET = Verb("create-bucket", "put")
DELETE_BUCKET = Verb("delete-bucket", "delete")
LOCATION = Verb("location", "list")
LIST = Verb("list", "list")
DELETE_MANY = Verb("delete-many", "delete", mutates=True)
GET = Verb("get", "get")
HEAD = Verb("head", "get")
PUT = Verb("put", "put", mutates=True)
COPY = Verb("copy", "put", mutates=True)
DELETE = Verb("delete", "delete", mutates=True)
CREATE_UPLOAD = Verb("create-upload", "put", mutates=True)
UPLOAD_PART = Verb("upload-part", "put", mutates=True)
UPLOAD_PART_COPY = Verb("upload-part-copy", "put", mutates=True)
COMPLETE_UPLOAD = Verb("complete-upload", "put", mutates=True)
ABORT_UPLOAD = Verb("abort-upload", "delete", mutates=True)

_LIST_PARAMS = frozenset({"list-type", "prefix", "delimiter", "max-keys", "encoding-type"})
_V2_PARAMS = _LIST_PARAMS | {"continuation-token", "start-after", "fetch-owner"}
_V1_PARAMS = _LIST_PARAMS | {"marker"}
_NONE: frozenset[str] = frozenset()

# Method, and the parameter that picks the operation ("" without one): the verb, and every parameter it understands.
_SERVICE = {("GET", ""): (LIST_BUCKETS, _NONE)}
_BUCKET = {
    ("HEAD", ""): (HEAD_BUCKET, _NONE),
    ("PUT", ""): (CREATE_BUCKET, _NONE),
    ("DELETE", ""): (DELETE_BUCKET, _NONE),
    ("GET", "location"): (LOCATION, frozenset({"location"})),
    ("GET", "list-type"): (LIST, _V2_PARAMS),
    ("GET", ""): (LIST, _V1_PARAMS),
    ("POST", "delete"): (DELETE_MANY, frozenset({"delete"})),
}
_OBJECT = {
    ("GET", ""): (GET, _NONE),
    ("HEAD", ""): (HEAD, _NONE),
    ("PUT", ""): (PUT, _NONE),
    ("PUT", "copy"): (COPY, _NONE),
    ("DELETE", ""): (DELETE, _NONE),
    ("POST", "uploads"): (CREATE_UPLOAD, frozenset({"uploads"})),
    ("PUT", "uploadId"): (UPLOAD_PART, frozenset({"uploadId", "partNumber"})),
    ("PUT", "uploadId-copy"): (UPLOAD_PART_COPY, frozenset({"uploadId", "partNumber"})),
    ("POST", "uploadId"): (COMPLETE_UPLOAD, frozenset({"uploadId"})),
    ("DELETE", "uploadId"): (ABORT_UPLOAD, frozenset({"uploadId"})),
}
_PICKERS = ("uploadId", "uploads", "delete", "list-type", "location")


def route(request: Request) -> Action:
    """What a request asks for. Raises Refusal."""
    bucket, key = split_path(request.path)
    params = parse_query(request.query)
    table = _OBJECT if key else _BUCKET if bucket else _SERVICE
    picker = next((name for name in _PICKERS if name in params), "")
    if request.method == "PUT" and key and "x-amz-copy-source" in request.headers:
        picker = f"{picker}-copy" if picker else "copy"
    verb, known = table.get((request.method, picker), (None, _NONE))
    if verb is None or not params.keys() <= known:
        unknown = ", ".join(sorted(params.keys() - known)) or "no parameters"
        raise Refusal(501, "NotImplemented", f"{request.method} with {unknown} is not something this server does")
    return Action(verb, bucket, key, params, request, _payload(request))


def subject_of(action: Action) -> Subject:
    """What fault rules look at."""
    key = action.key
    if action.verb is DELETE_MANY:
        key = "\n".join(item.findtext("Key", "") for item in parse_xml(action.body, "Delete").iter("Object"))
    conditional = action.verb in {PUT, COPY, COMPLETE_UPLOAD} and bool(action.condition)
    return Subject(key, action.verb.right, action.verb.mutates, conditional)


def split_path(path: str) -> tuple[str, str]:
    """Bucket and key of a raw path; either may be ""."""
    if not path.startswith("/"):
        raise Refusal(400, "InvalidURI", "a path starts with a slash")
    bucket, _, key = path[1:].partition("/")
    return _decode(bucket), _decode(key)


def _decode(text: str) -> str:
    try:
        data = unquote_to_bytes(text.encode("latin-1"))
        decoded = data.decode()
    except UnicodeError:
        raise Refusal(400, "InvalidURI", "the path is not UTF-8") from None
    if len(data) > KEY_BYTES_MAX:
        raise Refusal(400, "KeyTooLongError", f"a key has at most {KEY_BYTES_MAX} bytes")
    return decoded


def parse_query(query: str) -> dict[str, str]:
    """Parameters of a raw query, without what only serves signing or tracing."""
    if not query:
        return {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:
        raise Refusal(400, "InvalidURI", "the query can't be read") from None
    return {name: value for name, value in pairs if name != "x-id" and not name.lower().startswith("x-amz-")}


def copy_source(request: Request) -> tuple[str, str]:
    """Bucket and key that a copy reads."""
    source, _, version = request.headers["x-amz-copy-source"].partition("?")
    if version:
        raise Refusal(501, "NotImplemented", "objects have no versions here")
    bucket, key = split_path("/" + source.removeprefix("/"))
    if not key:
        raise Refusal(400, "InvalidArgument", "x-amz-copy-source is bucket/key")
    return bucket, key


def _payload(request: Request) -> bytes:
    """The bytes meant, with aws-chunked framing removed and their digest checked where one came along."""
    body = request.body
    headers = request.headers
    streamed = headers.get("x-amz-content-sha256", "").startswith("STREAMING-")
    if streamed or "aws-chunked" in headers.get("content-encoding", ""):
        body = decode_aws_chunked(body)
        if headers.get("x-amz-decoded-content-length", str(len(body))) != str(len(body)):
            raise Refusal(400, "IncompleteBody", "the body is not as long as x-amz-decoded-content-length says")
    if "content-md5" in headers:
        try:
            wanted = base64.b64decode(headers["content-md5"], validate=True)
        except binascii.Error:
            raise Refusal(400, "InvalidDigest", "content-md5 is not base64") from None
        if wanted != hashlib.md5(body, usedforsecurity=False).digest():
            raise Refusal(400, "BadDigest", "content-md5 is not the digest of the body")
    return body


def decode_aws_chunked(framed: bytes) -> bytes:
    """The payload of an aws-chunked body; signatures and trailers are read over. Raises Refusal."""
    view = memoryview(framed)
    pieces: list[memoryview] = []
    at = 0
    while True:
        end = framed.find(b"\r\n", at)
        if end < 0:
            raise Refusal(400, "IncompleteBody", "an aws-chunked body ends without its last chunk")
        size = chunk_size(framed[at:end])
        if size == 0:
            return b"".join(pieces)
        at = end + 2 + size
        if framed[at : at + 2] != b"\r\n":
            raise Refusal(400, "IncompleteBody", "a chunk does not end where it says")
        pieces.append(view[end + 2 : at])
        at += 2


def parse_xml(body: bytes, root: str) -> ET.Element:
    """A small XML document with namespaces removed. Raises Refusal."""
    # No S3 request has a document type, and without one no entity can be declared, so nothing can expand.
    if len(body) > XML_BYTES_MAX or b"<!" in body:
        raise Refusal(400, "MalformedXML", "the document is too large or declares entities")
    try:
        tree = ET.fromstring(body)  # noqa: S314 - see above
    except (ET.ParseError, ValueError, LookupError):
        raise Refusal(400, "MalformedXML", "the body is not well-formed XML") from None
    for item in tree.iter():
        item.tag = item.tag.rpartition("}")[2]
    if tree.tag != root:
        raise Refusal(400, "MalformedXML", f"the document is a {tree.tag}, not a {root}")
    return tree
