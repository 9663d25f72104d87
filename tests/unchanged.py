"""Stores that a test changes on purpose, and a look at what is in them."""

from __future__ import annotations

import contextlib

from siltstone.format import frame


def inventory(store):
    return [(info.key, info.size, frame.digest(store.get(info.key, limit=2**30))) for info in store.list()]


@contextlib.contextmanager
def unchanged(store):
    before = inventory(store)
    yield
    assert inventory(store) == before
