"""Tokens to postings: the same as written down by hand, whatever the tokens."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from part_worlds import postings_for, random_documents, read_back, tokens_of, written_down
from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.format.text_part import TOKENS_MAX
from siltstone.index.analyze import Tokens
from siltstone.index.postings import postings_of


@pytest.mark.parametrize("seed", range(20))
def test_postings_of__random_documents__are_what_is_written_down(seed):
    documents = random_documents(seed, 80)
    postings = postings_for(documents)
    assert read_back(postings) == written_down(documents)
    assert list(read_back(postings)) == sorted(written_down(documents))
    assert postings.lengths.tolist() == [len([t for t in d or () if t is not None]) for d in documents]
    assert postings.present.tolist() == [d is not None for d in documents]


def test_postings_of__more_terms_than_two_bytes_can_count__come_in_order():
    random = np.random.default_rng(3)
    terms, count = 150_000, 300_000
    term = np.concatenate((random.permutation(terms), random.integers(0, terms, count - terms))).astype(np.uint32)
    doc = (np.arange(count) // 10).astype(np.uint32)
    tokens = Tokens(
        pa.array([b"%06d" % number for number in range(terms)], pa.large_binary()),
        term,
        doc,
        (np.arange(count) % 10).astype(np.uint32),
        np.full(count // 10, 10, np.uint32),
        np.ones(count // 10, np.bool_),
    )
    postings = postings_of(tokens)
    order = np.lexsort((tokens.position, doc, term))
    np.testing.assert_array_equal(postings.positions, tokens.position[order])
    found = np.repeat(np.repeat(np.arange(terms), np.diff(postings.starts)), postings.freqs)
    np.testing.assert_array_equal(found, term[order])
    np.testing.assert_array_equal(np.repeat(postings.docs, postings.freqs), doc[order])


def test_postings_of__terms_without_a_token__have_no_place():
    tokens = tokens_of([[b"a", b"c"], [b"c"]])
    spare = tokens._replace(terms=pa.array([b"0", b"a", b"b", b"c", b"d"], pa.large_binary()), term=tokens.term * 2 + 1)
    assert read_back(postings_of(spare)) == {b"a": {0: [0]}, b"c": {0: [1], 1: [0]}}


def test_postings_of__terms_as_binary__are_large_binary():
    tokens = tokens_of([[b"a"]])
    assert postings_of(tokens._replace(terms=tokens.terms.cast(pa.binary()))).terms.type == pa.large_binary()


@pytest.mark.parametrize("documents", [[], [None], [[], None, [None]]])
def test_postings_of__no_token__are_empty_arrays_and_all_documents(documents):
    postings = postings_for(documents)
    assert (len(postings.terms), postings.starts.tolist()) == (0, [0])
    assert (len(postings.docs), len(postings.freqs), len(postings.positions)) == (0, 0, 0)
    assert postings.present.tolist() == [one is not None for one in documents]
    assert (postings.docs.dtype, postings.freqs.dtype, postings.positions.dtype) == (np.uint32,) * 3


def test_postings_of__without_positions__are_the_same_otherwise():
    tokens = tokens_of(random_documents(1, 30))
    bare = postings_of(tokens._replace(position=np.empty(0, np.uint32)), positions=False)
    assert bare.positions is None
    np.testing.assert_array_equal(bare.freqs, postings_of(tokens).freqs)


def test_postings_of__positions_that_were_not_kept__is_refused():
    tokens = tokens_of([[b"a", b"b"]])
    with pytest.raises(InvalidInputError, match="0 positions for 2 tokens"):
        postings_of(tokens._replace(position=np.empty(0, np.uint32)))


def test_postings_of__more_tokens_than_a_part_holds__is_refused_before_any_work():
    tokens = tokens_of([[b"a"]])
    many = np.broadcast_to(np.uint32(0), (TOKENS_MAX + 1,))
    with pytest.raises(LimitExceededError, match=str(TOKENS_MAX)):
        postings_of(tokens._replace(term=many, doc=many, position=many))
