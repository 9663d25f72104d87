"""Detaching a clone: it gets objects of its own for all that it has in common with other tables.

What must hold:
- Rows stay as they are, and so do the bytes of fragments; deletion vectors are written anew.
- What indexes have of those fragments is copied with them, also where it is in the clone's own store: copies have other
  names (``index_copy``). So a search finds the same before and after.
- The clone lets go of the other tables only when no version that it keeps names anything of theirs: versions before the
  one that is made are given up, and it is refused while a tag or a checkpoint keeps one that needs them.
- Pins go before the record of where they are, so that one that was cut off is ended by another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from siltstone import paths
from siltstone.errors import ConflictError, CorruptionError, MissingObjectError, NotFoundError
from siltstone.format.frame import digest
from siltstone.locks import ForkLock
from siltstone.retain.index_copy import copied, stale_segments
from siltstone.retain.pins import claim_of, release
from siltstone.retain.plan import builds_of, survey
from siltstone.shard.together import together
from siltstone.table.operations import Work
from siltstone.table.types import shown
from siltstone.table.upload import upload

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.format.rollup import Live
    from siltstone.format.table import Fragment
    from siltstone.format.text import Marker, Segment
    from siltstone.log import Log
    from siltstone.retain.index_copy import Stale
    from siltstone.table.draft import Draft
    from siltstone.table.history import History
    from siltstone.table.origins import OpensOthers
    from siltstone.table.state import State
    from siltstone.table.tools import Tools

NAMED_MAX = 5


def names_others(state: State) -> bool:
    """Whether a version names objects of other tables."""
    builds = builds_of(state.indexes.values())
    return any(_is_foreign(live) for live in state.fragments) or any(map(paths.origin_of, builds))


def _is_foreign(live: Live) -> bool:
    names = (live.fragment.name, live.vector.name if live.vector else "")
    return any(paths.origin_of(name) for name in names)


class Detach(Work):
    """Copies take the place of foreign fragments and segments. ``history`` tells what kept versions name."""

    operation = "detach"

    def __init__(self, history: History, progress: Callable[[int, int], None] | None) -> None:
        self._history = history
        self._progress = progress or (lambda _done, _total: None)
        self._copies: dict[str, Fragment] = {}
        self._segments: dict[str, tuple[Marker | None, dict[str, str], Segment | None]] = {}  # by the build copied
        self._named: dict[int, bool] = {}
        self._lock = ForkLock()
        self._done = self._total = 0  # bytes

    def run(self, draft: Draft) -> None:
        """What was copied is not copied again."""
        draft.depends(kept=True, numbered=True)
        if not draft.state.origins:
            return
        self._check_kept(draft.state)
        lives = [live for live in draft.state.fragments if _is_foreign(live)]
        stale = stale_segments(draft.tools, draft.state, (live.fragment.name for live in lives))
        missing = [live.fragment for live in lives if live.fragment.name not in self._copies]
        self._total = self._done + sum(one.bytes for one in missing) + sum(one.bytes for one in stale)
        if lives:
            self._copy(draft.tools, missing, base=draft.begun.version)
            self._replace(draft, lives)
        if stale:
            self._replace_segments(draft, stale)
        if lives or stale or survey(self._history, draft.begun, floor=draft.begun.floor).needed.origins:
            draft.retain(floor=draft.begun.version + 1)

    def _replace(self, draft: Draft, lives: list[Live]) -> None:
        gone = draft.tools.vectors.read_many((live.vector, live.fragment) for live in lives if live.vector is not None)
        draft.rewrite = True
        draft.remove(live.fragment.name for live in lives)
        draft.add(self._copies[live.fragment.name] for live in lives)
        for old, rows in gone.items():
            copy = draft.state.fragments.get(self._copies[old].name)
            if copy is not None:
                draft.delete(copy, rows.numbers())

    def _replace_segments(self, draft: Draft, stale: list[Stale]) -> None:
        """Each in its place, or without one where it has no copy."""
        made = {one.segment.build: self._copied(draft, one) for one in stale}
        for name in {one.index: None for one in stale}:
            index = draft.state.indexes[name]
            segments = (made.get(one.build, one) for one in index.segments)
            draft.set_index(
                name, msgspec.structs.replace(index, segments=tuple(one for one in segments if one is not None))
            )

    def _copied(self, draft: Draft, stale: Stale) -> Segment | None:
        """The copy of a segment. One that was made before is of use where it has the same fragments."""
        names = {paths.bare(old): new.name for old, new in self._copies.items()}
        covered = {paths.bare(one.name) for part in stale.parts for one in part.fragments}
        names = {old: new for old, new in names.items() if old in covered}
        before = self._segments.get(stale.segment.build)
        if before is not None and before[:2] == (stale.marker, names):
            self._count(stale.bytes)
            return before[2]
        made = copied(draft.tools, stale, names, base=draft.begun.version, done=self._count)
        self._segments[stale.segment.build] = stale.marker, names, made
        return made

    def _count(self, size: int) -> None:
        with self._lock:
            self._done += size
            self._progress(self._done, self._total)

    def _check_kept(self, state: State) -> None:
        """Raise ConflictError where a version is kept that needs the others."""
        kept = {f"tag {shown(name)}": version for name, version in state.tags.items()}
        kept |= {f"checkpoint {shown(name)}": one.version for name, one in state.checkpoints.items()}
        for version in set(kept.values()) - self._named.keys():
            self._named[version] = names_others(state if version == state.version else self._history.at(version))
        held = [name for name, version in sorted(kept.items()) if self._named[version]]
        if held:
            raise ConflictError(
                f"versions that name objects of other tables are kept by {', '.join(held[:NAMED_MAX])}",
                hint="delete those tags and checkpoints first; clones of this clone are detached or dropped first",
                kept=held,
            )

    def _copy(self, tools: Tools, missing: list[Fragment], *, base: int) -> None:
        def copy(fragment: Fragment) -> None:
            made = _copied(tools, fragment, base=base)
            with self._lock:
                self._copies[fragment.name] = made
            self._count(fragment.bytes)

        together(copy, missing, tools.store)


def _copied(tools: Tools, fragment: Fragment, *, base: int) -> Fragment:
    key = paths.data(fragment.name)
    try:
        data = tools.store.get(key, limit=fragment.bytes)
    except NotFoundError as error:
        raise MissingObjectError(
            f"{key} is gone, with {fragment.rows} rows", hint="run `siltstone verify`", object=key
        ) from error
    if digest(data) != fragment.sha256:
        raise CorruptionError(
            f"{key} does not have the bytes that were written, and can't be copied",
            hint="restore the object, then detach again",
            object=key,
        )
    name = paths.name(base, tools.env.ids.new())
    upload(tools.store, paths.data(name), data, sha256=fragment.sha256, env=tools.env)
    return msgspec.structs.replace(fragment, name=name)


class Forget(Work):
    """The record goes of tables that nothing is named of any more."""

    operation = "detach"

    def run(self, draft: Draft) -> None:
        """Nothing where there is none."""
        draft.depends(kept=True)
        if draft.state.origins and not names_others(draft.state):
            draft.retain(origins=dict.fromkeys(draft.state.origins))


def let_go(log: Log, state: State, others: OpensOthers) -> None:
    """Release the pins of a clone in all tables that it has a record of."""
    release(log, claim_of(log, state), ((int(number), one) for number, one in state.origins.items()), others)
