"""Odd texts, in rows and in queries."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import siltstone as ss
from build_worlds import COVERAGES, SCHEMA, World, covered_table, found, ids
from siltstone import query
from siltstone.errors import InvalidInputError, SiltstoneError

HALF = "\ud800"  # of a pair of surrogates


@pytest.fixture(params=COVERAGES)
def table(request):
    return covered_table(request.param)


@pytest.mark.parametrize("text", [HALF, f"slow {HALF}", f'"slow {HALF}"', f"{HALF}*", f"{HALF}~", f"-{HALF}"])
def test_search__half_a_character__is_told(table, text):
    with pytest.raises(InvalidInputError):
        table.search("body", text)
    with pytest.raises(InvalidInputError):
        query.Match(text)


@pytest.mark.parametrize("text", ["slow\0", "\x7f\x1b[31m slow", "slow \U0001f40c", "s\u0301low", "\u202eslow", "SLOW"])
def test_search__odd_characters__words_are_found(table, text):
    assert sorted(ids(table.search("body", query.Match(text)))) == [1, 6]


def test_append__texts_that_are_no_utf8__never_come_to_an_index():
    table = World().create()
    table.create_text_index("body")
    offsets, data = pa.py_buffer(np.array([0, 5, 7], np.int32)), pa.py_buffer(b"slow\xffab")
    texts = pa.Array.from_buffers(pa.string(), 2, [None, offsets, data])
    rows = pa.table({"id": [1, 2], "body": texts, "stars": [1, 2]}, schema=SCHEMA)
    with pytest.raises(SiltstoneError):
        table.append(rows)
    assert table.count() == 0
    assert found(table, "slow") == []


def test_search__table_has_a_column_called_as_what_a_search_adds__is_told_unless_it_is_left_out():
    schema = pa.schema([("id", pa.int64()), ("body", pa.string()), ("_snippet", pa.int64())])
    table = ss.create(World().plain(), schema=schema, probe=False)
    table.append([{"id": 1, "body": "slow", "_snippet": 7}])
    with pytest.raises(InvalidInputError, match="_snippet"):
        table.search("body", "slow", snippets=True)
    assert ids(table.search("body", "slow", where="_snippet = 7")) == [1]
    rows = table.search("body", "slow", columns=["id"], where="_snippet = 7", snippets=True).to_arrow()
    assert rows.column("_snippet").to_pylist() == ["**slow**"]


def test_create_text_index__very_long_texts_and_tokens__are_indexed():
    table = World().create()
    texts = ["slow " * 20_000, "x" * 500_000, "y" * 255 + " slow", "y" * 256 + " slow", "é" * 128 + " slow"]
    table.append([{"id": number, "body": text, "stars": 0} for number, text in enumerate(texts)])
    before = found(table, "slow"), found(table, "y" * 255), found(table, "y" * 256)
    table.create_text_index("body")
    assert (found(table, "slow"), found(table, "y" * 255), found(table, "y" * 256)) == before
    assert [len(one) for one in before] == [4, 1, 0]
