"""A table read with other rows gone, and with fragments that are not its own: in memory, or in other stores.

What must hold:
- A fragment that nothing is said of is read by the table's own readers, which keep what they read.
- What is laid over a table never changes, so that a scan of it sees the same in every run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.errors import InternalError
from siltstone.format.table import Change, Vector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from siltstone.format.table import Fragment
    from siltstone.store.base import Store
    from siltstone.table.files import FileLike, OpensFiles
    from siltstone.table.state import State
    from siltstone.table.tools import Tools
    from siltstone.table.vectors import Deleted, ReadsVectors

_NOWHERE = paths.name(0, "0" * 32)  # the object of a vector that is in memory alone


def overlay_tools(
    tools: Tools,
    *,
    masks: Mapping[str, Deleted],
    files: Mapping[str, FileLike],
    stores: Mapping[str, Store],
    around: Callable[[FileLike], FileLike] | None = None,
) -> Tools:
    """Tools that know better of some fragments, by name.

    ``masks`` has all rows of a fragment that are gone, ``files`` what is opened for it, ``stores`` the store that its
    file is in. What is opened in other stores is read through what ``around`` puts around it.
    """
    return replace(
        tools,
        files=_Files(tools.files, dict(files), dict(stores), around),
        vectors=_Vectors(tools.vectors, dict(masks)),
    )


def overlay_state(
    state: State, *, add: Iterable[Fragment], remove: Iterable[str], masks: Mapping[str, Deleted]
) -> State:
    """The state with some fragments more, some less, and exactly the rows of ``masks`` gone in others.

    A fragment all of whose rows are gone is removed, not masked.
    """
    change = Change(
        operation="merge",
        add=tuple(add),
        remove=tuple(remove),
        mask={name: Vector(name=_NOWHERE, offset=0, length=0, rows=gone.count) for name, gone in masks.items()},
    )
    return replace(state, fragments=state.fragments.apply(change, name="a fresh read"))


def store_of(tools: Tools, fragment: Fragment) -> Store | None:
    """The store that a fragment's file is in; None where its rows are in memory."""
    files = tools.files
    if not isinstance(files, _Files):
        return tools.store
    return None if fragment.name in files.files else files.stores.get(fragment.name, tools.store)


def mask_of(tools: Tools, fragment: Fragment) -> Deleted | None:
    """The rows of a fragment that are gone; None where its own vector says it, or none are."""
    vectors = tools.vectors
    return vectors.masks.get(fragment.name) if isinstance(vectors, _Vectors) else None


@dataclass(frozen=True)
class _Files:
    table: OpensFiles
    files: dict[str, FileLike]
    stores: dict[str, Store]
    around: Callable[[FileLike], FileLike] | None

    def open(self, fragment: Fragment, *, store: Store | None = None) -> FileLike:
        file = self.files.get(fragment.name)
        if file is not None:
            return file
        other = self.stores.get(fragment.name)
        file = self.table.open(fragment, store=store or other)
        return file if other is None or self.around is None else self.around(file)


@dataclass(frozen=True)
class _Vectors:
    table: ReadsVectors
    masks: dict[str, Deleted]

    def read(self, vector: Vector, fragment: Fragment) -> Deleted:
        return self.read_many([(vector, fragment)])[fragment.name]

    def read_many(self, pairs: Iterable[tuple[Vector, Fragment]]) -> dict[str, Deleted]:
        found: dict[str, Deleted] = {}
        rest: list[tuple[Vector, Fragment]] = []
        for vector, fragment in pairs:
            mask = self.masks.get(fragment.name)
            if mask is None:
                rest.append((vector, fragment))
                continue
            if (mask.rows, mask.count) != (fragment.rows, vector.rows):
                raise InternalError(f"{mask!r} of {fragment.name} is not what the state says of it")
            found[fragment.name] = mask
        return {**found, **self.table.read_many(rest)} if rest else found
