"""Parts that become one: the same arrays as those of all their documents at once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from part_worlds import assert_same, large_postings, postings_for, random_documents
from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.format.text_part import DOCUMENTS_MAX, TOKENS_MAX
from siltstone.index.merge import merge


def chunks_of(documents, seed):
    """Documents cut at random, with chunks that are empty among them."""
    random = np.random.default_rng(seed)
    cuts = np.sort(random.integers(0, len(documents) + 1, random.integers(0, 7)))
    edges = [0, *cuts.tolist(), len(documents)]
    return [documents[start:end] for start, end in itertools.pairwise(edges)]


@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_merge__chunks_of_documents__is_what_all_of_them_give(seed, positions):
    documents = random_documents(seed, 120)
    parts = [postings_for(chunk, positions=positions) for chunk in chunks_of(documents, seed)]
    assert_same(merge(parts, [None] * len(parts)), postings_for(documents, positions=positions))


@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_merge__documents_left_out__is_what_the_others_give(seed, positions):
    documents = random_documents(seed, 120)
    random = np.random.default_rng(seed)
    parts, masks, left = [], [], []
    for chunk in chunks_of(documents, seed):
        mask = None if random.random() < 0.2 else random.random(len(chunk)) < random.choice([0, 0.1, 0.8, 1])
        parts.append(postings_for(chunk, positions=positions))
        masks.append(mask)
        left += chunk if mask is None else [one for one, stays in zip(chunk, mask, strict=True) if stays]
    assert_same(merge(parts, masks), postings_for(left, positions=positions))


def test_merge__of_merged_parts__is_what_one_merge_gives():
    documents = random_documents(4, 200)
    parts = [postings_for(documents[start : start + 25]) for start in range(0, 200, 25)]
    pairs = [merge(parts[start : start + 2], [None, None]) for start in range(0, 8, 2)]
    assert_same(merge(pairs, [None] * 4), merge(parts, [None] * 8))


def test_merge__large_terms_three_times__keeps_every_posting_in_order():
    part = large_postings(documents=12_000)
    merged = merge([part] * 3, [None] * 3)
    documents = len(part.lengths)
    for number in (0, 2, 17, len(part.terms) - 1):
        own = part.docs[part.starts[number] : part.starts[number + 1]].astype(np.int64)
        found = merged.docs[merged.starts[number] : merged.starts[number + 1]]
        np.testing.assert_array_equal(found, np.concatenate([own + documents * k for k in range(3)]))
    kept = merge([merged], [np.arange(3 * documents) < documents])
    assert_same(kept, part)


def test_merge__one_part_and_nothing_left_out__is_that_part():
    part = postings_for(random_documents(1, 30))
    assert merge([part], [None]) is part
    assert merge([part], [np.ones(30, np.bool_)]) is part


def test_merge__part_without_tokens_or_positions__leaves_those_of_the_others():
    parts = [postings_for([None, []], positions=False), postings_for([[b"a"]])]
    assert merge(parts, [None, None]).positions.tolist() == [0]


def test_merge__some_parts_without_positions__is_refused():
    parts = [postings_for([[b"a"]]), postings_for([[b"a"]], positions=False)]
    with pytest.raises(InvalidInputError, match="positions"):
        merge(parts, [None, None])


def test_merge__mask_of_another_length__is_refused():
    with pytest.raises(InvalidInputError, match="2 documents, the part 1"):
        merge([postings_for([[b"a"]])], [np.ones(2, np.bool_)])


def test_merge__nothing__is_refused():
    with pytest.raises(InvalidInputError, match="nothing"):
        merge([], [])


@pytest.mark.parametrize(
    ("length", "documents", "match"),
    [(0, DOCUMENTS_MAX, f"{DOCUMENTS_MAX} documents"), (TOKENS_MAX, 1, f"{TOKENS_MAX} tokens")],
)
def test_merge__more_than_a_part_holds__is_refused_before_any_work(length, documents, match):
    small = postings_for([[b"a"]])
    lengths = np.broadcast_to(np.uint32(length), (documents,))
    with pytest.raises(LimitExceededError, match=match):
        merge([small._replace(lengths=lengths), small], [None, None])
