"""The bytes of one deletion vector: a frame whose body is a bit for each row of a fragment.

Bit ``n % 8`` of byte ``n // 8``, counted from the lowest, is set where row n is gone. The bits are compressed with
zstd; those behind the last row are zero. The header says which fragment they are of, its rows, and how many
are gone. An object ``vectors/<name>.bits`` is such frames one after another.

What must hold: a vector is taken only for the fragment, the rows and the number of deleted rows that the log names;
nothing is allocated for more bits than that fragment has rows.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import pyarrow as pa

from siltstone.errors import CorruptionError
from siltstone.format import frame
from siltstone.format.names import Name  # noqa: TC001 - msgspec reads it at run time
from siltstone.format.records import decode_json, too_large

ROWS_MAX = 2**31 - 1
_LEVEL = 1
_HEADER_BYTES_MAX = 512

Rows = Annotated[int, msgspec.Meta(ge=0, le=ROWS_MAX)]


class VectorHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What a vector says of itself."""

    fragment: Name
    rows: Rows  # of the fragment
    deleted: Rows


def bit_bytes(rows: int) -> int:
    """How many bytes the bits of so many rows take."""
    return (rows + 7) // 8


def vector_bytes_max(rows: int) -> int:
    """The most bytes that a vector for so many rows can have."""
    plain = bit_bytes(rows)
    return _HEADER_BYTES_MAX + plain + plain // 128 + 64  # zstd adds less than this to what it can't compress


def encode_vector(header: VectorHeader, bits: bytes) -> bytes:
    """A vector's frame."""
    packed = pa.Codec("zstd", _LEVEL).compress(bits, asbytes=True)
    return frame.wrap(msgspec.json.encode(header), packed)


def decode_vector(data: bytes, *, expected: VectorHeader, name: str) -> bytes:
    """The bits of the vector that is expected; ``name`` is what errors call the object."""
    raw, packed = frame.unwrap(data, name=name)
    found = decode_json(raw, VectorHeader, name)
    if found != expected:
        raise CorruptionError(
            f"{name} holds a vector of {found.deleted} deleted rows for the fragment {found.fragment} of {found.rows} "
            f"rows, the log names one of {expected.deleted} for {expected.fragment} of {expected.rows}",
            object=name,
        )
    length = bit_bytes(expected.rows)
    try:
        bits: bytes = pa.Codec("zstd").decompress(packed, decompressed_size=length, asbytes=True)
    except (OSError, ValueError) as error:
        raise CorruptionError(f"{name} can't be decompressed: {error}", object=name) from error
    except MemoryError as error:
        raise too_large(name) from error
    spare = 8 * length - expected.rows
    if len(bits) != length or (spare and bits[-1] >> (8 - spare)):
        raise CorruptionError(f"{name} has bits for rows that the fragment {expected.fragment} lacks", object=name)
    if int.from_bytes(bits, "little").bit_count() != expected.deleted:
        raise CorruptionError(f"{name} does not have the {expected.deleted} deleted rows that it says", object=name)
    return bits
