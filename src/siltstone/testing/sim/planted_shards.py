"""Mistakes of the shards' protocol, planted into the real code.

What must hold is what ``planted`` says. A change is made where a function is called from: ``takeover:claim`` is the
``claim`` that ``takeover`` imports.
"""

from __future__ import annotations

from siltstone.testing.sim.planted import LOG, Mistake, change

WAL = "siltstone.shard.wal"
TAKEOVER = "siltstone.shard.takeover"
WRITER = "siltstone.shard.writer"
MERGE = "siltstone.shard.merge"
SHARDS = "siltstone.shard.shards"
SPLIT = "siltstone.shard.split"
FLUSHER = "siltstone.shard.flusher:WalFlusher"
FENCE = "logs.wal.fence(state.epoch)"

SHARD_MISTAKES = (
    Mistake(
        "a shard is taken over without a fence in its WAL",
        "shards",
        (
            change(
                f"{TAKEOVER}:claim",
                "wal.fence(epoch, confirm=lambda: manifest.is_mine(epoch))",
                "wal.tip()",
            ),
        ),
    ),
    Mistake(
        "what is replayed ends where the WAL ended before the fence",
        "shards",
        (
            change(
                f"{TAKEOVER}:claim",
                "epoch = manifest.claim(writer, where).epoch",
                "wal.ended = wal.tip(); epoch = manifest.claim(writer, where).epoch",
            ),
            change(f"{TAKEOVER}:Takeover.replay", "until=self.appender.end", "until=self.logs.wal.ended"),
        ),
    ),
    Mistake(
        "the manifest's entries have the epochs of their writers, so that older ones are stepped over",
        "shards",
        (
            change(
                "siltstone.shard.manifest:Manifest.change",
                "self.log.append(encode_state(new), after=mark)",
                "self.log.append(encode_state(new), after=mark, epoch=new.epoch)",
            ),
        ),
    ),
    Mistake(
        "an entry is tried again wherever the WAL ends, under another op id",
        "shards",
        (
            change(
                f"{WAL}:WalAppender.append",
                "self.log.append(body, after=after, epoch=self.epoch, op=op)",
                "self.log.add(body, epoch=self.epoch)",
            ),
        ),
    ),
    Mistake(
        "an entry of one's own is taken for another's, and the rows go behind it",
        "shards",
        (
            change(f"{LOG}._append", "winner is data or entry.op == op", "winner is data"),
            change(
                f"{WAL}:WalAppender.append",
                "self.log.append(body, after=after, epoch=self.epoch, op=op)",
                "self.log._rush(body, self.epoch, op, after)[0]",
            ),
        ),
    ),
    Mistake(
        "rows are acknowledged when an entry of older ones is written",
        "shards",
        (change(f"{FLUSHER}._write", "self._durable = (entry.turn,", "self._durable = (self.last,"),),
    ),
    Mistake(
        "a memtable is flushed before an older one",
        "shards",
        (change("siltstone.shard.memtables:MemTables.oldest", "self._frozen[0]", "self._frozen[-1]"),),
    ),
    Mistake(
        "a memtable that could not be flushed is passed over",
        "shards",
        (
            change(
                f"{WRITER}:ShardWriter.flush_memtables",
                "self._note_failure(error)",
                "self._tables.drop_before(held.table.generation + 1); continue",
            ),
        ),
    ),
    Mistake(
        "a flush whose answer was lost is noted again",
        "shards-plain",
        (change(f"{WRITER}:flush_memtable", "if state.generation > table.generation:", "if False:"),),
    ),
    Mistake(
        "a writer that was fenced notes what it flushed",
        "shards-plain",
        (change(f"{WRITER}:flush_memtable", "logs.manifest.check_mine(state, epoch)", "pass"),),
    ),
    Mistake(
        "the WAL is truncated before the manifest has the fragment",
        "shards",
        (
            change(
                f"{WRITER}:flush_memtable",
                "state = logs.manifest.change(edit)",
                "logs.wal.truncate(to_mark(end, logs.wal)); state = logs.manifest.change(edit)",
            ),
        ),
    ),
    Mistake(
        "ids of puts go with the entries of the WAL that had them",
        "shards",
        (
            change(f"{WRITER}:flush_memtable", "fold(state, applied)", "state"),
            change(f"{MERGE}:tidy", "fold(state, applied)", "state"),
        ),
    ),
    Mistake(
        "a merge does not move the cursor in its version",
        "shards-plain",
        (change(f"{MERGE}:Settle._put", "draft.set_shards({shard: taken.until})", "pass"),),
    ),
    Mistake(
        "a merge stands though another one came first",
        "shards-plain",
        (
            change("siltstone.table.conflict:verdict", "bool(mine.shards & landed.shards.keys())", "False"),
            change(f"{MERGE}:put_rows", "draft.depends(rows=True, columns=True)", "pass"),
        ),
    ),
    Mistake(
        "a shard is tidied before the merge is committed",
        "shards",
        (
            change(
                f"{MERGE}:Settle.run",
                "self._put(draft,",
                "tidy_all([reader], {reader.place.name: taken.until}); self._put(draft,",
            ),
        ),
    ),
    Mistake(
        "a fresh read takes the table's version first, and the shards then",
        "shards",
        (change(f"{SHARDS}:Shards._snapshots", "state = self._now()", "state = before"),),
    ),
    Mistake(
        "a fresh read trusts a writer of its process that was fenced",
        "shards",
        (change(f"{SHARDS}:Shards._each", "_is_behind(reader, found)", "False"),),
    ),
    Mistake(
        "shards are split without being sealed",
        "shards-split",
        (
            change(
                f"{SPLIT}:seal_shard",
                "logs.manifest.change(partial(_sealed, who, logs.where))",
                "logs.manifest.read()",
                "if not state.sealed or logs.where != state.wal:",
                "if False:",
                FENCE,
                "pass",
            ),
        ),
    ),
    Mistake(
        "shards are sealed, and their WALs are not fenced",
        "shards-split",
        (change(f"{SPLIT}:seal_shard", FENCE, "pass"),),
    ),
    Mistake(
        "the logs of shards are decided by a store that lies, not by the table's commit store",
        "shards-fork",
        (
            change(
                "siltstone.shard.place:open_beside",
                "registry = log.commits.registry if isinstance(log.commits, External) else None",
                "registry = None",
            ),
        ),
    ),
)
