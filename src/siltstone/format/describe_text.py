"""Objects of text indexes, made readable for people: markers, parts, and what a build's log says.

What must hold: as for all that is described, what an object is comes from its bytes, and what does not decode is an
error. Of a part only the end is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from siltstone.errors import CorruptionError
from siltstone.format.packed import unpack_json
from siltstone.format.text import decode_marker
from siltstone.format.text_part import decode_end

if TYPE_CHECKING:
    from siltstone.format.text import Page, PartFile

SHOWN = 10


def describe_marker(data: bytes, *, name: str) -> dict[str, Any]:
    """What a marker says: ``kind``, ``record``, ``parts`` and ``doubts``."""
    marker = decode_marker(data, name=name)
    record = msgspec.to_builtins(marker)
    del record["parts"]
    doubts = [] if f"/{marker.build}/" in name else [f"its name says another build than its bytes: {marker.build}"]
    parts = [_part(one) for one in marker.parts[:SHOWN]]
    return {
        "kind": "marker",
        "record": record,
        "parts": {"parts": {"count": len(marker.parts), "first": parts}},
        "doubts": doubts,
    }


def describe_text_part(tail: bytes, *, name: str) -> dict[str, Any]:
    """The same of a part, by its last bytes."""
    facts = decode_end(tail, name=name)
    record = msgspec.to_builtins(facts)
    record.pop("pages", None)
    pages = [_page(one) for one in facts.pages[:SHOWN]]
    return {
        "kind": "part",
        "record": record,
        "parts": {"dictionary pages": {"count": len(facts.pages), "first": pages}},
        "doubts": [],
    }


def unpacked(body: bytes) -> bytes:
    """The JSON of a packed body; other bodies as they are."""
    try:
        return unpack_json(body, name="a body")
    except CorruptionError:
        return body


def _part(one: PartFile) -> dict[str, Any]:
    return {
        "name": one.name,
        "documents": one.documents,
        "tokens": one.tokens,
        "terms": one.terms,
        "bytes": one.bytes,
        "fragments": len({covered.name for covered in one.fragments}),
    }


def _page(one: Page) -> dict[str, Any]:
    return {"first": one.first.decode(errors="backslashreplace"), "offset": one.offset, "bytes": one.length}
