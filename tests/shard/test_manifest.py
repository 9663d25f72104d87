"""The manifest of a shard: claims are counted, cursors never go back, and whoever comes late is told."""

from __future__ import annotations

import msgspec
import pytest

from shard_worlds import ShardWorld, attempt
from siltstone.errors import ConflictError, FencedError, MissingObjectError, UnavailableError
from siltstone.format.shard import ShardState
from siltstone.format.table import Cursor
from siltstone.shard.manifest import TRUNCATE_EVERY, Manifest, later, to_cursor, to_mark
from siltstone.testing.script import ANY, Fault
from worlds import FOR_EVER

MANIFEST = "shards/a/manifest/entries/"


def manifest(world, store=None) -> Manifest:
    table = world.table(store)
    return table._shards.reader(world.shard, table._looked()).place.write("test").manifest


def noted(text):
    """An edit that anyone can see was done."""

    def edit(state):
        return None if text in state.error else msgspec.structs.replace(state, error=state.error + text)

    return edit


def test_claim__again_and_again__epochs_go_up_by_one():
    world = ShardWorld()
    assert [manifest(world).claim(f"writer {number}").epoch for number in range(4)] == [1, 2, 3, 4]
    state = manifest(world).read()
    assert (state.epoch, state.writer) == (4, "writer 3")
    assert state.claimed_ms == world.clock.wall_ms()


@pytest.mark.parametrize("verb", ["get", "create"])
def test_claim__another_claims_at_the_same_time__each_has_an_epoch_of_its_own(verb):
    world = ShardWorld()
    manifest(world).claim("before")
    store = world.interleaves()
    mine = manifest(world, store)
    other = []
    store.before(verb, lambda: other.append(manifest(world).claim("other").epoch), key=MANIFEST)
    epoch = mine.claim("mine").epoch
    assert {epoch, *other} == {2, 3}
    assert manifest(world).read().epoch == 3


def test_claim__of_a_sealed_shard__is_refused_with_what_to_do():
    world = ShardWorld()
    manifest(world).change(lambda state: msgspec.structs.replace(state, sealed=True))
    with pytest.raises(ConflictError, match="sealed") as caught:
        world.writer()
    assert "split_shards" in caught.value.hint


def test_check_mine__claimed_by_another__says_who_and_both_epochs():
    world = ShardWorld()
    mine = manifest(world)
    epoch = mine.claim("mine").epoch
    manifest(world).claim("the other")
    assert not mine.is_mine(epoch)
    with pytest.raises(FencedError, match=r"the other.*its epoch is 2, this writer's is 1") as caught:
        mine.check_mine(mine.read(), epoch)
    assert (caught.value.facts["epoch"], caught.value.facts["found"]) == (1, 2)


def test_change__others_change_it_all_the_time__no_change_is_lost():
    world = ShardWorld()
    store = world.interleaves()
    mine = manifest(world, store)
    for number in range(3):
        store.before("create", lambda number=number: manifest(world).change(noted(f"<{number}>")), key=MANIFEST)
        mine.change(noted(f"[{number}]"))
    assert sorted(manifest(world).read().error.replace(">", "").replace("]", "")) == sorted("<0[0<1[1<2[2")


def test_change__nothing_to_do__writes_nothing_and_sees_what_others_did():
    world = ShardWorld()
    mine = manifest(world)
    mine.change(noted("a"))
    manifest(world).change(noted("b"))
    before = len(list(world.store().list(MANIFEST[:-1])))
    assert mine.change(noted("a")).error == "ab"
    assert len(list(world.store().list(MANIFEST[:-1]))) == before


@pytest.mark.parametrize(
    "fault", [Fault.LOSE, Fault.FAIL_AFTER, Fault.EXISTS_OWN, Fault.REFUSE], ids=lambda one: one.name
)
def test_change__an_answer_is_lost__is_done_once(fault):
    world = ShardWorld()
    store = world.fault_store()
    mine = manifest(world, store)
    store.on("create", fault, key=MANIFEST)
    mine.change(noted("a"))
    assert mine.claim("x").epoch == 1
    assert manifest(world).read().error == ""
    assert len(list(world.store().list(MANIFEST[:-1]))) == 2


def test_change__unknown_and_tried_again__is_done_once():
    world = ShardWorld()
    store = world.fault_store()
    mine = manifest(world, store)
    mine.change(noted("a"))
    store.on("create", Fault.LOSE, key=MANIFEST, times=FOR_EVER)
    store.on("get", Fault.REFUSE, key=MANIFEST, times=FOR_EVER)
    attempt(mine.change, noted("b"))
    store.script.clear()
    assert mine.change(noted("b")).error == "ab"
    assert len(list(world.store().list(MANIFEST[:-1]))) == 2


def test_read__very_many_changes__keeps_a_bounded_number_of_objects():
    world = ShardWorld()
    mine, other = manifest(world), manifest(world)
    for number in range(5 * TRUNCATE_EVERY):
        mine.note_error(0, f"error {number}")
        world.clock.advance(10)
    assert other.read().error == manifest(world).read().error == f"error {5 * TRUNCATE_EVERY - 1}"
    assert len(list(world.store().list("shards/a/manifest"))) < 2 * TRUNCATE_EVERY + 10


@pytest.mark.parametrize("verb", ["get", "head", "list"])
def test_read__changed_and_truncated_between_its_calls__gives_the_newest(verb):
    for nth in range(1, 12):
        world = ShardWorld()
        writer = manifest(world)
        for number in range(TRUNCATE_EVERY - 2):
            writer.note_error(0, f"error {number}")
        store = world.interleaves()
        reader = manifest(world, store)
        reader.read()
        writer.note_error(0, "one more")

        def go_on(world=world, writer=writer):
            for number in range(3 * TRUNCATE_EVERY):
                writer.note_error(0, f"later {number}")
                world.clock.advance(10)

        store.before(verb, go_on, key="manifest/", nth=nth)
        found = reader.read().error
        if store.pending:
            assert found == "one more"
            break
        assert found == f"later {3 * TRUNCATE_EVERY - 1}" or found == "one more"
        assert reader.read().error == f"later {3 * TRUNCATE_EVERY - 1}"
    else:
        pytest.fail("it makes fewer calls than that")


def test_read__newest_entry_is_lost__is_told():
    world = ShardWorld()
    mine = manifest(world)
    mine.change(noted("a"))
    mine.change(noted("b"))
    world.store().delete([f"{MANIFEST}{0:020d}"])
    with pytest.raises(MissingObjectError):
        manifest(world)  # whoever opens it looks where the WAL is


def test_note_error__store_is_away__is_left_undone():
    world = ShardWorld()
    store = world.fault_store()
    mine = manifest(world, store)
    mine.claim("x")
    store.on(ANY, Fault.REFUSE, times=FOR_EVER)
    mine.note_error(1, "it failed")
    store.script.clear()
    assert mine.read().error == ""
    mine.note_error(1, "x" * 5000)
    mine.note_error(2, "of another writer")
    assert mine.read().error == "x" * 1024
    assert mine.claim("y").error == ""


def test_writer__a_flush_failed__others_see_why():
    world = ShardWorld()
    store = world.fault_store()
    writer = world.writer(store)
    world.put(writer, 1)
    writer.freeze()
    store.on(ANY, Fault.REFUSE, key="data/", times=FOR_EVER)
    assert isinstance(attempt(writer.flush_memtables), UnavailableError)
    assert "scripted" in world.table().shards()[0].last_error
    assert "scripted" in writer.stats().last_error
    world.go_on()
    assert world.table().shards()[0].last_error == ""


def test_cursors__to_marks_and_back__are_the_same():
    world = ShardWorld()
    log = manifest(world).log
    assert to_mark(Cursor(), log) == log.start
    assert to_cursor(log.start) == Cursor()
    cursor = Cursor(position=5, epoch=2, digest="a" * 64)
    assert to_cursor(to_mark(cursor, log)) == cursor
    assert later(cursor, Cursor()) == later(Cursor(), cursor) == cursor
    assert ShardState().replay_from == Cursor()


def between_tip_and_entry(monkeypatch, found, action):
    """Run ``action`` whenever a manifest was told where its log ends, before it reads the entry there."""
    tip = found.log.tip

    def interleaved(since=None):
        end = tip(since)
        action()
        return end

    monkeypatch.setattr(found.log, "tip", interleaved)


def test_read__changed_and_truncated_whenever_it_reads__gives_up_in_words(monkeypatch):
    world = ShardWorld()
    writer, reader = manifest(world), manifest(world)

    def go_on():
        for number in range(2 * TRUNCATE_EVERY):
            writer.note_error(0, f"{world.clock.wall_ms()}: error {number}")
            world.clock.advance(10)

    go_on()
    with monkeypatch.context() as patch:
        between_tip_and_entry(patch, reader, go_on)
        with pytest.raises(UnavailableError, match="changed all the time while it was read"):
            reader.read()
    assert reader.read() == manifest(world).read()


def test_read__newest_entry_goes_right_after_it_was_seen__is_told_and_not_taken_for_truncated(monkeypatch):
    world = ShardWorld()
    reader = manifest(world)
    manifest(world).change(noted("a"))
    between_tip_and_entry(monkeypatch, reader, lambda: world.store().delete([f"{MANIFEST}{0:020d}"]))
    with pytest.raises(MissingObjectError, match="it is the newest entry"):
        reader.read()


def test_read__nothing_but_an_entry_without_a_state__is_a_shard_that_nobody_claimed():
    world = ShardWorld()
    manifest(world).log.fence(1)
    found = manifest(world)
    assert found.read() == ShardState()
    assert found.log.tip().position == 1


def test_read__the_state_below_an_entry_without_one_is_lost__is_told():
    world = ShardWorld()
    reader = manifest(world)
    reader.change(noted("a"))
    manifest(world).log.fence(1)
    world.store().delete([f"{MANIFEST}{0:020d}"])
    with pytest.raises(MissingObjectError, match="entry 1 says nothing of the shard"):
        reader.read()


def test_change__another_thread_reads_further_before_it_returns__what_is_known_does_not_go_back():
    world = ShardWorld()
    store = world.interleaves()
    mine = manifest(world, store)
    mine.change(noted("a"))

    def get_further():
        manifest(world).change(noted("c"))
        mine.read()

    store.after("create", get_further, key=MANIFEST)
    assert mine.change(noted("b")).error == "ab"
    assert mine.known.error == manifest(world).read().error == "abc"


def test_change__another_is_first_each_time__gives_up_with_nothing_changed():
    world = ShardWorld()
    store = world.interleaves()
    mine = manifest(world, store)
    count = []

    def be_first():
        count.append("x")
        other.change(lambda state: msgspec.structs.replace(state, error=f"{len(count)}"))
        store.before("create", be_first, key=MANIFEST)

    other = manifest(world)
    store.before("create", be_first, key=MANIFEST)
    with pytest.raises(ConflictError, match="changed by others all the time"):
        mine.change(noted("mine"))
    assert manifest(world).read().error == f"{len(count)}"
    assert len(count) > 1
