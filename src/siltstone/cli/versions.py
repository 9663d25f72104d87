"""The history of a table: ``log``, ``tag``, ``restore`` and ``compact``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.cli.documents import (
    VERSION_SHAPE,
    WRITE_SHAPE,
    rows_text,
    say_version,
    shards_text,
    time_text,
    version_document,
)
from siltstone.cli.errors import DONE, UsageError
from siltstone.cli.opening import Named, opened, parse_named, reading, writing
from siltstone.cli.options import add_group, add_table, add_verb, whole_number
from siltstone.cli.output import clean
from siltstone.cli.progress import Progress, size_text

if TYPE_CHECKING:
    import argparse

    from siltstone.cli.options import Verbs
    from siltstone.cli.output import Output

LIMIT_DEFAULT = 20

_UNTAGGED = ("uri", "tag", *VERSION_SHAPE)
_TAGGED = (*_UNTAGGED, "tagged")
_COMPACTED = (
    "uri", "version", "versions", "rows", "fragments_before", "fragments_after", "bytes_before", "bytes_after",
)  # fmt: skip

_LOG = """\
Newest first: when each version was made, by which operation, what it did to rows, the shards that it merged, made or
let go, its tags and its message.

Examples:
  siltstone log reviews
  siltstone log s3://bucket/reviews@v1 --limit 100 --json
"""
_TAG = """\
A tag is a name for a version: TABLE@tag reads it. Without a verb a tag is created.

Examples:
  siltstone tag reviews v1
  siltstone tag list reviews
  siltstone tag delete reviews v1
"""
_TAG_CREATE = """\
A tag that is there moves.

Examples:
  siltstone tag create reviews v1
  siltstone tag create reviews before-import --version 3
"""
_TAG_LIST = """\
Example:
  siltstone tag list reviews --json
"""
_TAG_DELETE = """\
The version stays.

Example:
  siltstone tag delete reviews v1
"""
_RESTORE = """\
Makes a new version with the rows and columns of an earlier one. What came between stays in the history.

Examples:
  siltstone restore reviews@3
  siltstone restore s3://bucket/reviews@v1
"""
_COMPACT = """\
Rewrites small and half-deleted fragments into fewer ones, clustered by key. Rows stay as they are, and writers go on
meanwhile; what they delete is carried over.

Example:
  siltstone compact s3://bucket/reviews
"""


def add_verbs(verbs: Verbs) -> None:
    """The verbs that work on versions."""
    parser = add_verb(
        verbs, "log", _log, says="List the versions of a table.", teaches=_LOG, shape=("uri", "version", "versions")
    )
    add_table(parser, reads=True)
    parser.add_argument("--limit", type=whole_number, default=LIMIT_DEFAULT, metavar="N", help="default: %(default)s")

    group = add_group(
        verbs,
        "tag",
        says="Name versions of a table.",
        teaches=_TAG,
        inside=("create", "list", "delete"),
        default="create",
    )
    parser = add_verb(group, "create", _tag, says="Give a version a name.", teaches=_TAG_CREATE, shape=_TAGGED)
    add_table(parser)
    parser.add_argument("name", metavar="NAME", help="letters, digits and _ . - and not digits alone")
    parser.add_argument("--version", type=whole_number, metavar="N", help="default: the newest")
    parser = add_verb(
        group, "list", _tag_list, says="List the tags of a table.", teaches=_TAG_LIST, shape=("uri", "version", "tags")
    )
    add_table(parser, reads=True)
    parser = add_verb(group, "delete", _tag_delete, says="Remove a tag.", teaches=_TAG_DELETE, shape=_UNTAGGED)
    add_table(parser)
    parser.add_argument("name", metavar="NAME", help="the tag")

    parser = add_verb(
        verbs, "restore", _restore, says="Bring an earlier version back.", teaches=_RESTORE, shape=WRITE_SHAPE
    )
    add_table(parser, reads=True)

    parser = add_verb(
        verbs, "compact", _compact, says="Rewrite a table into fewer files.", teaches=_COMPACT, shape=_COMPACTED
    )
    add_table(parser)


def _log(arguments: argparse.Namespace, output: Output) -> int:
    with reading(arguments) as table:
        versions = table.history(arguments.limit)
        tags: dict[int, list[str]] = {}
        for name, number in sorted(table.tags.items()):
            tags.setdefault(number, []).append(name)
        newest = table.version
        documents = [version_document(one) | {"tags": tags.get(one.version, [])} for one in versions]
        output.result({"uri": table.uri, "version": newest, "versions": documents})
    cells: dict[str, list[object]] = {
        "version": [one.version for one in versions],
        "time": [time_text(one).replace("T", " ") for one in versions],
        "operation": [one.operation for one in versions],
        "rows": [rows_text(one) for one in versions],
        "shards": [shards_text(one) for one in versions],
        "tags": [", ".join(tags.get(one.version, [])) for one in versions],
        "message": [one.message for one in versions],
    }
    if not any(cells["shards"]):
        del cells["shards"]
    output.table(list(cells), list(zip(*cells.values(), strict=True)), right=frozenset({"version"}))
    output.line(f"{len(versions)} of the versions 0 to {newest}")
    return DONE


# -- tags ----------------------------------------------------------------------------------------


def _tag(arguments: argparse.Namespace, output: Output) -> int:
    with writing(arguments) as table:
        at = table.version if arguments.version is None else arguments.version
        made = table.tag(arguments.name, version=at)
        output.result({"uri": table.uri, "tag": arguments.name, "tagged": at} | version_document(made))
        output.line(f"{clean(arguments.name)} is version {at} (said by version {made.version})")
    return DONE


def _tag_list(arguments: argparse.Namespace, output: Output) -> int:
    with reading(arguments) as table:
        tags = dict(sorted(table.tags.items()))
        output.result({"uri": table.uri, "version": table.version, "tags": tags})
    output.table(("tag", "version"), list(tags.items()), right=frozenset({"version"}))
    return DONE


def _tag_delete(arguments: argparse.Namespace, output: Output) -> int:
    with writing(arguments) as table:
        made = table.untag(arguments.name)
        output.result({"uri": table.uri, "tag": arguments.name} | version_document(made))
        output.line(f"{clean(arguments.name)} is no tag any more (said by version {made.version})")
    return DONE


# -- restore and compact -------------------------------------------------------------------------


def _restore(arguments: argparse.Namespace, output: Output) -> int:
    named = parse_named(arguments.table)
    if named.is_newest:
        raise UsageError("restore needs the version to bring back", hint="write TABLE@3 or TABLE@tag")
    with opened(Named(named.uri), arguments) as table:
        version = table.restore(version=named.version, tag=named.tag)
        say_version(table, version, output)
    return DONE


def _compact(arguments: argparse.Namespace, output: Output) -> int:
    with writing(arguments) as table:
        done = table.compact(progress=Progress(output, "compact").done)
        output.result({"uri": table.uri} | {name: getattr(done, name) for name in _COMPACTED[1:]})
    if not done.versions:
        output.line(f"nothing to do: {done.fragments_after} fragments, version {done.version}")
        return DONE
    output.line(
        f"version {done.version}: {done.rows:,} rows written anew, "
        f"{done.fragments_before} fragments became {done.fragments_after}, "
        f"{size_text(done.bytes_before)} became {size_text(done.bytes_after)}"
    )
    return DONE
