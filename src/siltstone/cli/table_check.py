"""Is everything there that the newest version of a table names?

What must hold: a fragment, a deletion vector or a part of an index that is missing, cut or changed is named, and so is
what a shard lacks; a table at work gives no finding, since what a version names is written before it and stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.cli.fragment_check import check_fragments, size_of, sizes_below
from siltstone.cli.index_check import check_indexes
from siltstone.cli.origin_check import check_origins
from siltstone.cli.shard_check import ShardReport, check_shards
from siltstone.errors import CorruptionError, SiltstoneError, WrongCommitStoreError
from siltstone.format.version import whole_change
from siltstone.log import open_log
from siltstone.store.connect import open_store
from siltstone.table.history import History
from siltstone.table.origins import Others
from siltstone.table.vectors import Vectors
from siltstone.verify import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from siltstone.cli.shard_check import GivenWals
    from siltstone.format.rollup import Live
    from siltstone.log import Log
    from siltstone.store.base import Store
    from siltstone.table.origins import OpensOthers
    from siltstone.verify import LogReport

    Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class TableReport:
    """What was found of one table's newest version."""

    uri: str
    root: str  # below the URI that was verified
    version: int
    rows: int = 0
    fragments: int = 0
    vectors: int = 0
    indexes: int = 0
    bytes: int = 0
    deep: bool = False
    shards: tuple[ShardReport, ...] = ()
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
        whole_change(log.read(data, position).body, name="entry")
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
    wals: GivenWals | None = None,
) -> list[TableReport]:
    """Check the tables whose logs were verified, one report for each; logs that are no table's are passed over.

    ``wals`` is the store of their shards' WALs that was given, and what was found of the logs there.
    """
    found = []
    for report in reports:
        if not (report.log and (report.root == paths.LOG or report.root.endswith(f"/{paths.LOG}"))):
            continue
        root = report.root.removesuffix(paths.LOG)
        with (
            open_store(f"{uri.rstrip('/')}/{root}" if root else uri, storage_options) as store,
            _opened(store, commits if report.decided_by != "the object store" else None) as log,
        ):
            if is_table(log) or any(True for _ in store.list(paths.ROLLUPS)):
                inside = {one.root.removeprefix(root): one for one in reports if one.root.startswith(root)}
                opens = Others(store.uri, storage_options)
                found.append(_check(log, report, inside, opens, deep=deep, progress=progress, wals=wals))
    return found


def _opened(store: Store, commits: str | None) -> Log:
    """The log of a table; one that another commit store decides is read as it is published."""
    try:
        return open_log(store, root=paths.LOG, commits=commits, probe=False)
    except WrongCommitStoreError:
        return open_log(store, root=paths.LOG, probe=False)


def _check(
    log: Log,
    report: LogReport,
    inside: Mapping[str, LogReport],
    opens: OpensOthers,
    *,
    deep: bool,
    progress: Progress,
    wals: GivenWals | None,
) -> TableReport:
    """Check one table; ``inside`` has the logs below its URI, by their roots there."""
    root, store = report.root.removesuffix(paths.LOG), log.store
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
    shards = check_shards(log, state, inside, deep=deep, wals=wals)
    others = check_origins(log, state, opens)
    store = others.store
    fragments = [(live.fragment, live.rows) for live in lives]
    fragments = [one for one in fragments if paths.origin_of(one[0].name) not in others.missing]
    vectors = {name: some for name, some in vectors.items() if paths.origin_of(name) not in others.missing}
    problems = check_fragments(store, fragments, deep=deep, progress=progress)
    problems += _check_vectors(store, vectors, deep=deep)
    problems += check_indexes(store, state, deep=deep, missing=others.missing)
    return TableReport(
        store.uri,
        root,
        state.version,
        rows=state.fragments.rows,
        fragments=len(lives),
        vectors=len(vectors),
        indexes=len(state.indexes),
        bytes=sum(live.fragment.bytes for live in lives),
        deep=deep,
        shards=shards.reports,
        problems=(*others.problems, *problems, *shards.problems),
        notes=shards.notes,
    )


def _check_vectors(store: Store, vectors: Mapping[str, list[Live]], *, deep: bool) -> list[Problem]:
    sizes = sizes_below(store, paths.VECTORS) if vectors else {}
    reader = Vectors(store, cache_bytes=0)
    problems = []
    for name, lives in vectors.items():
        key = paths.vectors(name)
        size = size_of(store, sizes, key)
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
