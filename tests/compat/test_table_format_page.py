"""A reader made from docs/format.md alone reads the tables that siltstone writes.

Everything between the two lines below uses the standard library, pyarrow, and nothing but what the page says.
"""

from __future__ import annotations

import json
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import siltstone as ss
from compat.test_format_page import read_log, unwrap

# -- the reader ----------------------------------------------------------------------------------------------


def read_body(body):
    """Section "Versions": the JSON of an entry."""
    if body[:1] == b"\x5a":
        [length] = struct.unpack_from("<Q", body, 1)
        body = pa.decompress(body[9:], decompressed_size=length, codec="zstd", asbytes=True)
    return json.loads(body)


def read_state(root, version=None):
    """Section "Versions": schema, fragments and vectors by fragment name."""
    schema, fragments, vectors = None, {}, {}
    _, _, entries = read_log(root / "log")
    for entry in entries:
        if version is not None and entry["position"] > version:
            break
        if entry.get("kind", "data") != "data" or entry["dead"]:
            continue
        change = read_body(entry["body"])["change"]
        for name in change.get("remove", []):
            del fragments[name]
            vectors.pop(name, None)
        for fragment in change.get("add", []):
            fragments[fragment["name"]] = fragment
        vectors |= change.get("mask", {})
        for name in change.get("unmask", []):
            del vectors[name]
        schema = change.get("schema") or schema
    return schema, fragments, vectors


def deleted(root, vector):
    """Section "Deletion vectors": row numbers."""
    data = (root / f"vectors/{vector['name']}.bits").read_bytes()
    header, body = unwrap(data[vector["offset"] : vector["offset"] + vector["length"]])
    bits = pa.decompress(body, decompressed_size=(header["rows"] + 7) // 8, codec="zstd", asbytes=True)
    return {row for row in range(header["rows"]) if bits[row // 8] >> (row % 8) & 1}


def read_table(root, version=None):
    """Section "Reading a table": rows as dicts."""
    schema, fragments, vectors = read_state(root, version)
    rows = []
    for name, fragment in fragments.items():
        file = pq.ParquetFile(root / f"data/{name}.parquet")
        names = {int(field.metadata[b"PARQUET:field_id"]): field.name for field in file.schema_arrow}
        gone = deleted(root, vectors[name]) if name in vectors else set()
        columns = file.read().to_pydict()
        assert file.metadata.num_rows == fragment["rows"]
        defaults = [field.get("default") for field in schema["fields"]]
        held = [columns.get(names.get(field["id"])) for field in schema["fields"]]
        rows += [
            {
                field["name"]: default if values is None else values[row]
                for field, values, default in zip(schema["fields"], held, defaults, strict=True)
            }
            for row in range(fragment["rows"])
            if row not in gone
        ]
    return rows


# -- the tests -----------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("stars", pa.int32())])
    with ss.create(tmp_path / "t", schema=schema, key="id", sync=False) as table:
        table.append([{"id": n, "name": f"n{n}", "stars": n % 5} for n in range(100)])
        table.upsert([{"id": n, "name": "new", "stars": 9} for n in range(90, 110)])
        table.delete("stars = 3")
        table.add_column("lang", pa.string(), default="en")
        table.rename_column("name", "title")
        table.widen_column("stars", pa.int64())
        table.append([{"id": 500, "title": "late", "stars": 2**40, "lang": "de"}])
        for n in range(20):  # long enough for packed bodies
            table.append([{"id": 1000 + n, "title": "x" * n, "stars": n, "lang": None}])
        table.compact()
        table.drop_column("lang")
        table.restore(version=9)
        yield table


@pytest.mark.parametrize("version", [0, 1, 2, 3, 6, 7, 9, 20, 28, 29, 30])
def test_reader_of_the_page__any_version__gives_the_same_rows(table, tmp_path, version):
    assert table.version == 30
    expected = table.at(version=version).scan().to_arrow().to_pylist()
    assert sorted(read_table(tmp_path / "t", version), key=lambda row: row["id"]) == sorted(
        expected, key=lambda row: row["id"]
    )
