"""What the tasks of a read do: which rows each of them reads, and how.

What must hold:
- The parts of a version give each of its rows once, those that are gone or that the filter leaves out never. Rows that
  are in the memory of the driver alone travel as such.
- A part can be read again, and at the same time as the others: Spark does both.
- What travels to a task is names and numbers, the store, and the columns; never a state, a log or a commit store.
"""

from __future__ import annotations

import pickle
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pyarrow as pa

from siltstone.errors import InvalidInputError
from siltstone.spark.types import to_spark
from siltstone.store.scoped import ScopedStore
from siltstone.table.columns import Plan
from siltstone.table.fragment_bytes import FragmentBytes
from siltstone.table.layout import GROUP_ROWS
from siltstone.table.output import BATCH_ROWS, in_batches
from siltstone.table.overlay import mask_of, overlay_tools, store_of
from siltstone.table.predicate import parse_predicate
from siltstone.table.reading import Reading
from siltstone.table.scan import chosen_fields
from siltstone.table.schema import arrow_schema
from siltstone.table.staged import Site
from siltstone.table.stream import Pace, in_order
from siltstone.table.tasks import GroupTask, is_small, tasks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from siltstone.format.rollup import Live
    from siltstone.format.table import Schema
    from siltstone.table.predicate import Predicate
    from siltstone.table.state import State
    from siltstone.table.tasks import Task
    from siltstone.table.tools import Tools
    from siltstone.table.vectors import Deleted

PARTS = 64  # aimed at, as far as the sizes below allow it
PART_BYTES_LEAST = 24 * 1024 * 1024  # with fewer, starting tasks takes longer than what they read
PART_BYTES_MOST = 64 * 1024 * 1024
PART_FILES_MAX = 256
ROW_BYTES = 8  # that can be read in the time that handing over a row takes, whatever its columns
TASK_BYTES = 64 * 1024 * 1024  # that a task reads ahead
THREADS_NEAR = 2  # of a task; Spark runs as many tasks as there are cores
THREADS_FAR = 6  # where threads wait for a network


class Slice(NamedTuple):
    """Some row groups of a fragment: share ``number`` of ``shares`` that are about equal.

    ``below`` is where its file is, below the table's own root; ``gone`` the rows that are, where its vector does not
    say so.
    """

    live: Live
    number: int = 0
    shares: int = 1
    below: str = ""
    gone: Deleted | None = None


class Held(NamedTuple):
    """Rows that were in the memory of the driver, filtered, as Spark takes them."""

    stream: bytes


@dataclass(frozen=True)
class Job:
    """What all tasks of a read have in common. It pickles, and shows nothing of the store."""

    site: Site
    columns: tuple[str, ...]
    where: str | None
    schema: StructType

    def read(self, part: Sequence[Slice] | Held) -> Iterator[pa.RecordBatch]:
        """The rows of a part, in batches that Spark takes as they are.

        Raises CorruptionError and MissingObjectError (the error names the file), UnavailableError, InvalidInputError
        (the filter can't be evaluated for a row, or Spark can't hold a value).
        """
        if isinstance(part, Held):
            yield from pa.ipc.open_stream(part.stream)
            return
        tools, schema = _laid(self.site.tools(), part), self.site.schema
        predicate = None if self.where is None else _parsed(self.where, schema)
        reading = Reading(tools, schema, chosen_fields(schema, self.columns), predicate)
        threads = THREADS_NEAR if tools.store.traits.cheap_probes else THREADS_FAR
        with closing(in_order(_tasks(reading, part), Pace(threads, TASK_BYTES))) as tables:
            # Tables are bounded in bytes, not in rows: joining few rows could join many bytes.
            for batch in in_batches(tables, least=1, most=BATCH_ROWS):
                yield to_spark(batch, self.schema)


def _laid(tools: Tools, part: Sequence[Slice]) -> Tools:
    """Tools that know what a part's slices know."""
    masks = {one.live.fragment.name: one.gone for one in part if one.gone is not None}
    stores = {one.live.fragment.name: ScopedStore(tools.store, one.below) for one in part if one.below}
    return overlay_tools(tools, masks=masks, files={}, stores=stores) if masks or stores else tools


@lru_cache(maxsize=16)
def _parsed(where: str, schema: Schema) -> Predicate:
    return parse_predicate(where, arrow_schema(schema))


def _tasks(reading: Reading, part: Sequence[Slice]) -> Iterator[Task]:
    whole = [one.live for one in part if one.shares == 1]
    yield from tasks(reading, whole)
    for one in (each for each in part if each.shares > 1):
        for task in tasks(reading, [one.live]):
            # A fragment that is shared is read by its row groups.
            if isinstance(task, GroupTask) and _is_in(task, one.number, one.shares):
                yield task


def _is_in(task: GroupTask, number: int, shares: int) -> bool:
    groups = len(task.piece.file.groups)
    return groups * number // shares <= task.piece.group < groups * (number + 1) // shares


def make_job(tools: Tools, state: State, *, columns: Sequence[str], where: str | None, schema: StructType) -> Job:
    """What the tasks need that read some columns of a version.

    Raises:
        InvalidInputError: no other process can reach the table.
    """
    if tools.store.traits.kind == "memory":
        raise InvalidInputError(
            f"{tools.store.uri} is in the memory of this process, which no other can reach",
            hint="use a table on a disk or in an object store",
        )
    return Job(Site(tools.store, state.schema, state.version), tuple(columns), where, schema)


def make_parts(reading: Reading, lives: Sequence[Live]) -> list[bytes]:
    """Fragments that are in files, as parts that take about the same time to read, pickled."""
    keep = {str(one.id) for one in reading.tested}
    share = _share(reading, lives)
    size = max(PART_BYTES_LEAST, min(sum(_cost(live, share) for live in lives) // PARTS, PART_BYTES_MOST))
    parts: list[bytes] = []
    waiting: list[Slice] = []
    held = 0
    for live in lives:
        one, cost = _slice(reading.tools, live, keep), _cost(live, share)
        shares = _shares(live, -(-cost // size))
        if shares > 1:
            parts += [pickle.dumps((one._replace(number=number, shares=shares),)) for number in range(shares)]
            continue
        if waiting and (held + cost > size or len(waiting) >= PART_FILES_MAX):
            parts.append(pickle.dumps(tuple(waiting)))
            waiting, held = [], 0
        waiting.append(one)
        held += cost
    if waiting:
        parts.append(pickle.dumps(tuple(waiting)))
    return parts


def split_held(reading: Reading, lives: Sequence[Live]) -> tuple[list[Live], pa.Table]:
    """The fragments that are in files, and the rows of the others that match."""
    held = [live for live in lives if store_of(reading.tools, live.fragment) is None]
    if not held:
        return list(lives), reading.arrow.empty_table()
    names = {live.fragment.name for live in held}
    with closing(in_order(tasks(reading, held), Pace(THREADS_NEAR, TASK_BYTES))) as tables:
        rows = pa.concat_tables([reading.arrow.empty_table(), *tables])
    return [live for live in lives if live.fragment.name not in names], rows


def make_held(rows: pa.Table, schema: StructType) -> list[bytes]:
    """Rows in memory as parts, pickled."""
    most = max(1, rows.num_rows * PART_BYTES_LEAST // max(1, rows.nbytes))
    parts: list[bytes] = []
    for start in range(0, rows.num_rows, most):
        table = to_spark(rows.slice(start, most), schema)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table, max_chunksize=BATCH_ROWS)
        parts.append(pickle.dumps(Held(sink.getvalue().to_pybytes())))
    return parts


def _slice(tools: Tools, live: Live, keep: set[str]) -> Slice:
    store = store_of(tools, live.fragment)
    below = store.prefix if isinstance(store, ScopedStore) else ""
    return Slice(_lean(live, keep), below=below, gone=mask_of(tools, live.fragment))


def _share(reading: Reading, lives: Sequence[Live]) -> float:
    """How much of the bytes of fragments the columns take that are read, by the first one that is not small."""
    first = next((live.fragment for live in lives if not is_small(live.fragment)), None)
    if first is None or len(reading.together) == len(reading.schema.fields):
        return 1.0
    footer = FragmentBytes(store_of(reading.tools, first) or reading.tools.store, first).footer
    chunks = [chunk.range.end - chunk.range.start for chunk in footer.groups[0].chunks]
    leaves = Plan(footer, reading.together, name=first.name).leaves
    return sum(chunks[leaf] for leaf in leaves) / max(1, sum(chunks))


def _cost(live: Live, share: float) -> int:
    """What reading a fragment takes, as a number of bytes."""
    return int(live.fragment.bytes * share) + ROW_BYTES * live.fragment.rows


def read_pickled(job: Job, part: bytes) -> Iterator[pa.RecordBatch]:
    """The rows of a part that ``make_parts`` made."""
    return job.read(pickle.loads(part))  # noqa: S301 - made by the driver of the same job


def _lean(live: Live, keep: set[str]) -> Live:
    """A fragment with the statistics alone that a filter asks for."""
    bounds = {number: one for number, one in live.fragment.bounds.items() if number in keep}
    return live._replace(fragment=msgspec.structs.replace(live.fragment, bounds=bounds))


def _shares(live: Live, wanted: int) -> int:
    """Into how many parts a fragment is cut: no more than it has row groups, by what is known of it."""
    return 1 if is_small(live.fragment) else min(wanted, max(1, live.fragment.rows // GROUP_ROWS))
