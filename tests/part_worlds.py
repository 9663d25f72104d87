"""Documents as lists of terms, their tokens, and their postings written down the slow way."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from siltstone.index.analyze import Tokens
from siltstone.index.postings import Postings, postings_of

WORDS = [b"", b"\x00", b"a", b"a\x00", b"ab", b"\xc3\xa9", b"\xff", b"z" * 255, *(b"w%d" % n for n in range(60))]


def random_documents(seed, count, *, words=WORDS, length_max=30):
    """Documents: lists of terms, None for a term that was left out; or None for a null."""
    random = np.random.default_rng(seed)
    documents = []
    for _ in range(count):
        if random.random() < 0.1:
            documents.append(None)
            continue
        picks = np.minimum(random.zipf(1.4, random.integers(0, length_max)) - 1, len(words) - 1)
        documents.append([words[pick] if random.random() < 0.9 else None for pick in picks])
    return documents


def tokens_of(documents):
    """What an analyzer would give for documents."""
    found = [
        (term, number, place)
        for number, document in enumerate(documents)
        for place, term in enumerate(document or ())
        if term is not None
    ]
    terms = sorted({term for term, _, _ in found})
    numbers = {term: number for number, term in enumerate(terms)}
    doc = np.array([number for _, number, _ in found], np.uint32)
    return Tokens(
        pa.array(terms, pa.large_binary()),
        term=np.array([numbers[term] for term, _, _ in found], np.uint32),
        doc=doc,
        position=np.array([place for _, _, place in found], np.uint32),
        lengths=np.bincount(doc, minlength=len(documents)).astype(np.uint32),
        present=np.array([document is not None for document in documents], np.bool_),
    )


def written_down(documents):
    """For each term, its documents and the positions in each."""
    found = {}
    for number, document in enumerate(documents):
        for place, term in enumerate(document or ()):
            if term is not None:
                found.setdefault(term, {}).setdefault(number, []).append(place)
    return {term: found[term] for term in sorted(found)}


def read_back(postings):
    """The same of postings."""
    ends = np.cumsum(postings.freqs, dtype=np.int64)
    found = {}
    for number, term in enumerate(postings.terms.to_pylist()):
        found[term] = {
            int(postings.docs[place]): postings.positions[ends[place] - postings.freqs[place] : ends[place]].tolist()
            for place in range(postings.starts[number], postings.starts[number + 1])
        }
    return found


def postings_for(documents, *, positions=True):
    return postings_of(tokens_of(documents), positions=positions)


def large_postings(documents=20_000, seed=5):
    """Terms of several blocks, of one, and many that share blocks; with numbers that need each width."""
    random = np.random.default_rng(seed)
    sizes = [documents, 9000, 4096, 4095, 4097, *random.integers(1, 40, 5000).tolist(), 1, 5000]
    docs = [np.sort(random.choice(documents, size, replace=False)).astype(np.uint32) for size in sizes]
    starts = np.concatenate(([0], np.cumsum(sizes)))
    docs = np.concatenate(docs)
    freqs = random.geometric(0.7, len(docs)).astype(np.uint32)
    freqs[random.integers(0, len(docs), 20)] = 300
    freqs[7] = 70_000
    steps = random.geometric(0.05, int(freqs.sum(dtype=np.int64))).astype(np.uint32)
    steps[random.integers(0, len(steps), 50)] = 100_000
    heads = np.cumsum(freqs, dtype=np.int64) - freqs
    before = np.cumsum(steps, dtype=np.int64) - steps
    positions = before + steps - np.repeat(before[heads], freqs)
    lengths = np.bincount(docs, freqs, minlength=documents).astype(np.uint32)
    return Postings(
        pa.array([b"t%07d" % number for number in range(len(sizes))], pa.large_binary()),
        starts.astype(np.int64),
        docs,
        freqs,
        positions.astype(np.uint32),
        lengths,
        np.ones(documents, np.bool_),
    )


def assert_same(found, expected):
    """Bit for bit, types included."""
    assert found.terms.type == expected.terms.type == pa.large_binary()
    assert found.terms.equals(expected.terms)
    for name in ("starts", "docs", "freqs", "positions", "lengths", "present"):
        one, other = getattr(found, name), getattr(expected, name)
        if other is None:
            assert one is None, name
            continue
        assert one.dtype == other.dtype, name
        np.testing.assert_array_equal(one, other, name)
