"""Jobs of many processes on a table, run in this one: what goes to a task and comes back is pickled, as Spark does it.

Each gives the operations that are left to commit. Some items are worked on twice, as by a speculative attempt, and
one of the answers is used.
"""

from __future__ import annotations

import pickle
import random
import uuid

import pyarrow as pa

from row_tables import RowTable
from siltstone import paths
from siltstone.env import REAL
from siltstone.log import open_log
from siltstone.store.connect import open_store
from siltstone.store.meter import MeteredStore
from siltstone.table.compact_spread import plan_slices, rewrite_slice, to_works
from siltstone.table.near import near_fragments
from siltstone.table.operations import Append, Delete, Overwrite, Upsert
from siltstone.table.predicate import parse_predicate
from siltstone.table.reading import Reading
from siltstone.table.schema import arrow_schema
from siltstone.table.staged import Site, as_copied, as_matched, choose, gather, meet, stage_rows
from siltstone.table.tools import make_tools
from siltstone.table.update import Update


def site_of(table) -> Site:
    return Site(table.tools.store, table.state.schema, table.state.version)


def sent(value):
    """As it comes out of another process."""
    return pickle.loads(pickle.dumps(value))


def run_tasks(items, work, *, chance=None):
    """``work`` of each item; ``chance`` runs some of them twice."""
    answers = []
    for item in items:
        tries = [sent(work(sent(item)))]
        if chance is not None and chance.random() < 0.3:
            tries.append(sent(work(sent(item))))
        answers.append((chance or random).choice(tries))
    return answers


def staged_rows(table, lots, *, twice="refuse", chance=None):
    """Each lot of rows written by a task of its own."""
    site = site_of(table)
    schema = arrow_schema(table.state.schema)

    def work(lot):
        rows = lot if isinstance(lot, pa.Table) else pa.Table.from_pylist(lot, schema=schema)
        return stage_rows(sent(site), iter(rows.to_batches()), twice=twice)

    return run_tasks([lot for lot in lots if len(lot)], work, chance=chance)


def gathered(table, lots, *, twice="refuse", chance=None):
    staged = staged_rows(table, lots, twice=twice, chance=chance)
    return gather(table.tools, table.state.schema, staged)


def append(table, lots, *, chance=None):
    return Append(gathered(table, lots, chance=chance))


def overwrite(table, lots, *, chance=None):
    return Overwrite(gathered(table, lots, chance=chance))


def upsert(table, lots, *, twice="refuse", chance=None):
    inserted = gathered(table, lots, twice=twice, chance=chance)
    return Upsert(inserted, matched=matched(table, inserted, chance=chance))


def matched(table, inserted, *, chance=None):
    meetings = {}
    for number, fragment in enumerate(inserted.fragments):
        for live in near_fragments(table.state, fragment):
            meetings.setdefault(live.fragment.name, (live, {}))[1][number] = fragment
    site = site_of(table)
    met = run_tasks([*meetings.values()], lambda one: meet(sent(site), one[0], one[1]), chance=chance)
    return as_matched(met, len(inserted.fragments))


def delete(table, where, *, chance=None):
    site = site_of(table)
    found = run_tasks(near(table, where), lambda live: choose(sent(site), live, where), chance=chance)
    return Delete(where, table.state.schema, found={one.name: one.rows for one in found})


def update(table, values, where=None, *, chance=None):
    site = site_of(table)
    lives = {live.fragment.name: live for live in near(table, where)}
    found = run_tasks([*lives.values()], lambda live: choose(sent(site), live, where, values), chance=chance)
    schema = table.state.schema
    copied = [as_copied(table.tools, schema, lives[one.name], one) for one in found if one.copied]
    rows = {one.name: one.rows for one in found} if where is not None else {}
    return Update(values, where, schema, base=site.base, moment=site.moment, found=rows, copied=copied)


def near(table, where):
    schema = table.state.schema
    predicate = None if where is None else parse_predicate(where, arrow_schema(schema))
    return Reading(table.tools, schema, (), predicate).choose(table.state.fragments)


def slices(table, **options):
    return plan_slices(table.tools, table.state, **options)


def compact(table, *, chance=None, **options):
    """The operations of a compaction, one for each group."""
    site = site_of(table)
    planned = slices(table, **options)
    done = run_tasks(planned, lambda one: rewrite_slice(sent(site), one), chance=chance)
    return to_works(table.tools, table.state.schema, planned, done)


def fork(table) -> RowTable:
    """The same table again, on objects of its own."""
    store = open_store(f"memory://fork-{uuid.uuid4().hex}")
    for info in table.tools.store.list(""):
        store.create(info.key, table.tools.store.get(info.key))
    return RowTable(log=open_log(store, root=paths.LOG, probe=False, guard="receipt"))


def data_objects(table) -> set[str]:
    """The fragments that were ever written."""
    return {info.key for info in table.tools.store.list("data/")}


def metered(table) -> tuple[RowTable, MeteredStore]:
    """Another handle whose reads of fragments are counted, and what counts them."""
    other = table.other()
    store = MeteredStore(table.tools.store)
    other.tools = make_tools(store, REAL)
    return other, store
