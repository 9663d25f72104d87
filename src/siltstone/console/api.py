"""What the page may ask for, and the documents that it gets.

What must hold:
- Every answer is JSON. One that fails is an error with a kind, a message and a hint, without secrets.
- Every list has pages, and every page has a bound.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from siltstone._version import __version__
from siltstone.cli.errors import unexpected, without
from siltstone.console.budget import Budget
from siltstone.console.diff import show_version
from siltstone.console.health import check_health
from siltstone.console.history import list_history
from siltstone.console.lineage import draw_lineage, list_checkpoints
from siltstone.console.rows import HITS_MAX, ROWS_MAX, Preview, Wanted, preview_rows, search_rows
from siltstone.console.shards import list_shards
from siltstone.console.summary import SORTS, describe_table, list_fragments, list_indexes, summarize
from siltstone.errors import (
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
    SiltstoneError,
    UnavailableError,
)
from siltstone.shard.together import together

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.console.params import Params
    from siltstone.console.root import Root

PAGE_DEFAULT = 50
PAGE_MAX = 200
TEXT_MAX = 4000  # characters of a query or a condition


class Api:
    """Answers questions about the tables below a root. Threads may share it."""

    def __init__(self, root: Root, *, budget: Budget | None = None) -> None:
        self._root = root
        self._budget = budget or Budget()
        self._calls: dict[str, Callable[[Params], dict[str, Any]]] = {
            "about": self._about,
            "tables": self._tables,
            "table": self._table,
            "history": self._history,
            "version": self._version,
            "fragments": self._fragments,
            "shards": self._shards,
            "indexes": self._indexes,
            "checkpoints": self._checkpoints,
            "lineage": self._lineage,
            "health": self._health,
            "rows": self._rows,
            "search": self._search,
        }

    def call(self, name: str, params: Params) -> dict[str, Any]:
        """The answer to a question. Raises SiltstoneError alone."""
        found = self._calls.get(name)
        if found is None:
            raise NotFoundError("there is no such call", hint=f"there are {', '.join(self._calls)}")
        try:
            return found(params)
        except SiltstoneError:
            raise
        except Exception as error:
            if os.environ.get("SILTSTONE_TRACEBACK"):
                raise
            raise unexpected(error) from error

    def tell(self, error: SiltstoneError) -> dict[str, Any]:
        """An error as a document."""
        secrets = self._root.given.secrets
        return {"kind": error.kind, "message": without(error.message, secrets), "hint": without(error.hint, secrets)}

    # -- tables ------------------------------------------------------------------------------------

    def _about(self, params: Params) -> dict[str, Any]:
        params.done()
        store, registry = self._root.store, self._root.registry
        return {
            "siltstone": __version__,
            "root": store.uri,
            "kind": store.traits.kind,
            "commits": None if registry is None else registry.uri,
        }

    def _tables(self, params: Params) -> dict[str, Any]:
        match = params.text("match", "").casefold()
        offset, limit = _page(params)
        params.done()
        found = self._root.tables()
        paths = [path for path in found.paths if match in path.casefold()]
        page = paths[offset : offset + limit]
        return {
            "root": self._root.store.uri,
            "total": len(found.paths),
            "matching": len(paths),
            "offset": offset,
            "tables": together(self._line, page, self._root.store),
            "notes": list(found.notes),
            "refused": [self.tell(one) for one in found.refused],
        }

    def _line(self, path: str) -> dict[str, Any]:
        try:
            with self._root.lease(path) as held:
                return {"path": path, "error": None} | summarize(held)
        except SiltstoneError as error:
            return {"path": path, "error": self.tell(error)}
        except Exception as error:  # one that is damaged in a way that nobody thought of hides none of the others
            return {"path": path, "error": self.tell(unexpected(error))}

    def _table(self, params: Params) -> dict[str, Any]:
        path = _table_of(params)
        params.done()
        with self._root.lease(path) as held:
            return {"path": path} | describe_table(held)

    # -- what a table is made of -------------------------------------------------------------------

    def _history(self, params: Params) -> dict[str, Any]:
        path, limit = _table_of(params), _limit(params)
        before = params.number("before", 0) if params.text("before", "") else None
        params.done()
        with self._root.lease(path) as held:
            return list_history(held, before=before, limit=limit)

    def _version(self, params: Params) -> dict[str, Any]:
        path = _table_of(params)
        params.text("version")
        number = params.number("version", 0)
        params.done()
        with self._root.lease(path) as held:
            return show_version(held, number)

    def _fragments(self, params: Params) -> dict[str, Any]:
        path, sort = _table_of(params), params.choice("sort", SORTS)
        offset, limit = _page(params)
        params.done()
        with self._root.lease(path) as held:
            return list_fragments(held, offset=offset, limit=limit, sort=sort)

    def _shards(self, params: Params) -> dict[str, Any]:
        path = _table_of(params)
        offset, limit = _page(params)
        params.done()
        with self._root.lease(path) as held:
            return list_shards(held, offset=offset, limit=limit, tell=self.tell)

    def _indexes(self, params: Params) -> dict[str, Any]:
        path = _table_of(params)
        params.done()
        with self._root.lease(path) as held:
            return list_indexes(held)

    def _checkpoints(self, params: Params) -> dict[str, Any]:
        path = _table_of(params)
        offset, limit = _page(params)
        params.done()
        with self._root.lease(path) as held:
            return list_checkpoints(held, offset=offset, limit=limit)

    def _lineage(self, params: Params) -> dict[str, Any]:
        path = _table_of(params)
        params.done()
        with self._root.lease(path) as held:
            return draw_lineage(self._root, held)

    def _health(self, params: Params) -> dict[str, Any]:
        path = _table_of(params)
        params.done()
        with self._root.lease(path) as held:
            return check_health(self._root, held, self.tell)

    # -- rows --------------------------------------------------------------------------------------

    def _rows(self, params: Params) -> dict[str, Any]:
        path = _table_of(params)
        wanted = Preview(
            where=_text(params, "where"),
            limit=params.number("limit", PAGE_DEFAULT, least=1, most=ROWS_MAX),
            fresh=params.flag("fresh"),
            version=params.number("version", 0) if params.text("version", "") else None,
        )
        params.done()

        def work(deadline: Any) -> dict[str, Any]:
            with self._root.lease(path) as held:
                return preview_rows(held, wanted, deadline)

        return self._budget.run(work)

    def _search(self, params: Params) -> dict[str, Any]:
        path = _table_of(params)
        wanted = Wanted(
            by=params.text("index"),
            query=_text(params, "query", needed=True),
            where=_text(params, "where"),
            limit=params.number("limit", 10, least=1, most=HITS_MAX),
            fresh=params.flag("fresh"),
        )
        params.done()
        learned: list[str] = []  # why it may take long

        def work(deadline: Any) -> dict[str, Any]:
            with self._root.lease(path) as held:
                return search_rows(held, wanted, deadline, learned.append)

        return self._budget.run(work, hint=lambda: next(iter(learned), ""))


def status_of(error: SiltstoneError) -> int:
    """The status that goes with an error."""
    kinds = ((InvalidInputError, 400), (NotFoundError, 404), (UnavailableError, 503))
    return next((status for kind, status in kinds if isinstance(error, kind)), 500)


def _table_of(params: Params) -> str:
    return params.text("table")


def _limit(params: Params) -> int:
    return params.number("limit", PAGE_DEFAULT, least=1, most=PAGE_MAX)


def _page(params: Params) -> tuple[int, int]:
    return params.number("offset", 0), _limit(params)


def _text(params: Params, name: str, *, needed: bool = False) -> str:
    text = params.text(name) if needed else params.text(name, "")
    if needed and not text.strip():
        raise InvalidInputError(f"{name} is empty", hint="write what is looked for")
    if len(text) > TEXT_MAX:
        raise LimitExceededError(f"{name} has more than {TEXT_MAX:,} characters", hint="use the command line")
    return text
