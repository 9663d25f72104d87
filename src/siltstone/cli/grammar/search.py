"""``search`` as it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.cli.options import add_output, add_table, add_verb, whole_number

if TYPE_CHECKING:
    from siltstone.cli.options import Verbs

LIMIT_DEFAULT = 10
_ONLY = {
    "with --count": ("uri", "version", "count", "unindexed_rows"),
    "with --explain": ("uri", "version", "explain", "unindexed_rows"),
}
_SEARCH = """\
In QUERY words are looked for by the rules of the column's index: any of them, the more and the rarer the better. Signs
have a meaning, which a backslash before them takes away, and --plain all at once:
  "late delivery"   these words one behind the other; "late delivery"~2 with up to two others between them
  +paid -refund     must be there, must not be there (a query that begins with - goes behind --)
  colour^2          counts twice
  deliv*  recieve~  words that begin so; words that differ by a character or two
  (slow late)       a group, as for +(slow late)^2

For people each row has its place, its score, its key (or what --columns names) and the best piece of the text, in
which the matches are marked on a terminal. With --json, --format or --output it is a row with _score. A column without
an index is searched too, by reading all of it, and so are rows that its index has not taken in: a note says how many.

Examples:
  siltstone search reviews body "slow delivery"
  siltstone search reviews@v1 body 'slow "late delivery" -refund' --where "stars <= 2" --limit 20
  siltstone search events message "disk full" --fresh --columns host,at
  siltstone search reviews body "colour*" --json --snippets
  siltstone search reviews body "refund" --count
"""


def add_verbs(verbs: Verbs) -> None:
    """The verb ``search``."""
    parser = add_verb(
        verbs, "search", "search.run_search", says="Find rows by their texts.", teaches=_SEARCH, shapes=_ONLY, rows=True
    )
    add_table(parser, reads=True)
    parser.add_argument("column", metavar="COLUMN", help="a column of texts")
    parser.add_argument("query", metavar="QUERY", help="what is looked for")
    parser.add_argument("--plain", action="store_true", help="no sign in QUERY has a meaning")
    parser.add_argument("--where", metavar="CONDITION", help="only rows that match this SQL condition too")
    parser.add_argument(
        "--columns",
        action="append",
        metavar="NAMES",
        help='only these, with commas between them; a name with a comma goes in double quotes: "x,y",id',
    )
    most = parser.add_mutually_exclusive_group()
    most.add_argument("--limit", type=whole_number, metavar="N", help=f"at most so many; default: {LIMIT_DEFAULT}")
    most.add_argument("--all", action="store_true", help="all that match")
    parser.add_argument("--fresh", action="store_true", help="with rows that are in shards and not merged yet")
    parser.add_argument("--index", metavar="NAME", help="which one, where the column has several")
    parser.add_argument("--indexed-only", action="store_true", help="refuse a column without an index")
    parser.add_argument("--snippets", action="store_true", help="rows have _snippet too, with **matches** marked")
    add_output(parser)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--count", action="store_true", help="only say how many rows match")
    instead.add_argument("--explain", action="store_true", help="only say what would be searched")
