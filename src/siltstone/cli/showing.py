"""``show``: any object of siltstone, readable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siltstone import paths
from siltstone.cli.entries import time_text
from siltstone.cli.errors import DONE
from siltstone.cli.options import storage_options
from siltstone.cli.output import clean
from siltstone.errors import InvalidInputError, NotFoundError
from siltstone.format.describe import describe, describe_fragment, describe_part, hex_lines
from siltstone.format.parquet import MAGIC, TRAILER_BYTES, footer_start
from siltstone.format.rollup import ROLLUP_BYTES_MAX
from siltstone.format.text import MARKER_BYTES_MAX
from siltstone.format.text_part import MAGIC as PART_MAGIC
from siltstone.format.text_part import end_bytes
from siltstone.store.base import OBJECT_BYTES_MAX
from siltstone.store.connect import open_store
from siltstone.store.options import StoreUri, parse_uri

if TYPE_CHECKING:
    import argparse

    from siltstone.cli.output import Output
    from siltstone.store.base import Store

TAIL_BYTES = 64 * 1024


def run_show(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``show``."""
    place = parse_uri(arguments.object)
    folder, _, key = place.path.rpartition("/")
    if not key:
        raise InvalidInputError(f"{place} names no object", hint="name one, such as DIR/entries/00000000000000000000")
    if place.scheme == "file" and Path(place.path).is_dir():
        raise InvalidInputError(
            f"{place} is a directory", hint="name an object in it; `siltstone entries list` lists those of a log"
        )
    parent = str(StoreUri(place.scheme, place.bucket, folder or ("/" if place.scheme == "file" else "")))
    with open_store(parent, storage_options(arguments)) as store:
        found = _describe(store, key, name=str(place))
    output.result(found | {"body": found.get("body"), "parts": found.get("parts", {})})
    head = [(name, found[name]) for name in ("object", "kind", "role", "bytes", "digest") if found[name] is not None]
    output.fields([*head, *((f"  {name}", _shown(name, value)) for name, value in found["record"].items())])
    for doubt in found["doubts"]:
        output.line(output.paint(f"doubt: {clean(doubt)}", "yellow"))
    if "body" in found:
        _body(found["body"], output)
    for title, rows in found.get("parts", {}).items():
        _part(title, rows, output)
    return DONE


def _describe(store: Store, key: str, *, name: str) -> dict[str, Any]:
    info = store.head(key)
    if info is None:
        raise NotFoundError(f"there is no object {name}", hint="check the URI")
    start = store.get_ranges(key, [(0, min(len(PART_MAGIC), info.size))])[0] if info.size else b""
    if start == PART_MAGIC:
        tail = store.get_ranges(key, [(max(0, info.size - TAIL_BYTES), info.size)])[0]
        if len(tail) < end_bytes(tail) <= min(info.size, MARKER_BYTES_MAX):
            tail = store.get_ranges(key, [(info.size - end_bytes(tail), info.size)])[0]
        return describe_part(tail, size=info.size, name=name)
    if not start.startswith(MAGIC):
        return describe(store.get(key, limit=_limit(key)), name=name)
    # A fragment may be large, and all that is shown of it is at its end.
    at = max(0, info.size - TAIL_BYTES)
    tail = store.get_ranges(key, [(at, info.size)])[0]
    footer = footer_start(tail[-TRAILER_BYTES:], size=info.size, name=name)
    if footer < at:
        tail = store.get_ranges(key, [(footer, info.size)])[0]
        at = footer
    return describe_fragment(tail[footer - at :], start=footer, size=info.size, name=name)


def _limit(key: str) -> int:
    """How long an object may be: a rollup of a large table, or the marker of its index, is longer than any other."""
    long = {".arrow": ROLLUP_BYTES_MAX, paths.MARKER: MARKER_BYTES_MAX}
    return next((limit for ending, limit in long.items() if key.endswith(ending)), OBJECT_BYTES_MAX)


def _part(title: str, part: dict[str, Any], output: Output) -> None:
    """Some of many things of one kind, as a table."""
    rows = part["first"]
    more = "" if part["count"] == len(rows) else f", the first {len(rows)}"
    output.line(output.paint(f"{title} ({part['count']}{more})", "bold"))
    if rows:
        heads = list(rows[0])
        output.table(heads, [[_plain(row[head]) for head in heads] for row in rows])


def _plain(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else "" if value is None else value


def _shown(name: str, value: object) -> object:
    return f"{value} ({time_text(value)})" if name in {"time_ms", "created_ms"} and isinstance(value, int) else value


def _body(body: dict[str, Any], output: Output) -> None:
    part = "" if body["whole"] else ", beginning"
    output.line(output.paint(f"body ({body['form']}, {body['bytes']} bytes{part})", "bold"))
    if body["form"] in {"json", "change"}:
        output.line(clean(json.dumps(body["value"], indent=2, ensure_ascii=False), lines=True))
    elif body["form"] == "text":
        output.line(clean(body["value"], lines=True).removesuffix("\n"))
    elif body["form"] == "hex":
        for line in hex_lines(body["value"]):
            output.line(line)
