"""Mistakes of the shards' protocol, planted into the real code.

What must hold is what ``planted`` says. A change is made where a function is called from: ``takeover:claim`` is the
``claim`` that ``takeover`` imports.
"""

from __future__ import annotations

from siltstone.testing.sim.planted import LOG, Change, Mistake, change

WAL = "siltstone.shard.wal"
MERGE = "siltstone.shard.merge"
SHARDS = "siltstone.shard.shards"
SPLIT = "siltstone.shard.split"
FLUSHER = "siltstone.shard.flusher:WalFlusher"
FENCE = "logs.wal.fence(state.epoch)"
SEEDS_MAX = 100


def planted(name: str, scenario: str, *changes: Change) -> Mistake:
    """A mistake, and where it shows."""
    return Mistake(name, scenario, changes, seeds_max=SEEDS_MAX)


SHARD_MISTAKES = (
    planted(
        "a shard is taken over without a fence in its WAL",
        "shards",
        change(
            "siltstone.shard.takeover:claim", "wal.fence(epoch, confirm=lambda: manifest.is_mine(epoch))", "wal.tip()"
        ),
    ),
    planted(
        "what is replayed ends where the WAL ended before the fence",
        "shards",
        change(
            "siltstone.shard.takeover:claim",
            "epoch = manifest.claim(writer).epoch",
            "wal.ended = wal.tip(); epoch = manifest.claim(writer).epoch",
        ),
        change("siltstone.shard.takeover:Takeover.replay", "until=self.appender.end", "until=self.logs.wal.ended"),
    ),
    planted(
        "the manifest's entries have the epochs of their writers, so that older ones are stepped over",
        "shards",
        change(
            "siltstone.shard.manifest:Manifest.change",
            "self.log.append(encode_state(new), after=mark)",
            "self.log.append(encode_state(new), after=mark, epoch=new.epoch)",
        ),
    ),
    planted(
        "an entry is tried again wherever the WAL ends, under another op id",
        "shards",
        change(
            f"{WAL}:WalAppender.append",
            "self.log.append(body, after=after, epoch=self.epoch, op=op)",
            "self.log.add(body, epoch=self.epoch)",
        ),
    ),
    planted(
        "an entry of one's own is taken for another's, and the rows go behind it",
        "shards",
        change(f"{LOG}._append", "mine = winner == data or entry.op == op", "mine = winner == data"),
        change(
            f"{WAL}:WalAppender.append",
            "self.log.append(body, after=after, epoch=self.epoch, op=op)",
            "self.log._rush(body, self.epoch, op, after)[0]",
        ),
    ),
    planted(
        "rows are acknowledged when an entry of older ones is written",
        "shards",
        change(f"{FLUSHER}._write", "self._durable = (entry.turn,", "self._durable = (self.last,"),
    ),
    planted(
        "a memtable is flushed before an older one",
        "shards",
        change("siltstone.shard.memtables:MemTables.oldest", "self._frozen[0]", "self._frozen[-1]"),
    ),
    planted(
        "a memtable that could not be flushed is passed over",
        "shards",
        change(
            "siltstone.shard.writer:ShardWriter.flush_memtables",
            "self._note_failure(error)",
            "self._tables.drop_before(held.table.generation + 1); continue",
        ),
    ),
    planted(
        "a flush whose answer was lost is noted again",
        "shards-plain",
        change("siltstone.shard.writer:flush_memtable", "if state.generation > table.generation:", "if False:"),
    ),
    planted(
        "a writer that was fenced notes what it flushed",
        "shards-plain",
        change("siltstone.shard.writer:flush_memtable", "logs.manifest.check_mine(state, epoch)", "pass"),
    ),
    planted(
        "the WAL is truncated before the manifest has the fragment",
        "shards",
        change(
            "siltstone.shard.writer:flush_memtable",
            "state = logs.manifest.change(edit)",
            "logs.wal.truncate(to_mark(end, logs.wal)); state = logs.manifest.change(edit)",
        ),
    ),
    planted(
        "ids of puts go with the entries of the WAL that had them",
        "shards",
        change("siltstone.shard.writer:flush_memtable", "fold(state, applied)", "state"),
    ),
    planted(
        "a merge does not move the cursor in its version",
        "shards-plain",
        change(f"{MERGE}:Settle._put", "draft.set_shards({shard: taken.until})", "pass"),
    ),
    planted(
        "a merge stands though another one came first",
        "shards-plain",
        change("siltstone.table.conflict:verdict", "bool(mine.shards & landed.shards.keys())", "False"),
        change(f"{MERGE}:Settle._put", "draft.depends(rows=True, columns=True)", "pass"),
    ),
    planted(
        "a shard is tidied before the merge is committed",
        "shards",
        change(
            f"{MERGE}:Settle.run",
            "self._put(draft,",
            "tidy_all([reader], {reader.place.name: taken.until}); self._put(draft,",
        ),
    ),
    planted(
        "a fresh read takes the table's version first, and the shards then",
        "shards",
        change(f"{SHARDS}:Shards._snapshots", "state = self._now()", "state = before"),
    ),
    planted(
        "a fresh read trusts a writer of its process that was fenced",
        "shards",
        change(f"{SHARDS}:Shards._each", "_is_behind(reader, found)", "False"),
    ),
    planted(
        "shards are split without being sealed",
        "shards-split",
        change(f"{SPLIT}:_seal", "logs.manifest.change(_sealed)", "logs.manifest.read()", FENCE, "pass"),
    ),
    planted(
        "shards are sealed, and their WALs are not fenced",
        "shards-split",
        change(f"{SPLIT}:_seal", FENCE, "pass"),
    ),
    planted(
        "the logs of shards are decided by a store that lies, not by the table's commit store",
        "shards-fork",
        change(
            "siltstone.shard.place:open_beside",
            "registry = log.commits.registry if isinstance(log.commits, External) else None",
            "registry = None",
        ),
    ),
)
