"""Tables that are made with shards."""

from __future__ import annotations

import json
import uuid

import pyarrow as pa
import pytest

from bad_tables import NO_COUNT, told
from row_tables import numbered
from siltstone import paths
from siltstone.api import create_table, open_table
from siltstone.errors import AlreadyExistsError, InvalidInputError
from siltstone.format.table import Cursor, Sharding, decode_body
from siltstone.shard.config import ShardWriterConfig
from siltstone.store.connect import open_store

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("text", pa.string())])


def anywhere():
    return f"memory://{uuid.uuid4().hex}"


def first_change(table):
    entry = next(iter(table._log.entries()))
    return json.loads(bytes(decode_body(entry.body, name="entry").change))


@pytest.mark.parametrize("count", [1, 3, 9999])
def test_create__with_shards__the_first_version_names_them(count):
    with create_table(anywhere(), schema=COLUMNS, key="id", shards=count) as table:
        change = first_change(table)
        assert change["sharding"] == {"count": count, "map": 0}
        assert change["shards"] == {f"0000-{number:04d}": {} for number in range(count)}
        state = open_table(table._log.store)._now()
        assert state.sharding == Sharding(count=count)
        assert list(state.shards) == [paths.shard_name(0, number) for number in range(count)]
        assert set(state.shards.values()) == {Cursor()}
        table.append(numbered(1))
        assert table.count() == 1


def test_create__without_shards__says_nothing_of_them():
    with create_table(anywhere(), schema=COLUMNS, key="id") as table:
        assert first_change(table).keys() == {"operation", "schema"}
        assert (table._now().shards, table._now().sharding) == ({}, None)


@pytest.mark.parametrize(
    "config",
    [
        {"max_memtable_rows": "1000", "durable_write": "false"},
        ShardWriterConfig(max_memtable_rows=1000, durable_write=False),
    ],
    ids=["texts", "config"],
)
@pytest.mark.parametrize("key", [None, "id"])
def test_create__with_a_config_of_shards__it_is_kept_in_settings(key, config):
    with create_table(anywhere(), schema=COLUMNS, key=key, shard_config=config, settings={"owner": "me"}) as table:
        assert table.settings == {"owner": "me", "shard.max_memtable_rows": "1000", "shard.durable_write": "false"}


def test_create__no_number_of_shards__is_refused_and_nothing_is_made():
    for shards in (0, *NO_COUNT, 10_000, False, "3", 2.0):
        place = anywhere()
        with told(InvalidInputError, match="shards must be a whole number from 1 to 9999"):
            create_table(place, schema=COLUMNS, key="id", shards=shards)
        assert list(open_store(place).list()) == []


def test_create__shards_without_a_key__is_refused_with_what_there_is_instead():
    place = anywhere()
    with told(InvalidInputError, match=r"shards= spreads rows by their key.*open them with table\.shard\('name'\)"):
        create_table(place, schema=COLUMNS, shards=2)
    assert list(open_store(place).list()) == []


NO_CONFIG = [
    *(
        7,
        "x",
        [],
        [("durable_write", "true")],
        True,
        {7: "x"},
        {"nothing": "1"},
        {"": ""},
        {"shard.durable_write": "true"},
    ),
    *({"max_memtable_rows": bad} for bad in ["", "0", "-1", "many", "true", "9" * 30, 7, None, b"7", "x" * 5000]),
    *({"durable_write": bad} for bad in ["1", "yes", "TRUE", True, None]),
    *({"index_configs": bad} for bad in ["", "true", "7", ("a",)]),
    *(ShardWriterConfig(max_memtable_rows=0), ShardWriterConfig(index_configs=("a",))),
]


def test_create__bad_config_of_shards__is_refused_and_nothing_is_made():
    for config in NO_CONFIG:
        place = anywhere()
        with told(InvalidInputError):
            create_table(place, schema=COLUMNS, key="id", shards=2, shard_config=config)
        assert list(open_store(place).list()) == [], ascii(config)


def test_create__a_knob_that_is_a_setting_too__is_refused():
    with told(InvalidInputError, match="'shard.durable_write' is in settings= and in shard_config= too"):
        create_table(
            anywhere(),
            schema=COLUMNS,
            key="id",
            settings={"shard.durable_write": "true"},
            shard_config={"durable_write": "true"},
        )


@pytest.mark.parametrize(("there", "asked", "words"), [(2, 3, "2 shards"), (None, 3, "no shards")])
def test_create__a_table_with_other_shards_is_there__is_refused(there, asked, words):
    place = anywhere()
    create_table(place, schema=COLUMNS, key="id", shards=there)
    with told(AlreadyExistsError, match=f"there is a table with {words} at"):
        create_table(place, schema=COLUMNS, key="id", shards=asked, exist_ok=True)
    with told(AlreadyExistsError, match="already"):
        create_table(place, schema=COLUMNS, key="id", shards=there)


def test_create__a_table_with_as_many_shards_is_there__is_opened():
    place = anywhere()
    first = create_table(place, schema=COLUMNS, key="id", shards=2)
    for shards in (2, None):
        again = create_table(place, schema=COLUMNS, key="id", shards=shards, exist_ok=True)
        assert again.version == 0
        assert again._now().shards == first._now().shards
