"""A reader made from docs/format.md alone reads what siltstone writes, now and in format 1.

Everything between the two lines below uses the standard library only, and nothing but what the page says.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import struct
from pathlib import Path

import pytest

from compat.make_v1 import expected, write_all
from siltstone import open_commits, open_log
from siltstone.env import REAL
from siltstone.errors import UnsupportedFormatError

V1 = Path(__file__).parent / "v1"
LOGS = ("plain", "witnessed", "forked", "aborted")

# -- the reader ----------------------------------------------------------------------------------------------


def unwrap(data):
    """Section "The frame": header and body."""
    magic, version, header_length, body_length = struct.unpack_from("<4sB3xIQ", data)
    assert (magic, version) == (b"SLTS", 1)
    assert header_length <= 65536
    assert len(data) == 52 + header_length + body_length
    assert hashlib.sha256(data[:20] + data[52:]).digest() == data[20:52]
    return json.loads(data[52 : 52 + header_length]), data[52 + header_length :]


def published(path):
    """Section "Names": the object itself, or the only one below it."""
    if path.is_dir():
        [path] = [found for found in path.iterdir() if re.fullmatch("[0-9a-f]{32}", found.name)]
    return path.read_bytes() if path.exists() else None


def read_floor(root, genesis, log):
    """Section "Floor": the mark to begin at."""
    numbers = [int(path.name) for path in root.glob("floor/*") if re.fullmatch("[0-9]{20}", path.name)]
    if not numbers:
        return 0, 0, genesis
    floor, body = unwrap((root / f"floor/{max(numbers):020d}").read_bytes())
    assert (floor["log"], floor["position"], body) == (log, max(numbers), b"")
    return floor["position"], floor["epoch"], floor["digest"]


def read_log(root, known=()):
    """Section "Reading a log": (identity, mark of the floor, entries). ``known`` are features."""
    data = published(root / "identity")
    identity, body = unwrap(data)
    assert (identity["format"], identity["requires"], body) == (1, [], b"")
    genesis = hashlib.sha256(data).hexdigest()
    begin = position, epoch, prev = read_floor(root, genesis, identity["log"])
    entries = []
    while (data := published(root / f"entries/{position:020d}")) is not None:
        header, body = unwrap(data)
        assert header["format"] == 1
        assert set(header["requires"]) <= set(known)
        assert (header["log"], header["position"], header["prev"]) == (identity["log"], position, prev)
        prev = hashlib.sha256(data).hexdigest()
        entries.append({**header, "body": body, "digest": prev, "dead": header["epoch"] < epoch})
        position, epoch = position + 1, max(epoch, header["epoch"])
    assert read_floor(root, genesis, identity["log"]) == begin, "truncated meanwhile: begin again"
    return identity, begin, entries


# -- the tests -----------------------------------------------------------------------------------------------


@pytest.fixture(params=["written now", "v1"])
def directory(request, tmp_path):
    if request.param == "v1":
        shutil.copytree(V1, tmp_path, dirs_exist_ok=True)
    else:
        with contextlib.closing(open_commits(f"sqlite://{tmp_path}/claims.db")) as registry:
            write_all(tmp_path, REAL, registry)
    return tmp_path


@pytest.mark.parametrize("name", LOGS)
def test_read_log__by_the_page_alone__agrees_with_siltstone(directory, name):
    log = open_log(directory / name)
    identity, begin, entries = read_log(directory / name)
    theirs = list(log.entries())
    assert identity["log"] == log.identity.log
    assert begin == log.first()
    assert len(entries) == log.tip().position - begin[0] > 0
    for mine, entry in zip(entries, theirs, strict=True):
        assert mine["nonce"] == entry.nonce
        for field in ("position", "epoch", "op", "kind", "body", "prev", "digest", "writer", "time_ms", "dead"):
            assert mine[field] == getattr(entry, field)


@pytest.mark.parametrize("name", LOGS)
def test_read_log__one_bit_of_an_entry_changed__refuses(directory, name):
    root = directory / name
    _, _, entries = read_log(root)
    place = root / f"entries/{entries[-1]['position']:020d}"
    victim = next(place.iterdir()) if place.is_dir() else place
    data = bytearray(victim.read_bytes())
    data[60] ^= 1
    victim.write_bytes(data)
    with pytest.raises(AssertionError):
        read_log(root)


def test_read_log__abort_entry__names_the_lost_claim(directory):
    _, _, entries = read_log(directory / "aborted")
    assert [entry["kind"] for entry in entries] == ["data", "abort", "data"]
    closed = entries[1]
    body = json.loads(closed["body"])
    assert body["digest"] == "ab" * 32 == closed["op"] + closed["nonce"]
    assert body["staged"].startswith(f"staged/{1:020d}-")


def test_read_log__witnesses__are_the_entries_again(directory):
    root = directory / "witnessed"
    _, _, entries = read_log(root)
    for entry in entries:
        place = f"{entry['position']:020d}"
        assert published(root / "witness" / place) == published(root / "entries" / place)
        assert (root / "witness" / place / entry["nonce"]).exists()


def test_entries__logs_of_format_1__are_what_they_were():
    assert expected(V1) == json.loads((V1 / "expected.json").read_text())


@pytest.mark.parametrize(("name", "epoch"), [("plain", 7), ("witnessed", 0), ("forked", 2), ("aborted", 0)])
def test_add__to_a_log_of_format_1__continues_it(tmp_path, name, epoch):
    shutil.copytree(V1, tmp_path, dirs_exist_ok=True)
    external = name in {"forked", "aborted"}
    with open_log(tmp_path / name, commits=f"sqlite://{tmp_path}/claims.db" if external else None) as log:
        before = log.tip()
        assert log.add(b"today", epoch=epoch).position == before.position + 1
    identity, _, entries = read_log(tmp_path / name)
    assert entries[-1]["body"] == b"today"
    assert identity["log"] == json.loads((V1 / "expected.json").read_text())[name]["log"]


def test_page__worked_example__is_the_committed_entry():
    page = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
    dump = page.partition("$ xxd -g1 tests/compat/v1/plain/entries/")[2].partition("```")[0]
    rows = re.findall(r"^[0-9a-f]{8}: ((?:[0-9a-f]{2} )+)", dump, re.MULTILINE)
    assert bytes.fromhex("".join(rows)) == (V1 / "plain/entries/00000000000000000000").read_bytes()


def rewritten(path, **changes):
    """The object with some fields of its header changed, and a frame that fits."""
    header, body = unwrap(path.read_bytes())
    raw = json.dumps({**header, **changes}).encode()
    fixed = struct.pack("<4sB3xIQ", b"SLTS", 1, len(raw), len(body))
    path.write_bytes(fixed + hashlib.sha256(fixed + raw + body).digest() + raw + body)


@pytest.mark.parametrize("changes", [{"format": 2}, {"requires": ["weaving"]}])
@pytest.mark.parametrize("name", ["identity", "entries/00000000000000000004"])
def test_entries__written_by_a_newer_format__unsupported_and_not_corrupt(tmp_path, name, changes):
    shutil.copytree(V1 / "plain", tmp_path, dirs_exist_ok=True)
    rewritten(tmp_path / name, **changes)
    with pytest.raises(UnsupportedFormatError):
        list(open_log(tmp_path).entries())


def test_entries__fields_that_nobody_knows__are_ignored(tmp_path):
    shutil.copytree(V1 / "plain", tmp_path, dirs_exist_ok=True)
    rewritten(tmp_path / "entries/00000000000000000004", colour="grey")
    assert list(open_log(tmp_path).entries())[-1].body == "größer".encode()
    assert read_log(tmp_path)[2][-1]["colour"] == "grey"
