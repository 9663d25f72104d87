"""The frame around every object whose cut or change must be seen.

Layout, little endian::

    offset  bytes  what
    0       4      magic "SLTS"
    4       1      frame version, 1
    5       3      zero
    8       4      h, length of the header
    12      8      b, length of the body
    20      32     SHA-256 over bytes 0 to 19, the header and the body
    52      h      header, JSON
    52+h    b      body, opaque

What must hold: any cut, growth or change of a framed object is refused; nothing is allocated on the
word of a length before that length was compared with the bytes that are there. ``take_apart`` leaves the
checksum to those who know by a digest which bytes these must be.
"""

from __future__ import annotations

import hashlib
import struct

from siltstone.errors import CorruptionError, UnsupportedFormatError

MAGIC = b"SLTS"
VERSION = 1
HEADER_BYTES_MAX = 64 * 1024
_FIXED = struct.Struct("<4sB3xIQ")
_START = _FIXED.size + 32


def digest(data: bytes) -> str:
    """SHA-256 of an object's whole bytes, in hex: what chains and claims name it by."""
    return hashlib.sha256(data).hexdigest()


def wrap(header: bytes, body: bytes) -> bytes:
    """A frame around a header and a body."""
    fixed = _FIXED.pack(MAGIC, VERSION, len(header), len(body))
    check = hashlib.sha256(fixed)
    check.update(header)
    check.update(body)
    return b"".join((fixed, check.digest(), header, body))


def unwrap(data: bytes, *, name: str) -> tuple[bytes, bytes]:
    """Header and body of a frame; ``name`` is what errors call the object."""
    parts = take_apart(data, name=name)
    check = hashlib.sha256(data[: _FIXED.size])
    check.update(memoryview(data)[_START:])
    if check.digest() != data[_FIXED.size : _START]:
        raise CorruptionError(f"{name} does not have the checksum that its frame says", object=name)
    return parts


def take_apart(data: bytes, *, name: str) -> tuple[bytes, bytes]:
    """The same without a look at the checksum."""
    if len(data) < _START:
        raise CorruptionError(f"{name} has {len(data)} bytes, a frame has at least {_START}", object=name)
    magic, version, header_length, body_length = _FIXED.unpack_from(data)
    if magic != MAGIC:
        raise CorruptionError(f"{name} does not begin with {MAGIC!r} but with {bytes(magic)!r}", object=name)
    if version != VERSION:
        raise UnsupportedFormatError(
            f"{name} has frame version {version}, this siltstone reads {VERSION}",
            hint="upgrade siltstone",
            object=name,
        )
    expected = _START + header_length + body_length
    if header_length > HEADER_BYTES_MAX or len(data) != expected:
        raise CorruptionError(f"{name} has {len(data)} bytes, its frame says {expected}", object=name)
    end = _START + header_length
    return data[_START:end], data[end:]
