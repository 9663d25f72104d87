"""Rows of a table: the first ones, and those that match a search.

What must hold: at most so many rows, columns and characters are in an answer; what is left out is said.
"""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from siltstone.console.cells import cells, cut
from siltstone.errors import InvalidInputError, NotFoundError
from siltstone.index.highlight import Highlighter
from siltstone.index.parse import parse
from siltstone.index.results import SCORE
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from siltstone.api import Table
    from siltstone.console.budget import Deadline
    from siltstone.console.root import Held

COLUMNS_MAX = 60
ROWS_MAX = 200
HITS_MAX = 50
ANSWER_CHARACTERS_MAX = 1_000_000
BYTES_MAX = 256 * 1024 * 1024  # of rows in memory
SNIPPET_CHARACTERS = 240
SNIPPET_TEXT_MAX = 100_000  # characters of a text that matches are looked for in
FACTS_MAX = 6


class Preview(NamedTuple):
    """Which rows are to be shown."""

    where: str = ""
    limit: int = 50
    fresh: bool = False
    version: int | None = None


def preview_rows(held: Held, wanted: Preview, deadline: Deadline) -> dict[str, Any]:
    """The first rows that match, in the table's order."""
    if wanted.fresh and wanted.version is not None:
        raise InvalidInputError("rows that are not merged yet are in no version", hint="leave version or fresh out")
    started = time.monotonic()
    table = held.table if wanted.version is None else held.table.at(version=wanted.version)
    names = [one.name for one in table.schema]
    where = wanted.where.strip() or None
    scan = table.scan(names[:COLUMNS_MAX], where=where, limit=wanted.limit, fresh=wanted.fresh)
    notes: list[str] = []
    if len(names) > COLUMNS_MAX:
        notes.append(f"the first {COLUMNS_MAX} of {len(names):,} columns")
    batches = list(_within(scan.to_batches(), deadline, notes))
    rows = _rows(pa.Table.from_batches(batches, scan.schema), notes)
    return {
        "version": scan.version,
        "columns": [{"name": field.name, "type": cut(str(field.type), 200)} for field in scan.schema],
        "columns_total": len(names),
        "rows": rows,
        "notes": notes,
        "took_ms": round((time.monotonic() - started) * 1000),
    }


def _within(batches: Iterable[pa.RecordBatch], deadline: Deadline, notes: list[str]) -> Iterator[pa.RecordBatch]:
    """Batches until there is no time left, or too much of them."""
    size = 0
    for batch in batches:
        yield batch
        size += batch.nbytes
        if size > BYTES_MAX:
            notes.append("ended early: the rows are very large")
            return
        if deadline.is_over:
            notes.append("ended early: it took too long")
            return


def _rows(table: pa.Table, notes: list[str]) -> list[list[Any]]:
    """Rows as cells; those beyond what an answer may hold are left out."""
    columns = [list(cells(column)) for column in table.columns]
    rows: list[list[Any]] = []
    left = ANSWER_CHARACTERS_MAX
    for row in zip(*columns, strict=True):
        left -= sum(_length(one) for one in row)
        if left < 0:
            notes.append(f"the first {len(rows):,} of {table.num_rows:,} rows that were read: more would be too much")
            break
        rows.append(list(row))
    return rows


def _length(cell: Any) -> int:
    text = cell["text"] if isinstance(cell, dict) else cell
    return 4 + len(text or "")


# -- search ----------------------------------------------------------------------------------------


class Wanted(NamedTuple):
    """What is searched for, by which index."""

    by: str  # the name of the index
    query: str
    where: str = ""
    limit: int = 10
    fresh: bool = False


def search_rows(
    held: Held, wanted: Wanted, deadline: Deadline, learned: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """The rows that match best, with the best piece of each text; ``learned`` is told why it may take long."""
    started = time.monotonic()
    state, table = held.state(), held.table
    index = state.indexes.get(wanted.by)
    field = None if index is None else next((one for one in state.schema.fields if one.id == index.field), None)
    if field is None:
        raise NotFoundError(f"there is no index {shown(wanted.by)}", hint="choose one of the table's indexes")
    query = parse(wanted.query)
    late = _not_indexed(table, wanted.by)
    if late:
        learned(f"{late}; or narrow it, or use the command line")
    facts = _facts(table, field.name)
    found = table.search(
        field.name,
        query,
        columns=[*facts, *({field.name} - set(facts))],
        where=wanted.where.strip() or None,
        limit=wanted.limit,
        fresh=wanted.fresh,
        index=wanted.by,
    )
    rows = found.to_arrow()
    marker = Highlighter(query, found.analyzers[field.name], column=field.name)
    texts = pc.utf8_slice_codeunits(rows.column(field.name).cast(pa.large_string()), 0, SNIPPET_TEXT_MAX).to_pylist()
    columns = [list(cells(rows.column(name))) for name in facts]
    hits = []
    for number, (score, text) in enumerate(zip(rows.column(SCORE).to_pylist(), texts, strict=True)):
        pieces = [] if deadline.is_over else _pieces(text or "", marker)
        hits.append({"score": round(score, 4), "facts": [column[number] for column in columns], "snippet": pieces})
    return {
        "version": found.version,
        "column": field.name,
        "facts": facts,
        "hits": hits,
        "not_indexed": late,
        "took_ms": round((time.monotonic() - started) * 1000),
    }


def _not_indexed(table: Table, by: str) -> str:
    """How many rows are read because their index has not taken them in, and what to do about it."""
    for one in table.indexes():
        if one.name == by and one.unindexed_rows:
            rows = f"{one.unindexed_rows:,} of {one.indexed_rows + one.unindexed_rows:,} rows"
            return f"{rows} are not in the index, and are read: siltstone index optimize {shlex.join([table.uri, by])}"
    return ""


def _facts(table: Table, searched: str) -> list[str]:
    """The columns that tell rows apart: the key, or the first few."""
    key = [name for name in table.key if name != SCORE]
    names = [name for name in table.schema.names if name not in {searched, SCORE}]
    return (key or names)[:FACTS_MAX]


def _pieces(text: str, marker: Highlighter) -> list[dict[str, Any]]:
    """The best piece of a text, cut where matches begin and end."""
    mark = "\0"
    while mark in text:  # whatever the text is: what stands between two marks is a match
        mark += mark
    parts = marker.snippet(text, length=SNIPPET_CHARACTERS, before=mark, after=mark).split(mark)
    return [{"text": part, "match": bool(number % 2)} for number, part in enumerate(parts) if part]
