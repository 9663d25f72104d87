"""The same work on several shards, at once where that saves time.

What must hold: every call is made and has ended when this returns, and the first error, in order, is raised then.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from siltstone.store.base import Store

S = TypeVar("S")
T = TypeVar("T")
THREADS_MAX = 8


def together(call: Callable[[S], T], things: Sequence[S], store: Store) -> list[T]:
    """``call`` of each thing, in order; in threads where requests to the store take time."""
    if len(things) < 2 or not store.traits.overlaps:
        return [call(one) for one in things]
    with ThreadPoolExecutor(min(THREADS_MAX, len(things)), thread_name_prefix="siltstone-shards") as pool:
        running = [pool.submit(call, one) for one in things]
    return [one.result() for one in running]
