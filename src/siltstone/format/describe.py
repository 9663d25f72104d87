"""Any object of a log or a table, made readable for people.

What must hold: what an object is comes from its bytes; its name only says which part it plays, and a name that
contradicts the bytes is pointed out. Nothing is taken on trust: an object that does not decode is an error.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from siltstone import paths
from siltstone.errors import CorruptionError
from siltstone.format import frame
from siltstone.format.describe_text import describe_marker, describe_text_part, unpacked
from siltstone.format.parquet import parse_footer
from siltstone.format.records import decode_entry, decode_floor, decode_hint, decode_identity, decode_json
from siltstone.format.rollup import decode_rollup, from_columns
from siltstone.format.table import decode_change
from siltstone.format.vectors import VectorHeader, decode_vector
from siltstone.format.version import decode_version, spelled_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.format.parquet import Footer, Node
    from siltstone.format.records import Header

BODY_PREVIEW_BYTES = 4096
HEX_PREVIEW_BYTES = 256
PARTS_SHOWN = 10
COLUMNS_SHOWN = 100
_HEX_COLUMNS = 16
_FRAME_START = 52  # of a frame's header, behind the fixed part and the checksum
_PHYSICAL = ("boolean", "int32", "int64", "int96", "float", "double", "byte_array", "fixed_len_byte_array")


class Part(NamedTuple):
    """Which part an object plays, by its name; ``position`` is None where the name holds none."""

    role: str
    position: int | None = None
    nonce: str = ""


_UNKNOWN = Part("unknown")


def describe(data: bytes, *, name: str) -> dict[str, Any]:
    """What an object says, as a dictionary that JSON can hold.

    Keys: ``object``, ``kind`` (identity, entry, floor, hint, rollup, vectors, marker), ``role`` (by its name: also
    witness, lost, staged), ``bytes``, ``digest``, ``record``; of entries and rollups ``body``; of rollups, vectors and
    markers ``parts``, the first of the many things in them; ``doubts`` where name and bytes contradict each other.
    Raises CorruptionError for what is none of ours, UnsupportedFormatError for what a newer version wrote.
    """
    part = part_of(name)
    found: dict[str, Any] = {"object": name, "kind": "", "role": part.role, "bytes": len(data)}
    found["digest"] = frame.digest(data)
    if not data.startswith(frame.MAGIC):
        if part.role == "marker":
            return found | describe_marker(data, name=name)
        hint = decode_hint(data)
        if hint is None:
            # Says what is wrong with it as a frame, which everything but a hint is.
            frame.unwrap(data, name=name)
            raise CorruptionError(f"{name} is no object of siltstone", object=name)
        return found | {"kind": "hint", "record": msgspec.to_builtins(hint), "doubts": []}
    first, *others = _frames(data)
    fields = _fields(first, name)
    if "fragment" in fields and "deleted" in fields:
        return found | {"kind": "vectors", "doubts": []} | _vectors([first, *others], name)
    if others:
        frame.unwrap(data, name=name)  # says that it is longer than its frame
    if "summary_bytes" in fields:
        return found | {"kind": "rollup"} | _rollup(data, part, name)
    if "publish" in fields or "guard" in fields:
        return found | {
            "kind": "identity",
            "record": msgspec.to_builtins(decode_identity(data, name=name)),
            "doubts": [],
        }
    if "op" in fields or "nonce" in fields:
        header, body = decode_entry(data, name=name)
        doubts = _doubts(part, header.position, header.nonce if part.role in {"witness", "lost"} else "")
        record = msgspec.to_builtins(header)
        shown = _change(header, body) or describe_body(unpacked(body))
        return found | {"kind": "entry", "record": record, "body": shown, "doubts": doubts}
    floor = decode_floor(data, name=name)
    doubts = _doubts(part, floor.position, "")
    return found | {"kind": "floor", "record": msgspec.to_builtins(floor), "doubts": doubts}


def describe_fragment(footer: bytes, *, start: int, size: int, name: str) -> dict[str, Any]:
    """What the footer of a Parquet file says, in the same form; ``start`` is where it begins in the file's ``size``."""
    found = parse_footer(footer, start=start, name=name)
    columns = found.columns[:COLUMNS_SHOWN]
    return {
        "object": name,
        "kind": "fragment",
        "role": part_of(name).role,
        "bytes": size,
        "digest": None,  # of the whole file, which is not read
        "record": {
            "rows": sum(group.rows for group in found.groups),
            "row_groups": len(found.groups),
            "columns": len(found.columns),
        },
        "parts": {"columns": {"count": len(found.columns), "first": [_column(found, one) for one in columns]}},
        "doubts": [],
    }


def describe_part(tail: bytes, *, size: int, name: str) -> dict[str, Any]:
    """What the end of a part of a text index says, in the same form; ``tail`` is the last of its ``size`` bytes."""
    found = {"object": name, "kind": "", "role": part_of(name).role, "bytes": size, "digest": None}
    return found | describe_text_part(tail, name=name)


def _column(footer: Footer, node: Node) -> dict[str, Any]:
    chunks = [chunk for group in footer.groups for chunk in group.chunks[node.leaf : node.leaf + node.leaves]]
    kind = f"{node.leaves} parts" if node.children else _PHYSICAL[chunks[0].type] if chunks else ""
    nulls = [chunk.nulls for chunk in chunks]
    return {
        "id": node.id,
        "name": node.name,
        "type": kind,
        "bytes": sum(chunk.range.end - chunk.range.start for chunk in chunks),
        "nulls": None if node.children or None in nulls else sum(one for one in nulls if one is not None),
    }


def _frames(data: bytes) -> list[bytes]:
    """Frames one after another; where lengths make no sense, the last one is the rest."""
    found = []
    while len(data) > _FRAME_START:
        length = _FRAME_START + int.from_bytes(data[8:12], "little") + int.from_bytes(data[12:20], "little")
        if length >= len(data) or not data[length:].startswith(frame.MAGIC):
            break
        found.append(data[:length])
        data = data[length:]
    return [*found, data]


def _vectors(frames: list[bytes], name: str) -> dict[str, Any]:
    headers = []
    for one in frames:
        header = decode_json(frame.unwrap(one, name=name)[0], VectorHeader, name)
        decode_vector(one, expected=header, name=name)
        headers.append(header)
    shown = [msgspec.to_builtins(header) for header in headers[:PARTS_SHOWN]]
    return {
        "record": {"vectors": len(headers), "deleted": sum(header.deleted for header in headers)},
        "parts": {"vectors": {"count": len(headers), "first": shown}},
    }


def _rollup(data: bytes, part: Part, name: str) -> dict[str, Any]:
    rollup = decode_rollup(data, name=name)
    fragments = [
        {
            "name": live.fragment.name,
            "rows": live.fragment.rows,
            "bytes": live.fragment.bytes,
            "deleted": live.vector.rows if live.vector else 0,
        }
        for live in from_columns(rollup.fragments.slice(0, PARTS_SHOWN))
    ]
    versions = [
        {"version": rollup.header.since + number, "op": row["op"].hex(), "time_ms": row["time_ms"]}
        for number, row in enumerate(rollup.versions.slice(0, PARTS_SHOWN).to_pylist())
    ]
    summary = msgspec.to_builtins(rollup.summary)
    return {
        "record": msgspec.to_builtins(rollup.header),
        "body": {"form": "json", "bytes": rollup.header.summary_bytes, "whole": True, "value": summary},
        "parts": {
            "fragments": {"count": rollup.fragments.num_rows, "first": fragments},
            "versions": {"count": rollup.versions.num_rows, "first": versions},
        },
        "doubts": _doubts(part, rollup.header.position, ""),
    }


def _change(header: Header, body: bytes) -> dict[str, Any] | None:
    """The body of a table's version; None where it is none."""
    if header.kind != "data":
        return None
    name = f"version {header.position}"
    try:
        found, columns = decode_version(body, name=name)
        change = spelled_out(decode_change(found.change, name=name), columns)
        repeats = list(_repeats(header.position - len(found.before), found.before, name))
    except CorruptionError:
        return None
    value = {"change": msgspec.to_builtins(change), "repeats": repeats}
    return {"form": "change", "bytes": len(body), "whole": True, "value": value}


def _repeats(first: int, before: tuple[Any, ...], name: str) -> Iterator[dict[str, Any]]:
    for number, one in enumerate(before, first):
        raw = bytes(one.change)
        operation = "none" if raw == b"null" else decode_change(raw, name=name).operation
        yield {"version": number, "op": one.op, "operation": operation}


def part_of(name: str) -> Part:
    """Which part the object with this name plays, wherever the log's or the table's root is."""
    segments = name.split("/")
    table = _table_part(segments)
    if table is not None:
        return table
    if segments[-1] == paths.HINT:
        return Part("hint")
    if paths.parse_identity(name) is not None:
        return Part("identity")
    for length in (2, 3):
        root = "".join(f"{segment}/" for segment in segments[:-length])
        for role, parse in (
            ("entry", paths.parse_entry),
            ("witness", paths.parse_witness),
            ("lost", paths.parse_lost),
            ("staged", paths.parse_staged),
        ):
            parsed = parse(root, name)
            if parsed is not None:
                return Part(role, *parsed)
        floor = paths.parse_floor(root, name)
        if floor is not None:
            return Part("floor", floor)
    return _UNKNOWN


def _table_part(segments: list[str]) -> Part | None:
    folder, last = ["", *segments][-2:]
    position = paths.parse_rollup(f"{folder}/{last}")
    if position is not None:
        return Part("rollup", position)
    for inside, ending, role in ((paths.DATA, ".parquet", "fragment"), (paths.VECTORS, ".bits", "vectors")):
        if folder == inside and last.endswith(ending) and paths.parse_name(last.removesuffix(ending)) is not None:
            return Part(role)
    for length in (3, 4):
        build, rest = paths.parse_index("/".join(segments[-length:])) or ("", "")
        if build and rest == paths.MARKER:
            return Part("marker")
        if build and rest.endswith(".text"):
            return Part("staged" if rest.startswith(f"{paths.STAGING}/") else "part")
    return None


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
