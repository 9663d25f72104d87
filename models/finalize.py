"""The end of a distributed index build: staged parts, final names, the marker, and staging cleared.

A build has two items. An attempt at an item writes its file into staging under a name of its own and then says so in
the build's log; two attempts at item 0 give different bytes, as two versions of a compressor may. Two finalizers copy
what counts to the final names, write the marker and clear staging; each may die anywhere and begin again, and either
may sleep for as long as it likes between two steps. A reader reads what the marker names.

Knobs: ``inputs`` whether the log says which attempt counts ("decided") or each finalizer lists staging ("listed");
``whole`` whether it waits for the whole plan; ``source`` copied or moved; ``delete_first`` whether it deletes the
final name before it copies; ``marker`` written before or after the copies; ``clear`` all of staging, or what the
marker names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ITEMS = (0, 1)
ATTEMPTS = ((0, "a"), (0, "b"), (1, "a"))  # an item, and whose bytes

File = tuple[int, str]
Files = frozenset[File]


class Finalizer(NamedTuple):
    """Where one is: what it still has to copy, and what it will write down."""

    at: str = "start"
    todo: tuple[File, ...] = ()
    parts: tuple[File, ...] = ()


class World(NamedTuple):
    """Staging, the build's log, the final names, the marker, and who does what."""

    staged: Files = frozenset()
    said: tuple[File, ...] = ()  # the log, in order
    finals: Files = frozenset()  # final name (the item) and content
    marker: tuple[File, ...] | None = None
    begun: Files = frozenset()  # attempts that have written their file
    first: Finalizer = Finalizer()
    second: Finalizer = Finalizer()
    deaths: int = 1
    wrong: str = ""


class Finalize:
    """Attempts, finalizers, and a reader of the marker."""

    def __init__(
        self,
        *,
        inputs: str = "decided",
        whole: bool = True,
        source: str = "copied",
        delete_first: bool = False,
        marker: str = "last",
        clear: str = "named",
    ) -> None:
        self.inputs = inputs
        self.whole = whole
        self.source = source
        self.delete_first = delete_first
        self.marker = marker
        self.clear = clear

    def init(self) -> World:
        """Nothing is staged."""
        return World()

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        """What may happen next."""
        yield from self._attempts(world)
        for name in ("first", "second"):
            yield from self._finalizer(world, name)

    def _attempts(self, world: World) -> Iterator[tuple[str, World]]:
        for attempt in ATTEMPTS:
            if attempt not in world.begun:
                yield (
                    f"attempt {attempt} writes its file",
                    world._replace(staged=world.staged | {attempt}, begun=world.begun | {attempt}),
                )
            elif attempt not in world.said:
                yield f"attempt {attempt} says so", world._replace(said=(*world.said, attempt))

    def _counted(self, world: World) -> tuple[File, ...]:
        """Which attempts a finalizer takes."""
        if self.inputs == "listed":
            found = dict(sorted(world.staged))
        else:
            found = {}
            for item, bytes_ in world.said:
                found.setdefault(item, bytes_)
        return tuple(sorted(found.items()))

    def _finalizer(self, world: World, name: str) -> Iterator[tuple[str, World]]:
        me: Finalizer = getattr(world, name)
        if me.at in {"copy", "deleted", "mark", "clear"} and world.deaths:
            yield f"{name} dies and begins again", world._replace(**{name: Finalizer()}, deaths=world.deaths - 1)
        if me.at == "start":
            yield from self._start(world, name)
        elif me.at == "copy" and self.delete_first and me.todo:
            item = me.todo[0][0]
            left = frozenset(one for one in world.finals if one[0] != item)
            yield f"{name} deletes final {item}", world._replace(finals=left, **{name: me._replace(at="deleted")})
        elif me.at in {"copy", "deleted"} and me.todo:
            yield self._copy(world, name, me)
        elif me.at == "copy":
            after = "mark" if self.marker == "last" else "clear"
            yield f"{name} has copied all", world._replace(**{name: me._replace(at=after)})
        elif me.at == "mark":
            after = "clear" if self.marker == "last" else "copy"
            yield (
                f"{name} writes the marker {me.parts}",
                world._replace(marker=me.parts, wrong=self._changed(world, me.parts), **{name: me._replace(at=after)}),
            )
        elif me.at == "clear":
            gone = world.staged if self.clear == "all" else frozenset(me.parts)
            yield f"{name} clears staging", world._replace(staged=world.staged - gone, **{name: Finalizer("done")})

    def _start(self, world: World, name: str) -> Iterator[tuple[str, World]]:
        if world.marker is not None:
            yield f"{name} finds the marker", world._replace(**{name: Finalizer("done")})
            return
        parts = self._counted(world)
        if parts and (len(parts) == len(ITEMS) or not self.whole):
            at = "copy" if self.marker == "last" else "mark"
            yield f"{name} takes {parts}", world._replace(**{name: Finalizer(at, parts, parts)})

    def _copy(self, world: World, name: str, me: Finalizer) -> tuple[str, World]:
        part = me.todo[0]
        if part not in world.staged:
            if world.marker is not None:
                return f"{name} misses {part} and finds the marker", world._replace(**{name: Finalizer("done")})
            return f"{name} misses {part}", world._replace(wrong="a source is gone, and there is no marker")
        finals = frozenset(one for one in world.finals if one[0] != part[0]) | {part}
        staged = world.staged - {part} if self.source == "moved" else world.staged
        after = me._replace(at="copy", todo=me.todo[1:])
        return f"{name} copies {part}", world._replace(finals=finals, staged=staged, **{name: after})

    @staticmethod
    def _changed(world: World, parts: tuple[File, ...]) -> str:
        return "the marker was replaced by another" if world.marker not in {None, parts} else ""

    def wrong(self, world: World) -> str:
        """What must not be."""
        if world.wrong or world.marker is None:
            return world.wrong
        if {item for item, _ in world.marker} != set(ITEMS):
            return "the index is smaller than its plan"
        if not set(world.marker) <= world.finals:
            return "the marker names what is not there"
        return ""


VARIANTS: dict[str, tuple[Finalize, bool]] = {
    "the log says which attempt counts, copies, then the marker, then what it names is cleared": (Finalize(), True),
    "each finalizer lists staging": (Finalize(inputs="listed"), False),
    "those that are there are enough": (Finalize(whole=False), False),
    "sources are moved": (Finalize(source="moved"), False),
    "final names are deleted first": (Finalize(delete_first=True), False),
    "the marker comes first": (Finalize(marker="first"), False),
    "all of staging is cleared": (Finalize(clear="all"), True),
    "all of staging is cleared, and each finalizer lists it": (Finalize(inputs="listed", clear="all"), False),
}
