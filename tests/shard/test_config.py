"""The knobs of a shard's writer: checked when it is opened, kept by the table, and overridden by a writer."""

from __future__ import annotations

from dataclasses import fields

import pytest

import siltstone as ss
from shard_worlds import SCHEMA, rows
from siltstone.errors import InvalidInputError
from siltstone.shard.config import ENTRY_BYTES_MAX, Knobs, ShardWriterConfig, knobs

NUMBERS = sorted(one.name for one in fields(Knobs) if type(one.default) is int)
FLAGS = sorted(one.name for one in fields(Knobs) if type(one.default) is bool)


@pytest.mark.parametrize("value", [0, -1, 2**63, 1.5, "5", True, None.__class__, b"1"], ids=repr)
@pytest.mark.parametrize("name", NUMBERS)
def test_open__a_number_that_a_knob_cant_have__is_refused_by_its_name(name, value):
    with pytest.raises(InvalidInputError, match=f"{name} must be a whole number from 1 to"):
        knobs(ShardWriterConfig(**{name: value}), {})


@pytest.mark.parametrize("value", [0, 1, "true", "yes", 2.0], ids=repr)
@pytest.mark.parametrize("name", FLAGS)
def test_open__a_flag_that_is_none__is_refused_by_its_name(name, value):
    with pytest.raises(InvalidInputError, match=f"{name} must be True or False"):
        knobs(ShardWriterConfig(**{name: value}), {})


@pytest.mark.parametrize("config", [{}, {"durable_write": True}, "durable", 5], ids=repr)
def test_open__a_config_that_is_none__is_refused(config, tmp_path):
    table = ss.create(tmp_path / "t", schema=SCHEMA)
    with pytest.raises(InvalidInputError, match="must be a ShardWriterConfig") as caught:
        table.shard("a").writer(config)
    assert "ShardWriterConfig(durable_write=False)" in caught.value.hint
    assert table.shards() == []


def test_open__an_entry_larger_than_a_log_takes__is_refused():
    assert knobs(ShardWriterConfig(max_wal_buffer_size=ENTRY_BYTES_MAX), {}).max_wal_buffer_size == ENTRY_BYTES_MAX
    with pytest.raises(InvalidInputError, match="max_wal_buffer_size"):
        knobs(ShardWriterConfig(max_wal_buffer_size=ENTRY_BYTES_MAX + 1), {})


@pytest.mark.parametrize("index_configs", [(5,), "note", 5], ids=repr)
def test_open__names_of_indexes_that_are_none__are_refused(index_configs):
    with pytest.raises(InvalidInputError, match="index_configs"):
        knobs(ShardWriterConfig(index_configs=index_configs), {})


def test_knobs__nothing_said__are_the_documented_defaults():
    text = " ".join(ShardWriterConfig.__doc__.split())
    found = knobs(None, {})
    assert found == Knobs()
    for name, shown in {
        "max_wal_buffer_size": "(10 MiB; at most 40 MiB)",
        "max_wal_flush_interval_ms": "(100)",
        "max_wal_append_attempts": "(3)",
        "max_memtable_size": "(64 MiB)",
        "max_memtable_rows": "(200,000)",
        "max_memtable_batches": "(8,000)",
        "max_unflushed_memtable_bytes": "(256 MiB)",
    }.items():
        described = text[text.index(f"{name}:") :]
        assert shown in described.partition(" max_")[0], name
        number = int(shown.strip("()").split()[0].replace(",", "").rstrip(";"))
        assert getattr(found, name) in {number, number * 2**20}
    assert {one.name for one in fields(ShardWriterConfig)} == {one.name for one in fields(Knobs)}
    assert all(f" {one.name}: " in text for one in fields(Knobs))


def test_knobs__the_table_says_something__a_writer_has_the_last_word():
    settings = {"shard.max_memtable_rows": "7", "shard.durable_write": "false", "owner": "me"}
    found = knobs(ShardWriterConfig(durable_write=True), settings)
    assert (found.max_memtable_rows, found.durable_write, found.max_memtable_size) == (7, True, 64 * 2**20)


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "1e3", "true", "9" * 30, " 5", "\u0665"], ids=ascii)
def test_open__a_setting_of_the_table_that_a_knob_cant_have__is_refused_with_what_to_do(text):
    settings = {"shard.max_memtable_rows": text}
    for config in (None, ShardWriterConfig(max_memtable_rows=5)):
        with pytest.raises(InvalidInputError, match=r"setting shard\.max_memtable_rows can't be used") as caught:
            knobs(config, settings)
        assert 'set({"shard.max_memtable_rows"' in caught.value.hint


@pytest.mark.parametrize("name", ["shard.max_memtable_row", "shard.", "shard.index_configs"])
def test_open__a_setting_that_is_no_knob__is_refused(name):
    with pytest.raises(InvalidInputError, match="no such knob") as caught:
        knobs(None, {name: "5"})
    assert "max_memtable_rows" in caught.value.hint


def test_settings__of_a_config__give_the_same_knobs_back():
    config = ShardWriterConfig(durable_write=False, max_memtable_rows=5, max_wal_buffer_size=1024, index_configs=())
    assert config.settings() == {
        "shard.durable_write": "false",
        "shard.max_memtable_rows": "5",
        "shard.max_wal_buffer_size": "1024",
    }
    assert knobs(None, config.settings()) == knobs(config, {})
    with pytest.raises(InvalidInputError, match="max_memtable_rows"):
        ShardWriterConfig(max_memtable_rows=0).settings()


def test_writer__table_has_defaults__works_by_them_unless_told_otherwise(tmp_path):
    config = ShardWriterConfig(durable_write=False, enable_memtable=False)
    table = ss.create(tmp_path / "t", schema=SCHEMA, key="id", shards=1, shard_config=config)
    with ss.open(tmp_path / "t").shard(0).writer() as writer:
        assert not writer.knobs.durable_write
        assert not writer.knobs.enable_memtable
        assert not writer.put(rows(1)).done
    with table.shard(0).writer(ShardWriterConfig(durable_write=True)) as writer:
        assert writer.put(rows(2)).done
        assert not writer.knobs.enable_memtable
    table.set({"shard.enable_memtable": "true", "shard.max_memtable_rows": "1"})
    with table.shard(0).writer() as writer:
        assert writer.knobs.max_memtable_rows == 1
        assert writer.stats().replayed_rows == 2
    assert sorted(table.scan(fresh=True).to_arrow().column("id").to_pylist()) == [1, 2]
