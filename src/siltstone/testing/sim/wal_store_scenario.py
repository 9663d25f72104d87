"""Scenarios of tables whose shards have their WALs in other stores, which users change, forget and empty.

What must hold: whichever store a row was put into, it is there once it was acknowledged, or whoever asks for it is
told that the store is another one. A checkpoint of scope all, and every clone, needs no WAL store: in the end all of
them are emptied, and both have what they had. What a durable checkpoint had in a store that is empty is refused, never
left out.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, ClassVar

from siltstone import paths
from siltstone.api.opening import create_table, open_table
from siltstone.errors import NotFoundError, SiltstoneError, WrongWalStoreError
from siltstone.format.records import decode_entry
from siltstone.format.shard import decode_state
from siltstone.format.table import WalPlace
from siltstone.log import open_log
from siltstone.testing.sim.external_scenario import Decided, decided_bucket
from siltstone.testing.sim.retain_agents import Gatherer, compare
from siltstone.testing.sim.retain_clones import ShardCloner
from siltstone.testing.sim.retain_keepers import Keeper, KeepingHand
from siltstone.testing.sim.retain_scenario import PlacedStore, RetainShards, kept_bucket
from siltstone.testing.sim.shard_agents import FreshReader, Merger, rows_of
from siltstone.testing.sim.shard_book import Edit
from siltstone.testing.sim.shard_scenario import COLUMNS
from siltstone.testing.sim.shard_truth import KEY, Truth
from siltstone.testing.sim.store import SimStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from siltstone.api.table import Table
    from siltstone.format.table import Checkpoint
    from siltstone.shard.writer import ShardWriter
    from siltstone.testing.sim.retain_book import KeptBucket
    from siltstone.testing.sim.shard_truth import Seen, Written
    from siltstone.testing.sim.world import Process, World

END = "end"
STRAYS = 0.15  # how often someone comes with another WAL store than the others


class MovedTruth(Truth):
    """What WALs say that move from store to store: an entry counts where the manifest has the WAL at that time."""

    def __init__(self, *, hole: Callable[[str], None], home: str) -> None:
        super().__init__(hole=hole)
        self.at = home  # the bucket that is being written to
        self.places: dict[str, WalPlace] = {}
        self._home = home
        self._manifests: dict[str, int] = {}

    def note(self, key: str, data: bytes) -> Written | Seen | None:
        """Take an object down that was written; None where it is no entry, or not of the WAL as it is now."""
        if not key.startswith(f"{paths.SHARDS}/"):
            return super().note(key, data) if self.at == self._home else None
        shard = key.split("/")[1]
        place = self.places.get(shard, WalPlace())
        wal = self.wals.setdefault(shard, [])
        if self._is_manifest(shard, key):
            self._moved(shard, key, data)
            return None
        named = self._home if place.store is None else place.store.uri
        if self.at != named or not self._is_next(paths.wal(shard, place.begins), key, len(wal)):
            return None
        wal.append(self._entry(shard, wal, key, data))
        return wal[-1]

    def _is_manifest(self, shard: str, key: str) -> bool:
        parsed = paths.parse_entry(paths.shard(shard) + paths.MANIFEST, key)
        return self.at == self._home and parsed is not None and parsed[0] == self._manifests.get(shard, 0)

    def _moved(self, shard: str, key: str, data: bytes) -> None:
        self._manifests[shard] = self._manifests.get(shard, 0) + 1
        header, body = decode_entry(data, name=key)
        if header.kind != "data":
            return
        place, wal = decode_state(body, name=key).wal, self.wals[shard]
        if place == self.places.get(shard, WalPlace()):
            return
        self.places[shard] = place
        if len(wal) < place.begins or any(one.rows for one in wal[place.begins :]):
            self._hole(f"the WAL of shard {shard} moved to begin at {place.begins}, and the old one has {len(wal)}")
        del wal[place.begins :]  # what fenced writers put there counts for nothing


class TidyHand(KeepingHand):
    """Writes a shard, opens the table anew each time, and closes its writer mostly, so that WALs come to their ends."""

    def work(self, process: Process, table: Table) -> None:
        """One reign over a shard."""
        super().work(process, self.stage.table(process))
        if self.world.random.random() < 0.8:
            self._held[-1].close()


class WalStores(RetainShards):
    """A table with one shard, and three places where its WAL may be."""

    name = "wal-store"
    stores: ClassVar[Sequence[str]] = ("memory://w0", "memory://w1")
    splits = False

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.shards = 1
        self.truth = MovedTruth(hole=self.book.violation, home=SimStore.uri)
        self.book.truth = self.truth
        self.wal_buckets = {uri: self._wal_bucket() for uri in self.stores}
        for uri, bucket in {**self.buckets, **self.wal_buckets}.items():
            self._watch(uri, bucket)
        self.pauses_s["TidyHand"] = self.pauses_s["ShardHand"]
        self.usual: str | None = world.random.choice((self.stores[0], None))
        self.moves = world.random.random() < 0.7

    def _wal_bucket(self) -> KeptBucket:
        return kept_bucket(self.world)

    def _watch(self, uri: str, bucket: KeptBucket) -> None:
        def landed(key: str, data: bytes) -> None:
            self.truth.at = uri
            self.book.landed(key, data)

        self.book.retention.watch(uri, bucket, also=landed)

    # -- the stage -------------------------------------------------------------------------------

    def wal(self, process: Process, uri: str | None) -> PlacedStore | None:
        """A process's connection to a WAL store."""
        return None if uri is None else PlacedStore(process, self.wal_buckets[uri], uri)

    def table(self, process: Process) -> Table:
        """The table, with the WAL store that everyone uses, or with another."""
        draw = self.world.random
        uri = draw.choice((*self.stores, None)) if self.moves and draw.random() < STRAYS else self.usual
        return self.table_with(process, uri)

    def table_with(self, process: Process, uri: str | None) -> Table:
        """The table, with a WAL store or none."""
        return open_table(
            SimStore(process, self.bucket),
            commits=self._registry(process),
            wal=self.wal(process, uri),
            probe=False,
            env=process.env,
        )

    def _found(self, process: Process) -> None:
        store, registry = SimStore(process, self.bucket), self._registry(process)
        open_log(
            store, commits=registry, create=True, root=paths.LOG, probe=False, trust_ms=self.trust_ms, env=process.env
        )
        create_table(
            store,
            schema=COLUMNS,
            key=KEY,
            shards=1,
            wal=self.wal(process, self.usual),
            commits=registry,
            exist_ok=True,
            probe=False,
            env=process.env,
        )

    def cast(self) -> None:
        world, draw = self.world, self.world.random
        longest_s = self.pauses_s["ShardHand"]
        if self.moves and draw.random() < 0.3:  # all are told of another store, and begin together
            self._change_mind()
            longest_s = world.latency
        for number in range(2):
            TidyHand(self, f"w{number}", draw.randint(2, 4)).employ(delay=draw.random() * longest_s)
        for number in range(2):
            Merger(self, f"m{number}", draw.randint(3, 6)).employ()
        Keeper(self, "k", draw.randint(1, 4)).employ()
        for number in range(draw.choice((0, 1))):
            Gatherer(self, f"g{number}", draw.randint(2, 5)).employ()
        if draw.random() < 0.5:
            ShardCloner(self, "c", draw.randint(1, 2)).employ(delay=draw.random() * 4 * self.pause_s)
        FreshReader(self, "r", draw.randint(1, 3)).employ()
        if self.moves:
            for _ in range(draw.choice((1, 2, 3))):
                world.at(draw.random() * 8 * self.pause_s, self._change_mind)

    def _change_mind(self) -> None:
        self.usual = self.world.random.choice([one for one in (*self.stores, None) if one != self.usual])
        self.world.note(f"from now on WALs are to be at {self.usual}")

    def writer(self, table: Table, shard: int | str, process: Process) -> ShardWriter:
        """The writer of a shard; moves are counted."""
        before = dict(self.truth.places)
        made = super().writer(table, shard, process)
        self.world.counters["moves"] += any(before.get(name, one) != one for name, one in self.truth.places.items())
        return made

    # -- the end ---------------------------------------------------------------------------------

    def audit(self, process: Process) -> None:
        """As ever, by someone who knows where the WAL is; then the WAL stores are emptied."""
        self.moves = False
        with contextlib.suppress(SiltstoneError):
            self._find_wal()
            self.table(process).scan(fresh=True).to_arrow()  # a move that was decided is published by who reads
        self._find_wal()
        super().audit(process)
        if self.book.violations:
            return
        try:
            self._without_wals(process)
        except SiltstoneError as error:
            self.book.violation(f"without WAL stores the audit ends with {error.kind}: {error.message}")

    def _find_wal(self) -> None:
        if self.truth.places:
            self.usual = place_of(self.truth)

    def _verify(self, process: Process) -> None:
        """Nothing more: a verification of the table's own store has no WAL to look at."""

    def _without_wals(self, process: Process) -> None:
        """Keep all rows, empty the WAL stores, and look at what is left."""
        table = self.table(process)
        table.checkpoint(END, scope="all")
        truth = self.book.retention.tables[SimStore.uri]
        kept = truth.rows_of(truth.newest.checkpoints[END])
        needs = {name: self._needs_wal(one) for name, one in truth.newest.checkpoints.items()}
        for bucket in self.wal_buckets.values():
            bucket.gone = None  # somebody means it
            for key in list(bucket.objects.keys):
                bucket.remove(key)
        alone = self.table_with(process, None)
        compare(self.book, "the checkpoint without WAL stores", alone.at(checkpoint=END), kept)
        compare(self.book, "the table without WAL stores", alone, truth.newest.rows)
        self._look_at_kept(alone, needs)
        self._clone(process, alone)
        pinned = any(one.scope == "durable" for one in truth.newest.checkpoints.values())
        self._go_on(process, emptied=place_of(self.truth) is not None, pinned=pinned)

    def _needs_wal(self, checkpoint: Checkpoint) -> bool:
        truth = self.book.retention.tables[SimStore.uri]
        return any(place.uri in self.wal_buckets for place in self.book.retention.needed(truth, checkpoint))

    def _look_at_kept(self, table: Table, needs: dict[str, bool]) -> None:
        """What had rows in the stores alone is refused; all else is as it was."""
        truth = self.book.retention.tables[SimStore.uri]
        for one in table.checkpoints():
            if one.pending:
                continue
            rows = truth.rows_of(truth.newest.checkpoints[one.name])
            try:
                compare(self.book, f"checkpoint {one.name} without WAL stores", table.at(checkpoint=one), rows)
            except (WrongWalStoreError, NotFoundError) as error:
                if not needs[one.name]:
                    self.book.violation(f"checkpoint {one.name} needs no WAL, and can't be read: {error.message}")
            else:
                self.world.counters["kept without WALs"] += 1
                if needs[one.name]:
                    self.book.violation(f"checkpoint {one.name} is read though its WAL is gone")

    def _clone(self, process: Process, table: Table) -> None:
        """Clones that were made, and a new one."""
        for uri in self.clones:
            truth = self.book.retention.tables[uri]
            if truth.newest.exists:
                compare(self.book, f"the clone at {uri}", self.open_at(process, uri), truth.newest.rows)
        free = [uri for uri in self.clones if not self.book.retention.tables[uri].versions]
        for uri in free[:1]:
            made = table.clone(self.clone_store(process, uri), at=END, probe=False)
            compare(self.book, f"the clone at {uri}", made, self.book.retention.tables[uri].newest.rows)
            self.world.counters["clones without WALs"] += 1

    def _go_on(self, process: Process, *, emptied: bool, pinned: bool) -> None:
        """Writers were closed and all was merged: the next one begins a WAL wherever it is told to."""
        draw = self.world.random
        table = self.table_with(process, draw.choice((*self.stores, None)))
        try:
            writer = self.writer(table, 0, process)
        except WrongWalStoreError as error:
            if not (emptied and pinned):
                self.book.violation(f"nothing of the WAL is needed, and a writer is refused: {error.message}")
            return
        edit = Edit("anew", keys=self.pick_keys(self.keys_of(writer)), shard=writer.place.name)
        self.book.begin(edit)
        writer.put(rows_of(edit))
        self.book.done(edit)
        self._read(table, fresh=True)
        self.world.counters["anew"] += 1
        writer.close()


def place_of(truth: MovedTruth) -> str | None:
    """The WAL store that the shard's WAL is in; None where it is in the table's own."""
    store = next(iter(truth.places.values()), WalPlace()).store
    return None if store is None else store.uri


class DecidedWalStores(Decided, WalStores):
    """A commit store decides, for the WALs as well."""

    name = "commits-wal-store"
    rounds = 3

    def _wal_bucket(self) -> KeptBucket:
        return decided_bucket(self.world)
