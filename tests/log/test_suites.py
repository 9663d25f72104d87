"""Logs over every store and every commit store keep what ``siltstone.log`` promises.

Every store with the two commit stores that need no server, and one store with every commit store.
"""

from __future__ import annotations

import itertools

import pytest

from places import REGISTRIES, STORES
from siltstone.testing.log_suite import LogSuite

# (store, commit store or "" where the store decides, publish by fork)
CREATE, FORK = False, True
COMBINATIONS = [
    *((store, "", CREATE) for store in STORES),
    *((store, "sqlite", fork) for store, fork in itertools.product(STORES, (CREATE, FORK))),
    *(
        ("memory", registry, fork)
        for registry, fork in itertools.product(REGISTRIES, (CREATE, FORK))
        if registry != "sqlite"
    ),
]


def named(combination):
    store, registry, fork = combination
    return f"{store}-{registry or 'conditional'}{'-fork' if fork else ''}"


@pytest.mark.parametrize("combination", COMBINATIONS, ids=named)
class TestLog(LogSuite):
    @pytest.fixture(autouse=True)
    def _places(self, places, combination):
        self.store_name, self.registry_name, self.fork = combination
        self.places = places
        self.registry = places.registry(self.registry_name) if self.registry_name else None

    def make_store(self):
        return self.places.store(self.store_name).open()

    def make_registry(self):
        return self.registry


@pytest.mark.parametrize("store_name", STORES)
class TestWitnessedLog(LogSuite):
    guard = "witness"

    @pytest.fixture(autouse=True)
    def _places(self, places, store_name):
        self.places = places
        self.store_name = store_name

    def make_store(self):
        return self.places.store(self.store_name).open()
