"""JSON of records, compressed where it is long."""

from __future__ import annotations

import importlib
import struct
from typing import Any

from siltstone.errors import CorruptionError, LimitExceededError
from siltstone.format.records import BODY_BYTES_MAX, too_large

PLAIN_BYTES_MAX = 1024  # longer bodies are compressed
JSON_BYTES_MAX = 512 * 1024 * 1024
EXPANDED_BYTES_FREE = 64 * 1024 * 1024  # so much may come of anything
EXPANSION_MAX = 128  # more than that only of what was made to; records are names, ids and digests, which are random

_LENGTH = struct.Struct("<BQ")
_COMPRESSED = 0x5A
_LENGTHS = struct.Struct("<BQQ")
_WITH_MORE = 0x5B


def pack_json(plain: bytes) -> bytes:
    """JSON as it stands in an object: as it is, or its length and zstd."""
    if len(plain) <= PLAIN_BYTES_MAX:
        return plain
    check_length(len(plain))  # what is read back is checked by its plain length
    packed = _LENGTH.pack(_COMPRESSED, len(plain)) + _zstd().compress(plain, asbytes=True)
    return plain if expands_too_much(len(packed), len(plain)) else packed


def unpack_json(data: bytes, *, name: str) -> bytes:
    """The other way; nothing is allocated for a length over ``JSON_BYTES_MAX``."""
    if data[:1] != bytes([_COMPRESSED]):
        return data
    if len(data) < _LENGTH.size:
        raise CorruptionError(f"{name} is cut", object=name)
    _, length = _LENGTH.unpack_from(data)
    if length > JSON_BYTES_MAX:
        raise CorruptionError(f"{name} says it holds {length} bytes, over the limit of {JSON_BYTES_MAX}", object=name)
    if expands_too_much(len(data), length):
        raise CorruptionError(f"{name} has {len(data)} bytes and says it holds {length}", object=name)
    plain: bytes = _decompressed(data[_LENGTH.size :], length, name=name, asbytes=True)
    return plain


def pack_with(plain: bytes, *more: Any) -> bytes:
    """JSON, and bytes that belong to it: the length of each, and zstd over both. The bytes begin at a multiple of 8."""
    plain += b" " * (-len(plain) % 8)
    both = b"".join((plain, *more))
    length = len(both)
    check_length(length)
    lengths = _LENGTHS.pack(_WITH_MORE, len(plain), length - len(plain))
    packed: bytes = lengths + _zstd().compress(both, asbytes=True)
    if expands_too_much(len(packed), length):
        raise LimitExceededError(f"{length} bytes would become {len(packed)}, and nobody would read them back")
    return packed


def has_more(data: bytes) -> bool:
    """Whether what stands in an object is JSON with bytes that belong to it."""
    return data[:1] == bytes([_WITH_MORE])


def unpack_with(data: bytes, *, name: str) -> tuple[bytes, Any]:
    """The JSON, and a buffer of the bytes that belong to it; bounded as ``unpack_json`` is."""
    if len(data) < _LENGTHS.size:
        raise CorruptionError(f"{name} is cut", object=name)
    _, plain, more = _LENGTHS.unpack_from(data)
    if plain + more > JSON_BYTES_MAX or expands_too_much(len(data), plain + more):
        raise CorruptionError(f"{name} has {len(data)} bytes and says it holds {plain + more}", object=name)
    both = _decompressed(data[_LENGTHS.size :], plain + more, name=name, asbytes=False)
    return both.slice(0, plain).to_pybytes(), both.slice(plain)


def _decompressed(data: bytes, length: int, *, name: str, asbytes: bool) -> Any:
    try:
        return _zstd().decompress(data, decompressed_size=length, asbytes=asbytes)
    except (OSError, ValueError) as error:
        raise CorruptionError(f"{name} can't be decompressed: {error}", object=name) from error
    except MemoryError as error:
        raise too_large(name) from error


def expands_too_much(packed: int, plain: int) -> bool:
    """Whether so few bytes would become so many that nobody wrote them in good faith."""
    return plain > EXPANDED_BYTES_FREE and plain > packed * EXPANSION_MAX


def _zstd() -> Any:
    # Loaded when it is needed: whoever looks into a log may meet no packed body.
    return importlib.import_module("pyarrow").Codec("zstd")


def check_length(length: int) -> None:
    """Refuse a change that no entry holds."""
    if length > JSON_BYTES_MAX or length > BODY_BYTES_MAX * 8:
        raise LimitExceededError(
            f"a change of {length} bytes is too large for one version", hint="commit it in several transactions"
        )
