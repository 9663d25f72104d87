"""Marks and entries: places in a log, and what stands there.

A mark is half open: it stands *behind* ``position`` entries, so ``position`` is the place where the next
one goes. The mark of an empty log is position 0 with the digest of the log's identity.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from siltstone.errors import CorruptionError
from siltstone.format.frame import digest
from siltstone.format.records import Header, Kind, decode_entry

NUMBER_MAX = 2**63 - 1
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Mark(NamedTuple):
    """A place in a log: entries 0 to position - 1 lie before it."""

    position: int
    epoch: int  # of the entry before it
    digest: str  # of the entry before it


@dataclass(frozen=True)
class Entry:
    """One decided entry. ``dead`` where a writer that had been fenced put it there."""

    position: int
    epoch: int
    op: str
    nonce: str
    kind: Kind
    body: bytes
    prev: str
    digest: str
    writer: str = ""
    time_ms: int = 0
    dead: bool = False

    @property
    def end(self) -> Mark:
        """The mark right behind this entry."""
        return Mark(self.position + 1, self.epoch, self.digest)


class Said(NamedTuple):
    """What an entry says of itself that whoever appends it decides."""

    time_ms: int | None = None  # None: now
    requires: tuple[str, ...] = ()  # features that whoever reads its body must understand


def is_digest(text: object) -> bool:
    """Whether ``text`` has the shape of a digest."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def read_entry(data: bytes, *, log: str, position: int, name: str, checked: bool = True) -> Entry:
    """Decode and check that the entry belongs here; its predecessor is not looked at.

    Unless ``checked``, its checksum is not either: the caller compares its digest with what others say of it.
    """
    header, body = decode_entry(data, name=name, checked=checked)
    _check_home(header, log=log, position=position, name=name)
    return entry_of(header, body, data)


def entry_of(header: Header, body: bytes, data: bytes) -> Entry:
    """The entry of a header and a body; ``data`` is both, as they are stored."""
    return Entry(
        position=header.position,
        epoch=header.epoch,
        op=header.op,
        nonce=header.nonce,
        kind=header.kind,
        body=body,
        prev=header.prev,
        digest=digest(data),
        writer=header.writer,
        time_ms=header.time_ms,
    )


def check_follows(entry: Entry, after: Mark, *, name: str) -> None:
    """Raise CorruptionError unless ``entry`` was written right behind ``after``."""
    if entry.prev != after.digest:
        raise CorruptionError(
            f"{name} follows {entry.prev[:12]}..., but the entry before it is {after.digest[:12]}...: "
            f"one of the two was overwritten",
            hint="run `siltstone verify` to see what was lost and `siltstone repair` to mend it",
            object=name,
            position=entry.position,
        )


def _check_home(header: Header, *, log: str, position: int, name: str) -> None:
    if header.log != log:
        raise CorruptionError(
            f"{name} belongs to log {header.log}, this is {log}",
            hint="the log was replaced or objects of two logs were mixed; open it again",
            object=name,
        )
    if header.position != position:
        raise CorruptionError(f"{name} says it is entry {header.position}", object=name)
