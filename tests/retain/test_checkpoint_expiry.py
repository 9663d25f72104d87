"""Until when checkpoints are kept: by the store's clock, whatever the clocks of processes say."""

from __future__ import annotations

import pytest

from checkpoint_worlds import NAME, age, begun, check_kept, pins_of, put, record_of, writers_of
from shard_models import DAY_S, told
from siltstone.api import open_table
from siltstone.errors import AlreadyExistsError, InvalidInputError, MissingObjectError, NotFoundError
from siltstone.format.table import Checkpoint, Holder
from siltstone.retain.expiry import DAY_MS, PENDING_MS, is_expired, now_ms
from siltstone.testing.manual import ManualClock, manual_env
from siltstone.testing.script import Crashed, Fault

HOURS_S = 3600.0
SCOPES = pytest.mark.parametrize("scope", ["all", "durable"])


class Skewed(ManualClock):
    """The clock of a process that is wrong by some hours."""

    def __init__(self, clock, hours):
        super().__init__()
        self._clock, self._off_ms = clock, int(hours * HOURS_S * 1000)

    def wall_ms(self):
        return self._clock.wall_ms() + self._off_ms

    def monotonic(self):
        return self._clock.monotonic()

    def advance(self, seconds):
        self._clock.advance(seconds)


def skewed(world, hours):
    """A handle of a process whose clock is wrong."""
    env = manual_env(7, clock=Skewed(world.clock, hours), patience_s=5.0)
    return open_table(world.store(), probe=False, env=env)


def expired(world, name=NAME, table=None):
    return is_expired(record_of(world, name), now_ms((table or world.open())._log))


# -- whose clock ---------------------------------------------------------------------------------------


@SCOPES
@pytest.mark.parametrize("hours", [-72, 0, 72])
def test_checkpoint__made_and_looked_at_by_skewed_processes__is_over_by_the_stores_clock(hours, scope):
    world = begun()
    now = world.clock.wall_ms()
    made = skewed(world, hours).checkpoint(NAME, scope=scope, keep_days=2)
    assert 0 <= made.created.timestamp() * 1000 - now < 1000
    for other in (-48, 0, 48):
        assert not expired(world, table=skewed(world, other))
    world.clock.advance(2 * DAY_S - 60)
    for other in (-48, 0, 48):
        assert not expired(world, table=skewed(world, other))
    world.clock.advance(62)
    for other in (-48, 0, 48):
        assert expired(world, table=skewed(world, other))


@pytest.mark.parametrize("hours", [-72, 72])
def test_refresh_checkpoint__by_a_skewed_process__counts_from_the_stores_now(hours):
    world = begun()
    made = world.open().checkpoint(NAME, keep_days=1)
    world.clock.advance(DAY_S / 2)
    now = world.clock.wall_ms()
    again = skewed(world, hours).refresh_checkpoint(made, keep_days=1)
    assert again.created == made.created
    assert 0 <= again.expires.timestamp() * 1000 - now - DAY_MS < 1000
    assert (again.version, again.id, again.scope) == (made.version, made.id, made.scope)


def test_is_expired__within_a_grain_of_the_stores_clock__is_not_yet():
    one = Checkpoint(version=1, pin="a" * 32, created_ms=1000, expires_ms=5000)
    assert [is_expired(one, now) for now in (4999, 5000, 5999, 6000)] == [False, False, False, True]


def test_is_expired__for_ever_or_of_a_clone__is_never():
    for_ever = Checkpoint(version=1, pin="a" * 32, created_ms=1000)
    held = Checkpoint(
        version=1, pin="a" * 32, created_ms=0, expires_ms=1, holder=Holder(table="b" * 32, uri="s3://x/y")
    )
    assert not is_expired(for_ever, 2**60)
    assert not is_expired(held, 2**60)


def test_is_expired__pending__is_given_up_after_a_day_whatever_it_was_to_be_kept():
    for expires in (None, 5, 2**50):
        one = Checkpoint(version=1, pin="a" * 32, created_ms=1000, expires_ms=expires, pending=True)
        assert not is_expired(one, 1000 + PENDING_MS)
        assert is_expired(one, 2000 + PENDING_MS)


# -- what being over means ---------------------------------------------------------------------------------


@SCOPES
def test_checkpoint__over_and_not_collected__is_read_and_can_be_refreshed(scope):
    world = begun()
    made = world.open().checkpoint(NAME, scope=scope, keep_days=0.5)
    began = world.book.ends()
    age(world)
    assert expired(world)
    check_kept(world, began)
    again = world.open().refresh_checkpoint(made, keep_days=30)
    assert not expired(world)
    assert again.expires > made.expires
    for_ever = world.open().refresh_checkpoint(made, keep_days=None)
    assert for_ever.expires is None
    assert world.open().checkpoints() == [for_ever]


def test_refresh_checkpoint__shorter_than_it_was__is_over_sooner():
    world = begun()
    made = world.open().checkpoint(NAME)
    world.open().refresh_checkpoint(made, keep_days=1)
    world.clock.advance(DAY_S + 2)
    assert expired(world)


def test_refresh_checkpoint__one_that_is_gone__is_told():
    table = begun().open()
    made = table.checkpoint(NAME, keep_days=1)
    table.delete_checkpoint(made)
    with pytest.raises(NotFoundError):
        table.refresh_checkpoint(made, keep_days=1)


def test_checkpoint__a_name_whose_checkpoint_is_over__is_refused_and_says_so():
    world = begun()
    world.open().checkpoint(NAME, keep_days=1)
    world.clock.advance(3 * DAY_S)
    with pytest.raises(AlreadyExistsError, match="expired and was not collected"):
        world.open().checkpoint(NAME)
    world.open().delete_checkpoint(NAME)
    world.open().checkpoint(NAME)


# -- one that was begun -------------------------------------------------------------------------------------


def pending(world, **options):
    """A checkpoint that was begun, by a process that died behind its first pin."""
    store = world.faulty()
    table = world.open(store)
    store.script.clear()
    store.on("create", Fault.CRASH_AFTER, key="manifest/entries")
    with pytest.raises(Crashed):
        table.checkpoint(NAME, scope="durable", **options)
    assert record_of(world).pending
    assert sorted(map(len, pins_of(world).values())) == [0, 1]
    return world


def test_checkpoint__pending__is_listed_and_neither_read_nor_refreshed():
    table = pending(begun()).open()
    (one,) = table.checkpoints()
    assert (one.pending, one.shards) == (True, ())
    for call in (lambda: table.at(checkpoint=one), lambda: table.refresh_checkpoint(one, keep_days=1)):
        with pytest.raises(InvalidInputError, match="begun and not ended") as caught:
            call()
        assert "checkpoint() with the same arguments" in caught.value.hint


@pytest.mark.parametrize("days", [1, 100], ids=["of some days", "of many days"])
def test_checkpoint__pending_for_days__the_same_call_goes_on_with_it_and_a_collection_leaves_it(days):
    world = pending(begun(), keep_days=days)
    pin = record_of(world).pin
    writers = writers_of(world)
    put(world, writers, dict.fromkeys(range(20, 50), 4))
    age(world, writers)
    assert expired(world), "a collection may remove it"
    began = world.book.ends()
    seen = []
    store = world.interleaves()
    table = world.open(store)
    store.before("create", lambda: seen.append(expired(world)), key="manifest/entries")
    made = table.checkpoint(NAME, scope="durable", keep_days=days)
    assert seen == [False], "it is young again while it is being made"
    assert made.id == pin
    assert (made.expires - made.created).days == days
    age(world)
    check_kept(world, began)


def test_checkpoint__pending_and_flushed_since__the_same_call_keeps_the_new_fragments_too():
    world = pending(begun())
    writers = writers_of(world)
    put(world, writers, dict.fromkeys(range(20, 50), 4))
    for writer in writers:
        world.flush(writer)
    began = world.book.ends()
    world.open().checkpoint(NAME, scope="durable")
    age(world)
    check_kept(world, began)


@pytest.mark.parametrize("arguments", [{"keep_days": 2}, {"keep_days": None}, {"scope": "all", "keep_days": 1}])
def test_checkpoint__pending_with_other_arguments__is_refused_and_says_what_to_do(arguments):
    world = pending(begun(), keep_days=1)
    before = record_of(world)
    with pytest.raises(AlreadyExistsError, match="begun with other arguments"):
        world.open().checkpoint(NAME, **{"scope": "durable", **arguments})
    assert record_of(world) == before


def test_checkpoint__pending_and_its_maker_comes_back_when_it_was_collected__is_told():
    world = begun()
    store = world.interleaves()
    table = world.open(store)
    store.before("create", lambda: world.open().delete_checkpoint(NAME), key="log/entries", nth=2)
    error = told(lambda: table.checkpoint(NAME, scope="durable"))
    assert error.kind == "conflict"
    assert error.facts["checkpoint"] == NAME
    with pytest.raises(NotFoundError):
        world.open().at(checkpoint=NAME)


def test_now_ms__the_store_loses_what_was_written__is_told():
    world = begun()
    store = world.interleaves()
    table = world.open(store)
    store.after("put", lambda: world.store().delete(["log/clock"]), key="log/clock")
    with pytest.raises(MissingObjectError):
        table.checkpoint(NAME)
