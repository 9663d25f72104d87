"""What ``table.search()`` gives: the rows that match, best first, with their scores.

What must hold:
- It finds exactly the rows that a scan of the same version has and that match, whether they are indexed or not.
- Nothing is read until rows are asked for; each call searches anew, in the version that was the newest at first.
- A shard may let go of fresh rows that are being read: as long as nothing was handed out, the search looks again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from siltstone.errors import InvalidInputError, MissingObjectError, NotFoundError
from siltstone.format.text import Analyzer
from siltstone.index.highlight import snippets
from siltstone.index.parse import parse
from siltstone.index.planning import coverage
from siltstone.index.query import Query
from siltstone.index.resolve import columns_of
from siltstone.index.search import matches, search
from siltstone.table.output import BATCH_ROWS, Output
from siltstone.table.predicate import Predicate, parse_predicate
from siltstone.table.reading import as_mask, chosen_schema
from siltstone.table.scan import chosen_fields
from siltstone.table.schema import arrow_schema, arrow_type, field_named
from siltstone.table.types import is_text, shown, shown_type
from siltstone.telemetry import metrics, seams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from siltstone.format.table import Field, Schema
    from siltstone.format.text import TextIndex
    from siltstone.index.cover import Covers, Numbered
    from siltstone.index.statistics import Column
    from siltstone.shard.fresh_scan import View
    from siltstone.table.state import State

SCORE = "_score"
SNIPPET = "_snippet"
TESTED_ROWS = 65_536  # that a filter is evaluated for at once

T = TypeVar("T")


@dataclass(frozen=True)
class Wanted:
    """What was asked for."""

    query: Query
    column: str | None  # of those parts of the query that name none
    columns: Sequence[str] | None
    where: str | None
    limit: int | None
    index: str | None = None
    snippets: bool = False
    indexed_only: bool = False


def _about(search: Search) -> Mapping[str, str]:
    return {"table": search._view.tools.store.uri}  # noqa: SLF001 - the same module's


class Search(Output):
    """Rows that match, best first; rows of one score in the order of the table."""

    def __init__(self, look: Callable[[], View], covers: Covers, wanted: Wanted) -> None:
        self._look = look
        self._covers = covers
        self._wanted = wanted
        self._view = look()
        schema = self._view.state.schema
        self._fields = chosen_fields(schema, wanted.columns)
        for name in (SCORE, SNIPPET) if wanted.snippets else (SCORE,):
            if any(one.name == name for one in self._fields):
                raise InvalidInputError(
                    f"the table has a column {name!a}, which a search adds", hint="choose other columns with columns="
                )
        self._searched = tuple(text_field(schema, name) for name in sorted(columns_of(wanted.query, wanted.column)))
        self._indexes = tuple(self._index_of(one) for one in self._searched)
        self._predicate = None if wanted.where is None else parse_predicate(wanted.where, arrow_schema(schema))
        if wanted.snippets and len(self._searched) != 1:
            raise InvalidInputError(
                f"snippets are of one column, and the query is over {len(self._searched)}",
                hint="leave snippets out, and make them with siltstone.query.snippets()",
            )

    @property
    def version(self) -> int:
        """The version that is searched."""
        return self._view.state.version

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows: those asked for, ``_score``, and ``_snippet`` where asked for."""
        schema = chosen_schema(self._fields).append(pa.field(SCORE, pa.float32(), nullable=False))
        return schema.append(pa.field(SNIPPET, pa.string())) if self._wanted.snippets else schema

    @property
    def analyzers(self) -> dict[str, Analyzer]:
        """How texts become words, for each column that is searched."""
        pairs = zip(self._searched, self._indexes, strict=True)
        return {field.name: Analyzer() if index is None else index.analyzer for field, index in pairs}

    # -- rows --------------------------------------------------------------------------------------

    @seams.traced("siltstone.search", about=_about, seconds=metrics.SEARCH_SECONDS)
    def to_arrow(self) -> pa.Table:
        """All rows that were asked for, best first."""
        return self._again(self._rows)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in batches."""
        yield from self.to_arrow().to_batches(max_chunksize=BATCH_ROWS)

    @seams.traced("siltstone.search", about=_about, seconds=metrics.SEARCH_SECONDS)
    def count(self) -> int:
        """How many rows match, up to the limit; no row is read but for the filter."""
        found = self._again(self._count)
        limit = self._wanted.limit
        return found if limit is None else min(found, limit)

    def explain(self) -> str:
        """What is searched, for people."""
        return self._again(self._explain)

    def _rows(self) -> pa.Table:
        numbered = self._covers.numbered(self._view.tools, self._view.state)
        columns = self._columns(numbered)
        hits = search(
            columns,
            self._wanted.query,
            column=self._wanted.column,
            limit=self._wanted.limit,
            allowed=self._allowed(numbered),
        )
        table = numbered.take(hits.rows, self._fields)
        table = table.append_column(self.schema.field(SCORE), pa.array(hits.scores, pa.float32()))
        if self._wanted.snippets:
            field = self._searched[0]
            there = table if field in self._fields else numbered.take(hits.rows, (field,))
            texts = there.column(field.name).to_pylist()
            analyzer = columns[field.name].analyzer
            made = snippets(texts, self._wanted.query, analyzer, column=field.name)
            table = table.append_column(self.schema.field(SNIPPET), pa.array(made, pa.string()))
        return table

    def _count(self) -> int:
        numbered = self._covers.numbered(self._view.tools, self._view.state)
        rows = matches(self._columns(numbered), self._wanted.query, column=self._wanted.column)
        allowed = self._allowed(numbered)
        return len(rows) if allowed is None else int(np.count_nonzero(allowed(rows)))

    def _explain(self) -> str:
        numbered = self._covers.numbered(self._view.tools, self._view.state)
        lines = [f"search of version {self.version}", f"query      {shown(repr(self._wanted.query))[1:-1]}"]
        for field, index in zip(self._searched, self._indexes, strict=True):
            segments = () if index is None else index.segments
            markers = [self._covers.marker(numbered.tools.store, one) for one in segments]
            seen = coverage(numbered.state, markers)
            lines.append(
                f"column     {shown(field.name)}: {'no index' if index is None else f'{len(segments)} segments'}, "
                f"{sum(one.parts for one in segments)} parts"
            )
            lines.append(
                f"rows       {sum(live.rows for live in seen.covered.values())} are indexed, "
                f"{sum(live.rows for live in seen.rest)} are read ({len(seen.rest)} fragments)"
            )
        if self._predicate is not None:
            lines.append(f"filter     {shown(self._predicate.text)[1:-1]}")
        lines.append(f"limit      {'none' if self._wanted.limit is None else self._wanted.limit}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Search(version {self.version}, {self._wanted.query!r}, limit {self._wanted.limit})"

    # -- behind it ---------------------------------------------------------------------------------

    def _columns(self, numbered: Numbered) -> dict[str, Column]:
        analyzers = self.analyzers
        return {
            field.name: self._covers.column(
                numbered, field, analyzers[field.name], () if index is None else index.segments
            )
            for field, index in zip(self._searched, self._indexes, strict=True)
        }

    def _index_of(self, field: Field) -> TextIndex | None:
        found = index_of(self._view.state, field, self._wanted.index)
        if found is None and self._wanted.indexed_only:
            raise NotFoundError(
                f"column {shown(field.name)} has no text index",
                hint="create it with create_text_index(), or leave indexed_only out: every text is read then",
            )
        return found

    def _allowed(self, numbered: Numbered) -> Callable[[NDArray[np.int64]], NDArray[np.bool_]] | None:
        predicate = self._predicate
        if predicate is None:
            return None
        schema = self._view.state.schema
        fields = tuple(one for one in schema.fields if one.name in predicate.columns)

        def test(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
            return _tested(numbered, predicate, fields, rows)

        return test

    def _again(self, call: Callable[[], T]) -> T:
        """``call``, and again with what is there now where a shard let go of something."""
        for _ in self._view.tools.env.tries():
            try:
                return call()
            except MissingObjectError as error:
                failed = self._view.told(error)
                if isinstance(failed, MissingObjectError):
                    raise
                now = self._look()
                if now.state.schema != self._view.state.schema:
                    raise failed from error
                self._view = now
                self._indexes = tuple(self._index_of(one) for one in self._searched)
        raise failed


def _tested(
    numbered: Numbered, predicate: Predicate, fields: tuple[Field, ...], rows: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which rows a filter keeps."""
    found = np.zeros(len(rows), np.bool_)
    for start in range(0, len(rows), TESTED_ROWS):
        some = rows[start : start + TESTED_ROWS]
        table = numbered.take(some, fields) if fields else pa.table([pa.nulls(len(some))], names=["_"])
        found[start : start + len(some)] = as_mask(predicate.mask(table))
    return found


def index_of(state: State, field: Field, name: str | None) -> TextIndex | None:
    """The index that a search of a column uses: the one asked for, or the only one of the column."""
    if name is not None:
        index = state.indexes.get(name)
        if index is None or index.field != field.id:
            raise NotFoundError(
                f"column {shown(field.name)} has no index {shown(name)}", hint="indexes() shows those that there are"
            )
        return index
    there = {label: index for label, index in sorted(state.indexes.items()) if index.field == field.id}
    if field.name in there:
        return there[field.name]
    if len(there) > 1:
        raise InvalidInputError(
            f"column {shown(field.name)} has several indexes: {', '.join(there)}", hint="choose one with index="
        )
    return next(iter(there.values()), None)


def as_query(column: object, query: object) -> tuple[Query, str | None]:
    """What ``search`` was given: a column and a query, or a query whose parts name their columns."""
    if isinstance(column, Query):
        if query is not None:
            raise InvalidInputError(
                "search takes a column and a query, or a query alone", hint="name the column in the query, or before it"
            )
        return column, None
    if not isinstance(column, str):
        raise InvalidInputError(
            f"search needs the name of a column or a query, got {type(column).__name__}",
            hint='for example search("body", "slow delivery")',
        )
    if isinstance(query, Query):
        return query, column
    if not isinstance(query, str):
        raise InvalidInputError(
            f"a query is a text or one of siltstone.query, got {type(query).__name__}",
            hint='for example search("body", "slow delivery")',
        )
    return parse(query), column


def text_field(schema: Schema, name: str) -> Field:
    """A column of texts."""
    field = field_named(schema, name)
    kind = arrow_type(field)
    if not is_text(kind):
        raise InvalidInputError(
            f"column {shown(field.name)} is {shown_type(kind)}, and only texts can be searched",
            hint="name a column of strings",
            column=field.name,
        )
    return field
