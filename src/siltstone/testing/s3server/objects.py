"""The buckets' state, in memory.

What must hold:
- Every method is one step: nothing else runs between its check and its change (one event loop, no await inside).
- Keys are kept sorted by code point, which is S3's order of UTF-8 bytes.
- A stored object is never changed, only replaced.
"""

from __future__ import annotations

import bisect
import hashlib
import time
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from siltstone.testing.s3server.messages import Refusal


class StoredObject(NamedTuple):
    """One object as it was put."""

    body: bytes
    etag: str  # with its quotes, as it travels
    modified: float
    headers: tuple[tuple[str, str], ...]
    writes: int  # how often the key was written so far: above 1 means that something was replaced


class Condition(NamedTuple):
    """What a put asks to be true first; empty strings ask nothing."""

    if_none_match: str = ""
    if_match: str = ""

    def __bool__(self) -> bool:
        return bool(self.if_none_match or self.if_match)


class Page(NamedTuple):
    """One page of a listing; ``resume`` is where the next one starts, "" at the end."""

    keys: list[str]
    prefixes: list[str]
    resume: str


@dataclass
class Upload:
    """A multipart upload that is not complete."""

    key: str
    headers: tuple[tuple[str, str], ...]
    parts: dict[int, tuple[bytes, str]] = field(default_factory=dict)


def etag_of(body: bytes) -> str:
    """The ETag of an object put in one piece."""
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


def etag_matches(header: str, etag: str) -> bool:
    """Whether an If-Match or If-None-Match header names the ETag."""
    wanted = {item.strip().removeprefix("W/").strip('"') for item in header.split(",")}
    return "*" in wanted or etag.strip('"') in wanted


class Bucket:
    """Objects by key, and uploads under way."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.created = time.time()
        self.objects: dict[str, StoredObject] = {}
        self.uploads: dict[str, Upload] = {}
        self._keys: list[str] = []
        self._upload_ids = count(1)

    def get(self, key: str) -> StoredObject:
        """The object. Raises Refusal (NoSuchKey)."""
        found = self.objects.get(key)
        if found is None:
            raise Refusal(404, "NoSuchKey", f"the key {key!r} does not exist")
        return found

    def check(self, key: str, condition: Condition) -> None:
        """Raise Refusal where the condition does not hold now."""
        if condition.if_none_match and key in self.objects:
            raise Refusal(412, "PreconditionFailed", "If-None-Match: the object exists")
        if condition.if_match and not etag_matches(condition.if_match, self.get(key).etag):
            raise Refusal(412, "PreconditionFailed", "If-Match: the object has another ETag")

    def put(self, key: str, body: bytes, *, headers: tuple[tuple[str, str], ...], etag: str = "") -> StoredObject:
        """Store an object, replacing what is there."""
        earlier = self.objects.get(key)
        if earlier is None:
            bisect.insort(self._keys, key)
        writes = 1 if earlier is None else earlier.writes + 1
        stored = StoredObject(body, etag or etag_of(body), time.time(), headers, writes)
        self.objects[key] = stored
        return stored

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is no error."""
        if self.objects.pop(key, None) is not None:
            del self._keys[bisect.bisect_left(self._keys, key)]

    def list(self, *, prefix: str, delimiter: str, after: str, limit: int) -> Page:
        """One page of keys and rolled-up prefixes, in order, behind ``after`` (a key or a rolled-up prefix)."""
        keys: list[str] = []
        prefixes: list[str] = []
        at = max(bisect.bisect_left(self._keys, prefix), bisect.bisect_right(self._keys, after) if after else 0)
        last = ""
        while at < len(self._keys) and self._keys[at].startswith(prefix):
            key = self._keys[at]
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            rolled = key[: cut + len(delimiter)] if cut >= 0 else ""
            if not rolled or rolled != after:
                if len(keys) + len(prefixes) == limit:
                    return Page(keys, prefixes, last)
                (prefixes if rolled else keys).append(rolled or key)
                last = rolled or key
            at = self._end_of(rolled, at) if rolled else at + 1
        return Page(keys, prefixes, "")

    def _end_of(self, rolled: str, at: int) -> int:
        length = len(rolled)
        return bisect.bisect_right(self._keys, rolled, lo=at, key=lambda key: key[:length])

    def start_upload(self, key: str, headers: tuple[tuple[str, str], ...]) -> str:
        """Begin a multipart upload and name it."""
        upload_id = f"upload-{next(self._upload_ids):08d}"
        self.uploads[upload_id] = Upload(key, headers)
        return upload_id

    def upload(self, upload_id: str, key: str) -> Upload:
        """An upload under way. Raises Refusal (NoSuchUpload)."""
        upload = self.uploads.get(upload_id)
        if upload is None or upload.key != key:
            raise Refusal(404, "NoSuchUpload", "the upload does not exist, was completed or was aborted")
        return upload


class Buckets:
    """All buckets, by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Bucket] = {}

    def get(self, name: str) -> Bucket:
        """The bucket. Raises Refusal (NoSuchBucket)."""
        bucket = self.by_name.get(name)
        if bucket is None:
            raise Refusal(404, "NoSuchBucket", f"the bucket {name!r} does not exist")
        return bucket

    def create(self, name: str) -> None:
        """Make an empty bucket. Raises Refusal where it is there."""
        if name in self.by_name:
            raise Refusal(409, "BucketAlreadyOwnedByYou", f"the bucket {name!r} exists")
        self.by_name[name] = Bucket(name)

    def delete(self, name: str) -> None:
        """Remove an empty bucket. Raises Refusal."""
        if self.get(name).objects:
            raise Refusal(409, "BucketNotEmpty", f"the bucket {name!r} is not empty")
        del self.by_name[name]
