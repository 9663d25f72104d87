"""A rollup: what the entries of a table's log from ``since`` up to ``position`` amount to, in one object.

What must hold:
- The state at ``since`` and a rollup give the state at ``position``, as the entries between them would.
- It names the digest of the entry before ``position``: a rollup of another history is told apart.
- Fragments are columns, not records: opening a table makes no Python object for each of them.

The frame's header is JSON (``RollupHeader``). The body is zstd over three parts, whose lengths the header gives:
JSON (``Summary``), an Arrow IPC stream of the fragments that were added, an Arrow IPC stream of versions.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.errors import CorruptionError
from siltstone.format import frame
from siltstone.format.names import NAME, Count, Label, Name
from siltstone.format.packed import expands_too_much
from siltstone.format.records import FORMAT, Digest, Id, Position, Text, check_format, decode_json
from siltstone.format.table import (
    Bounds,
    Checkpoint,
    CloneOf,
    Cursor,
    Fragment,
    Origin,
    OriginNumber,
    Schema,
    Sharding,
    ShardName,
    Vector,
    WalStore,
)
from siltstone.format.text import TextIndex  # noqa: TC001 - msgspec reads it at run time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROLLUP_BYTES_MAX = 2 * 1024 * 1024 * 1024
CHUNKS_MAX = 8  # joining many rows with few copies none of them
LOW, HIGH, NULLS = "low", "high", "nulls"

FRAGMENT_COLUMNS = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("sha256", pa.binary(32), nullable=False),
        pa.field("vector", pa.string()),
        pa.field("vector_offset", pa.int64()),
        pa.field("vector_length", pa.int64()),
        pa.field("vector_rows", pa.int64()),
    ]
)
VERSION_COLUMNS = pa.schema(
    [pa.field("op", pa.binary(16), nullable=False), pa.field("time_ms", pa.int64(), nullable=False)]
)


class RollupHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What a rollup says of itself."""

    format: int = FORMAT
    requires: tuple[Text, ...] = ()
    log: Id
    since: Position
    position: Position
    epoch: Position
    digest: Digest
    summary_bytes: Count
    fragments_bytes: Count
    versions_bytes: Count


class Summary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What changed besides added fragments."""

    schema: Schema
    remove: tuple[Name, ...] = ()
    mask: dict[Name, Vector] = {}
    unmask: tuple[Name, ...] = ()
    tags: dict[Label, Position | None] = {}
    settings: dict[Label, str | None] = {}
    once: dict[Label, Position] = {}  # the version that each id was applied in
    batches: dict[Label, Count] = {}  # the last batch of each stream that was applied
    shards: dict[ShardName, Cursor | None] = {}  # a shard may have gone and come again: its cursor may be lower
    sharding: Sharding | None = None  # where it changed
    floor: Position = 0
    checkpoints: dict[Label, Checkpoint | None] = {}
    origins: dict[OriginNumber, Origin | None] = {}
    clone: CloneOf | None = None
    wal: WalStore | None = None
    indexes: dict[Label, TextIndex | None] = {}
    dropped: bool = False
    born: Position = 0


class Rollup(NamedTuple):
    """A rollup's parts."""

    header: RollupHeader
    summary: Summary
    fragments: pa.Table
    versions: pa.Table


class Live(NamedTuple):
    """A fragment of a state, and the rows of it that are gone."""

    fragment: Fragment
    vector: Vector | None

    @property
    def rows(self) -> int:
        """How many rows are left."""
        return self.fragment.rows - (self.vector.rows if self.vector else 0)


def encode_rollup(
    summary: Summary,
    fragments: pa.Table,
    versions: pa.Table,
    *,
    log: str,
    since: int,
    position: int,
    epoch: int,
    digest: str,
) -> bytes:
    """A rollup's bytes."""
    parts = (msgspec.json.encode(summary), _to_ipc(fragments), _to_ipc(versions))
    header = RollupHeader(
        log=log,
        since=since,
        position=position,
        epoch=epoch,
        digest=digest,
        summary_bytes=len(parts[0]),
        fragments_bytes=len(parts[1]),
        versions_bytes=len(parts[2]),
    )
    packed = pa.Codec("zstd").compress(b"".join(parts), asbytes=True)
    return frame.wrap(msgspec.json.encode(header), bytes(packed))


def decode_rollup(data: bytes, *, name: str) -> Rollup:
    """A rollup from its bytes."""
    raw, packed = frame.unwrap(data, name=name)
    check_format(raw, name)
    header = decode_json(raw, RollupHeader, name)
    lengths = (header.summary_bytes, header.fragments_bytes, header.versions_bytes)
    total = sum(lengths)
    if total > ROLLUP_BYTES_MAX or header.since >= header.position or expands_too_much(len(packed), total):
        raise CorruptionError(f"{name} says that it holds {sum(lengths)} bytes from {header.since} on", object=name)
    try:
        plain = pa.Codec("zstd").decompress(packed, decompressed_size=sum(lengths))
        summary = plain.slice(0, lengths[0])
        fragments = pa.ipc.open_stream(plain.slice(lengths[0], lengths[1])).read_all()
        versions = pa.ipc.open_stream(plain.slice(lengths[0] + lengths[1], lengths[2])).read_all()
        fragments.validate(full=True)
        versions.validate(full=True)
    except (OSError, ValueError, MemoryError) as error:  # without it, the log is read: that takes no such piece
        raise CorruptionError(f"{name} can't be read: {error}", object=name) from error
    for table, wanted in ((fragments, FRAGMENT_COLUMNS), (versions, VERSION_COLUMNS)):
        check_columns(table, wanted, name=name)
    check_values(fragments, name=name)
    return Rollup(header, decode_json(summary.to_pybytes(), Summary, name), fragments, versions)


def check_columns(table: pa.Table, wanted: pa.Schema, *, name: str) -> None:
    """Raise CorruptionError unless a table has some columns."""
    if not set(wanted).issubset(table.schema):
        raise CorruptionError(f"{name} lacks columns; it has {', '.join(table.column_names)[:200]}", object=name)
    if any(table.column(field.name).null_count for field in wanted if not field.nullable):
        raise CorruptionError(f"{name} has nulls where there can be none", object=name)


def check_values(fragments: pa.Table, *, name: str) -> None:
    """What records of fragments would refuse."""
    vectors = fragments.filter(pc.is_valid(fragments.column("vector")))
    parts = [vectors.column(f"vector_{part}") for part in ("offset", "length", "rows")]
    names = pa.chunked_array([*fragments.column("name").chunks, *vectors.column("vector").chunks], pa.string())
    numbers = [fragments.column("rows"), fragments.column("bytes"), *parts]
    if (
        not pc.all(pc.match_substring_regex(names, NAME + r"\z"), min_count=0).as_py()
        or any(part.null_count for part in parts)
        or not all(pc.all(pc.greater_equal(one, 0), min_count=0).as_py() for one in numbers)
    ):
        raise CorruptionError(f"{name} has names or numbers that can't be", object=name)


def _to_ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue().to_pybytes())


# -- fragments as columns --------------------------------------------------------------------------


def to_columns(lives: Sequence[Live]) -> pa.Table:
    """Fragments as a table: one row each, with ``low.<id>``, ``high.<id>`` and ``nulls.<id>`` by field id."""
    vectors = [live.vector for live in lives]
    columns: dict[str, pa.Array] = {
        "name": pa.array([live.fragment.name for live in lives], pa.string()),
        "rows": pa.array([live.fragment.rows for live in lives], pa.int64()),
        "bytes": pa.array([live.fragment.bytes for live in lives], pa.int64()),
        "sha256": pa.array([bytes.fromhex(live.fragment.sha256) for live in lives], pa.binary(32)),
        "vector": pa.array([v.name if v else None for v in vectors], pa.string()),
        "vector_offset": pa.array([v.offset if v else None for v in vectors], pa.int64()),
        "vector_length": pa.array([v.length if v else None for v in vectors], pa.int64()),
        "vector_rows": pa.array([v.rows if v else None for v in vectors], pa.int64()),
    }
    ids = sorted({int(id_) for live in lives for id_ in live.fragment.bounds})
    fields = list(FRAGMENT_COLUMNS)
    for id_ in ids:
        bounds = [live.fragment.bounds.get(str(id_)) for live in lives]
        for part, values in (
            (LOW, [b.low if b else None for b in bounds]),
            (HIGH, [b.high if b else None for b in bounds]),
            (NULLS, [b.nulls if b else None for b in bounds]),
        ):
            array = _bounds_array(values)
            if array.type != pa.null():
                columns[f"{part}.{id_}"] = array
                fields.append(pa.field(f"{part}.{id_}", array.type))
    return pa.table(columns, schema=pa.schema(fields))


_BOUND_TYPES = (pa.int64(), pa.string(), pa.float64(), pa.null())


def _bounds_array(values: Sequence[object]) -> pa.Array:
    with contextlib.suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        array = pa.array(values)
        if array.type in _BOUND_TYPES:
            return array
    known = [value for value in values if value is not None]
    if not known:
        return pa.nulls(len(values))
    if all(isinstance(value, int) for value in known):
        # A bound that 64 bits can't hold is no bound.
        fitting = [v if isinstance(v, int) and -(2**63) <= v < 2**63 else None for v in values]
        return pa.array(fitting, pa.int64())
    if all(isinstance(value, str) for value in known):
        return pa.array(values, pa.string())
    return pa.array([float(v) if isinstance(v, int | float) else None for v in values], pa.float64())


def from_columns(table: pa.Table) -> list[Live]:
    """Records of the rows of such a table."""
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    ids = sorted({int(name.partition(".")[2]) for name in columns if name.startswith(f"{NULLS}.")})
    empty = [None] * table.num_rows
    lives = []
    for row in range(table.num_rows):
        bounds = {}
        for id_ in ids:
            nulls = columns[f"{NULLS}.{id_}"][row]
            if nulls is not None:
                low = columns.get(f"{LOW}.{id_}", empty)[row]
                high = columns.get(f"{HIGH}.{id_}", empty)[row]
                bounds[str(id_)] = Bounds(low, high, nulls)
        vector = columns["vector"][row]
        lives.append(
            Live(
                Fragment(
                    name=columns["name"][row],
                    rows=columns["rows"][row],
                    bytes=columns["bytes"][row],
                    sha256=columns["sha256"][row].hex(),
                    bounds=bounds,
                ),
                None
                if vector is None
                else Vector(
                    name=vector,
                    offset=columns["vector_offset"][row],
                    length=columns["vector_length"][row],
                    rows=columns["vector_rows"][row],
                ),
            )
        )
    return lives


def join_columns(tables: Iterable[pa.Table]) -> pa.Table:
    """Several such tables as one; a statistic that one lacks is null there."""
    joined = pa.concat_tables(list(tables), promote_options="permissive")
    return joined if joined.column(0).num_chunks <= CHUNKS_MAX else joined.combine_chunks()
