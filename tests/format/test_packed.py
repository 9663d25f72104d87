"""Packed JSON: what is written can be read, and what could not be read is not written."""

from __future__ import annotations

import pytest

from siltstone.errors import LimitExceededError
from siltstone.format import packed
from siltstone.format.packed import pack_json, unpack_json


@pytest.mark.parametrize("length", [0, 1, packed.PLAIN_BYTES_MAX, packed.PLAIN_BYTES_MAX + 1, 300_000])
def test_pack_json__of_any_length__is_read_back(length):
    plain = bytes(number % 251 for number in range(length))
    assert unpack_json(pack_json(plain), name="it") == plain


def test_pack_json__plain_length_over_the_limit__is_refused_though_little_is_left_of_it(monkeypatch):
    monkeypatch.setattr(packed, "JSON_BYTES_MAX", 100_000)
    assert unpack_json(pack_json(b"x" * 100_000), name="it") == b"x" * 100_000
    with pytest.raises(LimitExceededError, match="too large for one version"):
        pack_json(b"x" * 100_001)
