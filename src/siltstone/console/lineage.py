"""Checkpoints, and where a table comes from and what was cloned from it, as a graph.

What must hold: the graph is finite and bounded, whatever tables say of each other; a table that is not below the root,
or can't be read, is in it by the URI that was recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone.console.cells import cut
from siltstone.errors import SiltstoneError
from siltstone.table.checkpoints import describe_checkpoint

if TYPE_CHECKING:
    from siltstone.console.root import Held, Root
    from siltstone.table.state import State

NODES_MAX = 100


def list_checkpoints(held: Held, *, offset: int, limit: int) -> dict[str, Any]:
    """The checkpoints by their versions, the newest first."""
    state = held.state()
    found = sorted(
        (describe_checkpoint(*one) for one in state.checkpoints.items()), key=lambda one: (-one.version, one.name)
    )
    return {
        "version": state.version,
        "total": len(found),
        "checkpoints": [
            {
                "name": one.name,
                "version": one.version,
                "scope": one.scope,
                "created": _time(one.created),
                "expires": None if one.expires is None else _time(one.expires),
                "pending": one.pending,
                "holder": one.holder,
                "shards": len(one.shards),
            }
            for one in found[offset : offset + limit]
        ],
    }


def _time(moment: Any) -> str:
    return str(moment.isoformat(timespec="milliseconds")).replace("+00:00", "Z")


class _Graph:
    """Tables by their logs' ids, and who was cloned from whom."""

    def __init__(self, root: Root, start: Held) -> None:
        self.root = root
        self.start = start.log.identity.log
        self.nodes: dict[str, dict[str, Any]] = {}
        self.edges: dict[tuple[str, str], dict[str, Any]] = {}
        self.cut = False
        self._by_uri = {_uri(root, path): path for path in root.tables().paths}
        self._open: list[str] = []

    def walk(self, held: Held) -> None:
        self._add(held.table.uri)
        while self._open:
            path = self._open.pop()
            try:
                with self.root.lease(path) as one:
                    self._read(one)
            except SiltstoneError:
                self.nodes[_uri(self.root, path)]["state"] = "unreadable"

    def _add(self, uri: str) -> bool:
        """Whether a table is in the graph; it is not where there are too many."""
        if uri in self.nodes:
            return True
        if len(self.nodes) >= NODES_MAX:
            self.cut = True
            return False
        path = self._by_uri.get(uri)
        self.nodes[uri] = {"uri": uri, "path": path, "state": "outside" if path is None else "open"}
        if path is not None:
            self._open.append(path)
        return True

    def _read(self, held: Held) -> None:
        state, uri = held.state(), held.table.uri
        self.nodes[uri] |= {
            "version": state.version,
            "rows": state.fragments.rows,
            "self": held.log.identity.log == self.start,
        }
        if state.clone is not None:
            parent = state.clone
            version = next((one.version for one in state.origins.values() if one.uri == parent.uri), parent.version)
            self._edge(parent.uri, uri, clone=True, version=version, where=cut(parent.where, 200))
        for one in state.origins.values():
            self._edge(one.uri, uri, reads=True)
        for holder in _holders(state):
            self._edge(uri, holder, pins=True)

    def _edge(self, parent: str, child: str, **facts: Any) -> None:
        if parent != child and self._add(parent) and self._add(child):
            self.edges.setdefault((parent, child), {"parent": parent, "child": child}).update(facts)


def _holders(state: State) -> list[str]:
    return [one.holder.uri for one in state.checkpoints.values() if one.holder is not None]


def _uri(root: Root, path: str) -> str:
    return f"{root.store.uri.rstrip('/')}/{path}" if path else root.store.uri


def draw_lineage(root: Root, held: Held) -> dict[str, Any]:
    """The tables that a table is related to, and how."""
    graph = _Graph(root, held)
    graph.walk(held)
    return {"nodes": list(graph.nodes.values()), "edges": list(graph.edges.values()), "cut": graph.cut}
