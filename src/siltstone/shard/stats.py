"""What a shard's writer says of itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WriterStats:
    """What a writer did since it was opened."""

    shard: str
    epoch: int
    puts: int
    rows: int
    deletes: int  # keys
    backpressure_waits: int
    backpressure_ms: float
    replayed_rows: int
    flushed_memtables: int
    last_error: str  # what stopped the writer; else why the last flush of a memtable that failed did


@dataclass(frozen=True)
class WalStats:
    """The WAL, as its writer sees it."""

    next_wal_entry_position: int  # right from the moment the writer is open
    replay_from: int  # entries before it are flushed or merged
    entries: int  # written by this writer
    rows: int
    bytes: int
    retries: int
    pending_batches: int
    pending_bytes: int
    flush_ms: float  # spent on writing entries
    last_error: str  # why the last attempt to write an entry that failed did; it may be there by now


@dataclass(frozen=True)
class MemTableStats:
    """The memtables of a writer."""

    generation: int  # of the active one
    rows: int
    batches: int
    bytes: int
    frozen: int  # memtables that wait for their flush
    frozen_bytes: int
