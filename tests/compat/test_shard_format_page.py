"""A reader made from docs/format.md alone reads the shards that siltstone writes, and the page names every field.

Everything between the two lines below uses the standard library, pyarrow, xxhash, and nothing but what the page says.
"""

from __future__ import annotations

import decimal
import json
import re
import struct
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

import siltstone as ss
from compat.test_format_page import read_log
from compat.test_table_format_page import read_body, read_table
from siltstone.format.rollup import Summary
from siltstone.format.shard import Dropped, ShardPin, ShardState, WalHeader
from siltstone.format.table import (
    Body,
    Change,
    Checkpoint,
    CloneOf,
    Counts,
    Cursor,
    Field,
    Fragment,
    Holder,
    KeptShard,
    Origin,
    Repeated,
    Schema,
    ShardFragment,
    Sharding,
    Vector,
    WalPlace,
    WalStore,
)
from siltstone.shard.route import shard_numbers

PAGE = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf-8")

# -- the reader ----------------------------------------------------------------------------------------------


def read_changes(root):
    """Section "Versions": schema, the cursors of shards, and how keys are spread."""
    schema, shards, sharding = None, {}, None
    for entry in read_log(root / "log")[2]:
        change = read_body(entry["body"])["change"]
        schema = change.get("schema") or schema
        sharding = change.get("sharding") or sharding
        for name, cursor in change.get("shards", {}).items():
            if cursor is None:
                del shards[name]
            else:
                shards[name] = cursor.get("position", 0)
    return schema, shards, sharding


def renamed(value, field):
    """Section "WAL": the parts of structs are named by their ids."""
    if field["type"] != "struct" or value is None:
        return value
    return {child["name"]: renamed(value[str(child["id"])], child) for child in field["children"]}


def read_entry(body, schema):
    """Section "WAL": (row, whether it is a tombstone) in order."""
    [length] = struct.unpack_from("<I", body)
    header = json.loads(body[4 : 4 + length])
    assert (4 + length) % 8 == 0
    assert body.endswith(bytes.fromhex("ffffffff00000000"))
    columns = pa.ipc.open_stream(body[4 + length :]).read_all().to_pydict()
    deleted = columns.get("_deleted") or [False] * header["rows"]
    rows = [{} for _ in range(header["rows"])]
    for field in schema["fields"]:
        values = columns.get(str(field["id"])) or [field.get("default")] * len(rows)
        for row, value in zip(rows, values, strict=True):
            row[field["name"]] = renamed(value, field)
    return list(zip(rows, deleted, strict=True))


def read_fragment(path, schema):
    """Section "Fragments of a shard": (position, row, whether it is a tombstone)."""
    table = pq.read_table(path)
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in table.schema]
    columns = dict(zip(ids, table.columns, strict=True))
    positions, deleted = columns[2147483646].to_pylist(), columns[2147483645].to_pylist()
    rows = [{} for _ in positions]
    for field in schema["fields"]:
        values = columns[field["id"]].to_pylist() if field["id"] in columns else [field.get("default")] * len(rows)
        for row, value in zip(rows, values, strict=True):
            row[field["name"]] = value
    return list(zip(positions, rows, deleted, strict=True))


def read_shard(root, schema, cursor):
    """Sections "Manifest" and "Reading a table with its shards": rows from the cursor on, oldest first."""
    if not root.exists():
        return []
    state = read_body([entry for entry in read_log(root / "manifest")[2] if entry["kind"] == "data"][-1]["body"])
    rows = []
    for one in state.get("fragments", []):
        found = read_fragment(root / f"data/{one['fragment']['name']}.parquet", schema)
        assert all(one["first"] <= position < one["until"] for position, _, _ in found)
        rows += [each for each in found if each[0] >= cursor]
    start = max(cursor, state.get("replay_from", {}).get("position", 0))
    for entry in read_log(root / "wal")[2]:
        if entry["position"] >= start and entry["kind"] == "data" and not entry["dead"]:
            rows += [(entry["position"], *each) for each in read_entry(entry["body"], schema)]
    return rows


def read_fresh(root):
    """Section "Reading a table with its shards": rows as dicts. (Nobody writes meanwhile.)"""
    schema, shards, _ = read_changes(root)
    key = [field["name"] for number in schema["key"] for field in schema["fields"] if field["id"] == number]
    rows = read_table(root)
    newest = {tuple(row[name] for name in key): row for row in rows}
    for name, cursor in shards.items():
        for _, row, deleted in sorted(read_shard(root / f"shards/{name}", schema, cursor), key=lambda each: each[0]):
            rows.append(row)
            newest[tuple(row[name] for name in key)] = None if deleted else row
    return [row for row in newest.values() if row is not None] if key else rows


def value_bytes(value, kind):
    """Section "Which shard": the bytes of a value."""
    if re.match("u?int|time32|time64|timestamp", kind):
        scale = {"timestamp[s]": 10**6, "timestamp[ms]": 10**3}.get(kind, 1)
        return (value * scale).to_bytes(8, "little", signed=value < 2**63)
    if kind.startswith("date32"):
        return value.to_bytes(4, "little", signed=True)
    if kind.startswith("decimal128"):
        size = 1
        while not -(1 << (8 * size - 1)) <= value < 1 << (8 * size - 1):
            size += 1
        return value.to_bytes(size, "big", signed=True)
    return value.encode() if isinstance(value, str) else value


def shard_of(values, kinds, count):
    """Section "Which shard": the number of a key's shard."""
    found = 42
    for value, kind in zip(values, kinds, strict=True):
        found = xxhash.xxh64_intdigest(value_bytes(value, kind), found)
    return (found - 2**64 if found >= 2**63 else found) % count


# -- the tests -----------------------------------------------------------------------------------------------


COLUMNS = pa.schema(
    [
        ("id", pa.int32()),
        ("name", pa.string()),
        ("place", pa.struct([("x", pa.int8()), ("in", pa.struct([("y", pa.string())]))])),
        ("tags", pa.list_(pa.string())),
    ]
)


def rows_of(*ids, name="a"):
    return [
        {"id": one, "name": f"{name}{one}", "place": {"x": one % 9, "in": {"y": name}}, "tags": [name] * (one % 3)}
        for one in ids
    ]


def titled(rows, stars):
    """Rows of the columns of later versions."""
    return [{"title": row.pop("name"), "stars": stars} | row for row in rows]


def in_order(rows):
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def flush(table, writer):
    """All rows into fragments."""
    for one in writer.writers:
        one.freeze()
        one.flush_memtables()
    assert all(one.fragments for one in table.shards())


def steps_of_a_keyed_table(table):
    """What is done to a table, up to each place where it is read."""
    writer = table.writer()
    writer.put(rows_of(*range(40)))
    yield
    writer.delete([3, 4, 1000])
    writer.put(rows_of(4, 5, 5, name="b"))
    flush(table, writer)
    writer.put(rows_of(5, 60, name="c"))
    yield
    table.merge_shards()
    yield
    writer.delete(list(range(20, 30)))
    flush(table, writer)
    writer.put(rows_of(25, 61, name="d"))
    writer.close()
    yield
    table.add_column("stars", pa.int16(), default=7)
    table.rename_column("name", "title")
    table.widen_column("id", pa.int64())
    yield
    with table.writer() as writer:
        writer.put(titled(rows_of(25, 62, 2**40, name="e"), 9))
        flush(table, writer)
        writer.delete([62])
        table.upsert(titled(rows_of(1, 60, name="f"), 1))
        yield
    table.split_shards(2)
    with table.writer() as writer:
        writer.put(titled(rows_of(2, 63, name="g"), 2))
        yield


def test_reader_of_the_page__keyed_table_with_shards__gives_the_same_rows(tmp_path):
    seen = set()
    with ss.create(tmp_path / "t", schema=COLUMNS, key="id", shards=3, sync=False) as table:
        for _ in steps_of_a_keyed_table(table):
            expected = in_order(table.scan(fresh=True).to_arrow().to_pylist())
            assert in_order(read_fresh(tmp_path / "t")) == expected
            seen.add(json.dumps(expected))
            check_places(tmp_path / "t")
    assert len(seen) == 6, "only the merge changes no row"


def check_places(root):
    """Every row is in the shard of its key."""
    schema, shards, sharding = read_changes(root)
    assert list(shards) == [f"{sharding['map']:04d}-{number:04d}" for number in range(sharding["count"])]
    for number, name in enumerate(shards):
        for _, row, _ in read_shard(root / f"shards/{name}", schema, 0):
            assert shard_of([row["id"]], ["int64"], sharding["count"]) == number


def test_reader_of_the_page__table_without_a_key__gives_the_same_rows(tmp_path):
    with ss.create(tmp_path / "t", schema=COLUMNS, sync=False) as table:
        table.append(rows_of(1, 2))
        for number, name in enumerate(["a", "worker_1-x", "0"]):
            with table.shard(name).writer() as writer:
                writer.put(rows_of(1, 2, 3, name=name))
                if number:
                    writer.freeze()
                    writer.flush_memtables()
                writer.put(rows_of(1, name="last"))
            expected = in_order(table.scan(fresh=True).to_arrow().to_pylist())
            assert len(expected) == 2 + 4 * (number + 1)
            assert in_order(read_fresh(tmp_path / "t")) == expected
            if number == 1:
                table.merge_shards()
        assert in_order(read_fresh(tmp_path / "t")) == expected
        assert read_changes(tmp_path / "t")[2] is None


# Values as the integers they are stored as; decimals unscaled.
KEYS = {
    "int8": (pa.int8(), [-128, -1, 0, 127]),
    "int32": (pa.int32(), [-(2**31), -1, 0, 7]),
    "int64": (pa.int64(), [-(2**63), -1, 0, 7, 2**63 - 1]),
    "uint16": (pa.uint16(), [0, 65_535]),
    "uint64": (pa.uint64(), [0, 7, 2**63, 2**64 - 1]),
    "timestamp[s]": (pa.timestamp("s"), [-14_182_940, 0, 14_182_940]),
    "timestamp[ms]": (pa.timestamp("ms"), [-14_182_940_000, 1]),
    "timestamp[us, tz=UTC]": (pa.timestamp("us", "UTC"), [-14_182_940_000_000, 1]),
    "timestamp[ns]": (pa.timestamp("ns"), [-14_182_940_000_000_001, 1]),
    "time32[s]": (pa.time32("s"), [0, 86_399]),
    "time64[ns]": (pa.time64("ns"), [0, 86_399_999_999_999]),
    "date32[day]": (pa.date32(), [-719_162, -1, 0, 20_000]),
    "string": (pa.string(), ["", "a", "gr\xf6\xdfer", "x" * 100, "\x00"]),
    "binary": (pa.binary(), [b"", b"\xff\x00", b"y" * 33]),
    "fixed_size_binary[3]": (pa.binary(3), [b"abc", b"\x00\x00\x00"]),
    "decimal128(10, 2)": (pa.decimal128(10, 2), [0, 1, -1, 127, 128, -128, -129, 10**9]),
    "decimal128(38, 4)": (pa.decimal128(38, 4), [0, -(2**64), 10**37, -(10**37), 255, 256]),
}


def column_of(kind, values):
    """Such values as a column."""
    if pa.types.is_decimal(kind):
        exact = decimal.Context(prec=40)
        return pa.array([exact.scaleb(decimal.Decimal(value), -kind.scale) for value in values], kind)
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return pa.array(values, kind)


@pytest.mark.parametrize("kind", KEYS)
def test_shard_numbers__keys_of_each_type__are_where_the_page_says(kind):
    values = KEYS[kind][1]
    keys = pa.table({"k": column_of(*KEYS[kind]), "n": pa.array(range(len(values)), pa.int32())})
    for count in (2, 7, 9999):
        assert shard_numbers(keys.select(["k"]), count).tolist() == [shard_of([one], [kind], count) for one in values]
        both = [shard_of([one, number], [kind, "int32"], count) for number, one in enumerate(values)]
        assert shard_numbers(keys, count).tolist() == both


# -- what the page names -------------------------------------------------------------------------------------


SECTIONS = {
    Change: "Versions", Body: "Versions", Repeated: "Versions", Counts: "Versions", Schema: "Versions",
    Field: "Versions", Fragment: "Fragments", Vector: "Deletion vectors", Summary: "Rollups", Cursor: "Shards",
    Sharding: "Versions", ShardState: "Manifest", ShardFragment: "Manifest", Dropped: "Manifest", WalHeader: "WAL",
    Checkpoint: "What is kept", KeptShard: "What is kept", Holder: "What is kept", Origin: "What is kept",
    CloneOf: "What is kept", WalStore: "What is kept", WalPlace: "Manifest", ShardPin: "Manifest",
}  # fmt: skip


@pytest.mark.parametrize("record", SECTIONS, ids=lambda record: record.__name__)
def test_page__fields_of_a_record__are_all_named_in_its_section(record):
    [section] = re.findall(rf"^##+ {SECTIONS[record]}\n(.*?)(?=^##* |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"`(\w+)`", section))
    assert {field.name for field in msgspec.structs.fields(record)} - named == set()
