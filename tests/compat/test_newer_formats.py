"""Objects of a format that is not here yet: each is refused by its name and its version, and never called damaged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from compat import make_v1_tables as v1
from security.forged import forge
from siltstone import paths
from siltstone.errors import UnsupportedFormatError
from siltstone.format import frame
from siltstone.format.text_part import decode_end
from siltstone.index.stored import decode_part
from siltstone.store.local import LocalStore

KEPT = Path(__file__).parent / "v1" / "tables"
SHARD = "shards/0000-0000"


@pytest.fixture
def directory(tmp_path):
    shutil.copytree(KEPT, tmp_path / "tables")
    return tmp_path / "tables"


def newest(directory, table, under):
    return max(one for one in (directory / table / under).rglob("*") if one.is_file())


def with_header(path, **changes):
    header, body = frame.unwrap(path.read_bytes(), name="it")
    path.write_bytes(frame.wrap(json.dumps({**json.loads(header), **changes}).encode(), body))


def with_frame(path, version):
    data = bytearray(path.read_bytes())
    data[4] = version
    path.write_bytes(data)


def scan(directory, name):
    v1.opened(directory, name).scan().to_arrow()


def fresh(directory, name):
    v1.opened(directory, name).scan(fresh=True).to_arrow()


# What is stored, where, and the call that reads it.
FRAMED = {
    "identity": ("keyed", "log/identity", scan),
    "version": ("keyed", "log/entries", scan),
    "vectors": ("keyed", "vectors", scan),
    "rollup": ("keyed", "rollups", scan),
    "manifest's identity": ("sharded", f"{SHARD}/manifest/identity", fresh),
    "manifest": ("sharded", f"{SHARD}/manifest/entries", fresh),
    "WAL's identity": ("sharded", f"{SHARD}/wal/identity", fresh),
    "WAL": ("sharded", f"{SHARD}/wal/entries", fresh),
    "WAL store": ("elsewhere-wal", "wal-store", None),
}
WITH_FORMAT = {name for name in FRAMED if name not in {"vectors", "WAL store"}}


def placed(directory, what):
    table, under, call = FRAMED[what]
    path = directory / table / under
    found = path if path.is_file() else newest(directory, table, under)
    if call is None:
        return found, lambda: fresh(directory, "elsewhere")
    return found, lambda: call(directory, table)


@pytest.mark.parametrize("what", FRAMED)
def test_read__a_newer_frame__is_refused_by_name_and_version(directory, what):
    path, call = placed(directory, what)
    with_frame(path, 2)
    with pytest.raises(UnsupportedFormatError, match=r"frame version 2.*upgrade siltstone") as caught:
        call()
    assert path.name[:20] in str(caught.value) or "version" in str(caught.value)


@pytest.mark.parametrize("what", sorted(WITH_FORMAT))
@pytest.mark.parametrize(("changes", "told"), [({"format": 2}, "format 2"), ({"requires": ["weaving"]}, "weaving")])
def test_read__a_newer_format_or_feature__is_refused_by_name_and_version(directory, what, changes, told):
    path, call = placed(directory, what)
    with_header(path, **changes)
    with pytest.raises(UnsupportedFormatError, match=rf"needs .*{told}.*upgrade siltstone"):
        call()


def test_decode__a_newer_part_of_an_index__is_refused_by_name_and_version(directory):
    [path, *_] = [one for one in (directory / "text" / "indexes").rglob("part_*.text") if "staging" not in one.parts]
    data = path.read_bytes()
    facts = decode_end(data, name="it")
    newer = data[:7] + b"2" + data[8:-1] + b"2"
    with pytest.raises(UnsupportedFormatError, match=r"it is a part of a text index of version 2.*upgrade siltstone"):
        decode_part(newer, facts, name="it")


def test_read__a_newer_plan_of_an_index__is_refused_by_name_and_version(directory):
    path = directory / "text" / paths.entry(paths.index_log(v1.unfinished(directory)), 0)
    with_header(path, format=2)
    with pytest.raises(UnsupportedFormatError, match=r"needs format 2.*upgrade siltstone"):
        v1.opened(directory, "text").index_build(v1.unfinished(directory)).missing()


def test_read__a_field_that_nobody_knows_yet__is_passed_over(directory):
    def edit(_, text):
        return text[:1] + b'"of_tomorrow":{"a":[1,null]},' + text[1:]

    for name in v1.TABLES:
        forge(LocalStore(directory / name, sync=False), edit)
        expected = json.loads((KEPT / "expected.json").read_text())[name]["rows"]
        assert v1.plain(v1.opened(directory, name).scan().to_arrow()) == expected
