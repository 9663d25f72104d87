"""Protocol mistakes, planted into the real code to see whether the simulator finds them.

What must hold: each is a change of a line or two, of the kind that someone could make in good faith, and each
is found within ``SEEDS_MAX`` seeds of the scenario named with it. A mistake that no longer fits the code, because
the line that it changes is gone, is an error: it must be planted anew.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from siltstone.errors import CommitUnknownError, ConflictError, InternalError
from siltstone.format.frame import digest
from siltstone.format.table import Checkpoint
from siltstone.log import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator

SEEDS_MAX = 300
NAMES: dict[str, Any] = {
    "CheckpointRecord": Checkpoint,
    "CommitUnknownError": CommitUnknownError,
    "ConflictError": ConflictError,
    "Mark": Mark,
    "digest": digest,
}


@dataclass(frozen=True)
class Change:
    """A function, and what to write in it in place of what."""

    where: str  # module:function or module:Class.method
    edits: tuple[tuple[str, str], ...]

    @contextmanager
    def made(self) -> Iterator[None]:
        """The code with the change."""
        module, _, path = self.where.partition(":")
        *owners, name = path.split(".")
        owner: Any = importlib.import_module(module)
        for part in owners:
            owner = getattr(owner, part)
        original = inspect.getattr_static(owner, name)
        setattr(owner, name, self._changed(original))
        try:
            yield
        finally:
            setattr(owner, name, original)

    def _changed(self, original: Any) -> Any:
        source = textwrap.dedent(inspect.getsource(getattr(original, "fget", original)))
        for old, new in self.edits:
            if source.count(old) != 1:
                raise InternalError(f"{self.where} has {source.count(old)} places that read {old!r}")
            source = source.replace(old, new)
        code = compile(source, f"<planted in {self.where}>", "exec", flags=annotations.compiler_flag)
        # A copy of its module's names: what the function calls there is what it called before.
        function = inspect.unwrap(getattr(original, "fget", original))
        names = {**NAMES, **function.__globals__}
        exec(code, names)  # noqa: S102 - the source is this package's own
        return names[function.__name__]


@dataclass(frozen=True)
class Mistake:
    """One planted mistake, and where it shows."""

    name: str
    scenario: str
    changes: tuple[Change, ...]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The code with the mistake in it."""
        with ExitStack() as stack:
            for change in self.changes:
                stack.enter_context(change.made())
            yield


def change(where: str, *edits: str) -> Change:
    """``edits`` are pairs: what is there, and what is to be there."""
    return Change(where, tuple(zip(edits[::2], edits[1::2], strict=True)))


LOG = "siltstone.log.log:Log"
READER = "siltstone.log.reader:LogReader"
FLOORS = "siltstone.log.floors:FloorReader"
EXTERNAL = "siltstone.commit.external:External"
FLOOR_UNREAD = """raise outcomes.unfinished("the floor can't be read", op, position, error) from error"""
CONDITIONAL = "siltstone.commit.conditional:ConditionalPut"

LOG_MISTAKES = (
    Mistake(
        "a refusal is taken for another's entry, unread",
        "writers",
        (
            change(
                f"{CONDITIONAL}.decide",
                "return found",
                "raise ConflictError('taken', end=Mark(place.position + 1, place.epoch, digest(found)))",
            ),
        ),
    ),
    Mistake(
        "an unknown outcome is reported as a failure",
        "writers",
        (change(f"{CONDITIONAL}.decide", "raise unknown(place, doubt) from doubt", "raise doubt"),),
    ),
    Mistake(
        "an error after a lost answer is reported as a failure",
        "reruns",
        (change(f"{CONDITIONAL}.decide", "elif doubt is None:", "elif True:"),),
    ),
    Mistake(
        "after an unknown outcome the next place is tried",
        "writers",
        (
            change(
                f"{LOG}._rush",
                "except ConflictError as error:",
                "except (ConflictError, CommitUnknownError) as error:",
                "mark = _end_of(error)",
                "mark = error.facts.get('end') or self._checked_tip(mark)",
            ),
        ),
    ),
    Mistake(
        "an operation that runs again is not looked up",
        "writers",
        (change(f"{LOG}._add_once", "if found is not None:", "if False:", "if folded is not None:", "if False:"),),
    ),
    Mistake(
        "an operation that runs again is appended at the tip, not behind what was looked through",
        "reruns",
        (change(f"{LOG}._add_once", "self._checked(mark)", "self._checked_tip(mark)"),),
    ),
    Mistake(
        "an error after the entry was written is reported as a failure",
        "writers",
        (change(f"{LOG}._passed", FLOOR_UNREAD, "raise"),),
    ),
    Mistake(
        "the floor is not looked at before an acknowledgement",
        "truncated",
        (change(f"{LOG}._passed", "return position < self._floor", "return False"),),
    ),
    Mistake(
        "the floor is looked at before one's own acknowledgement only",
        "latecomers",
        (change(f"{LOG}._append", "if self._passed(", "if mine and self._passed("),),
    ),
    Mistake(
        "entries are deleted before the floor is raised",
        "truncated",
        (
            change(
                "siltstone.log.log:truncate",
                "floor = _raise_floor(log, until)",
                "_delete_below(log, until.position - 1)\n    floor = _raise_floor(log, until)",
            ),
        ),
    ),
    Mistake(
        "entries are deleted while writers may still trust an older floor",
        "truncated",
        (change("siltstone.log.truncate:_deletable", "2 * log.identity.trust_ms + CLOCK_GRAIN_MS", "0"),),
    ),
    Mistake(
        "the floor is the one that was written last, and may fall",
        "truncated",
        (change(f"{FLOORS}.floors", "return found", "return sorted(found, key=lambda one: one.modified_ms)[-1:]"),),
    ),
    Mistake(
        "folded operations are looked up before the log is",
        "truncated",
        (
            change(
                f"{LOG}._add_once",
                "found, mark = self._search(op, since)",
                "earlier = self._lookup(op) if self._lookup else None\n        found, mark = self._search(op, since)",
                "folded = self._lookup(op) if self._lookup else None",
                "folded = earlier",
            ),
        ),
    ),
    Mistake(
        "the tip is the last entry that a listing shows",
        "truncated",
        (
            change(
                f"{READER}.tip",
                "for _ in range(CHASES_MAX):",
                "listed = [paths.parse_entry(self.root, info.key) for info in self._listed(0)]\n"
                "    last = max((one[0] for one in listed if one), default=-1)\n"
                "    data = self.published(last) if last >= 0 else None\n"
                "    if data is not None:\n"
                "        return self.read(data, last).end\n"
                "    for _ in range(CHASES_MAX):",
            ),
        ),
    ),
    Mistake(
        "no fence is put: the epoch is claimed, and what is there is replayed",
        "epochs",
        (
            change(
                f"{LOG}.fence",
                'end = self._append(b"", mark, epoch, op, "fence")',
                "end = Mark(mark.position, epoch, mark.digest)",
            ),
            change(f"{LOG}._stands", "end.position - 1 < self._floor", "end.position < self._floor"),
        ),
    ),
    Mistake(
        "the fence is put over whatever is there",
        "epochs",
        (
            change(
                f"{LOG}._append",
                "winner = self._decide(data, after, op)",
                "winner = self._decide(data, after, op) if kind == 'data' else "
                "self.store.put(self.place(after).key, data) or data",
            ),
        ),
    ),
    Mistake(
        "a writer goes round a fence that it meets",
        "epochs",
        (change(f"{LOG}._append", "if entry.epoch > epoch:", "if False:"),),
    ),
    Mistake(
        "an error of the commit store is taken for a conflict, and the staged bytes are removed",
        "external",
        (
            change(
                f"{EXTERNAL}._claim",
                "doubt = error\n            continue",
                "self._discard(place.root + mine.value)\n            raise",
            ),
        ),
    ),
    Mistake(
        "an error while publishing what was claimed is reported as a failure",
        "external",
        (
            change(
                f"{EXTERNAL}.decide",
                "publishes it\n        raise unknown(place, error) from error",
                "publishes it\n        raise",
            ),
        ),
    ),
    Mistake(
        "a claim is acknowledged before it is published",
        "forgetful",
        (change(f"{EXTERNAL}.decide", "published = self._publish(place, proposal)", "return proposal"),),
    ),
    Mistake(
        "publishing replaces what is there",
        "forgetful",
        (
            change(
                f"{EXTERNAL}._publish",
                "return self._create.decide(place, data)",
                "return self._store.put(place.key, data) or data",
            ),
        ),
    ),
    Mistake(
        "a second publication goes unnoticed",
        "forgetful-fork",
        (change(f"{EXTERNAL}._publish", "if keys == [name]:", "if name in keys:"),),
    ),
    Mistake(
        "a claim does not ask for its predecessor",
        "forgetful",
        (change(f"{EXTERNAL}._claim", "self.registry.claim(mine)", "self.registry.restore(mine)"),),
    ),
    Mistake(
        "no witness is left on a store that lies",
        "lying",
        (change(f"{LOG}._acknowledge", 'self.identity.guard == "witness"', "False"),),
    ),
    Mistake(
        "a witness is left, and nobody looks for others",
        "lying",
        (change(f"{LOG}._witness", "self._check_alone(entry)", "pass"),),
    ),
    Mistake(
        "an operation that is found in the log is acknowledged without its witness",
        "lying",
        (change(f"{LOG}._add_once", 'self.identity.guard == "witness"', "False"),),
    ),
    Mistake(
        "the chain is not checked",
        "lying",
        (change("siltstone.log.floors:check_follows", "if entry.prev != after.digest:", "if False:"),),
    ),
)
