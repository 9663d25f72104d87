"""What a table's handle does with shards: writers, merges, splits, and reads that see every durable row."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from siltstone.errors import ConflictError, FencedError, InvalidInputError
from siltstone.format.table import Cursor
from siltstone.index.operations import found
from siltstone.retain.birth import new_sharding
from siltstone.shard.config import knobs
from siltstone.shard.merge import RUN_AGAIN, Settle, tidy_all
from siltstone.shard.route import shard_numbers
from siltstone.shard.routed import open_all
from siltstone.shard.split import Reshard, check_count, seal
from siltstone.shard.wal_store import RecordWal, is_same
from siltstone.table.arguments import check_shard_name, check_text
from siltstone.table.lookup import given_keys
from siltstone.table.operations import Append, Filtered, Overwrite, Restore, Upsert, Work
from siltstone.table.transaction import Operations
from siltstone.telemetry import metrics
from siltstone.telemetry.seams import traced

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from siltstone.log import Log
    from siltstone.shard.config import ShardWriterConfig
    from siltstone.shard.routed import RoutedWriter
    from siltstone.shard.shards import Shards, ShardStatus
    from siltstone.shard.writer import ShardWriter
    from siltstone.table.commit import Committed
    from siltstone.table.draft import Draft
    from siltstone.table.group import Request, Turns
    from siltstone.table.state import State
    from siltstone.table.versions import Version


SPLITS_MET_MAX = 10


class AddShard(Work):
    """A shard of a table without a key comes into being."""

    operation = "settings"

    def __init__(self, name: str) -> None:
        self._name = name

    def run(self, draft: Draft) -> None:
        """Nothing where it is there."""
        if self._name not in draft.state.shards:
            draft.set_shards({self._name: Cursor()})


class Shard:
    """One shard of a table; ``writer`` takes it over."""

    def __init__(self, table: Sharded, shard: int | str) -> None:
        self._table = table
        self._shard = shard

    @property
    def name(self) -> str:
        """What its objects are called by."""
        return self._table._shards.name_of(self._shard, self._table._looked())  # noqa: SLF001 - the same module's

    def writer(self, config: ShardWriterConfig | None = None, *, name: str = "") -> ShardWriter:
        """Become the shard's writer: an earlier one is fenced, and what it left in the WAL is replayed.

        ``name`` is shown to those who look at the shard, and to a writer that it fences.

        Raises:
            FencedError: yet another writer was faster.
        """
        return self._table._open_writer(self._shard, config, check_text(name, "name"))  # noqa: SLF001

    def status(self) -> ShardStatus:
        """What its manifest and its WAL say."""
        found = {one.name: one for one in self._table.shards()}
        if self.name not in found:
            raise InvalidInputError(f"shard {self.name!a} was never opened", hint="its first writer makes it")
        return found[self.name]

    def __repr__(self) -> str:
        return f"Shard({self._shard!r} of {self._table!r})"


class Sharded(Operations):
    """The part of a table's handle that has to do with shards."""

    _shards: Shards
    _log: Log
    _turns: Turns

    def shard(self, shard: int | str) -> Shard:
        """A shard: by its number in a keyed table, by a name of your choice in one without a key."""
        if isinstance(shard, str):
            check_shard_name(shard)
        return Shard(self, shard)

    def shard_of(self, keys: object) -> list[int]:
        """The number of the shard that each key belongs to, in the order given; keys come as ``get`` takes them.

        No request is made: the shards are those that this handle saw last, and ``refresh`` looks whether others have
        split them since. A put to a shard that is not the key's is refused.
        """
        state = self._begun
        if not state.schema.key:
            raise InvalidInputError(
                "this table has no key that would belong to a shard",
                hint="its shards have names of your choice: write to one with shard('name').writer()",
            )
        if state.sharding is None:
            raise InvalidInputError(
                "this table has no shards", hint="create it with shards=, or give it some with split_shards()"
            )
        found: list[int] = shard_numbers(given_keys(state.schema, keys), state.sharding.count).tolist()
        return found

    def writer(self, config: ShardWriterConfig | None = None, *, name: str = "") -> RoutedWriter:
        """A writer that takes all shards over and brings each row to the shard of its key."""
        name = check_text(name, "name")
        state = self._looked()
        for _ in range(SPLITS_MET_MAX):
            if state.sharding is None:
                raise InvalidInputError(
                    "this table has no shards that rows could be routed to",
                    hint="create it with key= and shards=; without a key, write to one with shard('name').writer()",
                )
            if state.wal is not None:  # all or none: shards in two stores can't be read together
                for number in range(state.sharding.count):
                    self._shards.a_place(self._shards.name_of(number, state)).check_wal()
            open_one = partial(self._open_shard, state, config=config, name=name)  # all of one version: they fit
            try:
                return open_all(open_one, state.sharding.count)
            except (ConflictError, FencedError):
                now = self._looked()
                if now.sharding == state.sharding:
                    raise
                state = now  # it was split meanwhile
        raise ConflictError(
            f"the table was split {SPLITS_MET_MAX} times while its shards were opened", hint="try again"
        )

    def shards(self) -> list[ShardStatus]:
        """All shards: epochs, cursors, what waits to be merged, the last error."""
        return self._shards.status()

    @traced("siltstone.merge", count=metrics.MERGES, seconds=metrics.MERGE_SECONDS)
    def merge_shards(self) -> Version:
        """Take all that is durable in the shards into the table, as one version, and let the shards drop it."""
        self._looked()
        done = self._do(Settle(self._shards.readers, now=self._looked))
        if done.operation == "none":
            self._tidy(self._begun.shards)  # whoever merged may not have come so far
        self._shards.clear(self._begun)
        return done

    def split_shards(self, count: int) -> Version:
        """Spread the keys over another number of shards. Writers of the present ones are fenced.

        One that was cut off is ended by calling it again; until then the shards can be read, and not written. Ids of
        puts that count once are a shard's own: the new shards don't know those of the old ones.

        Raises:
            ConflictError: another one split the table into another number of shards at the same time.
        """
        state = self._looked()
        if not state.schema.key:
            raise InvalidInputError("a table without a key has shards of any name; there is nothing to split")
        count = check_count(count, state.sharding)
        first = 0 if state.sharding is not None else new_sharding(self._log.store, state, count).map
        seal(self._shards.readers(state))
        done = self._do(
            Settle(self._shards.readers, now=self._looked, accompanies=True),
            Reshard(count, state.sharding, first=first),
        )
        self._shards.clear(self._begun)
        return done

    # -- behind it ---------------------------------------------------------------------------------

    def _open_writer(
        self, shard: int | str, config: ShardWriterConfig | None, name: str, *, background: bool = True
    ) -> ShardWriter:
        return self._open_shard(self._looked(), shard, config=config, name=name, background=background)

    def _open_shard(
        self,
        state: State,
        shard: int | str,
        *,
        config: ShardWriterConfig | None,
        name: str,
        background: bool = True,
    ) -> ShardWriter:
        """Take a shard over that a version has, or that is made now."""
        chosen = knobs(config, state.settings)
        for one in chosen.index_configs:
            found(state, one)
        place = self._shards.name_of(shard, state)
        if place not in state.shards:
            if state.born:
                self._check_unused(place)
            self._do(AddShard(place))
        made = self._shards.open_writer(place, state, chosen, writer=name, background=background)
        recorded = made.state.wal.store
        if recorded is not None and not is_same(recorded, self._begun.wal):
            try:
                self._do(RecordWal(recorded))
            except BaseException:
                made.close()
                raise
        return made

    def _check_unused(self, name: str) -> None:
        """Raise ConflictError where a table that was dropped here had a shard of that name: its rows may be there."""
        manifest = self._shards.a_place(name).manifest()
        if manifest is not None and manifest.read().sealed:
            raise ConflictError(
                f"shard {name} was sealed by a drop of its table, which was here before this one",
                hint="give the shard another name: those of a table that was dropped are not used again",
                shard=name,
            )

    def _settled(self, works: Sequence[Work]) -> list[Work]:
        """Operations with what they need before them: a change of rows is newer than all that was durable before it.

        Whether there are shards is seen when they are run: others may have made some since this handle looked.
        """
        keyed = bool(self._schema.key)
        looking = [work for work in works if _sees_rows(work, keyed=keyed)]
        if not looking:
            return list(works)
        drops = isinstance(looking[0], Overwrite | Restore)
        touched = partial(self._shards.touched, looking)
        return [Settle(touched, now=self._looked, accompanies=True, drops=drops), *works]

    def _behind_shards(self, request: Request) -> Committed:
        """Commit a request; again where others changed columns, or merged, while shards were read."""
        for _ in self._tools.env.tries():
            try:
                return self._turns.commit(replace(request))
            except ConflictError as error:
                if RUN_AGAIN not in error.facts:
                    raise
                failed = error
        raise failed

    def _tidy(self, moved: Iterable[str]) -> None:
        """Let shards drop what is in the newest version."""
        shards = self._begun.shards
        tidy_all([self._shards.reader(name, self._begun) for name in moved if name in shards], shards)

    @abstractmethod
    def _looked(self) -> State:
        """The newest version."""

    @abstractmethod
    def _do(self, *works: Work) -> Version:
        """Make a version of operations."""


def _sees_rows(work: Work, *, keyed: bool) -> bool:
    """Whether an operation depends on rows that may still be in shards."""
    if isinstance(work, Settle):
        return False
    return isinstance(work, Upsert | Overwrite | Filtered | Restore) or (keyed and isinstance(work, Append))
