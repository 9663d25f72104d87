"""Mistakes about commit stores and WAL stores of tables that are collected and cloned, planted into the real code.

What must hold is what ``planted`` says. A change is made where a function is called from: ``build:open_beside`` is the
``open_beside`` that ``build`` imports.
"""

from __future__ import annotations

from siltstone.testing.sim.planted import Mistake, change

OF_TABLE = "registry = log.commits.registry if isinstance(log.commits, External) else None"
PLACE = "siltstone.shard.place:ShardPlace"

PLACE_MISTAKES = (
    # -- commit stores -------------------------------------------------------------------------------
    Mistake(
        "the logs of builds are decided by a store that lies, not by the table's commit store",
        "commits-index",
        (change("siltstone.index.build:open_beside", OF_TABLE, "registry = None"),),
    ),
    Mistake(
        "a commit store keeps the claims of versions that are truncated",
        "commits-retain",
        (
            change(
                "siltstone.log.log:truncate",
                "log.commits.registry.truncate(log.scope, below=below, digest=mark.digest)",
                "pass",
            ),
        ),
    ),
    Mistake(
        "what a clone holds of a table is asked of no commit store",
        "commits-clones",
        (
            change(
                "siltstone.retain.pins:open_other_log",
                "commits = others.commits(origin.uri, number) or _registry_of(log, found.identity.commits_identity)",
                "pass",
            ),
        ),
    ),
    Mistake(
        "a version that was claimed and not published counts for nothing when a table is collected",
        "commits-retain",
        (
            change(
                "siltstone.commit.external:External.decide",
                "winner = self._help(place, won)",
                "winner = self.published(place) or proposal",
            ),
        ),
    ),
    # -- WAL stores ----------------------------------------------------------------------------------
    Mistake(
        "a WAL is moved before all that it holds is in fragments",
        "wal-store",
        (change("siltstone.shard.takeover:Takeover.move", "while self.tables.nbytes:", "while False:"),),
    ),
    Mistake(
        "a WAL store is taken for the right one, whatever its id is",
        "wal-store",
        (change(f"{PLACE}._other", "if found is None or found.id != wanted.id:", "if False:"),),
    ),
    Mistake(
        "a WAL that is begun elsewhere begins at the first position",
        "wal-store",
        (
            change(
                f"{PLACE}._writers",
                "where = WalPlace(begins=end.position, store=target)",
                "where = WalPlace(store=target)",
                "begins = to_mark(end, manifest.log)",
                "begins = None",
            ),
        ),
    ),
    Mistake(
        "a WAL that its last writer closed is let go of, merged or not",
        "wal-store",
        (
            change(
                "siltstone.shard.place:let_go",
                "end = ended(state)",
                "end = state.closed",
            ),
            change("siltstone.shard.manifest:_may_move", "end = let_go(state)", "end = state.closed"),
        ),
    ),
    Mistake(
        "a WAL is let go of though checkpoints keep entries of it",
        "wal-store",
        tuple(
            change(f"{module}:let_go", "return None if pinned else end", "return end")
            for module in ("siltstone.shard.place", "siltstone.shard.manifest")
        ),
    ),
    Mistake(
        "a checkpoint of all rows leaves those in other WAL stores out",
        "wal-store",
        (
            change(
                "siltstone.api.checkpoints:Checkpointed.checkpoint",
                "[] if version is not None else [Settle(",
                "[] if self._other is not None else [Settle(",
            ),
        ),
    ),
)
