"""Builds of text indexes that several processes work on: ``index status``, ``index run`` and ``index commit``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone import paths
from siltstone.cli.documents import say_version
from siltstone.cli.errors import DONE
from siltstone.cli.opening import state_of, writing
from siltstone.cli.output import clean
from siltstone.cli.progress import Progress, size_text
from siltstone.errors import SiltstoneError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from siltstone.api import Table
    from siltstone.api.index_builds import IndexBuild
    from siltstone.cli.output import Output

NAMED_MOST = 10  # of the missing items, for people


def build_document(table: Table, build: IndexBuild) -> dict[str, Any]:
    """A build as JSON, for scripts: keys are added, never renamed."""
    plan = build._build.plan  # noqa: SLF001 - what it is of is fixed there
    return {
        "build": build.name,
        "name": plan.name,
        "items": build.items,
        "missing": build.missing(),
        "rows": build.rows,
        "begun_on": plan.version,
        "new": plan.new,
        "committed": _committed(table, build.name),
    }


def say_begun(table: Table, build: IndexBuild, output: Output) -> None:
    """Report a build that was begun, and what comes next."""
    output.result({"uri": table.uri} | build_document(table, build))
    output.line(f"build {build.name}: {build.items} items, {build.rows:,} rows")
    output.line("run them with `siltstone index run TABLE BUILD ITEM`, then `siltstone index commit TABLE BUILD`")


def run_status(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``index status``."""
    with writing(arguments) as table:
        if arguments.build is None:
            found = _under_way(table)
            output.result({"uri": table.uri, "builds": found})
            _say_builds(found, output)
            return DONE
        one = build_document(table, table.index_build(arguments.build))
        output.result({"uri": table.uri} | one)
    output.line(f"{_done(one)}{_missing(one)}; {_state(one)}")
    return DONE


def run_run(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``index run``."""
    with writing(arguments) as table:
        build = table.index_build(arguments.build)
        items = build._build.plan.items  # noqa: SLF001 - how much there is to do
        done = []
        for number in arguments.numbers or build.missing():
            total = sum(one.rows for one in items[number].fragments) if number < len(items) else 0
            with Progress(output, f"item {number}", total=total, unit="rows") as bar:
                staged = build.run(number, progress=_rows_told(bar), threads=arguments.threads)
            documents = sum(part.documents for part in staged.parts)
            size = sum(part.bytes for part in staged.parts)
            done.append({"item": number, "attempt": staged.attempt, "rows": documents, "bytes": size})
            output.line(f"item {number}: {documents:,} rows in {len(staged.parts)} parts, {size_text(size)}")
        missing = build.missing()
        output.result({"uri": table.uri, "build": build.name, "done": done, "missing": missing})
        left = f"{len(missing)} of {build.items} items are missing" if missing else "no item is missing: commit it"
        output.line(left)
    return DONE


def run_commit(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``index commit``."""
    with writing(arguments) as table:
        build = table.index_build(arguments.build)
        plan = build._build.plan  # noqa: SLF001 - what it is of is fixed there
        with Progress(output, f"commit {clean(plan.name)}") as bar:
            made = build.commit(bar.stages(clean(plan.name)))
        say_version(table, made, output, what=f"{clean(plan.name)} {'made' if plan.new else 'optimized'}")
    return DONE


def _committed(table: Table, name: str) -> int | None:
    """The version that a build became part of the table with."""
    return state_of(table).once.get(f"index {name}")


def _under_way(table: Table) -> list[dict[str, Any]]:
    """What was begun and is no part of the table: whoever finds one may end it."""
    store = table._own_tools.store  # noqa: SLF001 - no handle lists what nobody committed
    named = (paths.parse_index(info.key) for info in store.list(paths.INDEXES))
    begun = sorted({one[0] for one in named if one is not None})
    return [_begun(table, name) for name in begun if _committed(table, name) is None]


def _begun(table: Table, name: str) -> dict[str, Any]:
    try:
        return build_document(table, table.index_build(name)) | {"problem": ""}
    except SiltstoneError as error:  # the version that it was begun on was collected, or it has no plan yet
        unknown: dict[str, Any] = {"name": "", "items": 0, "missing": [], "rows": 0, "begun_on": 0, "new": False}
        return {"build": name} | unknown | {"committed": None, "problem": error.message}


def _say_builds(found: list[dict[str, Any]], output: Output) -> None:
    if not found:
        output.line("no build is under way")
        return
    rows = [
        (one["build"], one["name"], _done(one), f"{one['rows']:,}", one["begun_on"], one["problem"] or _state(one))
        for one in found
    ]
    heads = ("build", "index", "items", "rows", "begun on", "")
    output.table(heads, rows, right=frozenset({"rows", "begun on"}), whole=frozenset({"build"}))


def _done(one: dict[str, Any]) -> str:
    return f"{one['items'] - len(one['missing'])} of {one['items']} items are done"


def _missing(one: dict[str, Any]) -> str:
    missing = one["missing"]
    more = f" and {len(missing) - NAMED_MOST} more" if len(missing) > NAMED_MOST else ""
    return f"; missing: {', '.join(map(str, missing[:NAMED_MOST]))}{more}" if missing else ""


def _state(one: dict[str, Any]) -> str:
    if one["committed"] is not None:
        return f"committed as version {one['committed']}"
    return "not committed yet" if one["missing"] else "ready to be committed"


def _rows_told(bar: Progress) -> Callable[[int], None]:
    return lambda rows: bar.add(rows=rows)
