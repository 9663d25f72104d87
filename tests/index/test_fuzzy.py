"""Terms like a word, against distances computed one pair at a time."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.index.fuzzy import like, near
from siltstone.index.query import Fuzzy
from siltstone.index.search import matches
from text_oracle import column_of, edits_between, part_of

words = st.text(alphabet="abcé日🜁", min_size=1, max_size=9)


@given(st.sets(words, max_size=30), words, st.integers(0, 2), st.integers(0, 3))
def test_near__of_words_in_any_script__finds_those_within_the_edits(names, word, edits, prefix_length):
    terms = pa.array(sorted(name.encode() for name in names), pa.large_binary())
    expected = {
        (name.encode(), distance, len(name))
        for name in names
        if (distance := edits_between(word, name)) <= edits and name[:prefix_length] == word[:prefix_length]
    }
    assert set(near(terms, word, edits=edits, prefix_length=prefix_length)) == expected
    sliced = pa.concat_arrays([pa.array([b"zz", word.encode()], pa.large_binary()), terms]).slice(2)
    assert set(near(sliced, word, edits=edits, prefix_length=prefix_length)) == expected


def test_like__of_terms_of_a_part__gives_each_with_its_likeness():
    part = part_of(["receive deceive", "recieve xy"])
    assert like(part, "recieve", edits=2) == [(b"receive", pytest.approx(1 - 2 / 7)), (b"recieve", 1.0)]
    assert like(part, "ab", edits=2) == []  # every letter differs
    assert like(part_of([]), "ab", edits=2) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Fuzzy("ab"), []),  # too short for an edit
        (Fuzzy("abd"), [0]),
        (Fuzzy("abd", edits=0), []),
        (Fuzzy("colour"), [1, 2]),
        (Fuzzy("colour", edits=1), [1]),
        (Fuzzy("bolor", edits=1), [1]),
        (Fuzzy("bolor", edits=1, prefix_length=1), []),
        (Fuzzy("colour abd"), []),
    ],
)
def test_fuzzy__by_its_length__allows_so_many_edits(query, expected):
    assert matches({"a": column_of(["abc", "color", "kolouur x", None])}, query).tolist() == expected
