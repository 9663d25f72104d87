"""The records of a table's log, and their bytes: changes, fragments, deletion vectors, schemas.

What must hold:
- Entry n of a table's log holds what version n changed, never the whole state.
- A record decodes strictly, like the records of a log; what it names is a name, never a path or a URI.
- An entry repeats the changes of the entries before it back to the last multiple of ``BLOCK``, so that a reader
  that fetches one entry of a block has them all. What it repeats carries its digest: the chain stays checkable.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from siltstone.errors import CorruptionError
from siltstone.format.names import Count, FieldId, Label, Name  # noqa: TC001 - msgspec reads them at run time
from siltstone.format.packed import check_length, has_more, pack_json, unpack_json, unpack_with
from siltstone.format.records import Digest, Id, Position, decode_json
from siltstone.format.text import TextIndex  # noqa: TC001 - msgspec reads it at run time

BLOCK = 8  # entries that are repeated together
REPEATED_BYTES_MAX = 16 * 1024
DEPTH_MAX = 32
SHARD_NAME = r"^[a-z0-9][a-z0-9_-]{0,63}\Z"
SHARDS_MAX = 9999

OriginNumber = Annotated[str, msgspec.Meta(pattern=r"^[1-9][0-9]{0,3}\Z")]
ShardName = Annotated[str, msgspec.Meta(pattern=SHARD_NAME)]
Operation = Literal[
    "create", "append", "overwrite", "delete", "update", "upsert", "compact", "schema", "tag", "settings", "restore",
    "merge", "split", "index", "checkpoint", "clone", "detach", "collect", "drop", "wal", "transaction",
]  # fmt: skip
Statistic = int | float | str | None


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


class ShardFragment(msgspec.Struct, frozen=True, kw_only=True):
    """A memtable that was flushed: rows of the positions from ``first`` to ``until - 1``, each key once.

    Its file is ``shards/<shard>/data/<name>.parquet``, and the number in its name is the generation. Beside the columns
    of the table it has ``_position`` and ``_deleted``.
    """

    fragment: Fragment
    generation: Count
    first: Position
    until: Position


class WalStore(msgspec.Struct, frozen=True, kw_only=True):
    """Another store that holds the WALs of shards: the id that it was given, and where it was, for people."""

    id: Id
    uri: str


class WalPlace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a WAL is: the one of the shard that begins at a position, in the table's own store or in another."""

    begins: Position = 0
    store: WalStore | None = None


class KeptShard(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What of a shard a checkpoint keeps: fragments, and the entries of its WAL from ``replay_from`` to ``until``."""

    replay_from: Cursor = Cursor()
    until: Cursor = Cursor()
    fragments: tuple[ShardFragment, ...] = ()
    wal: WalPlace = WalPlace()


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The clone that a checkpoint is kept for: its log's id, and where it is."""

    table: Id
    uri: str


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A promise to keep a version, and of shards what is not in it yet.

    ``pin`` is what its hold on shards is called in their manifests; while ``pending``, it is not known yet what
    that is. Times are of the store's clock.
    """

    version: Position
    pin: Id
    scope: Literal["all", "durable"] = "all"
    created_ms: int = 0
    expires_ms: int | None = None  # None: never
    pending: bool = False
    shards: dict[ShardName, KeptShard] = {}
    holder: Holder | None = None


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Another table whose objects this one names, and the version of it that it holds."""

    table: Id  # its log's
    uri: str  # without credentials
    version: Position


class CloneOf(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a clone was asked to be: a table, a version of it or a checkpoint, and a filter of rows."""

    table: Id
    uri: str
    version: Position  # where ``newest``, what was the newest one then; the pin has the one that was made
    newest: bool = False  # with all that was durable in shards
    checkpoint: str = ""
    pin: Id | Literal[""] = ""  # of the checkpoint: another one may get its name
    where: str = ""


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
    floor: Position | None = None  # versions below it are gone, but for those that are tagged or checkpointed
    checkpoints: dict[Label, Checkpoint | None] = {}  # None: it goes
    origins: dict[OriginNumber, Origin | None] = {}
    clone: CloneOf | None = None  # the table is to become a clone; it is none before its schema is there
    wal: WalStore | None = None
    indexes: dict[Label, TextIndex | None] = {}  # by name; None: it goes
    dropped: bool = False  # the table is gone from here on
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
    check_length(len(data))
    return data


def decode_change(data: bytes | msgspec.Raw, *, name: str) -> Change:
    """JSON to a change."""
    return decode_json(bytes(data), Change, name)


def encode_body(change: bytes, *, prev: str = "", before: tuple[Repeated, ...] = ()) -> bytes:
    """The body of an entry."""
    return pack_json(json_of_body(change, prev=prev, before=before))


def json_of_body(change: bytes, *, prev: str, before: tuple[Repeated, ...]) -> bytes:
    """The JSON of a body; repeats only as much as stays small."""
    if sum(len(bytes(one.change)) for one in before) > REPEATED_BYTES_MAX:
        prev, before = "", ()
    return msgspec.json.encode(Body(change=msgspec.Raw(change), prev=prev, before=before))


def decode_body(data: bytes, *, name: str) -> Body:
    """A body's records; the changes inside are decoded one by one, by whoever needs them.

    One that has columns is refused: what its change says is not all (``format.version``).
    """
    return decode_json(unpack_json(data, name=name), Body, name)


def is_body(data: bytes) -> bool:
    """Whether an entry's body is that of a table's version."""
    try:
        plain = unpack_with(data, name="an entry")[0] if has_more(data) else unpack_json(data, name="an entry")
        decode_json(plain, Body, "an entry")
    except CorruptionError:
        return False
    return True
