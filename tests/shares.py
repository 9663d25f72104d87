"""How many of the places where something can go wrong a test takes: a share by itself, all of them in the soak.

Which share follows from the test's name and parameters, so that a test is the same test each time, and tests that
differ in the kind of fault take different places. ``tests/faults/test_each_call.py`` always takes every place.
"""

from __future__ import annotations

import itertools
import os
import zlib
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T")
WHOLE = "SILTSTONE_TEST_SECONDS" in os.environ
SHARE = 3


def calls(share: int = SHARE) -> Iterator[int]:
    """Numbers of calls from 1 on, without end: all, or one of each ``share``."""
    return itertools.count(1) if WHOLE else itertools.count(1 + _first(share), share)


def some(places: Sequence[T], share: int = SHARE) -> Sequence[T]:
    """All of these places, or one of each ``share``."""
    return places if WHOLE or len(places) < share else places[_first(share) :: share]


def _first(share: int) -> int:
    name, _, _ = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")  # behind it: setup, call or teardown
    return zlib.crc32(name.encode()) % share
