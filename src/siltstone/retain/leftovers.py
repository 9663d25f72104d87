"""What crashes leave behind that no version ever named: proposals, probes, files that were not finished.

What must hold: only what has been there for a day, by the store's clock, goes; and of proposals only those whose place
was decided and published, since a claim without its entry is published from what was staged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.retain.expiry import DAY_MS
from siltstone.retain.plan import PROBE, STAGED, UNFINISHED, Doomed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from siltstone.log import Log
    from siltstone.store.base import Store

BATCH = 1000


def left_over(log: Log, *, end: int, now_ms: int) -> Iterator[Doomed]:
    """Objects of a table that were left behind. All places of its log below ``end`` are published."""
    store, before_ms = log.store, now_ms - DAY_MS
    for info in store.list(f"{log.root}{paths.STAGED}"):
        found = paths.parse_staged(log.root, info.key)
        if found is not None and found[0] < end and info.modified_ms < before_ms:
            why = f"a proposal for version {found[0]}, which was decided and published"
            yield Doomed(info.key, STAGED, why, info.size)
    for info in store.list(paths.PROBE):
        if info.modified_ms < before_ms:
            yield Doomed(info.key, PROBE, "a probe of the store that was cut off", info.size)


def unfinished(store: Store, *, now_ms: int, remove: bool) -> list[Doomed]:
    """Files that were begun and not finished, which only a store on a disk has; with ``remove`` they go."""
    found = store.sweep(before_ms=now_ms - DAY_MS, remove=remove)
    return [Doomed(one.key, UNFINISHED, "a file that was begun a day ago and not finished", one.size) for one in found]


def delete(store: Store, keys: Sequence[str], *, progress: Callable[[int, int], None] | None = None) -> None:
    """Delete objects, many with one request."""
    for start in range(0, len(keys), BATCH):
        store.delete(keys[start : start + BATCH])
        if progress is not None:
            progress(min(start + BATCH, len(keys)), len(keys))
