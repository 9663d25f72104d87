"""Is everything there that the newest version of a table names?

What must hold: a fragment or a deletion vector that is missing, cut or changed is named; a table at work gives no
finding, since what a version names is written before it and stays.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.errors import CorruptionError, NotFoundError, SiltstoneError
from siltstone.format.table import decode_body, decode_change
from siltstone.log import open_log
from siltstone.store.connect import open_store
from siltstone.table.history import History
from siltstone.table.vectors import Vectors
from siltstone.verify import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from siltstone.format.rollup import Live
    from siltstone.log import Log
    from siltstone.store.base import Store
    from siltstone.verify import LogReport

    Progress = Callable[[int, int], None]

READ_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class TableReport:
    """What was found of one table's newest version."""

    uri: str
    root: str  # below the URI that was verified
    version: int
    rows: int = 0
    fragments: int = 0
    vectors: int = 0
    bytes: int = 0
    deep: bool = False
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def is_table(log: Log) -> bool:
    """Whether a log holds the versions of a table."""
    position = log.first().position
    try:
        data = log.published(position)
        if data is None:
            return False
        body = decode_body(log.read(data, position).body, name="entry")
        decode_change(body.change, name="entry")
    except SiltstoneError:
        return False
    return True


def check_tables(
    uri: str,
    reports: list[LogReport],
    *,
    deep: bool,
    commits: str | None,
    storage_options: Mapping[str, str],
    progress: Progress,
) -> list[TableReport]:
    """Check the tables whose logs were verified, one report for each; logs that are no table's are passed over."""
    found = []
    for report in reports:
        if not (report.log and (report.root == paths.LOG or report.root.endswith(f"/{paths.LOG}"))):
            continue
        root = report.root.removesuffix(paths.LOG)
        with open_store(f"{uri.rstrip('/')}/{root}" if root else uri, storage_options) as store:
            decides = commits if report.decided_by != "the object store" else None
            with open_log(store, root=paths.LOG, commits=decides, probe=False) as log:
                if is_table(log) or any(True for _ in store.list(paths.ROLLUPS)):
                    found.append(_check(log, store, report, deep=deep, progress=progress))
    return found


def _check(log: Log, store: Store, report: LogReport, *, deep: bool, progress: Progress) -> TableReport:
    root = report.root.removesuffix(paths.LOG)
    try:
        state = History(log).newest()
    except SiltstoneError as error:
        if not report.ok:  # what is wrong was said of the log
            return TableReport(store.uri, root, -1, deep=deep, notes=(f"its files were not checked: {error.message}",))
        where = str(error.facts.get("object", ""))
        problem = Problem("corrupt", f"its versions can't be read: {error.message}", object=where)
        return TableReport(store.uri, root, -1, deep=deep, problems=(problem,))
    lives = list(state.fragments)
    vectors: dict[str, list[Live]] = {}
    for live in lives:
        if live.vector is not None:
            vectors.setdefault(live.vector.name, []).append(live)
    problems = [*_check_fragments(store, lives, deep=deep, progress=progress)]
    problems += _check_vectors(store, vectors, deep=deep)
    return TableReport(
        store.uri,
        root,
        state.version,
        rows=state.fragments.rows,
        fragments=len(lives),
        vectors=len(vectors),
        bytes=sum(live.fragment.bytes for live in lives),
        deep=deep,
        problems=tuple(problems),
    )


def _sizes(store: Store, folder: str) -> dict[str, int]:
    return {info.key: info.size for info in store.list(folder)}


def _size(store: Store, sizes: dict[str, int], key: str) -> int | None:
    """The size of an object; a listing of a directory at work is no picture of one moment, so it is asked again."""
    if key in sizes:
        return sizes[key]
    info = store.head(key)
    return None if info is None else info.size


def _check_fragments(store: Store, lives: list[Live], *, deep: bool, progress: Progress) -> list[Problem]:
    sizes = _sizes(store, paths.DATA) if lives else {}
    total, done = sum(live.fragment.bytes for live in lives), 0
    problems = []
    for live in lives:
        fragment = live.fragment
        key = paths.data(fragment.name)
        size = _size(store, sizes, key)
        if size is None:
            problems.append(Problem("missing", f"the fragment, with {live.rows} rows, is gone", object=key))
        elif size != fragment.bytes:
            detail = f"the fragment, with {live.rows} rows, has {size} bytes, not the {fragment.bytes} of its record"
            problems.append(Problem("corrupt", detail, object=key))
        elif deep and (wrong := _wrong_bytes(store, key, size, fragment.sha256)):
            problems.append(Problem("corrupt", f"the fragment, with {live.rows} rows, {wrong}", object=key))
        done += fragment.bytes
        if deep:
            progress(done, total)
    return problems


def _wrong_bytes(store: Store, key: str, size: int, expected: str) -> str:
    check = hashlib.sha256()
    try:
        for start in range(0, size, READ_BYTES):
            check.update(store.get_ranges(key, [(start, min(start + READ_BYTES, size))])[0])
    except NotFoundError:
        return "is gone"
    return "" if check.hexdigest() == expected else "does not have the bytes that were written"


def _check_vectors(store: Store, vectors: Mapping[str, list[Live]], *, deep: bool) -> list[Problem]:
    sizes = _sizes(store, paths.VECTORS) if vectors else {}
    reader = Vectors(store, cache_bytes=0)
    problems = []
    for name, lives in vectors.items():
        key = paths.vectors(name)
        size = _size(store, sizes, key)
        pairs = [(live.vector, live.fragment) for live in lives if live.vector is not None]
        rows = sum(vector.rows for vector, _ in pairs)
        end = max(vector.offset + vector.length for vector, _ in pairs)
        if size is None:
            problems.append(Problem("missing", f"the deletion vectors of {rows} rows are gone", object=key))
        elif size < end:
            detail = f"the deletion vectors of {rows} rows end after {size} bytes, not {end}"
            problems.append(Problem("corrupt", detail, object=key))
        elif deep:
            try:
                reader.read_many(pairs)
            except CorruptionError as error:
                problems.append(Problem("corrupt", error.message, object=key))
    return problems
