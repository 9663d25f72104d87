"""Shards as the table's log knows them: cursors that only go forward, merges that meet, tables made with shards."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace

import pyarrow as pa
import pytest

from paper_tables import cursor
from siltstone.env import REAL
from siltstone.errors import CorruptionError, InternalError
from siltstone.format.rollup import decode_rollup
from siltstone.format.table import Change, Cursor, Sharding, decode_change, encode_change
from siltstone.log.marks import Mark
from siltstone.store.connect import open_store
from siltstone.table.draft import Draft, is_empty
from siltstone.table.schema import make_schema
from siltstone.table.state import State
from siltstone.table.tools import make_tools

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("text", pa.string())])
KEYED, PLAIN = make_schema(COLUMNS, "id"), make_schema(COLUMNS, None)
START = Mark(0, 0, "0" * 64)


def state_with(shards=None, *, sharding=None, schema=KEYED):
    """A state of a table on paper."""
    change = Change(operation="create", schema=schema, shards=shards or {}, sharding=sharding)
    return State(mark=START, block=START).apply(change, version=0)


def draft_of(state):
    return Draft(make_tools(open_store(f"memory://shards-{uuid.uuid4().hex}"), REAL), state)


# -- what a change does to a state ---------------------------------------------------------------------------


def test_apply__cursors__add_move_and_remove_shards():
    state = state_with({"a": Cursor(), "b": cursor(5)})
    moves = {"a": cursor(3), "b": None, "c": cursor(9, epoch=2), "d": Cursor()}
    after = state.apply(Change(operation="merge", shards=moves), version=1)
    assert after.shards == {"a": cursor(3), "c": cursor(9, epoch=2), "d": Cursor()}
    assert state.shards == {"a": Cursor(), "b": cursor(5)}, "a state is a value"
    assert after.apply(Change(operation="tag", tags={"v": 1}), version=2).shards is after.shards


def test_apply__a_cursor_as_it_is__stays():
    state = state_with({"a": cursor(5)})
    assert state.apply(Change(operation="merge", shards={"a": cursor(5)}), version=1).shards == {"a": cursor(5)}


def test_apply__a_shard_that_went__may_come_again_from_the_start():
    state = state_with({"a": cursor(5)}).apply(Change(operation="split", shards={"a": None}), version=1)
    assert state.apply(Change(operation="merge", shards={"a": Cursor()}), version=2).shards == {"a": Cursor()}


@pytest.mark.parametrize(
    ("shards", "words"),
    [
        ({"a": cursor(4)}, r"version 7 moves shard a from 5 \(aaaaaaaaaaaa\) back to 4"),
        ({"a": Cursor()}, r"moves shard a from 5 \(aaaaaaaaaaaa\) back to 0 \(the start\)"),
        ({"a": cursor(5, "b")}, r"moves shard a from 5 \(aaaaaaaaaaaa\) back to 5 \(bbbbbbbbbbbb\)"),
        ({"b": None}, "removes shard b, which is not there"),
        ({"b": Cursor(position=3)}, "cursor of shard b at 3 with the digest ''"),
        ({"b": Cursor(digest="a" * 64)}, "cursor of shard b at 0 with the digest 'aaaa"),
        ({"../x": Cursor()}, r"a shard that is called '\.\./x'"),
        ({"": Cursor()}, "a shard that is called ''"),
        ({"A": Cursor()}, "a shard that is called 'A'"),
        ({"_a": Cursor()}, "a shard that is called '_a'"),
        ({"a\n": Cursor()}, "a shard that is called"),
        ({"x" * 65: None}, "a shard that is called"),
        ({"c": Cursor(), "a": cursor(4)}, "moves shard a"),
    ],
)
def test_apply__cursors_that_can_not_be__are_corruption_and_nothing_is_applied(shards, words):
    state = state_with({"a": cursor(5)})
    with pytest.raises(CorruptionError, match=words):
        state.apply(Change(operation="merge", shards=shards), version=7)
    assert state.shards == {"a": cursor(5)}


def test_apply__longest_name_of_a_shard__is_taken():
    name = "0" + "z_-9" * 15 + "abc"
    assert len(name) == 64
    assert state_with({name: Cursor()}).shards == {name: Cursor()}


def test_apply__sharding__stays_until_there_is_another():
    state = state_with(sharding=Sharding(count=2))
    after = state.apply(Change(operation="append"), version=1)
    assert after.sharding == Sharding(count=2)
    same = after.apply(Change(operation="split", sharding=Sharding(count=2)), version=2)
    assert same.sharding == Sharding(count=2)
    assert same.apply(Change(operation="split", sharding=Sharding(count=4, map=1)), version=3).sharding == Sharding(
        count=4, map=1
    )


@pytest.mark.parametrize("sharding", [Sharding(count=3, map=1), Sharding(count=2, map=0), Sharding(count=3, map=0)])
def test_apply__shard_map_that_is_not_above_the_last__is_corruption(sharding):
    state = state_with(sharding=Sharding(count=2, map=1))
    with pytest.raises(CorruptionError, match="version 1 goes from shard map 1 to"):
        state.apply(Change(operation="split", sharding=sharding), version=1)


def test_apply__keys_are_spread_in_a_table_without_a_key__is_corruption():
    with pytest.raises(CorruptionError, match="spreads keys over 3 shards, and the table has no key"):
        state_with(sharding=Sharding(count=3), schema=PLAIN)


# -- as JSON -------------------------------------------------------------------------------------------------


def test_change__with_shards__comes_back():
    change = Change(
        operation="split",
        shards={"0000-0000": None, "0001-0000": Cursor(), "x": cursor(2**63 - 1, epoch=3)},
        sharding=Sharding(count=9999, map=9999),
    )
    data = encode_change(change)
    assert decode_change(data, name="it") == change
    assert json.loads(data) == {
        "operation": "split",
        "shards": {
            "0000-0000": None,
            "0001-0000": {},
            "x": {"position": 2**63 - 1, "epoch": 3, "digest": "a" * 64},
        },
        "sharding": {"count": 9999, "map": 9999},
    }
    assert json.loads(encode_change(Change(operation="append"))) == {"operation": "append"}


@pytest.mark.parametrize(
    "fields",
    [
        *({"shards": {name: {}}} for name in ["", "A", "../x", "a/b", "-a", "a.b", "x" * 65, "\u00e4", "a\n"]),
        *({"shards": {"a": value}} for value in [7, "x", [], True, {"position": -1}, {"position": 2**63}]),
        *({"shards": {"a": value}} for value in [{"digest": "x"}, {"digest": "A" * 64}, {"epoch": -1}, {"epoch": 1.5}]),
        *({"shards": value} for value in [7, [], "a", None]),
        *({"sharding": value} for value in [7, {}, {"count": 0}, {"count": 10_000}, {"count": True}, {"map": 1}]),
        *({"sharding": {"count": 1, "map": value}} for value in [-1, 10_000, None, "1"]),
    ],
    ids=str,
)
def test_decode_change__bad_shards__are_corruption(fields):
    data = json.dumps({"operation": "merge", **fields}).encode()
    with pytest.raises(CorruptionError, match="it can't be read"):
        decode_change(data, name="it")


# -- rollups -------------------------------------------------------------------------------------------------


def after_entries(state, count):
    """The state as if so many entries had led to it."""
    mark = Mark(count, 0, "1" * 64)
    versions = pa.table({"op": [b"0" * 16] * count, "time_ms": [0] * count}, schema=state.versions.schema)
    return replace(state, mark=mark, block=mark, versions=versions)


def joined(since, until):
    return since.join(decode_rollup(until.rollup(since, log="a" * 32), name="it"), name="it")


def test_join__shards_came_moved_and_went__gives_the_later_state():
    since = after_entries(state_with({"a": cursor(5), "b": cursor(7), "c": Cursor()}, sharding=Sharding(count=3)), 2)
    moves = {"a": cursor(8, "c", epoch=4), "b": None, "d": Cursor()}
    until = since.apply(Change(operation="split", shards=moves, sharding=Sharding(count=5, map=2)), version=2)
    found = joined(since, after_entries(until, 6))
    assert found.shards == {"a": cursor(8, "c", epoch=4), "c": Cursor(), "d": Cursor()}
    assert found.sharding == Sharding(count=5, map=2)


def test_join__nothing_of_shards_changed__they_are_not_in_the_rollup():
    since = after_entries(state_with({"a": cursor(5)}, sharding=Sharding(count=1)), 2)
    until = after_entries(since.apply(Change(operation="tag", tags={"v": 1}), version=2), 4)
    summary = decode_rollup(until.rollup(since, log="a" * 32), name="it").summary
    assert (summary.shards, summary.sharding) == ({}, None)
    assert joined(since, until).shards == {"a": cursor(5)}
    assert joined(since, until).sharding == Sharding(count=1)


def test_join__a_shard_went_and_came_again__its_cursor_is_the_lower_one():
    since = after_entries(state_with({"a": cursor(5)}), 2)
    gone = since.apply(Change(operation="split", shards={"a": None}), version=2)
    until = gone.apply(Change(operation="merge", shards={"a": cursor(1)}), version=3)
    assert joined(since, after_entries(until, 4)).shards == {"a": cursor(1)}


def test_join__a_rollup_that_does_not_fit__is_corruption():
    since = after_entries(state_with({"a": cursor(5)}, sharding=Sharding(count=2, map=3)), 2)
    removed = after_entries(since.apply(Change(operation="split", shards={"a": None}), version=2), 4)
    rollup = decode_rollup(removed.rollup(since, log="a" * 32), name="it")
    with pytest.raises(CorruptionError, match="removes shard a, which is not there"):
        replace(since, shards={}).join(rollup, name="it")
    spread = replace(since, sharding=Sharding(count=2, map=4))
    rollup = decode_rollup(after_entries(spread, 4).rollup(since, log="a" * 32), name="it")
    with pytest.raises(CorruptionError, match="goes from shard map 9 to 4"):
        replace(since, sharding=Sharding(count=2, map=9)).join(rollup, name="it")


# -- drafts --------------------------------------------------------------------------------------------------


def test_set_shards__some_are_as_they_should_be__the_others_are_in_the_change():
    draft = draft_of(state_with({"a": cursor(5), "b": Cursor()}, sharding=Sharding(count=2)))
    draft.set_shards({"a": cursor(5), "b": cursor(3), "c": None}, Sharding(count=2))
    change, _, footprint = draft.finish("merge", base=0)
    assert change.shards == {"b": cursor(3)}
    assert change.sharding is None
    assert footprint.shards == {"a", "b", "c"}, "also those that were found as they should be"


def test_set_shards__several_times__the_last_counts_and_those_between_are_forgotten():
    draft = draft_of(state_with({"a": cursor(5), "gone": cursor(1)}))
    draft.set_shards({"a": cursor(6), "new": Cursor(), "gone": None})
    draft.set_shards({"a": cursor(9), "new": None}, Sharding(count=4))
    assert draft.state.shards == {"a": cursor(9)}
    change, _, _ = draft.finish("split", base=0)
    assert change.shards == {"a": cursor(9), "gone": None}
    assert change.sharding == Sharding(count=4)
    assert draft.begun.apply(change, version=1).shards == draft.state.shards


def test_set_shards__keys_are_spread_anew__depends_on_all_shards():
    draft = draft_of(state_with({"a": cursor(5), "b": Cursor()}))
    draft.set_shards({"c": Cursor()}, Sharding(count=1))
    assert draft.footprint.shards == {"a", "b", "c"}


@pytest.mark.parametrize("to", [cursor(4), cursor(5, "b"), Cursor(), Cursor(position=9)], ids=repr)
def test_set_shards__back__is_our_mistake_and_no_damage(to):
    draft = draft_of(state_with({"a": cursor(5)}))
    with pytest.raises(InternalError, match="shards can't be moved like that"):
        draft.set_shards({"a": to})
    assert draft.state.shards == {"a": cursor(5)}


def test_depends__shards__are_collected():
    draft = draft_of(state_with({"a": cursor(5)}))
    draft.depends(shards=["a"])
    draft.depends(rows=True, shards={"b", "c"})
    draft.depends(columns=True)
    change, _, footprint = draft.finish("upsert", base=0)
    assert footprint.shards == {"a", "b", "c"}
    assert change.shards == {}


@pytest.mark.parametrize(
    "change",
    [
        Change(operation="merge", shards={"a": Cursor()}),
        Change(operation="split", shards={"a": None}),
        Change(operation="split", sharding=Sharding(count=1)),
    ],
    ids=str,
)
def test_is_empty__shards_or_sharding__is_not(change):
    assert not is_empty(change)
    assert is_empty(Change(operation="merge"))
