"""``column`` and its verbs as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.cli.grammar.shapes import COLUMNS_SHAPE, WRITE_SHAPE
from siltstone.cli.options import add_group, add_table, add_verb

if TYPE_CHECKING:
    import argparse

    from siltstone.cli.options import Verbs

_COLUMN = """\
No row is rewritten: files keep their columns, and readers fill in what is new.

Examples:
  siltstone column list reviews
  siltstone column add reviews lang string --default en
  siltstone column rename reviews lang language
"""
_LIST = """\
Example:
  siltstone column list reviews@3
"""
_ADD = """\
Rows that are there have the default in it, or null. Only booleans, numbers and texts can have a default.

Examples:
  siltstone column add reviews lang string
  siltstone column add reviews votes int64 --default 0
"""
_DROP = """\
Earlier versions still have it.

Example:
  siltstone column drop reviews lang
"""
_RENAME = """\
Example:
  siltstone column rename reviews lang language
"""
_WIDEN = """\
To a type that holds all values of the old one: a larger integer, double for float, more digits for decimals of the
same scale, ms or us for timestamps; or with --nullable so that it may hold nulls.

Examples:
  siltstone column widen reviews stars int64
  siltstone column widen reviews text --nullable
"""


def add_verbs(verbs: Verbs) -> None:
    """The verbs that work on columns."""
    group = add_group(
        verbs,
        "column",
        says="See and change the columns of a table.",
        teaches=_COLUMN,
        inside=("list", "add", "drop", "rename", "widen"),
    )
    parser = add_verb(group, "list", "columns.run_list", says="List the columns.", teaches=_LIST, shape=COLUMNS_SHAPE)
    add_table(parser, reads=True)

    parser = add_verb(group, "add", "columns.run_add", says="Add a column.", teaches=_ADD, shape=WRITE_SHAPE)
    add_table(parser)
    _add_name(parser)
    parser.add_argument("type", metavar="TYPE", help="as in `siltstone create --schema`")
    parser.add_argument("--default", metavar="VALUE", help="what rows have that are there, written as in CSV")

    parser = add_verb(group, "drop", "columns.run_drop", says="Drop a column.", teaches=_DROP, shape=WRITE_SHAPE)
    add_table(parser)
    _add_name(parser)

    parser = add_verb(
        group, "rename", "columns.run_rename", says="Rename a column.", teaches=_RENAME, shape=WRITE_SHAPE
    )
    add_table(parser)
    _add_name(parser)
    parser.add_argument("to", metavar="TO", help="its new name")

    parser = add_verb(
        group, "widen", "columns.run_widen", says="Let a column hold more values.", teaches=_WIDEN, shape=WRITE_SHAPE
    )
    add_table(parser)
    _add_name(parser)
    parser.add_argument("type", metavar="TYPE", nargs="?", help="the wider type")
    parser.add_argument("--nullable", action="store_true", help="let it hold nulls")


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the column")
