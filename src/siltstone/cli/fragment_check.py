"""Are the fragments there that a record names, and are they what was written?"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.errors import NotFoundError
from siltstone.store.origins import OriginsStore
from siltstone.verify import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from siltstone.format.table import Fragment
    from siltstone.store.base import Store

READ_BYTES = 8 * 1024 * 1024


def sizes_below(store: Store, folder: str) -> dict[str, int]:
    """The sizes of objects, by their keys; also of those in tables that objects are named of."""
    sizes = {info.key: info.size for info in store.list(folder)}
    for number, other in store.others.items() if isinstance(store, OriginsStore) else ():
        sizes |= {paths.in_origin(number, info.key): info.size for info in other.list(folder)}
    return sizes


def size_of(store: Store, sizes: dict[str, int], key: str) -> int | None:
    """The size of an object; a listing of a directory at work is no picture of one moment, so it is asked again."""
    if key in sizes:
        return sizes[key]
    info = store.head(key)
    return None if info is None else info.size


def check_fragments(
    store: Store,
    fragments: Sequence[tuple[Fragment, int]],
    *,
    root: str = "",
    deep: bool,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[Problem]:
    """Check fragments, given with the number of their rows that count, below a root."""
    sizes = sizes_below(store, f"{root}{paths.DATA}") if fragments else {}
    total, done = sum(fragment.bytes for fragment, _ in fragments), 0
    problems = []
    for fragment, rows in fragments:
        key = f"{root}{paths.data(fragment.name)}"
        size = size_of(store, sizes, key)
        if size is None:
            problems.append(Problem("missing", f"the fragment, with {rows} rows, is gone", object=key))
        elif size != fragment.bytes:
            detail = f"the fragment, with {rows} rows, has {size} bytes, not the {fragment.bytes} of its record"
            problems.append(Problem("corrupt", detail, object=key))
        elif deep and (wrong := wrong_bytes(store, key, size, fragment.sha256)):
            problems.append(Problem("corrupt", f"the fragment, with {rows} rows, {wrong}", object=key))
        done += fragment.bytes
        if deep:
            progress(done, total)
    return problems


def wrong_bytes(store: Store, key: str, size: int, expected: str) -> str:
    """What is wrong with the bytes of an object; nothing where they have the digest."""
    check = hashlib.sha256()
    try:
        for start in range(0, size, READ_BYTES):
            check.update(store.get_ranges(key, [(start, min(start + READ_BYTES, size))])[0])
    except NotFoundError:
        return "is gone"
    return "" if check.hexdigest() == expected else "does not have the bytes that were written"
