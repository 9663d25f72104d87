"""``create``, ``append``, ``upsert``, ``overwrite``, ``delete`` and ``update`` as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.cli.grammar.shapes import COLUMNS_SHAPE, WRITE_SHAPE
from siltstone.cli.options import INPUT_FORMATS, add_table, add_transaction, add_verb, count

if TYPE_CHECKING:
    import argparse

    from siltstone.cli.options import Verbs

_CREATED = (*COLUMNS_SHAPE, "created", "shards")
_CREATE = """\
Columns come from --schema, or from a file of rows with --like. Key columns tell rows apart: no two rows have the
same key. Types: bool, int8 to int64, uint8 to uint64, float, double, string, binary, date32, timestamp[us, UTC],
time64[us], duration[s], decimal128(10, 2), fixed_size_binary[16], list<string>, struct<x: int32>,
map<string, int64>, fixed_size_list<float>[3]. Names with other characters go in double quotes.

Examples:
  siltstone create reviews --schema "id int64 not null, text string, at timestamp[us, UTC]" --key id
  siltstone create s3://bucket/reviews --like reviews.csv --key id --commits sqlite:claims.db
  siltstone create events --schema "id string not null, n int64" --key id --shards 4
"""
_FILES = """\
Files are CSV (with a header), JSON lines, Parquet or Arrow, told by their names (also .gz and .zst) or by --format;
- is standard input, JSON lines unless --format says otherwise. All files become one version, or nothing: a bad row
is named and leaves the table as it was. In CSV an empty value is null and "" is an empty text; in a file of one column
a blank line is a null, in others it is nothing. In JSON lines each line is one object, and a field that is missing is
null. Whole numbers that a double can't hold exactly are refused. Times are ISO 8601, bytes are hexadecimal.
"""
_APPEND = f"""\
{_FILES}In a keyed table, rows whose key is there already are refused; `upsert` replaces them.

Examples:
  siltstone append reviews january.csv february.csv --message "first quarter"
  curl -s https://example.com/events.jsonl | siltstone append events - --once events-2026-11-14
"""
_UPSERT = f"""\
{_FILES}Rows take the place of those with the same key; of rows given twice the last one counts.

Examples:
  siltstone upsert reviews corrections.jsonl
  siltstone upsert reviews - --format csv
"""
_OVERWRITE = f"""\
{_FILES}The rows take the place of all that are there. Earlier versions stay readable.

Example:
  siltstone overwrite reviews all.parquet --message "loaded anew"
"""
_DELETE = """\
The condition is SQL. Earlier versions stay readable: `siltstone restore` brings rows back.

Examples:
  siltstone delete reviews --where "stars < 2 and lang = 'en'"
  siltstone delete reviews --all
"""
_UPDATE = """\
New values are SQL expressions over the row as it was; texts are in single quotes, inside those of the shell.

Examples:
  siltstone update reviews --set lang="'en'" --where "lang is null"
  siltstone update reviews --set stars="stars + 1" --set text="upper(text)" --where "id in (3, 4)"
"""


def add_verbs(verbs: Verbs) -> None:
    """The verbs that make tables and change rows."""
    parser = add_verb(verbs, "create", "writing.run_create", says="Create a table.", teaches=_CREATE, shape=_CREATED)
    add_table(parser)
    columns = parser.add_mutually_exclusive_group(required=True)
    columns.add_argument("--schema", metavar="TEXT", help="the columns: names and types, with commas between them")
    columns.add_argument("--like", metavar="FILE", help="take the columns of this file of rows")
    parser.add_argument("--format", choices=INPUT_FORMATS, help="the format of --like FILE; default: by its name")
    parser.add_argument(
        "--key",
        action="append",
        metavar="NAMES",
        help="key columns, with commas between them; a name with a comma goes in double quotes",
    )
    parser.add_argument(
        "--shards",
        type=count,
        metavar="N",
        help="spread keys over N shards, for many small writes with `siltstone put`",
    )
    parser.add_argument(
        "--shard-config",
        action="append",
        default=[],
        metavar="KNOB=VALUE",
        help="what writers of its shards do, such as max_memtable_rows=100000; may be repeated",
    )
    parser.add_argument("--exist-ok", action="store_true", help="a table of the same columns and key may be there")

    for name, run, says, teaches in (
        ("append", "writing.run_append", "Add rows to a table.", _APPEND),
        ("upsert", "writing.run_upsert", "Add rows, or replace those with the same key.", _UPSERT),
        ("overwrite", "writing.run_overwrite", "Replace all rows of a table.", _OVERWRITE),
    ):
        parser = add_verb(verbs, name, run, says=says, teaches=teaches, shape=WRITE_SHAPE)
        add_table(parser)
        parser.add_argument("files", metavar="FILE", nargs="+", help="a file of rows, or - for standard input")
        parser.add_argument("--format", choices=INPUT_FORMATS, help="the format of all files; default: by their names")
        add_transaction(parser)

    parser = add_verb(
        verbs, "delete", "writing.run_delete", says="Delete rows of a table.", teaches=_DELETE, shape=WRITE_SHAPE
    )
    add_table(parser)
    _add_choice(parser)
    add_transaction(parser)

    parser = add_verb(
        verbs, "update", "writing.run_update", says="Give columns new values.", teaches=_UPDATE, shape=WRITE_SHAPE
    )
    add_table(parser)
    parser.add_argument(
        "--set", action="append", required=True, metavar="COLUMN=EXPRESSION", help="a new value; may be repeated"
    )
    _add_choice(parser)
    add_transaction(parser)


def _add_choice(parser: argparse.ArgumentParser) -> None:
    """Which rows; all of them only where that is said."""
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--where", metavar="CONDITION", help="the rows that match this SQL condition")
    choice.add_argument("--all", action="store_true", help="every row")
