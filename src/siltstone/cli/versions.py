"""The history of a table: ``log``, ``tag``, ``restore`` and ``compact``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from siltstone.cli.documents import (
    rows_text,
    say_version,
    shards_text,
    time_text,
    version_document,
)
from siltstone.cli.errors import DONE, UsageError
from siltstone.cli.grammar.versions import COMPACTED
from siltstone.cli.opening import Named, opened, parse_named, reading, state_of, which, writing
from siltstone.cli.output import clean
from siltstone.cli.progress import Progress, size_text
from siltstone.errors import SiltstoneError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from siltstone.api import Table
    from siltstone.cli.output import Output
    from siltstone.table.versions import Version

_OF_AN_INDEX = re.compile(r"index [0-9]{20}-[0-9a-f]{32}")
_TAKES_INDEXES = {"clone": "cloned", "detach": "copied"}  # operations that make none, and what becomes of those there


def run_log(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``log``."""
    with reading(arguments) as table:
        versions = table.history(arguments.limit)
        tags: dict[int, list[str]] = {}
        for name, number in sorted(table.tags.items()):
            tags.setdefault(number, []).append(name)
        newest, indexes = table.version, _index_actions(table, versions)
        documents = [
            version_document(one) | {"tags": tags.get(one.version, []), "indexes": indexes.get(one.version, {})}
            for one in versions
        ]
        output.result({"uri": table.uri, "version": newest, "versions": documents})
    cells: dict[str, list[object]] = {
        "version": [one.version for one in versions],
        "time": [time_text(one).replace("T", " ") for one in versions],
        "operation": [_operation(one, indexes.get(one.version, {})) for one in versions],
        "rows": [rows_text(one) for one in versions],
        "shards": [shards_text(one) for one in versions],
        "tags": [", ".join(tags.get(one.version, [])) for one in versions],
        "once": [_once(one) for one in versions],
        "message": [one.message for one in versions],
    }
    for name in ("shards", "once"):
        if not any(cells[name]):
            del cells[name]
    output.table(list(cells), list(zip(*cells.values(), strict=True)), right=frozenset({"version"}))
    output.line(_extent(versions, cut=len(versions) == arguments.limit))
    return DONE


def _extent(versions: Sequence[Version], *, cut: bool) -> str:
    """Which versions were listed; a clone's begin at 1, and those of others where a collection left them."""
    if not versions:
        return "no versions"
    newest, oldest = versions[0].version, versions[-1].version
    count = "1 version" if len(versions) == 1 else f"{len(versions):,} versions"
    which = f"{newest}" if oldest == newest else f"{oldest} to {newest}"
    return f"the newest {count}, {which}; --limit N shows more" if cut and oldest else f"{count}: {which}"


def _once(version: Version) -> str:
    """The ids that a version was made with, to be made once; not those that came along, or that an index has."""
    if version.operation == "clone":
        return ""
    ids = [one for one in version.once if _OF_AN_INDEX.fullmatch(one) is None]
    return f"{ids[0]} and {len(ids) - 1} more" if len(ids) > 1 else "".join(ids)


def _operation(version: Version, indexes: dict[str, str]) -> str:
    """What made a version; of indexes also which, and what became of them."""
    if version.operation == "clone" and indexes:
        return f"clone with {'index' if len(indexes) == 1 else 'indexes'} {', '.join(indexes)}"
    said = ", ".join(f"{name} {action}" for name, action in indexes.items())
    return f"{version.operation} {said}".rstrip()


def _index_actions(table: Table, versions: Sequence[Version]) -> dict[int, dict[str, str]]:
    """What versions did to indexes, by name: one whose id was there before was optimized."""
    found: dict[int, dict[str, str]] = {}
    known: set[str] | None = None
    before: int | None = None
    for one in reversed(versions):
        if one.operation in _TAKES_INDEXES:
            found[one.version] = {
                name: _TAKES_INDEXES[one.operation] if id_ else "dropped" for name, id_ in one.indexes
            }
            known = None
            before = None
            continue
        if one.indexes and (before is None or before + 1 != one.version):  # what came between is not listed
            known = _ids_before(table, one.version)
        for name, id_ in one.indexes:
            action = "dropped" if not id_ else "changed" if known is None else "optimized" if id_ in known else "made"
            found.setdefault(one.version, {})[name] = action
        known = known if known is None else known | {id_ for _, id_ in one.indexes}
        before = one.version if known is not None else None
    return found


def _ids_before(table: Table, version: int) -> set[str] | None:
    """The indexes that were there before a version; None where the one before it was collected."""
    try:
        return {one.id for one in state_of(table.at(version=version - 1)).indexes.values()} if version else set()
    except SiltstoneError:
        return None


# -- tags ----------------------------------------------------------------------------------------


def run_tag(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``tag``."""
    with writing(arguments) as table:
        at = table.version if arguments.version is None else arguments.version
        made = table.tag(arguments.name, version=at)
        output.result({"uri": table.uri, "tag": arguments.name, "tagged": at} | version_document(made))
        output.line(f"{clean(arguments.name)} is version {at} (said by version {made.version})")
    return DONE


def run_tag_list(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``tag list``."""
    with reading(arguments) as table:
        tags = dict(sorted(table.tags.items()))
        output.result({"uri": table.uri, "version": table.version, "tags": tags})
    output.table(("tag", "version"), list(tags.items()), right=frozenset({"version"}))
    return DONE


def run_tag_delete(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``tag delete``."""
    with writing(arguments) as table:
        made = table.untag(arguments.name)
        output.result({"uri": table.uri, "tag": arguments.name} | version_document(made))
        output.line(f"{clean(arguments.name)} is no tag any more (said by version {made.version})")
    return DONE


# -- restore and compact -------------------------------------------------------------------------


def run_restore(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``restore``."""
    named = parse_named(arguments.table)
    if named.is_newest:
        raise UsageError("restore needs the version to bring back", hint="write TABLE@3, TABLE@tag or TABLE@checkpoint")
    with opened(Named(named.uri), arguments) as table:
        version = table.restore(**which(table, named))
        say_version(table, version, output)
    return DONE


def run_compact(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``compact``."""
    with writing(arguments) as table:
        with Progress(output, f"compact {table.name}", unit="rows") as bar:
            done = table.compact(progress=bar.done)
        late = [one for one in table.indexes() if one.unindexed_rows]
        document = {"uri": table.uri} | {name: getattr(done, name) for name in COMPACTED[1:-1]}
        document["indexes"] = [{"name": one.name, "unindexed_rows": one.unindexed_rows} for one in late]
        output.result(document)
    if done.versions:
        output.line(
            f"version {done.version}: {done.rows:,} rows written anew, "
            f"{_fragments(done.fragments_before)} became {done.fragments_after}, "
            f"{size_text(done.bytes_before)} became {size_text(done.bytes_after)}"
        )
    else:
        output.line(f"nothing to do: {_fragments(done.fragments_after)}, version {done.version}")
    for one in late:
        output.line(
            f"index {clean(one.name)}: {one.unindexed_rows:,} rows are searched by reading their texts; "
            f"`siltstone index optimize` takes them in"
        )
    return DONE


def _fragments(count: int) -> str:
    return "1 fragment" if count == 1 else f"{count:,} fragments"
