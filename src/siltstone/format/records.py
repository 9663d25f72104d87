"""The records of a log, and their bytes.

What must hold:
- Every record is frozen and decodes strictly: a wrong type, a missing field or a number out of range
  is a CorruptionError that names the object; an unknown *required* feature is UnsupportedFormatError.
- Encoding the same record twice gives the same bytes.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

import msgspec

from siltstone.errors import CorruptionError, LimitExceededError, UnsupportedFormatError
from siltstone.format import frame

FORMAT = 1
COLUMNS = "columns"  # the body of a table's entry has fragments as columns
FEATURES = frozenset({COLUMNS})
TRUST_MS = 30_000
COMMITS_URI_MAX = 1024
BODY_BYTES_MAX = 48 * 1024 * 1024

T = TypeVar("T")
Position = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Id = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Text = Annotated[str, msgspec.Meta(max_length=256)]
Kind = Literal["data", "fence", "abort"]


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What a log is: its uuid, who decides its places, and how they are published and guarded."""

    format: int = FORMAT
    requires: tuple[Text, ...] = ()
    log: Id
    commits: Text = ""  # kind of the commit store; "" where the object store decides
    commits_identity: Text = ""
    commits_uri: Annotated[str, msgspec.Meta(max_length=COMMITS_URI_MAX)] = ""  # for people; cut where longer
    publish: Literal["create", "fork"] = "create"
    guard: Literal["receipt", "witness"] = "receipt"
    trust_ms: Annotated[int, msgspec.Meta(ge=0, le=86_400_000)] = TRUST_MS
    created_ms: int = 0
    home: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?\Z")] = ""  # digest of the place it was made at


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What an entry says of itself."""

    format: int = FORMAT
    requires: tuple[Text, ...] = ()
    log: Id
    position: Position
    epoch: Position
    op: Id
    nonce: Id
    prev: Digest
    kind: Kind = "data"
    writer: Text = ""
    time_ms: int = 0


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """The place below which entries may be gone, with what a reader needs to begin there."""

    log: Id
    position: Position
    epoch: Position
    digest: Digest


class Hint(msgspec.Struct, frozen=True, kw_only=True):
    """A position that was once the tip."""

    log: Id
    position: Position


def encode_identity(identity: Identity) -> bytes:
    """Identity to bytes."""
    return frame.wrap(msgspec.json.encode(identity), b"")


def decode_identity(data: bytes, *, name: str) -> Identity:
    """Bytes to identity."""
    header, body = frame.unwrap(data, name=name)
    _check_empty(body, name)
    check_format(header, name)
    return decode_json(header, Identity, name)


def encode_entry(header: Header, body: bytes) -> bytes:
    """An entry's bytes."""
    return frame.wrap(msgspec.json.encode(header), body)


def decode_entry(data: bytes, *, name: str, checked: bool = True) -> tuple[Header, bytes]:
    """An entry's header and body; unless ``checked``, its checksum is left to the caller."""
    raw, body = frame.unwrap(data, name=name) if checked else frame.take_apart(data, name=name)
    try:
        header = msgspec.json.decode(raw, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        check_format(raw, name)  # a newer format may well be unreadable
        return decode_json(raw, Header, name), body
    if header.format > FORMAT or header.requires:
        check_format(raw, name)
    return header, body


def encode_floor(floor: Floor) -> bytes:
    """Floor to bytes."""
    return frame.wrap(msgspec.json.encode(floor), b"")


def decode_floor(data: bytes, *, name: str) -> Floor:
    """Bytes to floor."""
    header, body = frame.unwrap(data, name=name)
    _check_empty(body, name)
    return decode_json(header, Floor, name)


def encode_hint(hint: Hint) -> bytes:
    """Hint to bytes."""
    return msgspec.json.encode(hint)


def decode_hint(data: bytes) -> Hint | None:
    """A hint, or None: a broken hint is as good as none."""
    try:
        return msgspec.json.decode(data, type=Hint)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class _Format(msgspec.Struct):
    format: int
    requires: tuple[str, ...] = ()


def check_format(raw: bytes, name: str) -> None:
    """A newer format is told apart from a broken object before anything else is asked of it."""
    found = decode_json(raw, _Format, name)
    missing = sorted(set(found.requires) - FEATURES)
    if found.format > FORMAT or missing:
        what = f"features {', '.join(missing)}" if missing else f"format {found.format}"
        raise UnsupportedFormatError(
            f"{name} needs {what}, this siltstone has format {FORMAT}", hint="upgrade siltstone", object=name
        )


def _check_empty(body: bytes, name: str) -> None:
    if body:
        raise CorruptionError(f"{name} has {len(body)} bytes after its record", object=name)


def decode_json(raw: bytes, kind: type[T], name: str) -> T:
    """JSON to a record; ``name`` is what errors call the object."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptionError(f"{name} can't be read: {error}", object=name) from error
    except MemoryError as error:
        raise too_large(name) from error


def too_large(name: str) -> LimitExceededError:
    """An object within our limits that this process has no memory for."""
    return LimitExceededError(
        f"{name} takes more memory than this process may use",
        hint="where you trust who wrote it, give the process more; a few bytes can be made to unpack to gigabytes",
        object=name,
    )
