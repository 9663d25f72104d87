"""Searches against the answers of one document at a time, and against themselves without a limit."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from siltstone.errors import InternalError, InvalidInputError, LimitExceededError
from siltstone.format.text import Analyzer
from siltstone.index import topk
from siltstone.index.cache import Cache
from siltstone.index.match import Live
from siltstone.index.query import WORDS_MAX, Boolean, Boost, Fuzzy, Match, MultiMatch, Phrase, Prefix
from siltstone.index.search import matches, search
from siltstone.index.statistics import Column
from siltstone.store.memory import MemoryStore
from siltstone.testing.stores import FaultStore
from text_oracle import PLAIN, Documents, answer, as_stored, column_of, part_of, scattered
from text_queries import WORDS, random_query, random_texts


def world(seed):
    """Two columns of the same rows, cut into parts each in its own way, and what is alive of each."""
    chance, rng = random.Random(seed), np.random.default_rng(seed)
    analyzer = chance.choice([PLAIN, Analyzer()])
    rows = chance.randint(1, 60)
    options = {"group_documents": 7} if chance.random() < 0.5 else {}
    pairs = {name: scattered(random_texts(chance, rows), analyzer, rng, **options) for name in "ab"}
    columns = {name: column for name, (column, _) in pairs.items()}
    return chance, rng, columns, {name: documents for name, (_, documents) in pairs.items()}


def found(hits):
    return dict(zip(hits.rows.tolist(), hits.scores.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(30))
def test_search__of_random_queries__answers_as_one_document_at_a_time(seed, monkeypatch):
    monkeypatch.setattr(topk, "WINDOW_ROWS", 16 if seed % 2 else topk.WINDOW_ROWS)
    chance, rng, columns, documents = world(seed)
    for _ in range(12):
        query = random_query(chance)
        expected = answer(documents, query, "a") or {}
        hits = search(columns, query, limit=None, column="a")
        scores = found(hits)
        assert scores == pytest.approx(expected, rel=1e-5, abs=1e-7), query
        assert matches(columns, query, column="a").tolist() == sorted(expected)
        assert hits.rows.tolist() == sorted(scores, key=lambda row: (-scores[row], row))
        for limit in (1, 3, 7):
            best = search(columns, query, limit=limit, column="a")
            assert best.rows.tolist() == hits.rows[:limit].tolist(), query
            assert best.scores.tobytes() == hits.scores[:limit].tobytes()
        mask = rng.random(200) < 0.5
        passed = mask[hits.rows]
        for allowed in (mask, lambda rows, mask=mask: mask[rows]):
            best = search(columns, query, limit=3, allowed=allowed, column="a")
            assert best.rows.tolist() == hits.rows[passed][:3].tolist(), query
            assert best.scores.tobytes() == hits.scores[passed][:3].tobytes()


@pytest.mark.parametrize("window", [64, 1 << 18])
@pytest.mark.parametrize("seed", range(8))
def test_search__of_many_equal_scores__is_the_same_with_a_limit(seed, window, monkeypatch):
    monkeypatch.setattr(topk, "WINDOW_ROWS", window)
    rng = np.random.default_rng(seed)
    # Few kinds of documents, each many times: most scores are shared by hundreds of rows.
    kinds = [" ".join(rng.choice(WORDS, rng.integers(1, 6))) for _ in range(6)]
    texts = [kinds[int(kind)] for kind in rng.integers(0, len(kinds), 3_000)]
    column = column_of(texts)
    for _ in range(25):
        words = rng.choice(WORDS, rng.integers(1, 6)).tolist()
        boosts = rng.choice([1.0, 1.0, 1e-3, 7.0], len(words)).tolist()
        clauses = [Match(word, boost=boost) for word, boost in zip(words, boosts, strict=True)]
        query = Boolean(should=clauses, must_not=[Match("gam")] if rng.random() < 0.3 else [])
        whole = search({"a": column}, query, limit=None)
        for limit in (1, 2, 10, 129, 1_000, 10_000):
            best = search({"a": column}, query, limit=limit)
            assert best.rows.tolist() == whole.rows[:limit].tolist()
            assert best.scores.tobytes() == whole.scores[:limit].tobytes()


def test_search__of_a_rare_and_common_words__is_the_same_with_a_limit():
    rng = np.random.default_rng(5)
    texts = [
        " ".join(
            ["common"] * int(rng.integers(0, 4))
            + ["often"] * int(rng.integers(0, 3))
            + ["filler"] * int(rng.integers(0, 30))
        )
        + (" rare" if rng.random() < 0.01 else "")
        for _ in range(20_000)
    ]
    column = column_of(texts)
    for query in ("rare common", "rare common often", "common often filler", "rare rare filler -often", "common"):
        whole = search({"a": column}, query, limit=None)
        assert len(whole.rows) > 100
        for limit in (1, 10, 100, 500):
            best = search({"a": column}, query, limit=limit)
            assert best.rows.tolist() == whole.rows[:limit].tolist()
            assert best.scores.tobytes() == whole.scores[:limit].tobytes()


@pytest.mark.parametrize(
    "query", [Match("alpha beta"), Phrase("alpha beta", slop=3), Prefix("al"), Fuzzy("alpha"), "alpha -beta"]
)
def test_search__of_rows_cut_into_parts_in_any_way__gives_the_same_bytes(query):
    chance = random.Random(3)
    texts = random_texts(chance, 400)
    whole = search({"a": column_of(texts)}, query, limit=None)
    assert len(whole.rows) > 5
    for seed in range(6):
        for group_documents in (10**9, 60):
            column, _ = scattered(texts, PLAIN, np.random.default_rng(seed), dead=0.0, group_documents=group_documents)
            hits = search({"a": column}, query, limit=None)
            assert hits.rows.tolist() == whole.rows.tolist()
            assert hits.scores.tobytes() == whole.scores.tobytes()


@pytest.mark.parametrize("seed", range(6))
def test_search__of_parts_in_a_store__gives_the_same_bytes(seed):
    chance, rng = random.Random(seed), np.random.default_rng(seed)
    column, _ = scattered(random_texts(chance, 200), Analyzer(), rng)
    stored = as_stored(column, MemoryStore(), group_documents=50 if seed % 2 else 10**9)
    for _ in range(10):
        query = random_query(chance, columns=())
        expected, hits = (search({"a": one}, query, limit=20) for one in (column, stored))
        assert hits.rows.tolist() == expected.rows.tolist()
        assert hits.scores.tobytes() == expected.scores.tobytes()


@pytest.mark.parametrize("query", ["alpha", "alpha beta gamma delta runs", '"alpha beta" gamma -delta', "+alpha beta"])
def test_search__of_parts_in_a_store__reads_each_twice_at_first_and_then_no_more(query):
    column, _ = scattered(random_texts(random.Random(2), 300), Analyzer(), np.random.default_rng(2))
    store = FaultStore(MemoryStore())
    stored = as_stored(column, store)
    before = len(store.calls)
    first = search({"a": stored}, query, limit=10)
    assert {call.verb for call in store.calls[before:]} == {"get_ranges"}
    assert len(store.calls) - before == 2 * len(column.lives)  # dictionary and lengths, then postings
    before = len(store.calls)
    again = search({"a": stored}, query, limit=10)
    assert len(store.calls) == before
    assert again.rows.tolist() == first.rows.tolist()


def test_search__with_deleted_rows__scores_as_if_they_had_never_been():
    texts = ["alpha beta", "alpha", "beta beta alpha gamma", "alpha alpha", "gamma", "beta alpha"]
    alive = np.array([True, False, True, False, True, True])
    masked = Column([Live(part_of(texts), alive)], PLAIN)
    rewritten = column_of([text for text, there in zip(texts, alive, strict=True) if there])
    places = np.flatnonzero(alive)
    for query in (Match("alpha beta"), Phrase("beta alpha"), Prefix("al"), Fuzzy("alpho")):
        hits, expected = (search({"a": column}, query, limit=None) for column in (masked, rewritten))
        assert hits.rows.tolist() == places[expected.rows].tolist()
        assert hits.scores.tobytes() == expected.scores.tobytes()


@pytest.mark.parametrize(
    "query",
    ["", "   ", "the", "the of and", '"of the"', "...", Match(""), Phrase("the"), Boolean(should=[Match("the")])],
)
def test_search__without_words__matches_nothing(query):
    columns = {"a": column_of(["the alpha of", "the", ""], Analyzer())}
    assert search(columns, query, limit=10).rows.tolist() == []
    assert matches(columns, query).tolist() == []


def test_search__with_a_stop_word_that_is_a_must__asks_for_the_others():
    columns = {"a": column_of(["the alpha", "alpha beta", "beta"], Analyzer())}
    assert matches(columns, "+the +alpha").tolist() == [0, 1]
    assert matches(columns, "+the beta -alpha").tolist() == [2]


def test_search__of_a_word_twice__counts_it_twice():
    columns = {"a": column_of(["alpha beta", "beta"])}
    once, twice = (found(search(columns, text, limit=None)) for text in ("alpha", "alpha alpha"))
    assert twice == pytest.approx({row: 2 * score for row, score in once.items()})


def test_search__of_columns_without_parts_or_rows__is_empty():
    for columns in ({"a": Column([], PLAIN)}, {"a": column_of([])}, {"a": column_of([None, ""])}):
        for query in ("alpha", '"a b"', "al*", "alpha~", "alpha -beta"):
            assert search(columns, query, limit=5).rows.tolist() == []


def test_search__with_limit_0__is_empty():
    assert search({"a": column_of(["alpha"])}, "alpha", limit=0).rows.tolist() == []


@pytest.mark.parametrize("limit", [-1, 2.5, True, "10"])
def test_search__with_a_limit_that_is_none__is_refused(limit):
    with pytest.raises(InvalidInputError, match="limit is"):
        search({"a": column_of(["alpha"])}, "alpha", limit=limit)


def test_search__of_a_column_without_an_index__is_refused():
    with pytest.raises(InvalidInputError, match="column 'b' has no text index"):
        search({"a": column_of(["alpha"])}, Match("alpha", column="b"), limit=5)


def test_search__of_several_columns_without_a_name__is_refused():
    columns = {"a": column_of(["alpha"]), "b": column_of(["alpha"])}
    with pytest.raises(InvalidInputError, match="names no column"):
        search(columns, "alpha", limit=5)
    assert search(columns, "alpha", limit=5, column="b").rows.tolist() == [0]


def test_search__of_a_phrase_without_positions__is_refused_with_a_way_out():
    column = column_of(["alpha beta"], Analyzer(positions=False))
    with pytest.raises(InvalidInputError, match="no positions") as caught:
        search({"a": column}, Phrase("alpha beta"), limit=5)
    assert "positions=True" in caught.value.hint
    assert search({"a": column}, "alpha beta", limit=5).rows.tolist() == [0]


def test_search__of_too_many_words__is_refused():
    columns = {"a": column_of(["alpha"])}
    with pytest.raises(LimitExceededError):
        search(columns, Match("x " * (WORDS_MAX + 1)), limit=5)
    with pytest.raises(LimitExceededError):
        search(columns, Boolean(should=[Match("x " * WORDS_MAX), Match("y")]), limit=5)


def test_search__with_boosts_that_pass_every_score__is_refused():
    query = Boost(Boost(Match("alpha", boost=1e6), 1e6), 2)
    with pytest.raises(InvalidInputError, match="boosts multiply"):
        search({"a": column_of(["alpha"])}, query, limit=5)


def test_search__of_what_is_no_query__is_refused():
    with pytest.raises(InvalidInputError, match="a query is int"):
        search({"a": column_of(["alpha"])}, 3, limit=5)


def test_search__with_a_mask_of_another_table__is_refused():
    with pytest.raises(InternalError, match="mask of 1 rows"):
        search({"a": column_of(["alpha", "alpha"])}, "alpha", limit=5, allowed=np.ones(1, np.bool_))


def test_search__with_a_question_for_rows__asks_about_each_row_once():
    columns = {"a": column_of(["alpha " * (1 + row % 7) for row in range(500)])}
    asked = []

    def allowed(rows):
        asked.extend(rows.tolist())
        return rows % 50 == 0

    hits = search(columns, "alpha", limit=3, allowed=allowed)
    whole = search(columns, "alpha", limit=None)
    assert hits.rows.tolist() == [row for row in whole.rows.tolist() if row % 50 == 0][:3]
    assert len(asked) == len(set(asked)) < 500


def test_prefix__in_an_index_of_stems__finds_the_word_itself():
    columns = {"a": column_of(["one delivery", "many deliveries", "delivers", "liver"], Analyzer())}
    for text in ("deliv*", "delivery*", "deliver*"):
        assert 0 in matches(columns, text).tolist(), text
    assert matches(columns, "deliv*").tolist() == [0, 1, 2]


def test_prefix__of_a_stem_that_only_one_part_has__finds_it_there():
    parts = [part_of([text], Analyzer()) for text in ("he runs", "runningboard", "other")]
    lives = [Live(part, None, np.zeros(1, np.int64), np.array([row])) for row, part in enumerate(parts)]
    assert matches({"a": Column(lives, Analyzer())}, "running*").tolist() == [0, 1]


def test_prefix__of_two_words_to_the_index__is_the_first_and_the_beginning_of_the_second():
    columns = {"a": column_of(["an e mailing", "mailing", "e male"])}
    assert matches(columns, "e-mail*").tolist() == [0]


def test_prefix__in_an_index_of_ngrams__finds_words_that_have_it():
    columns = {"a": column_of(["delivery", "reliver", "del"], Analyzer(tokenizer="ngram", stem=False))}
    assert matches(columns, "deliv*").tolist() == [0]
    assert matches(columns, "de*").tolist() == [0, 2]


def test_fuzzy__in_an_index_of_ngrams__is_refused():
    with pytest.raises(InvalidInputError, match="parts of words"):
        search({"a": column_of(["delivery"], Analyzer(tokenizer="ngram", stem=False))}, "delivery~", limit=5)


def test_multimatch__by_best_and_sum__takes_the_best_column_and_all():
    columns = {"a": column_of(["alpha", "beta", "alpha"]), "b": column_of(["alpha", "alpha", "beta"])}
    singles = [found(search(columns, Match("alpha", column=name), limit=None)) for name in "ab"]
    best = found(search(columns, MultiMatch("alpha", {"a": 3, "b": 1}), limit=None))
    total = found(search(columns, MultiMatch("alpha", ["a", "b"], combine="sum"), limit=None))
    assert best == pytest.approx({row: max(3 * singles[0].get(row, 0), singles[1].get(row, 0)) for row in range(3)})
    assert total == pytest.approx({row: singles[0].get(row, 0) + singles[1].get(row, 0) for row in range(3)})


def test_search__from_many_threads__answers_each_as_alone():
    chance = random.Random(1)
    texts = random_texts(chance, 2_000)
    column = column_of(texts, cache=Cache(50_000))
    queries = ["alpha beta", "gamma delta runs", '"alpha beta"', "al* -gam", "beta betas alpho", "+the of"]
    alone = [search({"a": column_of(texts)}, query, limit=10) for query in queries]
    start = threading.Barrier(4)

    def ask(number):
        start.wait()
        order = random.Random(number).choices(range(len(queries)), k=60)
        return [(place, search({"a": column}, queries[place], limit=10)) for place in order]

    with ThreadPoolExecutor(4) as pool:
        answers = [one for found in pool.map(ask, range(4)) for one in found]
    for place, hits in answers:
        assert hits.rows.tolist() == alone[place].rows.tolist()
        assert hits.scores.tobytes() == alone[place].scores.tobytes()


def test_documents__of_the_oracle__score_as_written_down():
    documents = {"a": Documents({0: "a b", 1: "b"})}
    # idf(a) = ln(1 + 1.5 / 1.5), norm = 1.2 * (0.25 + 0.75 * 2 / 1.5)
    assert answer(documents, Match("a"), "a") == pytest.approx({0: 0.6931471805599453 / (1 + 1.2 * 1.25)})
