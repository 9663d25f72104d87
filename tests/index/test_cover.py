"""A version as a search sees it: its rows by number, and parts that have each row once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from build_worlds import World, found, rows_of, seeded
from siltstone import paths
from siltstone.errors import CorruptionError
from siltstone.format.frame import digest
from siltstone.format.text import Analyzer, Covered, TextIndex, decode_marker, encode, plain
from siltstone.index import cover, planning
from siltstone.index.cover import Covers, Numbered
from siltstone.index.operations import AddIndex
from siltstone.table.group import Request


def numbered(table):
    return Numbered(table._own_tools, table._now())


def test_take__any_order__rows_in_the_order_asked_for():
    table = seeded(fragments=4, rows=5).open()
    rows = numbered(table)
    fields = table._now().schema.fields
    everything = rows.take(np.arange(rows.rows), fields)
    assert rows.rows == 20
    rng = np.random.default_rng(1)
    for _ in range(20):
        some = rng.permutation(rows.rows)[: rng.integers(0, rows.rows + 1)].astype(np.int64)
        assert rows.take(some, fields).equals(everything.take(some))


def test_take__few_rows_or_many_of_fragments_older_than_a_column__are_the_same(monkeypatch):
    table = seeded(fragments=4, rows=5).open()
    table.add_column("late", pa.int32(), default=7)
    table.append([{**row, "late": row["id"]} for row in rows_of(range(100, 105))])
    rows = numbered(table)
    fields = table._now().schema.fields
    rng = np.random.default_rng(2)
    for _ in range(20):
        some = rng.permutation(rows.rows)[: rng.integers(1, rows.rows + 1)].astype(np.int64)
        few = rows._take_few(some, fields)
        assert few is not None
        assert few.equals(rows._take_many(some, fields))
    monkeypatch.setattr(cover, "FEW_ROWS", 0)
    assert rows.take(some, fields).equals(few)


def test_column__every_row_is_alive_once_in_any_coverage(monkeypatch):
    monkeypatch.setattr(planning, "SMALL_TOKENS", 0)
    table = seeded(fragments=3, rows=5).open()
    for step in range(5):
        column = columns(table)
        alive = np.concatenate(
            [
                live.bases[np.searchsorted(live.starts, docs, side="right") - 1]
                + docs
                - live.starts[np.searchsorted(live.starts, docs, side="right") - 1]
                for live in column.lives
                for docs in [np.flatnonzero(np.ones(live.part.documents) if live.alive is None else live.alive)]
            ]
        )
        assert len(alive) == len(set(alive.tolist())) == table.count()
        ids = numbered(table).take(np.sort(alive), table._now().schema.fields[:1]).column(0).to_pylist()
        assert sorted(ids) == sorted(table.scan(["id"]).to_arrow().column(0).to_pylist())
        if step == 0:
            table.create_text_index("body")
        table.append(rows_of(range(100 + 10 * step, 105 + 10 * step)))
        table.delete(f"id % 10 = {step}")
        if step % 2:
            table.optimize_index("body")


def columns(table):
    state = table._now()
    index = state.indexes.get("body")
    field = next(one for one in state.schema.fields if one.name == "body")
    return Covers().column(
        numbered(table), field, index.analyzer if index else Analyzer(), index.segments if index else ()
    )


def with_marker(change):
    """A table whose index has a marker that was changed, and that the log names all the same."""
    world = seeded()
    table = world.open()
    build = table.begin_text_index("body", items=1)
    build.run(0, threads=1)
    done = build.finalize()
    marker = change(done.marker)
    world.plain().put(paths.index(build.name, paths.MARKER), encode(marker))
    segment = msgspec.structs.replace(done.segment, digest=digest(plain(marker)))
    plan = build._build.plan
    index = TextIndex(id=plan.index, field=plan.field, analyzer=plan.analyzer, segments=(segment,))
    table._commit(Request((AddIndex("body", index),), plan.version))
    return world


def replaced(marker, **changes):
    part = msgspec.structs.replace(marker.parts[0], **changes)
    return msgspec.structs.replace(marker, parts=(part, *marker.parts[1:]))


def grown(marker):
    first, *rest = marker.parts[0].fragments
    return replaced(marker, fragments=(Covered(first.name, first.rows + 1), *rest))


def cut(marker):
    first, second, *rest = marker.parts[0].fragments
    moved = (Covered(first.name, first.rows - 1), Covered(second.name, second.rows + 1, 0), *rest)
    return replaced(marker, fragments=moved)


def shorter(marker):
    return replaced(marker, fragments=marker.parts[0].fragments[1:], documents=marker.parts[0].documents)


LIES = {
    "more rows of a fragment": grown,
    "rows of another fragment": cut,
    "fewer fragments than documents": shorter,
    "another column": lambda marker: msgspec.structs.replace(marker, field=1),
    "another analyzer": lambda marker: msgspec.structs.replace(marker, analyzer=Analyzer(stem=False)),
}


@pytest.mark.parametrize("lie", LIES)
def test_search__marker_does_not_fit_the_table__is_told(lie):
    world = with_marker(LIES[lie])
    with pytest.raises(CorruptionError):
        world.open().search("body", "slow").to_arrow()


def test_search__marker_is_as_it_was__is_no_lie():
    world = with_marker(lambda marker: marker)
    assert found(world.open())


@pytest.mark.parametrize("damage", ["cut", "flipped", "of another build", "empty"])
def test_search__marker_is_damaged__is_told_by_name(damage):
    world = seeded()
    world.open().create_text_index("body")
    (build,) = world.builds()
    key = paths.index(build, paths.MARKER)
    data = world.plain().get(key)
    if damage == "of another build":
        world.open().create_text_index("body", name="other")
        (other,) = {*world.builds()} - {build}
        made = world.plain().get(paths.index(other, paths.MARKER))
    else:
        made = {"cut": data[:-3], "flipped": bytes([data[0] ^ 1]) + data[1:], "empty": b""}[damage]
    world.plain().put(key, made)
    with pytest.raises(CorruptionError) as caught:
        world.open().search("body", "slow", index="body").to_arrow()
    assert key in caught.value.message
    assert decode_marker(data, name=key).build == build


def test_marker__more_than_are_kept__are_read_again(monkeypatch):
    monkeypatch.setattr(cover, "MARKERS_MAX", 2)
    monkeypatch.setattr(planning, "SMALL_TOKENS", 0)
    table = seeded().open()
    table.create_text_index("body")
    for step in range(4):
        table.append(rows_of(range(100 + 10 * step, 105 + 10 * step)))
        table.optimize_index("body")
    assert table.indexes()[0].segments == 5
    expected = found(World(world_objects(table)).open())
    for _ in range(2):
        assert found(table) == expected


def world_objects(table):
    store = table._log.store
    return {info.key: store.get(info.key) for info in store.list()}


def test_search__many_threads_share_a_handle__same_answers():
    world = seeded(fragments=5, rows=8)
    table = world.open()
    table.create_text_index("body")
    table.append(rows_of(range(100, 110)))
    texts = ["slow", '"late delivery"', "deliv*", "colour refund"] * 4
    expected = [found(world.open(), text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: found(table, text), texts)) == expected
