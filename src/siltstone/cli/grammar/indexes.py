"""``index`` and its verbs as they are written."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from siltstone.cli.grammar.shapes import VERSION_SHAPE, WRITE_SHAPE
from siltstone.cli.options import add_group, add_table, add_verb, count, whole_number

if TYPE_CHECKING:
    from siltstone.cli.options import Verbs

_BUILD = ("build", "name", "items", "missing", "rows", "begun_on", "new", "committed")
_BEGUN = {"with --begin": ("uri", *_BUILD)}
_TOKENIZERS = ("simple", "whitespace", "raw", "ngram")
_MADE = ("uri", "changed", "index", *VERSION_SHAPE)
_TEACHES = """\
With an index `siltstone search` reads the words it looks for and no more; it finds the same without one. Rows that come
later are found too, by reading their texts, until `optimize` takes them in.

Examples:
  siltstone index create reviews body
  siltstone index list reviews
  siltstone index optimize reviews body
"""
_CREATE = """\
It is called as the column without --name. With --begin nothing is indexed yet: any number of processes run the items
of the build, and any of them commits it.

Examples:
  siltstone index create reviews body
  siltstone index create reviews body --language german --name body_de
  siltstone index create reviews code --tokenizer whitespace --no-lower
  siltstone index create s3://bucket/reviews body --begin --items 16 --json
"""
_LIST = """\
With its column, how texts become words, how much is indexed, and how many rows are searched by reading their texts.

Examples:
  siltstone index list reviews
  siltstone index list reviews@v1 --json
"""
_OPTIMIZE = """\
Takes in rows that came since, merges small parts, and leaves out what was deleted. Searches find the same before and
after. With --begin it is left to any number of processes, as with `siltstone index create --begin`.

Examples:
  siltstone index optimize reviews body
  siltstone index optimize reviews body --whole
"""
_DROP = """\
Searches of its column read every text then. Earlier versions still have it.

Example:
  siltstone index drop reviews body
"""
_STATUS = """\
Of a build: how many of its items are done, which are missing, and whether it is part of the table by now. Without BUILD
of all that are under way: begun and not committed, also those that nobody works on any more, until `siltstone gc`
removes them with the version they were begun on.

Examples:
  siltstone index status reviews
  siltstone index status reviews 00000000000000000007-0123456789abcdef0123456789abcdef
"""
_RUN = """\
Without ITEM all that are missing, one after the other. An item may be run by several processes at once, and again: what
counts is what came first.

Examples:
  siltstone index run reviews 00000000000000000007-0123456789abcdef0123456789abcdef 3 4
  siltstone index run reviews 00000000000000000007-0123456789abcdef0123456789abcdef --threads 1
"""
_COMMIT = """\
Refused while items are missing. It may be called by several processes at once, and again: the index becomes part of
the table once.

Example:
  siltstone index commit reviews 00000000000000000007-0123456789abcdef0123456789abcdef
"""


def add_verbs(verbs: Verbs) -> None:
    """The verbs that work on indexes."""
    group = add_group(
        verbs,
        "index",
        says="Make columns of texts fast to search.",
        teaches=_TEACHES,
        inside=("create", "list", "optimize", "drop", "status", "run", "commit"),
    )
    parser = add_verb(
        group,
        "create",
        "indexes.run_create",
        says="Index the words of a column.",
        teaches=_CREATE,
        shape=_MADE,
        shapes=_BEGUN,
    )
    add_table(parser)
    parser.add_argument("column", metavar="COLUMN", help="a column of texts")
    parser.add_argument("--name", metavar="NAME", help="what the index is called; default: as the column")
    _add_analyzer(parser)
    _add_begin(parser)

    parser = add_verb(
        group,
        "list",
        "indexes.run_list",
        says="List the indexes of a table.",
        teaches=_LIST,
        shape=("uri", "version", "indexes"),
    )
    add_table(parser, reads=True)

    parser = add_verb(
        group,
        "optimize",
        "indexes.run_optimize",
        says="Take in new rows.",
        teaches=_OPTIMIZE,
        shape=_MADE,
        shapes=_BEGUN,
    )
    add_table(parser)
    _add_name(parser)
    parser.add_argument("--whole", action="store_true", help="make one segment of all, however good they are")
    _add_begin(parser)

    parser = add_verb(group, "drop", "indexes.run_drop", says="Remove an index.", teaches=_DROP, shape=WRITE_SHAPE)
    add_table(parser)
    _add_name(parser)

    _add_builds(group)


def _add_builds(group: Verbs) -> None:
    """The verbs that work on what --begin began."""
    parser = add_verb(
        group,
        "status",
        "builds.run_status",
        says="See how far builds are.",
        teaches=_STATUS,
        shape=("uri", *_BUILD),
        shapes={"without BUILD": ("uri", "builds")},
    )
    add_table(parser)
    parser.add_argument("build", metavar="BUILD", nargs="?", help="what --begin printed; default: all under way")

    parser = add_verb(
        group,
        "run",
        "builds.run_run",
        says="Do items of a build.",
        teaches=_RUN,
        shape=("uri", "build", "done", "missing"),
    )
    add_table(parser)
    _add_build(parser)
    parser.add_argument("numbers", type=whole_number, nargs="*", metavar="ITEM", help="their numbers, from 0 on")
    parser.add_argument("--threads", type=count, default=0, metavar="N", help="default: one for each processor")

    parser = add_verb(
        group,
        "commit",
        "builds.run_commit",
        says="Make a build part of the table.",
        teaches=_COMMIT,
        shape=WRITE_SHAPE,
    )
    add_table(parser)
    _add_build(parser)


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="INDEX", help="the index")


def _add_build(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("build", metavar="BUILD", help="what --begin printed")


def _add_begin(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--begin", action="store_true", help="only begin a build that others work on; print its name")
    parser.add_argument("--items", type=count, metavar="N", help="with --begin: cut it into so many items at least")


def _add_analyzer(parser: argparse.ArgumentParser) -> None:
    either = argparse.BooleanOptionalAction
    parser.add_argument("--language", metavar="NAME", help="of stems and stop words; default: english")
    parser.add_argument("--tokenizer", choices=_TOKENIZERS, help="what a word is; default: simple, letters and digits")
    parser.add_argument("--stem", action=either, help="delivery and deliveries as one; default: as the tokenizer needs")
    parser.add_argument("--stop-words", action=either, help="leave out words such as the; default: likewise")
    parser.add_argument("--positions", action=either, help="keep where words stand, for phrases; default: yes")
    parser.add_argument("--lower", action=either, help="small and capital letters alike; default: yes, but for raw")
    parser.add_argument("--fold", action=either, help="letters with and without accents alike; default: likewise")
    parser.add_argument("--ngram-min", type=count, metavar="N", help="characters of the shortest n-grams; default: 3")
    parser.add_argument("--ngram-max", type=count, metavar="N", help="characters of the longest; default: 3")
    parser.add_argument("--max-token-bytes", type=count, metavar="N", help="longer words are left out; default: 255")
