"""Objects of a few kilobytes that unpack to gigabytes: a reader of 1 GiB refuses them by name, in our words."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import siltstone as ss
from security import bombs
from security.bombs import GIB, dictionary_file, packed_json, zstd
from security.forged import LIMIT, forge, forge_log, swap_fragment
from siltstone import paths
from siltstone.format import frame
from siltstone.format.frame import digest
from siltstone.format.packed import pack_json, unpack_json
from siltstone.format.shard import decode_state
from siltstone.format.table import Body
from siltstone.format.text import decode_marker, plain
from siltstone.format.text_part import summed
from siltstone.store.connect import open_store

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("body", pa.string())])
STORED_MAX = 1024 * 1024
ROWS_MANY = 90_000_000
JSON_BYTES = 400 * 1024 * 1024


def read(directory, call):
    """What a reader of 1 GiB says; a crash, or an error that is not ours, fails here."""
    command = [sys.executable, bombs.__file__, str(directory), call]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def refused(directory, call, name):
    told = read(directory, call)
    assert told.get("kind") in {"limit-exceeded", "corruption"}, told
    assert name in told["told"]


@pytest.fixture
def table(tmp_path):
    """Ten rows in one fragment; no larger than a few pages."""
    made = ss.create(tmp_path / "t", schema=SCHEMA, key="id", sync=False)
    made.append([{"id": number, "body": f"word {number}"} for number in range(10)])
    return made


def store_of(table):
    return open_store(table.uri, sync=False)


def stored(table):
    return sum(info.size for info in store_of(table).list())


def with_file(table, rows, **columns):
    """The table with another file: it has so many rows, all alike."""
    store = store_of(table)
    [info] = store.list(paths.DATA)
    kinds = pq.read_schema(pa.BufferReader(store.get(info.key)))
    swap_fragment(store, dictionary_file(kinds, rows, columns))
    forge(store, lambda _, text: text.replace(b'"rows":10', f'"rows":{rows}'.encode()))
    assert stored(table) < STORED_MAX


@pytest.mark.parametrize("call", ["batches", "get"])
def test_read__a_value_of_a_megabyte_in_each_row_said_once__is_refused(table, call):
    with_file(table, 4000, id=0, body="a" * 2**20)
    refused(table.uri.removeprefix("file://"), call, "data/")


def test_read__more_rows_than_fit_into_memory__is_refused(table):
    with_file(table, ROWS_MANY, id=0, body="a")
    refused(table.uri.removeprefix("file://"), "batches", "in good faith")


def test_open__a_version_of_400_mib_of_white_space__is_refused(table):
    def edit(position, body):
        text = body if body[:1] == b"{" else pytest.fail("it was packed before")
        return packed_json(text, JSON_BYTES) if position == 1 else text

    forge_log(store_of(table), edit, root=paths.LOG)
    assert stored(table) < STORED_MAX
    refused(table.uri.removeprefix("file://"), "open", "version 1")


def test_open__a_version_that_says_more_than_is_allowed__is_refused_before_it_is_unpacked(table):
    forge_log(store_of(table), lambda _, body: packed_json(body, 3 * GIB), root=paths.LOG)
    refused(table.uri.removeprefix("file://"), "open", "over the limit of 536870912")


def test_pack_json__more_than_a_reader_takes__stays_as_it_is():
    large = b"[" + b" " * (70 * 2**20) + b"]"
    assert pack_json(large) == large
    small = large[: 60 * 2**20 - 1] + b"]"
    assert len(pack_json(small)) < STORED_MAX
    assert unpack_json(pack_json(small), name="it") == small


def test_open__a_change_with_a_message_of_400_mib__is_refused(table):
    def edit(_, body):
        inner = msgspec.json.decode(body, type=Body)
        head = b'{"change":{"message":"'
        tail = b'",' + bytes(inner.change)[1:] + b"}"
        text = zstd(head, (b"x", JSON_BYTES - len(head) - len(tail)), tail)
        return bytes([0x5A]) + JSON_BYTES.to_bytes(8, "little") + text

    forge_log(store_of(table), edit, root=paths.LOG)
    refused(table.uri.removeprefix("file://"), "open", "version 1")


def with_columns(table, data, lengths):
    """The table with other bytes for the columns of its last version."""

    def edit(position, body):
        return struct.pack("<BQQ", 0x5B, *lengths) + data if position == 1 else body

    forge_log(store_of(table), edit, root=paths.LOG)
    assert stored(table) < STORED_MAX


SAID = b'{"change":{"operation":"clone"}}'


def test_open__columns_of_400_mib_of_zeros__are_refused(table):
    with_columns(table, zstd(SAID, (b"\0", JSON_BYTES)), (len(SAID), JSON_BYTES))
    refused(table.uri.removeprefix("file://"), "open", "version 1")


def test_open__columns_that_say_more_than_is_allowed__are_refused_before_they_are_unpacked(table):
    with_columns(table, zstd(SAID, (b"\0", 3 * GIB)), (len(SAID), 3 * GIB))
    refused(table.uri.removeprefix("file://"), "open", "says it holds")


def test_open__columns_that_are_compressed_once_more__are_refused_before_they_are_unpacked(table):
    rows = 2000
    stream = arrow_stream(pa.table({"name": ["a" * 500_000] * rows}), compression="zstd")
    with_columns(table, pa.compress(SAID + stream, "zstd", asbytes=True), (len(SAID), len(stream)))
    refused(table.uri.removeprefix("file://"), "open", "plain rows")


def test_open__a_rollup_of_two_gib__is_passed_over_and_the_log_is_read(tmp_path):
    made = ss.create(tmp_path / "t", schema=SCHEMA, key="id", sync=False)
    for number in range(40):
        made.set({"turn": str(number)})
    store = store_of(made)
    [info] = store.list(paths.ROLLUPS)
    header, _ = frame.unwrap(store.get(info.key), name="it")
    fields = {**json.loads(header), "summary_bytes": GIB, "fragments_bytes": GIB - 10, "versions_bytes": 10}
    store.put(info.key, frame.wrap(json.dumps(fields).encode(), zstd((b" ", 2 * GIB))))
    assert stored(made) < STORED_MAX
    assert read(tmp_path / "t", "open") == {"found": 0}


def sharded(tmp_path):
    made = ss.create(tmp_path / "t", schema=SCHEMA, key="id", shards=1, sync=False)
    with made.writer() as writer:
        writer.put([{"id": number, "body": "word"} for number in range(10)])
        root = paths.shard("0000-0000")
    return made, root


def test_fresh__a_shards_state_of_400_mib__is_refused(tmp_path):
    made, root = sharded(tmp_path)
    store = store_of(made)
    forge_log(
        store,
        lambda _, body: packed_json(msgspec.json.encode(decode_state(body, name="it")), JSON_BYTES),
        root=root + paths.MANIFEST,
    )
    refused(tmp_path / "t", "fresh", "manifest")


def arrow_stream(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def test_fresh__rows_of_a_wal_that_are_compressed__are_refused_before_they_are_unpacked(tmp_path):
    made, _root = sharded(tmp_path)
    rows = 2000
    columns = {"1": pa.array(range(rows)), "2": pa.array(["a" * 100_000] * rows)}
    stream = arrow_stream(pa.table(columns), compression="zstd")
    header = json.dumps({"rows": rows}).encode()
    header += b" " * (-(4 + len(header)) % 8)
    body = len(header).to_bytes(4, "little") + header + stream
    assert len(body) < STORED_MAX
    forge_log(store_of(made), lambda _, old: body if len(old) > 100 else old, root=paths.wal("0000-0000", 0))
    refused(tmp_path / "t", "fresh", "plain rows")


def indexed(tmp_path, change):
    """A table with a text index, whose marker and part were changed: ``change`` gets both and gives both."""
    made = ss.create(tmp_path / "t", schema=SCHEMA, key="id", sync=False)
    made.append([{"id": number, "body": f"word {number}"} for number in range(10)])
    made.create_text_index("body")
    store = store_of(made)
    [marker_key] = [info.key for info in store.list(paths.INDEXES) if info.key.endswith(paths.MARKER)]
    [part_key] = [info.key for info in store.list(paths.INDEXES) if "/part_" in info.key]
    old = store.get(marker_key, limit=LIMIT)
    marker = decode_marker(old, name="it")
    part, packed, text = change(marker, store.get(part_key, limit=LIMIT))
    store.put(part_key, part)
    store.put(marker_key, packed)

    def edit(_, said):
        said = said.replace(digest(plain(marker)).encode(), digest(text).encode())
        return said.replace(f'"bytes":{len(old)}'.encode(), f'"bytes":{len(packed)}'.encode())

    forge(store, edit)
    assert stored(made) < STORED_MAX


def with_part(marker, **fields):
    text = plain(msgspec.structs.replace(marker, parts=(msgspec.structs.replace(marker.parts[0], **fields),)))
    return text, text


def test_search__a_marker_of_400_mib__is_refused(tmp_path):
    def change(marker, part):
        text = plain(marker)
        large = text[:1] + b" " * (JSON_BYTES - len(text)) + text[1:]
        return part, packed_json(text, JSON_BYTES), large

    indexed(tmp_path, change)
    refused(tmp_path / "t", "search", "metadata")


def test_search__a_dictionary_page_of_three_gib__is_refused(tmp_path):
    def change(marker, part):
        page = (3 * GIB).to_bytes(4, "little") + zstd((b"\0", 3 * GIB))
        old = marker.parts[0].pages[0]
        new = msgspec.structs.replace(old, offset=len(part), length=len(page), check=summed(page))
        return (part + page, *with_part(marker, pages=(new,), bytes=len(part + page)))

    indexed(tmp_path, change)
    refused(tmp_path / "t", "search", "part_0_0.text")


def test_search__lengths_of_four_billion_documents__are_refused(tmp_path):
    def change(marker, part):
        piece = b"\1" + zstd((b"\1", 2**32 - 2))
        lengths = (len(part), len(piece), summed(piece))
        fields = {"documents": 2**32 - 2, "lengths": lengths, "bytes": len(part + piece)}
        return (part + piece, *with_part(marker, **fields))

    indexed(tmp_path, change)
    refused(tmp_path / "t", "search", "part_0_0.text")


def test_reader__of_a_table_that_is_all_right__has_memory_enough(table):
    table.create_text_index("body")
    directory = Path(table.uri.removeprefix("file://"))
    for call, found in (("scan", 10), ("search", 10)):
        assert read(directory, call) == {"found": found}
