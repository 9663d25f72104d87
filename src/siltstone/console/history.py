"""The versions of a table, in pages.

What must hold: a page of versions reads the entries of that page alone, and each of them once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone.cli.documents import version_document
from siltstone.console.cells import cut
from siltstone.table.history import to_step
from siltstone.table.versions import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from siltstone.console.root import Held
    from siltstone.table.state import State

SHARDS_MAX = 50  # that are named of one version
DESCRIBED_MAX = 5000  # versions that are kept


def list_history(held: Held, *, before: int | None, limit: int) -> dict[str, Any]:
    """Versions, newest first, from the one below ``before`` on."""
    state = held.state()
    wanted = _numbers(state, state.mark.position if before is None else before, limit + 1)
    page = wanted[:limit]
    found = _described(held, page)
    names = _names(state)
    versions = [found[number] | names.get(number, {}) for number in page if number in found]
    return {
        "newest": state.version,
        "oldest": max(state.floor, _first(state)),
        "versions": versions,
        "before": page[-1] if len(wanted) > limit else None,
    }


def _numbers(state: State, before: int, count: int) -> list[int]:
    """The versions that are left below a number, newest first: those from the floor on, then those that are kept."""
    first = max(state.floor, _first(state))
    stop = min(before, state.mark.position)
    found = list(range(stop - 1, max(first, stop - count) - 1, -1))
    kept = sorted((one for one in state.kept if one < min(first, stop)), reverse=True)
    return (found + kept)[:count]


def _first(state: State) -> int:
    return state.born + 1 if state.born else 0


def _described(held: Held, numbers: Sequence[int]) -> dict[int, dict[str, Any]]:
    known: dict[int, Any] = held.described
    missing = sorted(number for number in numbers if number not in known)
    for start, stop in _runs(missing):
        for number, data in enumerate(held.log.published_many(start, stop), start):
            if data is not None:  # else it was collected since
                document = version_document(describe(to_step(held.log.read(data, number))))
                known[number] = document | {
                    "message": cut(document["message"]),
                    "shards": document["shards"][:SHARDS_MAX],
                }
    found = {number: known[number] for number in numbers if number in known}
    if len(known) > DESCRIBED_MAX:
        held.described = {}
    return found


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending numbers as half-open ranges."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number:
            runs[-1] = runs[-1][0], number + 1
        else:
            runs.append((number, number + 1))
    return runs


def _names(state: State) -> dict[int, dict[str, Any]]:
    """Tags and checkpoints by version, and how many clones each one is kept for."""
    found: dict[int, dict[str, Any]] = {}
    pairs = [("tags", name, number) for name, number in state.tags.items()]
    pairs += [("checkpoints", name, one.version) for name, one in state.checkpoints.items() if one.holder is None]
    for kind, name, number in sorted(pairs):
        found.setdefault(number, {}).setdefault(kind, []).append(name)
    for one in state.checkpoints.values():
        if one.holder is not None:
            names = found.setdefault(one.version, {})
            names["pins"] = names.get("pins", 0) + 1
    return found
