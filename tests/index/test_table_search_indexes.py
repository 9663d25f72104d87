"""Indexes of a table by name: made, chosen, optimized and dropped, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from build_worlds import FEW, World, found, ids, seeded
from siltstone.errors import AlreadyExistsError, InvalidInputError, NotFoundError, SiltstoneError


@pytest.mark.parametrize(
    "options",
    [
        {"language": "klingon"},
        {"language": 7},
        {"tokenizer": "magic"},
        {"stem": "yes"},
        {"positions": 1},
        {"max_token_bytes": 0},
        {"ngram_min": 3},
        {"tokenizer": "ngram", "ngram_min": 5, "ngram_max": 2},
        {"colour": "red"},
        {"progress": 7},
        {"name": ""},
        {"name": "x" * 1025},
        {"name": 7},
        {"name": "half \ud800"},
    ],
)
def test_create_text_index__bad_options__are_told_and_nothing_is_written(options):
    world = seeded()
    before = world.objects()
    with pytest.raises(InvalidInputError) as caught:
        world.open().create_text_index("body", **options)
    assert caught.value.hint or caught.value.message
    assert world.objects() == before


@pytest.mark.parametrize("column", ["nothing", "stars", "id", "", 7, None])
def test_create_text_index__no_column_of_texts__is_told_and_nothing_is_written(column):
    world = seeded()
    before = world.objects()
    with pytest.raises(SiltstoneError):
        world.open().create_text_index(column)
    assert world.objects() == before


def test_create_text_index__unknown_language__the_known_ones_are_listed():
    with pytest.raises(InvalidInputError) as caught:
        seeded().open().create_text_index("body", language="klingon")
    assert "german" in caught.value.hint + caught.value.message


def test_create_text_index__name_is_taken__is_told():
    table = seeded().open()
    table.create_text_index("body")
    for name in (None, "body"):
        with pytest.raises(AlreadyExistsError, match="body"):
            table.create_text_index("body", name=name, stem=False)
    table.create_text_index("body", name="plain", stem=False, stop_words=False)
    assert [one.name for one in table.indexes()] == ["body", "plain"]


def test_search__column_has_several_indexes__the_one_of_its_name_or_the_one_asked_for():
    table = World().create()
    table.append([*FEW, {"id": 7, "body": "the deliveries", "stars": 0}])
    table.create_text_index("body", name="plain", stem=False, stop_words=False)
    table.create_text_index("body", name="stemmed")
    with pytest.raises(InvalidInputError, match="several indexes"):
        table.search("body", "deliveries")
    assert set(ids(table.search("body", "deliveries", index="plain"))) == {7}
    assert set(ids(table.search("body", "deliveries", index="stemmed"))) == {1, 2, 6, 7}
    assert set(ids(table.search("body", "the", index="plain"))) == {3, 7}
    table.create_text_index("body")
    assert set(ids(table.search("body", "deliveries"))) == {1, 2, 6, 7}


def test_create_text_index__odd_names__work():
    table = seeded().open()
    for name in ("a-b", "a..b", "_x", "x" * 100, "Body"):
        table.create_text_index("body", name=name)
        assert table.search("body", "slow", index=name).count() > 0
        table.drop_index(name)
    assert table.indexes() == []
    for name in ("a b", "a/b", "%", "7", "ü\n"):
        with pytest.raises(InvalidInputError, match="not allowed"):
            table.create_text_index("body", name=name)


def test_create_text_index__column_can_not_name_it__another_name_is_asked_for():
    table = seeded().open()
    table.rename_column("body", "the text")
    with pytest.raises(InvalidInputError) as caught:
        table.create_text_index("the text")
    assert "name=" in caught.value.hint
    table.create_text_index("the text", name="words")
    assert table.search("the text", "slow", indexed_only=True).count() > 0


@pytest.mark.parametrize("call", ["optimize_index", "drop_index"])
@pytest.mark.parametrize("name", ["nothing", "", 7, None])
def test_index__there_is_none_of_the_name__is_told(call, name):
    table = seeded().open()
    table.create_text_index("body")
    with pytest.raises((NotFoundError, InvalidInputError)):
        getattr(table, call)(name)
    assert len(table.indexes()) == 1


def test_optimize_index__bad_options__are_told():
    table = seeded().open()
    table.create_text_index("body")
    for options in ({"whole": 1}, {"progress": "x"}):
        with pytest.raises(InvalidInputError):
            table.optimize_index("body", **options)


def test_drop_column__index_goes_with_it():
    table = seeded().open()
    table.create_text_index("body")
    version = table.version
    table.drop_column("body")
    assert table.indexes() == []
    assert table.at(version=version).indexes()[0].name == "body"
    table.add_column("body", pa.string(), default="slow")
    assert table.indexes() == []
    assert table.search("body", "slow", limit=None).count() == table.count()
    table.create_text_index("body")
    table.restore(version=version)
    assert found(table, "slow") == found(table.at(version=version), "slow")


def test_index__without_positions__phrases_are_refused_or_found_by_reading():
    table = seeded().open()
    table.create_text_index("body", positions=False)
    assert table.search("body", "slow").count() > 0
    with pytest.raises(SiltstoneError, match="position"):
        table.search("body", '"late delivery"').to_arrow()
