"""A clone whose fragments are columns, as the first siltstone that had them wrote it, is read and written to."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from compat import make_v1_columns as v1
from siltstone import paths
from siltstone.format.records import decode_entry

KEPT = Path(__file__).parent / "v1" / "columns"
EXPECTED = json.loads((KEPT / "expected.json").read_text())
BYTES_MAX = 30_000


@pytest.fixture
def directory(tmp_path):
    shutil.copytree(KEPT, tmp_path / "columns")
    return tmp_path / "columns"


def test_read__a_clone_with_columns__holds_what_it_held(directory):
    header, body = decode_entry((directory / v1.TABLES[1] / paths.entry(paths.LOG, 1)).read_bytes(), name="it")
    assert (header.requires, body[:1]) == (("columns",), b"\x5b")
    assert v1.held(directory) == EXPECTED


def test_write__to_a_clone_with_columns__continues_it(directory):
    table = v1.opened(directory)
    table.upsert([{"id": 2, "note": "newer"}, {"id": 900, "note": "new"}])
    expected = {one["id"]: one["note"] for one in EXPECTED["rows"]} | {2: "newer", 900: "new"}
    table.compact()
    table.gc(keep_days=0)
    found = v1.plain(v1.opened(directory).scan().to_arrow())
    assert {one["id"]: one["note"] for one in found} == expected


def test_kept_tables__are_small_and_name_no_machine():
    files = [path for path in KEPT.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < BYTES_MAX
    assert not any(b"file://" in path.read_bytes() for path in files)
