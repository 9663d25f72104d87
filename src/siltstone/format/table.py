"""The records of a table's log, and their bytes: changes, fragments, deletion vectors, schemas.

What must hold:
- Entry n of a table's log holds what version n changed, never the whole state.
- A record decodes strictly, like the records of a log; what it names is a name, never a path or a URI.
- An entry repeats the changes of the entries before it back to the last multiple of ``BLOCK``, so that a reader
  that fetches one entry of a block has them all. What it repeats carries its digest: the chain stays checkable.
"""

from __future__ import annotations

import importlib
import struct
from typing import Annotated, Any, Literal

import msgspec

from siltstone.errors import CorruptionError, LimitExceededError
from siltstone.format.records import BODY_BYTES_MAX, Digest, Id, Position, decode_json

BLOCK = 8  # entries that are repeated together
REPEATED_BYTES_MAX = 16 * 1024
PLAIN_BYTES_MAX = 1024  # longer bodies are compressed
JSON_BYTES_MAX = 512 * 1024 * 1024
DEPTH_MAX = 32
SHARD_NAME = r"^[a-z0-9][a-z0-9_-]{0,63}\Z"
SHARDS_MAX = 9999

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{20}-[0-9a-f]{32}\Z")]
FieldId = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Label = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
ShardName = Annotated[str, msgspec.Meta(pattern=SHARD_NAME)]
Operation = Literal[
    "create", "append", "overwrite", "delete", "update", "upsert", "compact", "schema", "tag", "settings", "restore",
    "merge", "split", "transaction",
]  # fmt: skip
Statistic = int | float | str | None

_LENGTH = struct.Struct("<BQ")
_COMPRESSED = 0x5A


class Field(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A column or a part of one. Its id is never used for another; names may change.

    ``type`` is what ``str`` of the Arrow type gives for a plain type; ``list``, ``struct``, ``map`` and
    ``fixed_size_list[n]`` have their parts in ``children``.
    """

    id: FieldId
    name: str
    type: str
    nullable: bool = True
    default: int | float | str | bool | None = None  # of rows in fragments from before the column was added
    optional: bool = False  # added later: rows may come without it
    children: tuple[Field, ...] = ()


class Schema(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of a table in order, its key, and the next field id."""

    fields: tuple[Field, ...]
    key: tuple[FieldId, ...] = ()
    next_id: FieldId


class Bounds(msgspec.Struct, frozen=True, array_like=True):
    """Statistics of one column of a fragment. ``low`` and ``high`` bound all values but null; None: not known."""

    low: Statistic
    high: Statistic
    nulls: Count


class Fragment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One Parquet file: ``data/<name>.parquet``. ``bounds`` is by field id, as text."""

    name: Name
    rows: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    bytes: Count
    sha256: Digest
    bounds: dict[str, Bounds] = {}


class Vector(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a fragment that are gone: a range of ``vectors/<name>.bits``."""

    name: Name
    offset: Count
    length: Count
    rows: Count  # how many are gone


class Cursor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A mark in a shard's WAL: what lies before it is done with. At position 0 the digest is left out."""

    position: Position = 0
    epoch: Position = 0
    digest: Digest | Literal[""] = ""


class Sharding(msgspec.Struct, frozen=True, kw_only=True):
    """How the keys of a table are spread: shard ``hash of the key modulo count``. ``map`` counts the splits."""

    count: Annotated[int, msgspec.Meta(ge=1, le=SHARDS_MAX)]
    map: Annotated[int, msgspec.Meta(ge=0, le=9999)] = 0


class Counts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an operation did to rows, for people."""

    inserted: Count = 0
    updated: Count = 0
    deleted: Count = 0


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one version changes. A fragment may be added and masked by the same change."""

    operation: Operation
    add: tuple[Fragment, ...] = ()
    remove: tuple[Name, ...] = ()
    mask: dict[Name, Vector] = {}  # by fragment; replaces the vector it had
    unmask: tuple[Name, ...] = ()  # fragments whose vector goes (restore)
    rewrite: bool = False  # the same rows in other files
    revives: bool = False  # rows that were gone may be back: an older vector, or an older fragment
    schema: Schema | None = None
    tags: dict[Label, Position | None] = {}  # None: the tag goes
    settings: dict[Label, str | None] = {}
    once: tuple[Label, ...] = ()
    batches: dict[Label, Count] = {}  # by stream: batches up to this one are applied
    shards: dict[ShardName, Cursor | None] = {}  # where each one is merged to; None: the shard goes
    sharding: Sharding | None = None
    counts: Counts = Counts()
    message: Annotated[str, msgspec.Meta(max_length=4096)] = ""


class Repeated(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An earlier entry of the block, as a later one repeats it. ``change`` is empty where it held none."""

    op: Id
    digest: Digest
    time_ms: int = 0
    change: msgspec.Raw = msgspec.Raw(b"null")


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of a table's entry. ``before`` is empty or reaches back to the start of the block."""

    change: msgspec.Raw
    prev: str = ""  # the digest before the first repeated entry
    before: tuple[Repeated, ...] = ()


def encode_change(change: Change) -> bytes:
    """A change as JSON."""
    data = msgspec.json.encode(change)
    _check_length(len(data))
    return data


def decode_change(data: bytes | msgspec.Raw, *, name: str) -> Change:
    """JSON to a change."""
    return decode_json(bytes(data), Change, name)


def encode_body(change: bytes, *, prev: str = "", before: tuple[Repeated, ...] = ()) -> bytes:
    """The body of an entry; repeats only as much as stays small."""
    if sum(len(bytes(one.change)) for one in before) > REPEATED_BYTES_MAX:
        prev, before = "", ()
    return pack_json(msgspec.json.encode(Body(change=msgspec.Raw(change), prev=prev, before=before)))


def decode_body(data: bytes, *, name: str) -> Body:
    """A body's records; the changes inside are decoded one by one, by whoever needs them."""
    return decode_json(unpack_json(data, name=name), Body, name)


def is_body(data: bytes) -> bool:
    """Whether an entry's body is that of a table's version."""
    try:
        decode_body(data, name="an entry")
    except CorruptionError:
        return False
    return True


def pack_json(plain: bytes) -> bytes:
    """JSON as it stands in an object: as it is, or its length and zstd."""
    if len(plain) <= PLAIN_BYTES_MAX:
        return plain
    packed = _LENGTH.pack(_COMPRESSED, len(plain)) + _zstd().compress(plain, asbytes=True)
    _check_length(len(packed))
    return packed


def unpack_json(data: bytes, *, name: str) -> bytes:
    """The other way; nothing is allocated for a length over ``JSON_BYTES_MAX``."""
    if data[:1] != bytes([_COMPRESSED]):
        return data
    if len(data) < _LENGTH.size:
        raise CorruptionError(f"{name} is cut", object=name)
    _, length = _LENGTH.unpack_from(data)
    if length > JSON_BYTES_MAX:
        raise CorruptionError(f"{name} says it holds {length} bytes, over the limit of {JSON_BYTES_MAX}", object=name)
    try:
        plain = _zstd().decompress(data[_LENGTH.size :], decompressed_size=length, asbytes=True)
    except (OSError, ValueError) as error:
        raise CorruptionError(f"{name} can't be decompressed: {error}", object=name) from error
    return plain


def _zstd() -> Any:
    # Loaded when it is needed: whoever looks into a log may meet no packed body.
    return importlib.import_module("pyarrow").Codec("zstd")


def _check_length(length: int) -> None:
    if length > JSON_BYTES_MAX or length > BODY_BYTES_MAX * 8:
        raise LimitExceededError(
            f"a change of {length} bytes is too large for one version", hint="commit it in several transactions"
        )
