"""Texts that end in NUL, which numpy leaves out of a text that stands alone: keys, filters, changes."""

from __future__ import annotations

import pyarrow as pa
import pytest

import siltstone as ss
from siltstone.errors import DuplicateKeyError

TEXTS = ["a\0", "a\0\0", "a", "\0", "\0a", "a\0b", ""]
SCHEMA = pa.schema([pa.field("k", pa.string(), nullable=False), ("v", pa.int64())])
TWO = pa.schema([pa.field("n", pa.int64(), nullable=False), *SCHEMA])


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "table")


@pytest.mark.parametrize("text", TEXTS)
def test_append__a_key_that_ends_in_nul_twice__is_refused(uri, text):
    table = ss.create(uri, schema=SCHEMA, key="k")
    table.append([{"k": text, "v": 1}])
    with pytest.raises(DuplicateKeyError):
        table.append([{"k": text, "v": 2}])
    table.upsert([{"k": text, "v": 3}])
    assert table.scan().to_arrow().to_pylist() == [{"k": text, "v": 3}]
    assert table.get([text]).to_pylist() == [{"k": text, "v": 3}]


@pytest.mark.parametrize("text", TEXTS)
def test_upsert__one_part_of_a_key_ends_in_nul__leaves_one_row(uri, text):
    table = ss.create(uri, schema=TWO, key=["n", "k"])
    for value in range(3):
        table.upsert([{"n": 1, "k": text, "v": value}])
    assert table.scan().to_arrow().to_pylist() == [{"n": 1, "k": text, "v": 2}]


@pytest.mark.parametrize("text", TEXTS)
def test_merge__a_key_that_ends_in_nul_again_and_again__leaves_one_row(uri, text):
    table = ss.create(uri, schema=SCHEMA, key="k", shards=1)
    for value in range(3):
        with table.writer() as writer:
            writer.put([{"k": text, "v": value}])
        table.merge_shards()
    assert table.scan().to_arrow().to_pylist() == [{"k": text, "v": 2}]
    assert table.get([text], fresh=True).to_pylist() == [{"k": text, "v": 2}]


@pytest.mark.parametrize("operator", ["=", "<=", ">=", "<", ">", "<>"])
def test_filter__values_that_end_in_nul__are_those_that_python_finds(uri, operator):
    table = ss.create(uri, schema=SCHEMA)
    table.append([{"k": text, "v": number} for number, text in enumerate(TEXTS)])
    for number, text in enumerate(TEXTS):
        table.append([{"k": text, "v": len(TEXTS) + number}])  # a fragment each: its bounds are the value
    compare = {
        "=": str.__eq__, "<=": str.__le__, ">=": str.__ge__, "<": str.__lt__, ">": str.__gt__, "<>": str.__ne__,
    }[operator]  # fmt: skip
    for wanted, expression in (("a\0", "concat('a', chr(0))"), ("a\0\0", "concat('a', chr(0), chr(0))"), ("a", "'a'")):
        expected = 2 * sum(compare(text, wanted) for text in TEXTS)
        assert table.count(f"k {operator} {expression}") == expected
        found = table.sql(f"select v from t where k {operator} {expression}", t=table).to_arrow()
        assert len(found) == expected


def test_delete__values_that_end_in_nul__go(uri):
    table = ss.create(uri, schema=SCHEMA)
    for text in TEXTS:
        table.append([{"k": text, "v": 1}])
    table.delete("k = concat('a', chr(0))")
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == sorted(set(TEXTS) - {"a\0"})
