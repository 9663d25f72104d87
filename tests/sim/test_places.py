"""The scenarios of commit stores and WAL stores: what happens in them, and that what must not be is noticed."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from siltstone import paths
from siltstone.api.opening import create_table, open_table
from siltstone.commit.memory import MemoryRegistry, MemoryService
from siltstone.errors import ConflictError, WrongWalStoreError
from siltstone.format.table import WalPlace
from siltstone.ids import SystemIds
from siltstone.store.memory import MemoryStore
from siltstone.testing.sim import run_seed
from siltstone.testing.sim.external_scenario import DecidedRetain, decided_bucket, forgotten, logs_of
from siltstone.testing.sim.retain_scenario import HOME
from siltstone.testing.sim.shard_agents import rows_of
from siltstone.testing.sim.shard_book import Edit
from siltstone.testing.sim.wal_store_scenario import WalStores, place_of
from siltstone.testing.sim.world import World
from siltstone.testing.stores import Fault, FaultStore, Interleaves

SEEDS = 20
SHARD = "0000-0000"
W0, W1 = WalStores.stores
HAPPENS = {
    "commits-retain": {"collections", "collected", "checkpoints of all", "restores", "tags"},
    "commits-clones": {"collections", "collected", "clones", "dropped"},
    "commits-shards": {"collections", "checkpoints of durable", "claims", "flushes"},
    "commits-index": {"builds", "items", "committed builds", "searches"},
    "wal-store": {"claims", "moves", "merges", "clones without WALs", "kept without WALs", "anew"},
    "commits-wal-store": {"claims", "moves", "merges", "clones without WALs", "kept without WALs", "anew"},
}


class Script:
    """One process on a stage of its own, without faults; ``act`` says what it does."""

    def __init__(self, scenario, seed=0):
        self.world = World(seed)
        self.stage = scenario(self.world)
        self.book = self.stage.book
        self.stage.usual = W0
        self.stage.moves = False
        self.stage.guard = "receipt"
        self.world.start("founder", self.stage._found)
        self.world.run()

    def play(self, act):
        self.world.start("someone", lambda process: act(self, process))
        self.world.run()
        self.world.close()
        assert self.world.surprises == []
        return "; ".join(self.book.violations)

    def put(self, process, label, *keys, wal=W0, close=True):
        table = self.stage.table_with(process, wal)
        writer = self.stage.writer(table, 0, process)
        edit = Edit(label, keys=keys, shard=writer.place.name)
        self.book.begin(edit)
        writer.put(rows_of(edit))
        self.book.done(edit)
        if close:
            writer.close()
        return table


# -- the scenarios -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", HAPPENS)
def test_run_seed__each_scenario_of_other_stores__meets_all_that_can_happen(scenario):
    totals: Counter[str] = Counter()
    for seed in range(SEEDS):
        outcome = run_seed(seed, scenario)
        assert outcome.violations == (), seed
        totals.update(outcome.counters)
    for what in HAPPENS[scenario]:
        assert totals[what] >= SEEDS / 5, what
    assert totals["acknowledged"] >= 3 * SEEDS


# -- commit stores -----------------------------------------------------------------------------------


def test_decided_bucket__over_some_seeds__is_honest_and_lies_in_each_way():
    assert {decided_bucket(World(seed)).lie for seed in range(30)} == {"", "always", "gateway"}


@pytest.mark.parametrize("seed", range(6))
def test_forgotten__collected_as_it_should_be__is_nothing(seed):
    def act(script, process):
        table = script.stage.open_at(process, HOME)
        for number in range(3):
            script.stage._write(table, f"more-{number}", script.stage.keys[:1])
        for _ in range(2):
            process.wait(3 * 86_400.0)
            table.gc(keep_days=0)
        assert list(forgotten(script.stage, script.stage.buckets)) == []
        assert min(script.stage.registry.memory.claims[table._log.identity.log]) > 0

    Script(DecidedRetain, seed).play(act)


def test_forgotten__claims_of_versions_that_are_gone__is_told():
    def act(script, process):
        table = script.stage.open_at(process, HOME)
        (log,) = (log for root, log in logs_of(script.stage.buckets[HOME]) if root == paths.LOG)
        memory = script.stage.registry.memory
        claims = dict(memory.claims[log])
        script.stage._write(table, "more", script.stage.keys[:1])
        for _ in range(2):
            process.wait(3 * 86_400.0)
            table.gc(keep_days=0)
        memory.claims[log] |= claims
        assert any("knows of version 0" in why for why in forgotten(script.stage, script.stage.buckets))

    Script(DecidedRetain).play(act)


# -- WAL stores --------------------------------------------------------------------------------------


def test_note__wal_that_moves_from_store_to_store__has_every_row_once():
    def act(script, process):
        truth = script.stage.truth
        script.put(process, "one", 1, 2).merge_shards()
        script.put(process, "two", 2, wal=W1)
        assert place_of(truth) == W1
        script.put(process, "three", 3, wal=W1, close=False)
        table = script.stage.table_with(process, W1)
        script.stage._read(table, fresh=True)
        table.merge_shards()
        script.stage._read(table, fresh=False)
        labels = [row.label for entry in truth.wals[SHARD] for row in entry.rows]
        assert labels == ["one", "one", "two", "three"]

    assert Script(WalStores).play(act) == ""


def test_note__entry_in_a_wal_that_was_left__counts_for_nothing():
    def act(script, process):
        script.put(process, "one", 1).merge_shards()
        script.put(process, "two", 2, wal=W1)
        truth, old = script.stage.truth, script.stage.wal_buckets[W0]
        before = len(truth.wals[SHARD])
        late = paths.entry(paths.wal(SHARD, 0), before)
        old.write(late, b"late", replace=False)
        assert len(truth.wals[SHARD]) == before

    assert Script(WalStores).play(act) == ""


def test_moved__wal_that_leaves_rows_behind__is_a_violation():
    def act(script, process):
        script.put(process, "one", 1, close=False)
        truth = script.stage.truth
        key = next(key for key in script.stage.bucket.objects.keys if "/manifest/entries/" in key)
        data = script.stage.bucket.objects.read(key)[0]
        truth.places[SHARD] = WalPlace(begins=9)
        truth._moved(SHARD, key, data)

    assert "the WAL of shard 0000-0000 moved to begin at 0" in Script(WalStores).play(act)


def test_gone__entry_in_another_store_that_a_checkpoint_needs__is_a_violation():
    def act(script, process):
        table = script.put(process, "one", 1)
        table.checkpoint("kept", scope="durable")
        position = next(one.position for one in script.stage.truth.wals[SHARD] if one.rows)
        script.stage.wal_buckets[W0].remove(paths.entry(paths.wal(SHARD, 0), position))

    assert "checkpoint kept needs it" in Script(WalStores).play(act)


def test_without_wals__all_was_merged_and_closed__checkpoint_clones_and_a_new_writer_go_on():
    def act(script, process):
        script.put(process, "one", 1, 2).merge_shards()
        script.stage._without_wals(process)
        assert script.world.counters["anew"] == script.world.counters["clones without WALs"] == 1

    assert Script(WalStores).play(act) == ""


def test_without_wals__durable_checkpoint_had_rows_there__is_refused_and_not_smaller():
    def act(script, process):
        table = script.put(process, "one", 1)
        table.checkpoint("kept", scope="durable")
        script.stage._without_wals(process)
        with pytest.raises(WrongWalStoreError):
            script.stage.table_with(process, W0).at(checkpoint="kept").scan().to_arrow()

    assert Script(WalStores).play(act) == ""


# -- what was found on the way ------------------------------------------------------------------------


def test_scan__two_gave_a_wal_store_that_lies_its_id_at_once__is_refused_and_not_smaller():
    """The id is decided by the WAL store, also where a commit store decides the rest: one of two is overwritten."""
    service, columns = MemoryService(), pa.schema([pa.field("id", pa.int64(), nullable=False)])
    given = {"commits": MemoryRegistry(service, ids=SystemIds(), name="claims"), "probe": False}
    bucket, wal = MemoryStore(), MemoryStore()
    wal.uri = "memory://wal"
    create_table(bucket, schema=columns, key="id", shards=1, **given)
    first = open_table(bucket, wal=wal, **given)
    liar = FaultStore(wal)
    liar.on("create", Fault.LIE, key="wal-store")
    late = Interleaves(liar)

    def put() -> None:
        with first.shard(0).writer() as writer:
            writer.put([{"id": 1}])

    late.before("create", put, key="wal-store")
    with pytest.raises(ConflictError):
        open_table(bucket, wal=late, **given).shard(0).writer()
    with pytest.raises(WrongWalStoreError, match="rows that were acknowledged may be in it alone"):
        open_table(bucket, wal=wal, **given).count(fresh=True)
