"""``search``: the rows whose texts match, best first.

What must hold: matches are marked by colours of our own, around text whose control characters are written out.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from siltstone.cli.errors import DONE
from siltstone.cli.formats import Target
from siltstone.cli.grammar.search import LIMIT_DEFAULT
from siltstone.cli.opening import reading
from siltstone.cli.options import names
from siltstone.cli.output import clean
from siltstone.cli.progress import Progress
from siltstone.cli.text_table import cells
from siltstone.cli.unread import not_indexed, say_waiting
from siltstone.cli.widths import cut
from siltstone.index.highlight import LENGTH, Highlighter
from siltstone.index.parse import parse
from siltstone.index.query import Match
from siltstone.index.results import SCORE

if TYPE_CHECKING:
    import argparse

    import pyarrow as pa

    from siltstone.api import Table
    from siltstone.cli.output import Output
    from siltstone.cli.unread import NotIndexed
    from siltstone.index.query import Query
    from siltstone.index.results import Search

SNIPPET_LEAST = 40  # characters, however narrow the terminal is


def run_search(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``search``."""
    query = Match(arguments.query) if arguments.plain else parse(arguments.query)
    with reading(arguments) as table:
        late = not_indexed(table, arguments.column, arguments.index)
        if arguments.count or arguments.explain:
            _say_only(table, query, arguments, output, late)
        elif arguments.json or arguments.format or arguments.output:
            target = Target(arguments, output)
            columns = names(arguments.columns) or None
            found = _found(table, query, arguments, columns=columns, snippets=arguments.snippets)
            rows = target.write(found.schema, found.to_batches(), what="search")
            late.say(arguments, output)
            if not rows:
                say_waiting(table, arguments, output)
            if target.path is not None:
                output.note(f"{rows:,} rows written to {clean(target.path)}")
        else:
            _say_hits(table, query, arguments, output, late)
    return DONE


def _found(
    table: Table,
    query: Query,
    arguments: argparse.Namespace,
    *,
    columns: list[str] | None,
    snippets: bool = False,
    every: bool = False,
) -> Search:
    every = every or arguments.all or (arguments.count and arguments.limit is None)
    return table.search(
        arguments.column,
        query,
        columns=columns,
        where=arguments.where,
        limit=None if every else LIMIT_DEFAULT if arguments.limit is None else arguments.limit,
        fresh=arguments.fresh,
        index=arguments.index,
        snippets=snippets,
        indexed_only=arguments.indexed_only,
    )


def _say_only(table: Table, query: Query, arguments: argparse.Namespace, output: Output, late: NotIndexed) -> None:
    found = _found(table, query, arguments, columns=[arguments.column])
    with _reading(late, output):
        said: int | str = found.count() if arguments.count else found.explain()
    what = "count" if arguments.count else "explain"
    output.result({"uri": table.uri, "version": found.version, what: said, "unindexed_rows": late.rows})
    output.line(clean(said, lines=True))
    if arguments.count:
        late.say(arguments, output)
        if not said:
            say_waiting(table, arguments, output)


def _reading(late: NotIndexed, output: Output) -> Progress:
    """A line while texts are read that no index has."""
    bar = Progress(output, "search")
    if late.rows:
        bar.say(f"reading {late.rows:,} rows that no index has", since=time.monotonic())
    return bar


# -- for people ----------------------------------------------------------------------------------


def _say_hits(table: Table, query: Query, arguments: argparse.Namespace, output: Output, late: NotIndexed) -> None:
    column = arguments.column
    shown = names(arguments.columns) or list(table.key) or [name for name in table.schema.names if name != column]
    found = _found(table, query, arguments, columns=[*shown, *({column} - set(shown))])
    with _reading(late, output):
        rows = found.to_arrow()
    width = output.width
    marker = Highlighter(query, found.analyzers[column], column=column)
    indent = len(str(rows.num_rows)) + 2
    length = max(SNIPPET_LEAST, width - indent - 2) if width else LENGTH
    hits = zip(rows[SCORE].to_pylist(), _facts(rows, shown), rows[column].to_pylist(), strict=True)
    for number, (score, facts, text) in enumerate(hits, 1):
        head = f"{number:>{indent - 2}}  {score:.3f}"
        line = cut(facts, max(width - len(head) - 2, 1)) if width else facts
        output.line(f"{output.paint(head, 'dim')}  {line}".rstrip())
        output.line(" " * indent + _snippet(text, marker, length, output))
    most = None if arguments.all else LIMIT_DEFAULT if arguments.limit is None else arguments.limit
    more = 0
    if most is not None and rows.num_rows == most:
        # How many there are is asked only where there may be more.
        more = _found(table, query, arguments, columns=[column], every=True).count() - rows.num_rows
    _say_count(rows.num_rows, more, output)
    late.say(arguments, output)
    if not rows.num_rows:
        say_waiting(table, arguments, output)


def _facts(rows: pa.Table, shown: list[str]) -> list[str]:
    """Names and values of each row in a line."""
    lines: list[list[str]] = [[] for _ in range(rows.num_rows)]
    for name in shown:
        for line, text in zip(lines, (text for one in rows[name].chunks for text in cells(one)), strict=True):
            line.append(f"{clean(name)}={text}")
    return ["  ".join(line) for line in lines]


def _snippet(text: str, marker: Highlighter, length: int, output: Output) -> str:
    """The best piece of a text, with its matches in bold."""
    mark = "\0"
    while mark in text:  # whatever the text is: what stands between two marks is a match
        mark += mark
    pieces = marker.snippet(text, length=length, before=mark, after=mark).split(mark)
    return "".join(
        output.paint(clean(piece), "bold") if number % 2 else clean(piece) for number, piece in enumerate(pieces)
    )


def _say_count(rows: int, more: int, output: Output) -> None:
    """How many rows there are, for people; in a pipe there is a note on what was left out, beside the rows."""
    left = f"{more:,} more match: --limit N or --all shows them"
    if output.on_terminal:
        count = "1 row" if rows == 1 else f"{rows:,} rows"
        output.line(output.paint(f"(the best {count}; {left})" if more > 0 else f"({count})", "dim"))
    elif more > 0:
        output.note(f"note: {left}")
