"""``scan``, ``sql``, ``get`` and ``changes`` as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.cli.options import add_output, add_table, add_verb, whole_number

if TYPE_CHECKING:
    import argparse

    from siltstone.cli.options import Verbs

_ROWS = """\
Rows are shown as a table, on a terminal the first hundred; --format or FILE's name says otherwise. With --json, and
in jsonl, each row is a JSON object on a line of its own: times are ISO 8601, decimals are text, bytes are
hexadecimal, maps are lists of {"key": ..., "value": ...}, NaN and infinities are null.
"""
_ONLY = {"with --count": ("uri", "version", "count"), "with --explain": ("uri", "version", "explain")}
_SCAN = f"""\
{_ROWS}
Examples:
  siltstone scan reviews --columns id,stars --where "stars >= 4" --limit 10
  siltstone scan reviews@3 --output march.parquet
  siltstone scan s3://bucket/reviews@v1 --count
  siltstone scan reviews --where "id = 7" --explain
  siltstone scan events --fresh
"""
_SQL = """\
In the query the table is called by the last part of its URI, others by the names that --table gives them.
Rows are written as `siltstone scan --help` says.

Examples:
  siltstone sql reviews "select lang, avg(stars) from reviews group by lang order by lang"
  siltstone sql reviews "select count(*) from reviews join old using (id)" --table old=reviews@3
"""
_GET = f"""\
Keys are written as in JSON lines; those of several columns with commas between them, or as a JSON list. Keys that are
not there are left out; where none is, the exit code is 1.
{_ROWS}
Examples:
  siltstone get reviews 7 12 --columns id,text
  siltstone get sales@v1 2026-11-14,berlin '["2026-11-15", "new york, ny"]'
"""
_CHANGES = f"""\
The rows that changed after version N, version by version. _change says what happened to a row: insert, delete,
update_before or update_after; _version says when.
{_ROWS}
Examples:
  siltstone changes reviews --since 3
  siltstone changes reviews --since 3 --until 5 --columns id --json
"""


def add_verbs(verbs: Verbs) -> None:
    """The verbs that read rows."""
    parser = add_verb(
        verbs, "scan", "tables.run_scan", says="Read the rows of a table.", teaches=_SCAN, shapes=_ONLY, rows=True
    )
    add_table(parser, reads=True)
    _add_columns(parser)
    parser.add_argument("--where", metavar="CONDITION", help="only rows that match this SQL condition")
    _add_limit(parser)
    _add_fresh(parser)
    add_output(parser)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--count", action="store_true", help="only say how many rows there are")
    instead.add_argument("--explain", action="store_true", help="only say what would be read")

    parser = add_verb(verbs, "sql", "tables.run_sql", says="Answer a query.", teaches=_SQL, rows=True)
    add_table(parser, reads=True)
    parser.add_argument("query", metavar="QUERY", help="a SELECT")
    parser.add_argument(
        "--table", action="append", default=[], dest="tables", metavar="NAME=TABLE", help="one more; may be repeated"
    )
    _add_limit(parser)
    _add_fresh(parser)
    add_output(parser)

    parser = add_verb(verbs, "get", "tables.run_get", says="Read the rows with some keys.", teaches=_GET, rows=True)
    add_table(parser, reads=True)
    parser.add_argument("keys", metavar="KEY", nargs="+", help="the key of a row")
    _add_columns(parser)
    _add_fresh(parser)
    add_output(parser)

    parser = add_verb(
        verbs, "changes", "tables.run_changes", says="Read the rows that changed.", teaches=_CHANGES, rows=True
    )
    add_table(parser, reads=True)
    parser.add_argument("--since", type=whole_number, required=True, metavar="N", help="changes after this version")
    parser.add_argument("--until", type=whole_number, metavar="N", help="up to this version; default: the newest")
    _add_columns(parser)
    _add_limit(parser)
    add_output(parser)


def _add_columns(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--columns",
        action="append",
        metavar="NAMES",
        help='only these, with commas between them; a name with a comma goes in double quotes: "x,y",id',
    )


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=whole_number, metavar="N", help="at most so many rows")


def _add_fresh(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fresh", action="store_true", help="with rows that are in shards and not merged yet")
