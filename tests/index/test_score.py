"""BM25 as another implementation computes it."""

from __future__ import annotations

import itertools
import math

import bm25s
import numpy as np
import pytest

from siltstone.format.text import Analyzer
from siltstone.index.analyze import terms_of
from siltstone.index.query import Match
from siltstone.index.score import idf, lowest_equal, norms, saturation
from siltstone.index.search import search
from text_oracle import PLAIN, column_of, scattered

SENTENCES = [
    "A log decides which of two writers comes first, and a reader never has to guess.",
    "Readers of the log follow it from its floor; writers append behind its end.",
    "Deleted rows stay in their files until the files are written anew.",
    "An index is built in parts, and every part is read by range.",
    "The first writer wins, the second writer reads what landed and tries again.",
    "Ranges of rows, ranges of bytes: what is read is checked.",
    "Nothing is deleted that a reader may still need.",
    "",
    "Logs, writers, readers.",
]


def random_corpus(rng, count):
    return [
        " ".join(rng.permutation(" ".join(rng.choice(SENTENCES, 3)).split())[: rng.integers(0, 25)])
        for _ in range(count)
    ]


@pytest.mark.parametrize("analyzer", [PLAIN, Analyzer()], ids=["plain", "english"])
def test_scores__of_many_queries__are_those_of_bm25s(analyzer):
    rng = np.random.default_rng(0)
    texts = random_corpus(rng, 400)
    tokens = [[term.decode() for term, _ in terms_of(text, analyzer)] for text in texts]
    peer = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    peer.index(tokens, show_progress=False)
    columns = [column_of(texts, analyzer), scattered(texts, analyzer, rng, dead=0.0)[0]]
    for _ in range(40):
        text = " ".join(rng.choice(" ".join(SENTENCES).split(), rng.integers(1, 6)))
        words = [term.decode() for term, _ in terms_of(text, analyzer)]
        known = [word for word in words if word in peer.vocab_dict]
        if not known:
            continue
        expected = peer.get_scores(known)
        for column in columns:
            hits = search({"a": column}, Match(text), limit=None)
            scores = np.zeros(len(texts))
            scores[hits.rows] = hits.scores
            np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)


def test_idf__of_any_share_of_documents__is_positive_and_falls():
    values = [idf(df, 1_000) for df in range(1_001)]
    assert values[10] == pytest.approx(math.log(1 + 990.5 / 10.5))
    assert all(high > low > 0 for high, low in itertools.pairwise(values))


def test_saturation__of_frequency_and_length__grows_and_falls():
    lengths = np.array([0, 1, 10, 1_000_000])
    norm = norms(lengths, 10.0)
    assert norm.tolist() == pytest.approx([0.3, 0.39, 1.2, 90_000.3])
    values = np.array([saturation(np.full(4, freq), norm) for freq in (1, 2, 1_000_000)])
    assert (np.diff(values, axis=0) > 0).all()
    assert (np.diff(values, axis=1) < 0).all()
    assert (values > 0).all()
    assert (values < 1).all()


def test_lowest_equal__of_a_score__is_under_all_that_are_shown_alike():
    for score in (0.0, 1e-50, 1e-30, 0.1, 1 / 3, 17.3, 1e12):
        low = lowest_equal(score)
        assert low < score or score < 1e-45
        nearest = np.nextafter(np.float64(np.float32(score)), -np.inf)
        assert low <= nearest
        assert np.float32(low) < np.float32(score)
