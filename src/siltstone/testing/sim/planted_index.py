"""Mistakes about builds of text indexes, planted into the real code; ``models/finalize.py`` has the rules they break.

What must hold is what ``planted`` says. A change is made where a function is called from: ``gc:unneeded`` is the
``unneeded`` that ``gc`` imports.
"""

from __future__ import annotations

from siltstone.testing.sim.planted import Mistake, change

BUILD = "siltstone.index.build:Build"
PLAN = "siltstone.retain.plan"
GC = "siltstone.retain.gc"
COVERS = "siltstone.index.cover:Covers"
MARK = "done = self._mark(encode(self._marker(staged)))"
FIRST_OF_ITEM = "found.setdefault(one.item, one)"
SOURCE = "source = paths.index(self.name, paths.staged_part(item, one.attempt, number))"
LISTED = """source = next(
                    (
                        info.key
                        for info in self.store.list(paths.index(self.name, paths.STAGING))
                        if f"/part_{item}_" in info.key and info.key.endswith(f"_{number}.text")
                    ),
                    "none",
                )"""
STAGING = "for number, made in enumerate(parts):"
SAID_FIRST = """parts = list(parts)
    self.log.add(
        encode(
            Staged(
                item=item, attempt=attempt, plan=digest(plain(self.plan)), parts=tuple(made.facts for made in parts)
            )
        ),
        op=attempt,
    )
    for number, made in enumerate(parts):"""

INDEX_MISTAKES = (
    # -- items ---------------------------------------------------------------------------------------
    Mistake(
        "of each item the last attempt counts",
        "index-mixed",
        (change(f"{BUILD}.staged", FIRST_OF_ITEM, "found[one.item] = one"),),
    ),
    Mistake(
        "a worker says that an item is done before it has staged it",
        "index",
        (change(f"{BUILD}.stage", STAGING, SAID_FIRST),),
    ),
    Mistake(
        "a worker is told its own attempt, whichever counts",
        "index-mixed",
        (change(f"{BUILD}.stage", "counts = self.staged().get(item)", "counts = mine"),),
    ),
    # -- the end -------------------------------------------------------------------------------------
    Mistake(
        "a build ends with the items that are there",
        "index",
        (change(f"{BUILD}.finalize", "if len(staged) < len(self.plan.items):", "if not staged:"),),
    ),
    Mistake(
        "what is in staging is what counts",
        "index-mixed",
        (change(f"{BUILD}._copies", SOURCE, LISTED),),
    ),
    Mistake(
        "the marker is written before the parts are copied",
        "index",
        (
            change(
                f"{BUILD}.finalize",
                "copies = list(self._copies(staged))",
                "self._mark(encode(self._marker(staged))); copies = list(self._copies(staged))",
            ),
        ),
    ),
    Mistake(
        "what was staged is cleared before the marker is there",
        "index",
        (change(f"{BUILD}.finalize", MARK, f"self._clear(source for source, _, _ in copies); {MARK}"),),
    ),
    Mistake(
        "what was staged is moved, not copied",
        "index",
        (
            change(
                f"{BUILD}._copy",
                "self.store.copy(source, target)",
                "self.store.copy(source, target); self.store.delete([source])",
            ),
        ),
    ),
    Mistake(
        "a final name is deleted before it is written",
        "index",
        (
            change(
                f"{BUILD}._copy",
                "self.store.copy(source, target)",
                "self.store.delete([target]); self.store.copy(source, target)",
            ),
        ),
    ),
    # -- the version ---------------------------------------------------------------------------------
    Mistake(
        "a build is committed under no id of its own",
        "index",
        (
            change(
                "siltstone.api.index_builds:IndexBuild.commit",
                'Request((work,), plan.version, Once(id=f"index {plan.build}"))',
                "Request((work,), plan.version)",
            ),
        ),
    ),
    Mistake(
        "a build takes the place of segments that another one has replaced",
        "index",
        (
            change(
                "siltstone.index.operations:ReplaceSegments.run",
                "if replaced or any(mine & fragments_of(self._marker_of(one)) for one in kept):",
                "if False:",
            ),
        ),
    ),
    Mistake(
        "a build is committed though the version that it was begun on was collected",
        "index",
        (change("siltstone.table.commit:_check_room", "if base < state.floor:", "if False:"),),
    ),
    # -- collection ----------------------------------------------------------------------------------
    Mistake(
        "a collection removes builds that are under way",
        "index",
        (
            change(
                f"{GC}:unneeded",
                "is_unneeded(build, found.needed.builds, floor=found.floor)",
                "build not in found.needed.builds",
            ),
            change(
                f"{GC}:still_unneeded",
                'name, needed = (paths.parse_index(doomed.key) or ("",))[0], found.needed.builds',
                "return True",
            ),
        ),
    ),
    Mistake(
        "a collection does not look at the builds of versions that are kept by name",
        "index",
        (change(f"{PLAN}:Names.take", "self.builds |= builds_of(state.indexes.values())", "pass"),),
    ),
    Mistake(
        "a collection removes what is staged for builds that go on",
        "index",
        (change(f"{PLAN}:_is_staged", " and _base(build) < floor", ""),),
    ),
    Mistake(
        "what a collection left in staging of a build that is part of the table stays",
        "index",
        (change(f"{PLAN}:_is_staged", "return ", "return False and "),),
    ),
    # -- clones --------------------------------------------------------------------------------------
    Mistake(
        "a clone that is detached keeps the builds of its parent",
        "index-clones",
        (change("siltstone.retain.detach:Detach.run", "if stale:", "if False:"),),
    ),
    # -- searches ------------------------------------------------------------------------------------
    Mistake(
        "rows that no segment has are not searched",
        "index",
        (change(f"{COVERS}._column", "lives.append(self._uncovered(numbered, place, field, analyzer))", "pass"),),
    ),
    Mistake(
        "a search finds rows that were deleted",
        "index",
        (change(f"{COVERS}._covered", "if gone is not None:", "if False:"),),
    ),
)
