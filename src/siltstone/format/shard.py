"""The records of a shard's manifest, and of the entries of its WAL.

What must hold:
- An entry of the manifest holds the whole state of the shard: the last one is all that a reader needs.
- ``replay_from`` is half open: entries of the WAL before it are in fragments or in the table, and need not be there.
- Fragments of a shard are in the order of their generations; their positions never overlap.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from siltstone.format.names import Count, Label, Name  # noqa: TC001 - msgspec reads them at run time
from siltstone.format.packed import pack_json, unpack_json
from siltstone.format.records import Id, Position, Text, decode_json
from siltstone.format.table import Cursor, ShardFragment, WalPlace

ERROR_CHARACTERS_MAX = 1024


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """A fragment whose rows are in the table. Its object stays for a while, for those who read it."""

    name: Name
    dropped_ms: int


class ShardPin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a checkpoint needs of the shard: these fragments' objects, and the WAL from a cursor on."""

    replay_from: Cursor = Cursor()
    fragments: tuple[Name, ...] = ()


class ShardState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that a shard's manifest says."""

    epoch: Position = 0
    writer: Text = ""  # who claimed the epoch
    claimed_ms: int = 0
    replay_from: Cursor = Cursor()
    generation: Count = 0  # of the next memtable
    fragments: tuple[ShardFragment, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    once: tuple[Label, ...] = ()  # ids of puts before ``replay_from``
    batches: dict[Label, Count] = {}  # by stream: the last batch before ``replay_from``
    pins: dict[Id, ShardPin] = {}  # by checkpoint
    wal: WalPlace = WalPlace()
    closed: Cursor | None = None  # where the WAL ended when its last writer closed; None: there may be more
    sealed: bool = False  # no writer may open it: its rows go into other shards
    error: Annotated[str, msgspec.Meta(max_length=ERROR_CHARACTERS_MAX)] = ""  # the last one that its writer met


class WalHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What stands before the rows of a WAL entry."""

    rows: Count
    once: tuple[Label, ...] = ()
    batches: dict[Label, Count] = {}


def encode_state(state: ShardState) -> bytes:
    """The body of a manifest's entry."""
    return pack_json(msgspec.json.encode(state))


def decode_state(data: bytes, *, name: str) -> ShardState:
    """The other way."""
    return decode_json(unpack_json(data, name=name), ShardState, name)
