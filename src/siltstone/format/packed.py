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
    try:
        plain = _zstd().decompress(data[_LENGTH.size :], decompressed_size=length, asbytes=True)
    except (OSError, ValueError) as error:
        raise CorruptionError(f"{name} can't be decompressed: {error}", object=name) from error
    except MemoryError as error:
        raise too_large(name) from error
    return plain


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
