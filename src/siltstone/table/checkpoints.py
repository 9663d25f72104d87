"""Checkpoints, for people: what each one keeps, and until when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from siltstone.table.versions import moment

if TYPE_CHECKING:
    from datetime import datetime

    from siltstone.format import table as records


@dataclass(frozen=True)
class Checkpoint:
    """A promise to keep a version. Times are of the store's clock.

    Of scope ``all``, the version has everything. Of scope ``durable``, ``shards`` are those whose WAL and fragments
    have rows that belong to it too. While ``pending``, it was begun and not ended.
    """

    name: str
    version: int
    scope: Literal["all", "durable"]
    created: datetime
    expires: datetime | None = None  # None: never
    pending: bool = False
    holder: str | None = None  # the URI of the clone that it is kept for
    shards: tuple[str, ...] = ()
    id: str = ""


def describe_checkpoint(name: str, record: records.Checkpoint) -> Checkpoint:
    """A checkpoint as people see it."""
    return Checkpoint(
        name=name,
        version=record.version,
        scope=record.scope,
        created=moment(record.created_ms),
        expires=None if record.expires_ms is None else moment(record.expires_ms),
        pending=record.pending,
        holder=None if record.holder is None else record.holder.uri,
        shards=tuple(sorted(record.shards)),
        id=record.pin,
    )
