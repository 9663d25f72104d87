"""Looking into a log, and putting into it what no writer of ours would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.format.records import Header, encode_entry
from siltstone.ids import SystemIds

if TYPE_CHECKING:
    from siltstone.log import Log, Mark


def bodies(log: Log) -> list[bytes]:
    """The bodies of all entries."""
    return [entry.body for entry in log.entries()]


def keys_of(log: Log, position: int) -> list[str]:
    """The objects that are published at a position."""
    return [
        info.key
        for info in log.store.list(f"{log.root}{paths.ENTRIES}")
        if (paths.parse_entry(log.root, info.key) or (-1,))[0] == position
    ]


def put_dead(log: Log, fence: Mark) -> None:
    """Let a writer of an older epoch win the place behind a fence, as one that looks at no epochs could."""
    ids = SystemIds()
    header = Header(
        log=log.identity.log,
        position=fence.position,
        epoch=fence.epoch - 1,
        op=ids.new(),
        nonce=ids.new(),
        prev=fence.digest,
    )
    log.commits.decide(log.place(fence), encode_entry(header, b"dead"))
