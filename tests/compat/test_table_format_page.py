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
from siltstone.format.version import COLUMNS_FROM

# -- the reader ----------------------------------------------------------------------------------------------


def read_body(body):
    """Section "Versions": the JSON of an entry, and section "Columns": what it has besides."""
    if body[:1] == b"\x5b":
        length, more = struct.unpack_from("<QQ", body, 1)
        both = pa.decompress(body[17:], decompressed_size=length + more, codec="zstd", asbytes=True)
        return with_columns(json.loads(both[:length]), pa.ipc.open_stream(both[length:]).read_all().to_pylist())
    if body[:1] == b"\x5a":
        [length] = struct.unpack_from("<Q", body, 1)
        body = pa.decompress(body[9:], decompressed_size=length, codec="zstd", asbytes=True)
    return json.loads(body)


def with_columns(body, fragments):
    """Section "Columns": the same in JSON."""
    parts = ("name", "offset", "length", "rows")
    vectors = {
        one["name"]: dict(zip(parts, (one["vector"], *(one[f"vector_{part}"] for part in parts[1:])), strict=True))
        for one in fragments
        if one["vector"] is not None
    }
    change = body["change"]
    vectors = {name: vector for name, vector in vectors.items() if name not in change.get("unmask", [])}
    body["change"] = {**change, "add": change.get("add", []) + fragments, "mask": vectors | change.get("mask", {})}
    return body


def read_state(root, version=None):
    """Section "Versions": schema, fragments and vectors by fragment name."""
    schema, fragments, vectors = None, {}, {}
    _, _, entries = read_log(root / "log", known={"columns"})
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


def test_reader_of_the_page__a_clone_with_columns__names_the_same_fragments(tmp_path):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    with ss.create(tmp_path / "t", schema=schema, key="id", sync=False) as table:
        with table.transaction() as change:
            for n in range(COLUMNS_FROM + 1):
                change.append([{"id": 2 * n, "name": f"n{n}"}, {"id": 2 * n + 1, "name": "odd"}])
        table.delete("id in (3, 8, 9)")
        with table.clone(tmp_path / "clone", sync=False) as clone:
            clone.delete("id = 12")
            expected = clone.scan().to_arrow().sort_by("id").to_pylist()
    entries = read_log(tmp_path / "clone" / "log", known={"columns"})[2]
    assert [entry["requires"] for entry in entries] == [[], ["columns"], []]
    found, fragments, vectors = read_state(tmp_path / "clone")
    assert len(fragments) == COLUMNS_FROM
    assert len(vectors) == 2
    assert [field["name"] for field in found["fields"]] == ["id", "name"]
    # What is behind the @ is the number of the parent: here there is one other table.
    rows = []
    for name, fragment in fragments.items():
        file = pq.read_table(tmp_path / "t" / f"data/{name.partition('@')[0]}.parquet")
        assert file.num_rows == fragment["rows"]
        vector = vectors.get(name)
        whose = tmp_path / ("t" if vector and "@" in vector["name"] else "clone")
        gone = deleted(whose, {**vector, "name": vector["name"].partition("@")[0]}) if vector else set()
        rows += [row for number, row in enumerate(file.to_pylist()) if number not in gone]
    assert sorted(rows, key=lambda row: row["id"]) == expected
