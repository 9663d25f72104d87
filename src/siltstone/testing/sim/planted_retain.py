"""Mistakes about what is kept, planted into the real code: each breaks a rule that ``models/retention.py`` has.

What must hold is what ``planted`` says. A change is made where a function is called from: ``gc:now_ms`` is the
``now_ms`` that ``gc`` imports.
"""

from __future__ import annotations

from siltstone.testing.sim.planted import Mistake, change

COMMIT = "siltstone.table.commit"
WORKS = "siltstone.table.operations"
GC = "siltstone.retain.gc"
PLAN = "siltstone.retain.plan"
CAPTURE = "siltstone.retain.capture"
CHECKPOINT = "siltstone.retain.checkpoint"
PINS = "siltstone.retain.pins"
DROP = "siltstone.retain.drop"
CLONES = "siltstone.api.clones:Cloned"
KEPT = "draft.depends(kept=True)"
KEPT_NAMES = "one for one in state.kept if one < floor"
HAD = "had = draft.state.checkpoints.get(asked.name)"
MADE_UP = 'CheckpointRecord(version=0, pin=asked.pin, scope="durable", pending=True)'
OWN_CLOCK = ("return store_now_ms(log)", "return log.env.clock.wall_ms()")

RETAIN_MISTAKES = (
    # -- what versions need --------------------------------------------------------------------------
    Mistake(
        "a commit does not compare the version that it began with to the floor",
        "retain",
        (change(f"{COMMIT}:_check_room", "if base < state.floor:", "if False:"),),
    ),
    Mistake(
        "a collection does not look at tags",
        "retain",
        (
            change(
                f"{GC}:survey", KEPT_NAMES, "one.version for one in state.checkpoints.values() if one.version < floor"
            ),
        ),
    ),
    Mistake(
        "a collection does not look at checkpoints",
        "retain",
        (change(f"{GC}:survey", KEPT_NAMES, "one for one in state.tags.values() if one < floor"),),
    ),
    Mistake(
        "objects are deleted that transactions under way have written",
        "retain",
        (change(f"{PLAN}:is_unneeded", "_base(name) < floor and ", ""),),
    ),
    Mistake(
        "a collection deletes before its entry is there",
        "retain",
        (
            change(
                f"{GC}:Collection.run",
                "state, found = self._raise_floor(look)",
                "self._delete(look.doomed); state, found = self._raise_floor(look)",
            ),
        ),
    ),
    Mistake(
        "what a collection deletes is what it saw before its entry",
        "retain",
        (change(f"{GC}:Collection.run", "if still_unneeded(one, found)", ""),),
    ),
    Mistake(
        "whoever depends on what is kept does not look again",
        "retain",
        (
            change(
                "siltstone.table.conflict:verdict",
                "(mine.kept and bool(landed.tags or landed.checkpoints or landed.floor is not None))",
                "False",
            ),
        ),
    ),
    Mistake(
        "a version that was collected can be tagged",
        "retain",
        (change(f"{WORKS}:Tags.run", "check_kept(draft.state, version)", "pass"),),
    ),
    Mistake(
        "a version that was collected can be restored",
        "retain",
        (change(f"{WORKS}:Restore.run", "check_kept(draft.state, self._target.version)", "pass"),),
    ),
    Mistake(
        "a version that was collected can get a checkpoint",
        "retain",
        (change(f"{CHECKPOINT}:Keep.run", "check_kept(draft.state, self._version)", "pass"),),
    ),
    Mistake(
        "the log is truncated up to the floor, whatever is tagged below",
        "retain",
        (change(f"{GC}:shorten", "log, oldest = history.log, state.oldest", "log, oldest = history.log, state.floor"),),
    ),
    Mistake(
        "the log is truncated without a rollup before it",
        "retain",
        (change(f"{GC}:shorten", "history.write_anchor(", "("),),
    ),
    # -- how long ------------------------------------------------------------------------------------
    Mistake(
        "checkpoints end by the clock of the process that collects",
        "retain",
        (change(f"{GC}:now_ms", *OWN_CLOCK),),
    ),
    Mistake(
        "checkpoints begin by the clock of the process that makes them",
        "retain",
        (change("siltstone.api.checkpoints:now_ms", *OWN_CLOCK),),
    ),
    Mistake(
        "the floor passes the version that was the newest when the time to keep began",
        "retain",
        (change(f"{GC}:choose_floor", "    return low", "    return min(low + 1, state.version)"),),
    ),
    Mistake(
        "a checkpoint that is being made is taken for one that was given up",
        "retain-shards",
        (
            change(
                f"{GC}:is_expired", "return now - CLOCK_GRAIN_MS >= checkpoint.created_ms + PENDING_MS", "return True"
            ),
        ),
    ),
    # -- shards --------------------------------------------------------------------------------------
    Mistake(
        "a WAL is truncated in spite of pins",
        "retain-shards",
        (change("siltstone.shard.flush:keep_from", ", *(pin.replay_from for pin in state.pins.values())", ","),),
    ),
    Mistake(
        "fragments of shards are removed in spite of pins",
        "retain-shards",
        (change("siltstone.shard.merge:pinned_names", "for pin in state.pins.values()", "for pin in ()"),),
    ),
    Mistake(
        "pins are compared with checkpoints that were read before them",
        "retain-shards",
        tuple(
            change(
                f"{module}:release",
                "each = together(",
                "live = {one.pin for one in state.checkpoints.values()}; each = together(",
                "live = {one.pin for one in now().checkpoints.values()}",
                "pass",
            )
            for module in ("siltstone.retain.shard_gc", "siltstone.api.checkpoints")
        ),
    ),
    Mistake(
        "a durable checkpoint is not announced before shards are pinned",
        "retain-shards",
        (
            change("siltstone.api.checkpoints:Checkpointed._capture", "self._do(begin)", f"begin.made = {MADE_UP}"),
            change(f"{CHECKPOINT}:Complete.run", HAD, f"{HAD} or {MADE_UP}"),
        ),
    ),
    Mistake(
        "a durable checkpoint that was deleted meanwhile is completed",
        "retain-shards",
        (change(f"{CHECKPOINT}:Complete.run", HAD, f"{HAD} or {MADE_UP}"),),
    ),
    Mistake(
        "a checkpoint of all rows leaves those in shards out",
        "retain-shards",
        (
            change(
                "siltstone.api.checkpoints:Checkpointed.checkpoint",
                "[] if version is not None else [Settle(",
                "[] if True else [Settle(",
            ),
        ),
    ),
    Mistake(
        "a clone of a durable checkpoint has no rows that are in shards",
        "retain-shards",
        (change("siltstone.retain.clone:_bring", "if parent.pin.shards:", "if False:"),),
    ),
    # -- clones --------------------------------------------------------------------------------------
    Mistake(
        "a clone of a clone does not pin the table that its rows are in",
        "retain-clones",
        (change("siltstone.retain.clone:end", "pin_origin(log, claim, origin, old, parent.others)", "pass"),),
    ),
    Mistake(
        "an entry with columns is repeated without them",
        "retain-clones",
        (change("siltstone.table.commit:repeats", "if any(step.columns is not None for step in steps):", "if False:"),),
    ),
    Mistake(
        "a clone pins a version that was collected",
        "retain-clones",
        (change(f"{PINS}:Pin._made", "check_kept(draft.state, version)", "pass"),),
    ),
    Mistake(
        "a pin does not depend on what is kept",
        "retain-clones",
        (change(f"{PINS}:Pin.run", KEPT, "pass"),),
    ),
    Mistake(
        "a clone that is detached lets go first",
        "retain-clones",
        (
            change(
                f"{CLONES}.detach",
                "done = self._insist(",
                "let_go(self._log, self._looked(), self._others); done = self._insist(",
            ),
        ),
    ),
    Mistake(
        "a clone that is detached keeps its earlier versions",
        "retain-clones",
        (change("siltstone.retain.detach:Detach.run", "draft.retain(floor=draft.begun.version + 1)", "pass"),),
    ),
    Mistake(
        "a table is dropped though clones hold it",
        "retain-clones",
        (change(f"{DROP}:check_free", "if held:", "if False:"),),
    ),
    Mistake(
        "a drop does not look again where a clone came first",
        "retain-clones",
        (change(f"{DROP}:Mark.run", "kept=True, ", ""),),
    ),
    Mistake(
        "a table that is dropped lets go before it is marked",
        "retain-clones",
        (
            change(
                f"{CLONES.partition(':')[0]}:drop",
                "    if not state.dropped:",
                "    release(log, claim_of(log, state), ((int(at), it) for at, it in state.origins.items()), others)\n"
                "    if not state.dropped:",
            ),
        ),
    ),
    Mistake(
        "a collection lets go of a table that earlier versions name",
        "retain-clones",
        (
            change(
                f"{GC}:Collect.run",
                "found = survey(self._history, without(draft.begun, over), floor=floor)",
                "found = survey(self._history, without(draft.begun, over), floor=draft.begun.version)",
            ),
            change(
                f"{GC}:Collection._look",
                "frozenset(state.origins) - found.needed.origins",
                "frozenset(state.origins) - survey(self._history, state, floor=state.version).needed.origins",
            ),
        ),
    ),
)
