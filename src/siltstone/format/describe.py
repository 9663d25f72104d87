"""Any object of a log, made readable for people.

What must hold: what an object is comes from its bytes; its name only says which part it plays, and a name that
contradicts the bytes is pointed out. Nothing is taken on trust: an object that does not decode is an error.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec

from siltstone import paths
from siltstone.errors import CorruptionError
from siltstone.format import frame
from siltstone.format.records import decode_entry, decode_floor, decode_hint, decode_identity

BODY_PREVIEW_BYTES = 4096
HEX_PREVIEW_BYTES = 256
_HEX_COLUMNS = 16


class Part(NamedTuple):
    """Which part an object plays, by its name; ``position`` is None where the name holds none."""

    role: str
    position: int | None = None
    nonce: str = ""


_UNKNOWN = Part("unknown")


def describe(data: bytes, *, name: str) -> dict[str, Any]:
    """What an object says, as a dictionary that JSON can hold.

    Keys: ``object``, ``kind`` (identity, entry, floor, hint), ``role`` (by its name: also witness, staged),
    ``bytes``, ``digest``, ``record``; of entries ``body``; ``doubts`` where name and bytes contradict each other.
    Raises CorruptionError for what is none of ours, UnsupportedFormatError for what a newer version wrote.
    """
    part = part_of(name)
    found: dict[str, Any] = {"object": name, "kind": "", "role": part.role, "bytes": len(data)}
    found["digest"] = frame.digest(data)
    if not data.startswith(frame.MAGIC):
        hint = decode_hint(data)
        if hint is None:
            # Says what is wrong with it as a frame, which everything but a hint is.
            frame.unwrap(data, name=name)
            raise CorruptionError(f"{name} is no object of siltstone", object=name)
        return found | {"kind": "hint", "record": msgspec.to_builtins(hint), "doubts": []}
    fields = _fields(data, name)
    if "publish" in fields or "guard" in fields:
        return found | {
            "kind": "identity",
            "record": msgspec.to_builtins(decode_identity(data, name=name)),
            "doubts": [],
        }
    if "op" in fields or "nonce" in fields:
        header, body = decode_entry(data, name=name)
        doubts = _doubts(part, header.position, header.nonce if part.role == "witness" else "")
        record = msgspec.to_builtins(header)
        return found | {"kind": "entry", "record": record, "body": describe_body(body), "doubts": doubts}
    floor = decode_floor(data, name=name)
    doubts = _doubts(part, floor.position, "")
    return found | {"kind": "floor", "record": msgspec.to_builtins(floor), "doubts": doubts}


def part_of(name: str) -> Part:
    """Which part the object with this name plays, wherever the log's root is."""
    segments = name.split("/")
    if segments[-1] == paths.HINT:
        return Part("hint")
    if paths.parse_identity(name) is not None:
        return Part("identity")
    for length in (2, 3):
        root = "".join(f"{segment}/" for segment in segments[:-length])
        for role, parse in (
            ("entry", paths.parse_entry),
            ("witness", paths.parse_witness),
            ("staged", paths.parse_staged),
        ):
            parsed = parse(root, name)
            if parsed is not None:
                return Part(role, *parsed)
        floor = paths.parse_floor(root, name)
        if floor is not None:
            return Part("floor", floor)
    return _UNKNOWN


def describe_body(body: bytes) -> dict[str, Any]:
    """An entry's body: JSON, text, or the first bytes in hex."""
    if not body:
        return {"form": "empty", "bytes": 0, "whole": True}
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return _hex(body)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict | list):
        return {"form": "json", "bytes": len(body), "whole": True, "value": value}
    if not all(character.isprintable() or character in "\n\r\t" for character in text):
        return _hex(body)
    # Cut by characters: half of one would not be text.
    cut = text[:BODY_PREVIEW_BYTES]
    return {"form": "text", "bytes": len(body), "whole": cut == text, "value": cut}


def _hex(body: bytes) -> dict[str, Any]:
    shown = body[:HEX_PREVIEW_BYTES]
    return {"form": "hex", "bytes": len(body), "whole": shown == body, "value": shown.hex()}


def hex_lines(text: str) -> list[str]:
    """A hex dump: offset, bytes, characters."""
    data = bytes.fromhex(text)
    lines = []
    for start in range(0, len(data), _HEX_COLUMNS):
        row = data[start : start + _HEX_COLUMNS]
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<{_HEX_COLUMNS * 3 - 1}}  {shown}")
    return lines


def _fields(data: bytes, name: str) -> dict[str, Any]:
    header, _ = frame.unwrap(data, name=name)
    try:
        fields = msgspec.json.decode(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptionError(f"{name} can't be read: {error}", object=name) from error
    if not isinstance(fields, dict):
        raise CorruptionError(f"{name} has a header that is no JSON object", object=name)
    return fields


def _doubts(part: Part, position: int, nonce: str) -> list[str]:
    doubts = []
    if part.position is not None and part.position != position:
        doubts.append(f"its name says position {part.position}, its bytes say {position}")
    if nonce and part.nonce and part.nonce != nonce:
        doubts.append(f"its name says attempt {part.nonce}, its bytes say {nonce}")
    return doubts
