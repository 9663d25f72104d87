"""Names: what is built parses back, what is hostile is refused, and key order is number order."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone import paths
from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.testing.hostile import HOSTILE_KEYS

NONCE = "0123456789abcdef" * 2
positions = st.integers(0, 2**63 - 1)
roots = st.sampled_from(["", "a/", "a/b/", "grüße/"])


@pytest.mark.parametrize("key", HOSTILE_KEYS, ids=lambda key: ascii(key)[:40])
def test_check_key__hostile__is_refused(key):
    with pytest.raises(InvalidInputError):
        paths.check_key(key)


def test_hostile_keys__counted__are_at_least_sixty():
    assert len({ascii(key) for key in HOSTILE_KEYS}) >= 60


@pytest.mark.parametrize(
    "key", ["a", "a/b", "...", "..a", "a..b/c", ".hidden", "a b", "é", "日本/語", "a" * 1000, "~", "a=b&c"]
)
def test_check_key__harmless__comes_back(key):
    assert paths.check_key(key) == key


def test_check_key__too_long__says_the_limit():
    with pytest.raises(LimitExceededError, match="1000"):
        paths.check_key("a" * 1001)


@given(st.text(max_size=40))
def test_check_key__any_text_that_passes__stays_below_its_root(text):
    try:
        key = paths.check_key(text)
    except InvalidInputError:
        return
    joined = posixpath.normpath(f"/store/{key}")
    assert joined == f"/store/{key}"
    assert "%" not in key
    assert "\\" not in key


@pytest.mark.parametrize(("root", "expected"), [("", ""), ("a", "a/"), ("a/", "a/"), ("a/b", "a/b/")])
def test_check_root__with_or_without_a_slash__ends_in_one(root, expected):
    assert paths.check_root(root) == expected


@pytest.mark.parametrize("root", ["/", "/a", "a//", "..", "a/..", None, 7])
def test_check_root__hostile__is_refused(root):
    with pytest.raises(InvalidInputError):
        paths.check_root(root)


@given(roots, positions, st.sampled_from(["", NONCE]))
def test_entry__any__parses_back_and_is_a_key(root, position, nonce):
    key = paths.entry(root, position, nonce)
    assert paths.check_key(key) == key
    assert paths.parse_entry(root, key) == (position, nonce)


@given(roots, positions)
def test_names__any__parse_back_as_what_they_are_only(root, position):
    witness, staged, floor = (
        paths.witness(root, position, NONCE),
        paths.staged(root, position, NONCE),
        paths.floor(root, position),
    )
    assert paths.parse_witness(root, witness) == (position, NONCE)
    assert paths.parse_staged(root, staged) == (position, NONCE)
    assert paths.parse_floor(root, floor) == position
    assert paths.parse_entry(root, witness) is None
    assert paths.parse_entry(root, floor) is None
    assert paths.parse_staged(root, witness) is None
    assert paths.parse_floor(root, staged) is None


@given(positions, positions)
def test_digits__two_numbers__sort_as_numbers(one, two):
    assert (paths.digits(one) < paths.digits(two)) == (one < two)
    assert (paths.entry("", one, NONCE) < paths.entry("", two)) == (one < two)


@pytest.mark.parametrize(
    "key",
    [
        "entries/7",
        "entries/-0000000000000000007",
        "entries/0000000000000000000x",
        f"entries/{7:021d}",
        f"entries/{7:020d}/short",
        f"entries/{7:020d}/{NONCE}/more",
        f"entries/{7:020d}/{NONCE.upper()}",
        f"other/{7:020d}",
        f"x/entries/{7:020d}",
        "entries/" + "\N{ARABIC-INDIC DIGIT SEVEN}" * 20,
    ],
)
def test_parse_entry__not_ours__is_nothing(key):
    assert paths.parse_entry("", key) is None


@pytest.mark.parametrize(
    ("key", "root"),
    [
        ("identity", ""),
        ("a/b/identity", "a/b/"),
        (f"identity/{NONCE}", ""),
        (f"a/identity/{NONCE}", "a/"),
        ("xidentity", None),
        ("identity/x", None),
        (f"a/xidentity/{NONCE}", None),
    ],
)
def test_parse_identity__any_key__is_its_root_or_nothing(key, root):
    assert paths.parse_identity(key) == root
