"""What a table's handle does with text indexes: create, search, optimize, drop."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from siltstone import paths
from siltstone.api.index_builds import IndexBuild, begun_on, check_items, still_there
from siltstone.errors import ConflictError, InvalidInputError, SiltstoneError
from siltstone.format.text import Plan, TextIndex
from siltstone.index.build import begin, open_build
from siltstone.index.operations import DropIndex, check_free, found
from siltstone.index.planning import coverage, plan_more, plan_whole
from siltstone.index.results import Search, Wanted, as_query, text_field
from siltstone.index.settings import analyzer_of
from siltstone.shard.fresh_scan import View
from siltstone.shard.shards import Texts
from siltstone.table import arguments
from siltstone.table.transaction import Operations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from siltstone.format.text import Analyzer, Marker, Segment
    from siltstone.index.cover import Covers
    from siltstone.index.planning import Work as Planned
    from siltstone.index.query import Query
    from siltstone.log import Log
    from siltstone.shard.shards import Shards
    from siltstone.shard.writer import ShardWriter
    from siltstone.table.group import Request
    from siltstone.table.history import History
    from siltstone.table.operations import Work
    from siltstone.table.state import State
    from siltstone.table.tools import Tools
    from siltstone.table.versions import Version

CONFLICTS_MAX = 8
SEARCH_OPTIONS = ("columns", "where", "limit", "index", "snippets", "indexed_only")


@dataclass(frozen=True)
class IndexInfo:
    """An index, as ``indexes()`` shows it. ``unindexed_rows`` are found too, by reading their texts."""

    name: str
    column: str
    analyzer: Analyzer
    segments: int
    parts: int
    bytes: int
    indexed_rows: int
    unindexed_rows: int
    unindexed_fragments: int


class Indexed(Operations):
    """The part of a table's handle that has to do with indexes."""

    _log: Log
    _history: History
    _own_tools: Tools
    _shards: Shards
    _covers: Covers
    _state: State

    def create_text_index(
        self,
        column: str,
        *,
        name: str | None = None,
        progress: Callable[[str, int, int], None] | None = None,
        **analyzer: object,
    ) -> Version:
        """Index the words of a column of texts, so that ``search`` finds them fast.

        Args:
            column: the column.
            name: what the index is called; the column's name without it.
            progress: called with a stage ("index", "copy"), what is done and what there is: rows, then files.
            analyzer: ``language="english"``, ``stem=True``, ``stop_words=True``, ``positions=True`` (for phrases),
                ``lower=True``, ``fold=True`` (letters without accents), ``tokenizer="simple"`` ("whitespace", "raw",
                "ngram" with ``ngram_min`` and ``ngram_max``), ``max_token_bytes=255``.

        Raises AlreadyExistsError (there is an index of this name), InvalidInputError (no such column or language).
        """
        arguments.check_progress(progress)
        state = self._looked()
        field = text_field(state.schema, column)
        label = _label(column, name)
        made = analyzer_of(analyzer)
        check_free(state, label)
        index = TextIndex(id=self._own_tools.env.ids.new(), field=field.id, analyzer=made)
        return self._begin(state, label, index, plan_whole(state), new=True).run_all(progress)

    def optimize_index(
        self, name: str, *, whole: bool = False, progress: Callable[[str, int, int], None] | None = None
    ) -> Version | None:
        """Index rows that came since, merge small parts, leave out fragments that are gone; None where all is well.

        With ``whole`` all of its segments become one. Searches find the same before and after.
        """
        arguments.check_progress(progress)
        for _ in range(CONFLICTS_MAX):
            build = self.begin_optimize_index(name, whole=whole)
            if build is None:
                return None
            try:
                return build.run_all(progress)
            except ConflictError as error:  # another one was optimizing the same
                failed = error
        raise failed

    def drop_index(self, name: str) -> Version:
        """Remove an index. Searches of its column read every text then."""
        found(self._looked(), name)
        return self._do(DropIndex(name))

    def indexes(self) -> list[IndexInfo]:
        """The indexes, and how much of the table each one has."""
        state = self._now()
        return [self._info(state, name, index) for name, index in sorted(state.indexes.items())]

    def search(
        self,
        column: str | Query,
        query: str | Query | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = 10,
        fresh: bool = False,
        index: str | None = None,
        snippets: bool = False,
        indexed_only: bool = False,
    ) -> Search:
        """The rows whose texts match, best first, with ``_score`` (BM25), lazily: ``to_arrow``, ``count``, ``explain``.

        Args:
            column: the column that is searched; or a query whose parts say which column they search.
            query: words, ``"a phrase"``, ``+must``, ``-without``, ``word^2``, ``prefix*``, ``fuzzy~``; or a query of
                ``siltstone.query``.
            columns: the columns of the rows; all without it.
            where: a SQL condition that the rows must meet as well.
            limit: at most so many rows; None for all that match.
            fresh: also rows that are durable in shards and not merged yet.
            index: which index, where the column has several.
            snippets: adds ``_snippet``: the best piece of the text, with the matches marked.
            indexed_only: refuse a column without an index; else every text of it is read.

        Rows that no index has yet are found as well, and score as if they were indexed.
        """
        is_fresh = self._is_fresh(fresh)
        options = {"columns": columns, "where": where, "limit": limit, "index": index}
        wanted = _wanted(column, query, **options, snippets=snippets, indexed_only=indexed_only)
        if is_fresh:
            return Search(self._shards.view, self._covers, wanted)
        return Search(lambda: View(self._own_tools, self._now(), lambda _: False), self._covers, wanted)

    # -- builds that several processes work on -----------------------------------------------------

    def begin_text_index(
        self, column: str, *, name: str | None = None, items: int = 1, **analyzer: object
    ) -> IndexBuild:
        """Begin an index whose items several processes work on; see ``IndexBuild``.

        Args:
            column: the column.
            name: what the index is called; the column's name without it.
            items: into how many items the work is cut at least, where there are fragments enough.
            analyzer: as for ``create_text_index``.
        """
        state = self._looked()
        field = text_field(state.schema, column)
        label = _label(column, name)
        made = analyzer_of(analyzer)
        check_free(state, label)
        index = TextIndex(id=self._own_tools.env.ids.new(), field=field.id, analyzer=made)
        return self._begin(state, label, index, plan_whole(state, at_least=check_items(items)), new=True)

    def begin_optimize_index(self, name: str, *, items: int = 1, whole: bool = False) -> IndexBuild | None:
        """Begin what ``optimize_index`` does, for several processes to work on; None where all is well."""
        state = self._looked()
        index = found(state, name)
        markers = self._markers(state, index)
        work = plan_more(state, markers, at_least=check_items(items), whole=arguments.check_flag(whole, "whole"))
        if not work.items and not work.replaces:
            return None
        return self._begin(state, name, index, work)

    def index_build(self, build: str) -> IndexBuild:
        """A build that some process began, by its name: to work on its items, or to bring it to its end."""
        self._looked()
        with still_there(self, begun_on(build)):
            return IndexBuild(self, open_build(self._log, build))

    # -- behind it ---------------------------------------------------------------------------------

    @property
    def _texts(self) -> Texts:
        return Texts(self._search_own, self._index_rows)

    def _search_own(self, own: ShardWriter, column: object, query: object = None, /, **options: Any) -> Search:
        """A search with the rows of one of the table's writers."""
        unknown = [name for name in options if name not in SEARCH_OPTIONS]
        if unknown:
            raise InvalidInputError(
                f"there is no option {arguments.shown_object(unknown[0])} of a writer's search",
                hint=f"there are {', '.join(SEARCH_OPTIONS)}",
            )
        return Search(partial(self._shards.view, own), self._covers, _wanted(column, query, **options))

    def _index_rows(self, names: Sequence[str], chunks: Iterable[pa.Table]) -> None:
        """Index rows that a writer puts. An index that is gone by now needs none."""
        state, rows = self._state, list(chunks)
        for name in names:
            index = state.indexes.get(name)
            field = None if index is None else next((one for one in state.schema.fields if one.id == index.field), None)
            if index is None or field is None:
                continue
            warm = self._covers.warm(field, index.analyzer)
            for one in rows:
                if field.name in one.column_names:
                    with contextlib.suppress(SiltstoneError):  # a search will do it, or tell
                        warm.add(one)

    def _begin(self, state: State, name: str, index: TextIndex, work: Planned, *, new: bool = False) -> IndexBuild:
        plan = Plan(
            build=paths.name(state.version, self._own_tools.env.ids.new()),
            name=name,
            index=index.id,
            field=index.field,
            analyzer=index.analyzer,
            version=state.version,
            items=work.items,
            replaces=work.replaces,
            new=new,
        )
        return IndexBuild(self, begin(self._log, plan))

    def _markers(self, state: State, index: TextIndex) -> dict[Segment, Marker]:
        return {one: self._covers.marker(self._own_tools.store, one) for one in index.segments}

    def _info(self, state: State, name: str, index: TextIndex) -> IndexInfo:
        column = next(one.name for one in state.schema.fields if one.id == index.field)
        seen = coverage(state, self._markers(state, index).values())
        return IndexInfo(
            name=name,
            column=column,
            analyzer=index.analyzer,
            segments=len(index.segments),
            parts=sum(one.parts for one in index.segments),
            bytes=sum(one.stored_bytes for one in index.segments),
            indexed_rows=sum(live.rows for live in seen.covered.values()),
            unindexed_rows=sum(live.rows for live in seen.rest),
            unindexed_fragments=len(seen.rest),
        )

    @abstractmethod
    def _looked(self) -> State: ...

    @abstractmethod
    def _now(self) -> State: ...

    @abstractmethod
    def _is_fresh(self, fresh: object) -> bool: ...

    @abstractmethod
    def _commit(self, request: Request) -> Version: ...

    @abstractmethod
    def _do(self, *works: Work) -> Version: ...


def _label(column: str, name: object) -> str:
    """What an index is called: as asked for, or by its column."""
    if name is not None:
        return arguments.check_label(name, "index")
    try:
        return arguments.check_label(column, "index")
    except InvalidInputError as error:
        raise InvalidInputError(
            f"an index can't be called by its column: {error.message}", hint=f"pass name=; {error.hint}"
        ) from error


def _wanted(
    column: object,
    query: object,
    *,
    columns: Any = None,
    where: object = None,
    limit: object = 10,
    index: object = None,
    snippets: object = False,
    indexed_only: object = False,
) -> Wanted:
    """What a search was asked for, checked."""
    parsed, asked = as_query(column, query)
    return Wanted(
        query=parsed,
        column=asked,
        columns=columns,
        where=arguments.check_where(where),
        limit=arguments.check_limit(limit, hint="None is for all that match"),
        index=None if index is None else arguments.check_label(index, "index"),
        snippets=arguments.check_flag(snippets, "snippets"),
        indexed_only=arguments.check_flag(indexed_only, "indexed_only"),
    )
