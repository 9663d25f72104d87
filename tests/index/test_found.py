"""What was found by attacking searches: each was wrong, slow or told badly once."""

from __future__ import annotations

import pyarrow as pa
import pytest

import siltstone as ss
from moments import ends_soon
from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.format.text import Analyzer
from siltstone.index import making
from siltstone.index.analyze import terms_of, tokenize
from siltstone.query import Boolean, Boost, Fuzzy, Match, MultiMatch, Phrase, Prefix, snippets

SCHEMA = pa.schema([("id", pa.int64()), ("title", pa.string()), ("body", pa.string())])


def rows(*texts: str, start: int = 0) -> pa.Table:
    ids = list(range(start, start + len(texts)))
    return pa.table({"id": ids, "title": ["x"] * len(texts), "body": list(texts)}, schema=SCHEMA)


@pytest.fixture
def table(tmp_path):
    with ss.create(tmp_path / "t", schema=SCHEMA, key="id", shards=1) as made:
        made.append(rows("alpha beta", "alpha", "beta gamma", "alphabet soup"))
        yield made


def scores(table, query) -> dict[int, float]:
    found = table.search("body", query, limit=None).to_arrow()
    return dict(zip(found["id"].to_pylist(), found["_score"].to_pylist(), strict=True))


@pytest.mark.parametrize("inner", ["(alpha +beta)", '(alpha "beta")', "(alpha beta)", "(alpha)", '("alpha beta")'])
def test_search__groups_with_boosts_inside_each_other__multiply(table, inner):
    plain, boosted = scores(table, inner), scores(table, f"({inner}^2)^3")
    assert plain
    assert boosted == pytest.approx({row: 6 * score for row, score in plain.items()}, rel=1e-5)


@pytest.mark.parametrize("tokenizer", ["raw", "whitespace"])
def test_search__fuzzy_word_with_a_nul__is_found(tmp_path, tokenizer):
    with ss.create(tmp_path / "n", schema=SCHEMA) as made:
        made.append(rows("a\0b", "ab", "a\0c"))
        made.create_text_index("body", tokenizer=tokenizer)
        assert scores(made, Fuzzy("a\0b", edits=0)).keys() == {0}
        assert scores(made, Fuzzy("a\0b", edits=1)).keys() == {0, 1, 2}


def test_search__prefix_whose_last_word_is_too_long__finds_nothing(table):
    assert scores(table, Prefix("alph")).keys() == {0, 1, 3}
    assert scores(table, Prefix("alph " + "x" * 300)) == {}
    assert scores(table, Prefix("alph xyz")) == {}


def test_search__query_shared_with_itself_over_and_over__is_refused_when_it_is_made():
    query = Match("alpha")
    for _ in range(10):
        query = query | query
    with pytest.raises(LimitExceededError, match="clauses"):
        query | query


def test_search__of_a_writer_with_an_unknown_option__is_refused_with_those_there_are(table):
    with table.shard(0).writer() as writer:
        for bad in ({"own": None}, {"limits": 3}):
            with pytest.raises(InvalidInputError, match="no option"):
                writer.search("body", "alpha", **bad)


def test_search__takes_no_writer_of_another_table(table):
    with pytest.raises(TypeError, match="own"):
        table.search("body", "alpha", own=None)


def test_snippets__phrase_of_one_word_many_times__takes_no_longer_than_the_text(table):
    text = "ho " * 20_000
    with ends_soon():
        (made,) = snippets([text], Phrase("ho " * 100), Analyzer())
    assert "**ho**" in made


def test_snippets__word_of_overlapping_parts__is_cut():
    analyzer = Analyzer(tokenizer="ngram", stem=False, stop_words=False)
    (made,) = snippets(["abcd" * 4_000], "abcd", analyzer, length=160)
    assert len(made.replace("*", "")) <= 161


@pytest.mark.parametrize(
    "call",
    [
        lambda: Match("x", boost=10**5000),
        lambda: Phrase("x", slop=10**5000),
        lambda: Match("x", operator=["or"]),
        lambda: MultiMatch("x", ["body"], combine=["best"]),
        lambda: MultiMatch(Match("x", column="title"), {"body": 5}),
        lambda: MultiMatch(Boolean(must=[Match("y"), Boost(Match("x", column="title"), 2)]), ["body"]),
        lambda: snippets("late", "late", Analyzer()),
        lambda: snippets(None, "late", Analyzer()),
        lambda: snippets(["late"], "late", {"body": Analyzer()}),
        lambda: snippets(["late"], "late", Analyzer(), before=None),
    ],
)
def test_queries_and_snippets__bad_arguments__are_told_with_a_remedy(call):
    with pytest.raises(InvalidInputError) as error:
        call()
    assert error.value.hint


def test_tokenize__letter_with_endless_marks__takes_time_in_proportion():
    word = "д" + "\u0315\u0300" * 60_000
    with ends_soon():
        tokens = tokenize(pa.array([word, "слово"]), Analyzer(language="russian"))
        assert terms_of(word, Analyzer(language="russian")) == []
    assert tokens.lengths.tolist() == [0, 1]


def test_make__n_grams__are_cut_into_chunks_and_parts_by_their_number(tmp_path, monkeypatch):
    monkeypatch.setattr(making, "CHUNK_BYTES", 80_000)
    seen = []
    plain = making.postings_of_texts

    def counted(texts, analyzer):
        seen.append(sum(len(text) for text in texts.to_pylist()))
        return plain(texts, analyzer)

    monkeypatch.setattr(making, "postings_of_texts", counted)
    with ss.create(tmp_path / "n", schema=SCHEMA) as made:
        made.append(rows(*(f"{number:032x}" * 4 for number in range(400))))
        made.create_text_index("body", tokenizer="ngram", ngram_min=3, ngram_max=6)
        assert max(seen) <= 80_000 // (4 * making.NGRAM_SHARE) + 128
        assert len(scores(made, "00000000000000000000000000000001")) >= 1


def test_put__indexing_it_fails__the_put_stands(table, monkeypatch):
    table.create_text_index("body")

    def refuse(self, rows):
        raise LimitExceededError("too much", hint="less")

    monkeypatch.setattr("siltstone.index.growing.Warm.add", refuse)
    with table.writer(ss.ShardWriterConfig(index_configs=("body",))) as writer:
        writer.put(rows("alpha omega", start=50))
        assert 50 in table.search("body", "omega", fresh=True).to_arrow()["id"].to_pylist()
