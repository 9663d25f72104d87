"""What a table's handle does with indexes and searches: rows, filters, limits, versions, and what it refuses."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

import siltstone as ss
from build_worlds import COVERAGES, FEW, SCHEMA, World, covered_table, found, ids, rows_of, seeded
from siltstone import query
from siltstone.errors import (
    InvalidInputError,
    LimitExceededError,
    MissingObjectError,
    NotFoundError,
    SiltstoneError,
)
from siltstone.index.unindexed import Kept


@pytest.fixture(params=COVERAGES)
def table(request):
    return covered_table(request.param)


# -- rows --------------------------------------------------------------------------------------------------


def test_search__words__best_first_with_scores(table):
    rows = table.search("body", "slow delivery").to_arrow()
    assert rows.column("id").to_pylist() == [6, 1, 2]
    assert rows.schema.names == ["id", "body", "stars", "_score"]
    assert rows.schema.field("_score").type == pa.float32()
    scores = rows.column("_score").to_pylist()
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] > 0


def test_search__limits__the_best_of_all(table):
    search = table.search("body", "slow delivery", limit=None)
    everything = search.to_arrow()
    assert search.count() == 3
    for limit in (0, 1, 2, 3, 100):
        some = table.search("body", "slow delivery", limit=limit)
        assert some.to_arrow().equals(everything.slice(0, limit))
        assert some.count() == min(limit, 3)


def test_search__filters__as_a_scan_has_them_and_scores_stay(table):
    everything = dict(found(table, "slow delivery"))
    for where in ("stars <= 1", "stars > 1 and id < 6", "body like '%refund%'", "id in (1, 3)", "stars > 9"):
        expected = set(table.scan(["id"], where=where).to_arrow().column(0).to_pylist()) & everything.keys()
        got = dict(found(table, "slow delivery", where=where))
        assert got == {row: everything[row] for row in expected}
        assert table.search("body", "slow delivery", where=where).count() == len(expected)
    assert ids(table.search("body", "slow delivery", where="stars <= 1", limit=1)) == [6]


def test_search__columns__only_those_and_the_score(table):
    assert table.search("body", "slow", columns=["stars"]).to_arrow().schema.names == ["stars", "_score"]
    for columns in ([], ["nothing"], ["_score"]):
        with pytest.raises(InvalidInputError):
            table.search("body", "slow", columns=columns)


def test_search__snippets__matches_are_marked(table):
    rows = table.search("body", "slow deliveries", snippets=True).to_arrow().to_pylist()
    assert [row["_snippet"] for row in rows] == ["**slow** **slow** **delivery**", *rows_marked(rows[1:])]
    assert all("**" in row["_snippet"] for row in rows)
    assert all(row["_snippet"].replace("**", "") == row["body"] for row in rows)


def rows_marked(rows):
    marked = {1: "**slow** late **delivery**", 2: "fast **delivery**, refund"}
    return [marked[row["id"]] for row in rows]


def test_search__output_in_every_form__same_rows(table):
    search = table.search("body", "slow delivery")
    whole = search.to_arrow()
    assert pa.Table.from_batches(search.to_batches()).equals(whole)
    assert search.to_pandas()["id"].tolist() == whole.column("id").to_pylist()
    assert search.schema == whole.schema
    assert "slow delivery" in search.explain()
    assert str(table.version) in repr(search)


def test_search__rows_come_later__a_search_stays_at_its_version(table):
    search = table.search("body", "slow")
    table.append([{"id": 9, "body": "slow", "stars": 0}])
    assert ids(search) == [6, 1]
    assert ids(table.search("body", "slow")) == [9, 6, 1]


@pytest.mark.parametrize("text", ["", "   ", ".,-", "the", "the and of", "x" * 300])
def test_search__nothing_to_look_for__finds_nothing(table, text):
    search = table.search("body", text, limit=None)
    assert search.to_arrow().num_rows == search.count() == 0
    assert search.to_arrow().schema == table.search("body", "slow").schema


@pytest.mark.parametrize("text", ['"slow', "slow (late", "slow)", "slow^x", '+"', "-slow"])
def test_search__text_that_is_no_query__is_told_with_a_way_out(table, text):
    with pytest.raises(InvalidInputError) as caught:
        table.search("body", text)
    assert caught.value.hint


def test_search__query_of_a_megabyte__is_refused(table):
    for text in ("slow " * 200_000, '"' + "slow " * 200_000 + '"', "x" * 1_000_000):
        with pytest.raises(LimitExceededError):
            table.search("body", text).to_arrow()
        with pytest.raises(LimitExceededError):
            table.search("body", query.Match(text)).to_arrow()


def test_search__plain_text_with_signs_of_the_syntax__match_takes_it(table):
    assert ids(table.search("body", query.Match('slow "late (refund^ -'))) == [1, 2, 6]


def test_search__column_and_index_choices__are_told(table):
    for column, error in (("nothing", SiltstoneError), ("stars", InvalidInputError), (7, InvalidInputError)):
        with pytest.raises(error):
            table.search(column, "slow")
    with pytest.raises(InvalidInputError, match="query"):
        table.search("body")
    with pytest.raises(InvalidInputError):
        table.search("body", 7)
    with pytest.raises(InvalidInputError):
        table.search(query.Match("slow", column="body"), "slow")
    with pytest.raises(NotFoundError, match="no index"):
        table.search("body", "slow", index="nothing")
    for index in (7, [], ""):
        with pytest.raises(InvalidInputError):
            table.search("body", "slow", index=index)
    for options in ({"limit": -1}, {"limit": "1"}, {"where": 7}, {"fresh": 1}, {"snippets": "yes"}, {"where": "no ("}):
        with pytest.raises(InvalidInputError):
            table.search("body", "slow", **options)
    assert ids(table.search(query.Match("slow", column="body"))) == [6, 1]


def test_search__indexed_only__a_column_without_an_index_is_refused(table):
    if table.indexes():
        assert ids(table.search("body", "slow", indexed_only=True)) == [6, 1]
        return
    with pytest.raises(NotFoundError, match="no text index"):
        table.search("body", "slow", indexed_only=True)


# -- versions and handles ------------------------------------------------------------------------------------


def test_search__of_earlier_versions__as_they_were(table):
    version = table.version
    before = found(table, "slow delivery")
    table.delete("id = 6")
    table.upsert([{"id": 2, "body": "slow", "stars": 0}])
    table.compact()
    assert found(table.at(version=version), "slow delivery") == before
    assert dict(found(table, "slow delivery")).keys() == {1, 2}
    table.restore(version=version)
    assert found(table, "slow delivery") == before


def test_search__pickled_and_pinned_handles__find_the_same(tmp_path):
    table = ss.create(str(tmp_path / "t"), schema=SCHEMA, key="id")
    table.append(FEW)
    table.create_text_index("body")
    expected = found(table, "slow delivery")
    assert found(pickle.loads(pickle.dumps(table)), "slow delivery") == expected
    pinned = table.at(version=table.version)
    table.delete(None)
    assert found(pinned, "slow delivery") == expected
    assert found(pickle.loads(pickle.dumps(pinned)), "slow delivery") == expected
    with pytest.raises(InvalidInputError, match="pinned"):
        pinned.search("body", "slow", fresh=True)


def test_search__table_without_rows__finds_nothing():
    table = World().create()
    assert found(table, "slow") == []
    table.create_text_index("body")
    assert found(table, "slow") == []
    assert [(one.segments, one.indexed_rows, one.unindexed_rows) for one in table.indexes()] == [(0, 0, 0)]
    table.append(FEW)
    assert ids(table.search("body", "slow")) == [6, 1]
    table.optimize_index("body")
    assert [(one.segments, one.indexed_rows, one.unindexed_rows) for one in table.indexes()] == [(1, 6, 0)]
    table.delete(None)
    assert found(table, "slow") == []
    assert table.optimize_index("body").operation == "index"
    assert found(table, "slow") == []


def test_search__column_was_added_later__older_rows_have_its_default():
    table = World().create()
    table.append(FEW)
    table.create_text_index("body")
    table.add_column("note", pa.string(), default="slow note")
    table.append([{"id": 20, "body": "x", "stars": 1, "note": "fast"}])
    assert table.search("note", "slow", limit=None).count() == 6
    table.create_text_index("note")
    assert table.search("note", "slow", limit=None).count() == 6
    assert table.search("note", "fast").count() == 1
    multi = query.MultiMatch("slow", columns=("body", "note"))
    assert table.search(multi, limit=None).count() == 6


def test_search__files_of_an_index_are_gone__is_told_by_name():
    world = seeded()
    world.open().create_text_index("body")
    (build,) = world.builds()
    for name in ("part_0_0.text", "metadata"):
        key = f"indexes/{build}/{name}"
        world.plain().delete([key])
        with pytest.raises(MissingObjectError, match=name):
            world.open().search("body", "slow").to_arrow()
    assert world.open().scan().count() == 11
    table = world.open()
    table.drop_index("body")
    assert ids(table.search("body", "slow"))


def test_search__cache_of_unindexed_texts_is_too_small_for_any__same_answers():
    world = seeded(fragments=5, rows=9)
    texts = ("slow", 'slow "late delivery" deliv*', "+colour -refund", "colur~")
    expected = [found(world.open(), text) for text in texts]
    assert all(expected)
    for limit in (0, 1, 500, 4000):
        table = world.open()
        table._covers._kept = kept = Kept(limit)
        for _ in range(2):
            assert [found(table, text) for text in texts] == expected
        assert sum(part.postings.nbytes for part in kept._parts.values()) <= max(limit, 0)


def test_search__fresh_rows__found_and_scored_as_if_they_were_merged():
    world = World()
    table = world.create(shards=2)
    table.append(rows_of(range(10)))
    table.create_text_index("body")
    writer = table.writer()
    writer.put(rows_of(range(5, 15)))
    writer.put([{"id": 3, "body": "slow slow slow", "stars": 0}])
    assert found(table, "slow") != found(table, "slow", fresh=True)
    for handle in (table, world.open()):
        fresh = found(handle, "slow delivery", fresh=True)
        assert table.search("body", "slow", fresh=True, where="id = 3").to_arrow().num_rows == 1
    writer.close()
    assert dict(found(table, "slow delivery", fresh=True)) == dict(fresh)
    table.merge_shards()
    assert dict(found(table, "slow delivery")) == dict(fresh)
    table.optimize_index("body")
    assert dict(found(table, "slow delivery")) == dict(fresh)


def test_search__text_columns_of_every_kind__same_answers():
    kinds = {"s": pa.string(), "l": pa.large_string()}
    schema = pa.schema([("id", pa.int64()), *kinds.items()])
    table = ss.create(World().plain(), schema=schema, probe=False)
    texts = [row["body"] for row in FEW]
    table.append(pa.table({"id": range(len(texts)), **dict.fromkeys(kinds, texts)}, schema=schema))
    answers = set()
    for kind in kinds:
        for _ in range(2):
            rows = table.search(kind, "slow delivery", columns=["id"]).to_arrow()
            answers.add(tuple(tuple(column.to_pylist()) for column in rows.columns))
            if kind not in {one.name for one in table.indexes()}:
                table.create_text_index(kind)
    assert len(answers) == 1
