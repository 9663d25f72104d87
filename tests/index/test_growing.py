"""Rows that are in memory alone and keep coming: each is indexed once, and found as any other."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest

import siltstone as ss
from siltstone.errors import InvalidInputError, NotFoundError
from siltstone.format.text import Analyzer
from siltstone.index import growing
from siltstone.index.growing import Growing, Warm

SCHEMA = pa.schema([("id", pa.int64()), ("body", pa.string())])


def rows(start: int, *texts: str) -> pa.Table:
    return pa.table({"id": list(range(start, start + len(texts))), "body": list(texts)}, schema=SCHEMA)


@pytest.fixture
def table(tmp_path):
    with ss.create(tmp_path / "growing", schema=SCHEMA, key="id", shards=1) as made:
        made.append(rows(0, "an old stone", "an old river"))
        made.create_text_index("body")
        yield made


def found(search) -> list[int]:
    return sorted(search.to_arrow().column("id").to_pylist())


def test_search__of_a_writer__sees_rows_that_are_not_durable_yet(table):
    with table.writer(ss.ShardWriterConfig(durable_write=False)) as writer:
        writer.put(rows(5, "a new stone"))
        assert found(writer.search("body", "stone")) == [0, 5]
        writer.delete([0])
        assert found(writer.search("body", "stone")) == [5]


def test_search__of_a_shards_writer_that_is_wal_only__is_refused(table):
    config = ss.ShardWriterConfig(enable_memtable=False)
    with (
        table.shard(0).writer(config) as writer,
        pytest.raises(InvalidInputError, match="search needs a memtable"),
    ):
        writer.search("body", "stone")


def test_search__more_rows_come__earlier_ones_are_not_tokenized_again(table, monkeypatch):
    seen = []
    tokenize = growing.postings_of_texts

    def counted(texts, analyzer):
        seen.append(len(texts))
        return tokenize(texts, analyzer)

    monkeypatch.setattr(growing, "postings_of_texts", counted)
    with table.writer() as writer:
        for number in range(6):
            writer.put(rows(10 + number, f"stone number {number}"))
            assert len(found(table.search("body", "stone", fresh=True))) == number + 2
    assert seen == [1] * 6


def test_put__with_index_configs__rows_are_indexed_before_a_search_asks(table, monkeypatch):
    with table.writer(ss.ShardWriterConfig(index_configs=("body",))) as writer:
        writer.put(rows(10, "stone one", "stone two"))

        def refuse(texts, analyzer):
            raise AssertionError(texts, analyzer)

        monkeypatch.setattr(growing, "postings_of_texts", refuse)
        assert found(table.search("body", "stone", fresh=True)) == [0, 10, 11]


def test_open__index_configs_name_no_index__is_refused(table):
    with pytest.raises(NotFoundError, match="no index 'title'"):
        table.writer(ss.ShardWriterConfig(index_configs=("title",)))


def test_search__row_was_put_again__only_the_last_text_is_found(table):
    with table.writer() as writer:
        writer.put(rows(1, "a stone now"))
        writer.put(rows(1, "sand"))
        assert found(table.search("body", "stone", fresh=True)) == [0]
        assert found(table.search("body", "sand", fresh=True)) == [1]
        assert found(table.search("body", "river", fresh=True)) == []


def test_search__ties_and_rows__are_those_of_the_rows_that_count(table):
    with table.writer() as writer:
        for number in reversed(range(20, 30)):
            writer.put(rows(number, f"granite {number}"))
        got = table.search("body", "granite", fresh=True, limit=None).to_arrow()
        assert sorted(got.column("id").to_pylist()) == list(range(20, 30))
        assert got.column("body").to_pylist() == [f"granite {number}" for number in got.column("id").to_pylist()]


def test_warm__rows_are_gone__their_postings_go_too():
    warm = Warm("body", Analyzer())
    chunk = rows(0, "stone")
    warm.add(chunk)
    assert len(warm) == 1
    del chunk
    gc.collect()
    assert len(warm) == 0


def test_growing__many_small_chunks__become_few_parts():
    parts, chunks = Growing(Warm("body", Analyzer())), []
    for number in range(200):
        chunks.append(rows(number, f"stone {number}"))
        runs = parts.runs(chunks)
        assert sum(one.part.documents for one in runs) == number + 1
    assert len(runs) <= 5
    assert [one.first for one in runs] == sorted(one.first for one in runs)
