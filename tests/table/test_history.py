from __future__ import annotations

import random

import pytest

from paper_tables import Adds, fragment, grow, new_table
from siltstone import paths
from siltstone.errors import CorruptionError
from siltstone.format import frame
from siltstone.format.rollup import decode_rollup
from siltstone.format.table import Change, Cursor, Sharding, encode_body, encode_change
from siltstone.log import open_log
from siltstone.store.base import Traits
from siltstone.store.memory import MemoryStore
from siltstone.store.meter import MeteredStore
from siltstone.store.wrapper import StoreWrapper
from siltstone.table.history import ROLLUP_EVERY, History, repeats


def same(one, other):
    """Whether two states say the same, however they were reached."""
    assert one.mark == other.mark
    for name in ("schema", "tags", "settings", "once", "batches", "shards", "sharding"):
        assert getattr(one, name) == getattr(other, name), name
    assert sorted(one.fragments, key=lambda live: live.fragment.name) == sorted(
        other.fragments, key=lambda live: live.fragment.name
    )
    assert one.fragments.rows == other.fragments.rows
    assert one.all_versions().equals(other.all_versions().combine_chunks()) or (
        one.all_versions().to_pylist() == other.all_versions().to_pylist()
    )
    return True


class Remote(StoreWrapper):
    """A store where every look is a request."""

    def __init__(self, inner):
        super().__init__(inner)
        self.traits = Traits(kind="s3", known_good=True, cheap_probes=False)


def rollups(store):
    return [paths.parse_rollup(info.key) for info in store.list(paths.ROLLUPS)]


@pytest.mark.parametrize("count", [0, 1, 6, 7, 8, 9, 30, 31, 32, 33, 63, 64, 100, 255, 256, 300])
def test_newest__after_so_many_versions__equals_the_writers_state(count):
    tools, history, state = new_table()
    state = grow(tools, history, state, count)
    assert same(History(history.log).newest(), state)
    assert len(rollups(tools.store)) == (count + 1) // ROLLUP_EVERY


def test_at__every_version__equals_what_it_was():
    tools, history, state = new_table()
    states = [state]
    for _ in range(80):
        states.append(grow(tools, history, states[-1], 1))
    for version in range(0, 81, 7):
        assert same(History(history.log).at(version), states[version])


def test_newest__without_any_rollup__reads_the_whole_log():
    tools, history, state = new_table()
    state = grow(tools, history, state, 70)
    tools.store.delete([info.key for info in tools.store.list(paths.ROLLUPS)])
    assert same(History(history.log).newest(), state)


def test_newest__the_last_rollup_is_broken__takes_the_one_before():
    tools, history, state = new_table()
    state = grow(tools, history, state, 70)
    key = paths.rollup(rollups(tools.store)[0])
    tools.store.put(key, tools.store.get(key)[:-1])
    assert same(History(history.log).newest(), state)


def test_newest__a_rollup_that_others_stand_on_is_gone__is_passed_over():
    tools, history, state = new_table()
    state = grow(tools, history, state, 300)
    tools.store.delete([paths.rollup(256)])
    assert same(History(history.log).newest(), state)


def test_newest__a_rollup_of_another_log__is_passed_over():
    tools, history, state = new_table()
    state = grow(tools, history, state, 40)
    others, other_history, _ = new_table()
    grow(others, other_history, other_history.newest(), 63)
    tools.store.put(paths.rollup(64), others.store.get(paths.rollup(64)))
    assert same(History(history.log).newest(), state)


def test_newest__a_rollup_of_another_history_of_this_log__is_loud():
    tools, history, state = new_table()
    grow(tools, history, state, 31)
    key = paths.entry(paths.LOG, 31)
    # The store let another entry take the place of the one that the rollup stands on.
    data = tools.store.get(key)
    other = grow(*new_table(), 31)
    assert other.mark.position == 32
    entry = history.log.read(data, 31)
    forged = data.replace(entry.nonce.encode(), b"0" * 32)
    assert forged != data
    tools.store.put(key, _resealed(forged))
    with pytest.raises(CorruptionError):
        History(history.log).newest()


def _resealed(data):
    header = data[52 : 52 + int.from_bytes(data[8:12], "little")]
    return frame.wrap(header, data[52 + len(header) :])


@pytest.mark.parametrize("count", [299, 999, 1023, 1055])
def test_newest__after_so_many_versions__takes_few_requests(count):
    tools, history, state = new_table(MeteredStore(Remote(MemoryStore(f"far-{count}"))))
    grow(tools, history, state, count)
    tools.store.reset()
    log = open_log(tools.store, root=paths.LOG, probe=False)
    History(log).newest()
    assert tools.store.usage().total <= 10, tools.store.usage()


def test_refresh__others_committed__gives_their_state():
    tools, history, state = new_table()
    other = History(history.log)
    behind = other.newest()
    state = grow(tools, history, state, 20)
    assert same(other.refresh(behind), state)


def test_newest__fragments_were_removed_and_labels_changed__rollups_say_so():
    tools, history, state = new_table()
    first = fragment()
    state = grow(tools, history, state, 1, each=lambda _: Adds(first, tags={"v1": 0}, settings={"a": "1"}))
    state = grow(tools, history, state, 40)
    last = Adds(remove=(first.name,), tags={"v1": None, "v2": 3}, settings={"a": None})
    state = grow(tools, history, state, 1, each=lambda _: last)
    state = grow(tools, history, state, 40)
    found = History(history.log).newest()
    assert same(found, state)
    assert first.name not in found.fragments
    assert dict(found.tags) == {"v2": 3}
    assert dict(found.settings) == {}


@pytest.mark.parametrize("seed", range(4))
def test_at__shards_come_move_and_go__rollups_give_what_the_entries_give(seed):
    chance = random.Random(seed)
    tools, history, state = new_table()
    states = [state]
    for number in range(3 * ROLLUP_EVERY):
        shards = some_moves(chance, states[-1].shards)
        sharding = Sharding(count=1 + number % 7, map=number) if chance.random() < 0.1 else None
        one = Adds(fragment(), shards=shards, sharding=sharding)
        states.append(grow(tools, history, states[-1], 1, each=lambda _, one=one: one))
    assert len(rollups(tools.store)) == 3
    for version in range(0, len(states), 5):
        assert same(History(history.log).at(version), states[version])
    assert same(History(history.log).newest(), states[-1])
    tools.store.delete([info.key for info in tools.store.list(paths.ROLLUPS)])
    assert same(History(history.log).newest(), states[-1])


def some_moves(chance, shards):
    """A few shards that are added, moved on or removed; names come again."""
    moves = {}
    for name in chance.sample("abcdef", chance.randrange(4)):
        at = shards.get(name)
        if at is not None and chance.random() < 0.3:
            moves[name] = None
        else:
            position = chance.randrange(20) if at is None else at.position + chance.randrange(1, 9)
            digest = f"{chance.getrandbits(256):064x}" if position else ""
            moves[name] = Cursor(position=position, epoch=chance.randrange(3), digest=digest)
    return moves


def test_rollup__of_many_versions__names_what_it_stands_on():
    tools, history, state = new_table()
    grow(tools, history, state, 300)
    since = {}
    for position in rollups(tools.store):
        key = paths.rollup(position)
        since[position] = decode_rollup(tools.store.get(key), name=key).header.since
    assert since == {256: 0, 288: 256} | dict.fromkeys(range(32, 256, 32), 0)


def test_steps__an_entry_repeats_another_history__the_entries_themselves_are_read():
    tools, history, state = new_table()
    state = grow(tools, history, state, 5)
    prev, before = repeats(state)
    other = fragment()
    body = encode_body(encode_change(Change(operation="append", add=(other,))), prev="0" * 64, before=before)
    history.log.append(body, after=state.mark)
    found = History(history.log).newest()
    assert found.version == 6
    assert other.name in found.fragments
    assert len(found.fragments) == 6
    assert prev != "0" * 64
