"""What is made of an item: the same bytes whoever makes it, cut where parts are full, from texts or older parts."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from build_worlds import World, rows_of, seeded
from siltstone import paths
from siltstone.errors import CorruptionError, MissingObjectError
from siltstone.format.frame import digest
from siltstone.format.text import Covered
from siltstone.index import making, planning
from siltstone.index.making import Maker, read_part, text_ends
from siltstone.index.stored import decode_part
from siltstone.store.base import OBJECT_BYTES_MAX
from siltstone.table import layout


@pytest.fixture
def chunks(monkeypatch):
    """Chunks, row groups and parts of a few rows each."""
    monkeypatch.setattr(making, "CHUNK_BYTES", 64)
    monkeypatch.setattr(layout, "GROUP_ROWS", 7)


def made(table, *, threads=1, part_bytes=making.PART_BYTES, items=1):
    build = table.begin_text_index("body", name="made", items=items)
    plan = build._build.plan
    maker = Maker(table._own_tools, table._now(), plan, threads=threads, part_bytes=part_bytes)
    return [part for item in range(len(plan.items)) for part in maker.make(item)]


@pytest.mark.parametrize("part_bytes", [1, 100, 300, 10**9])
def test_make__any_number_of_threads__same_bytes(chunks, part_bytes):
    table = seeded(fragments=3, rows=20).open()
    one = made(table, part_bytes=part_bytes)
    assert [part.data for part in made(table, threads=4, part_bytes=part_bytes)] == [part.data for part in one]
    assert [part.facts.name for part in one] == [paths.part(0, number) for number in range(len(one))]


@pytest.mark.parametrize("part_bytes", [1, 100, 300, 10**9])
def test_make__cut_into_parts__every_row_is_in_one_of_them(chunks, part_bytes):
    table = seeded(fragments=3, rows=20).open()
    parts = made(table, part_bytes=part_bytes)
    runs = [one for part in parts for one in part.facts.fragments]
    rows = {live.fragment.name: live.fragment.rows for live in table._now().fragments.select(None)}
    seen = {name: np.zeros(count, np.int64) for name, count in rows.items()}
    for one in runs:
        seen[one.name][one.first : one.first + one.rows] += 1
    assert all((count == 1).all() for count in seen.values())
    assert all(sum(one.rows for one in part.facts.fragments) == part.facts.documents for part in parts)
    assert (len(parts) == 1) == (part_bytes == 10**9)


def test_make__cut_into_parts__search_finds_the_same(chunks, monkeypatch):
    world = seeded(fragments=3, rows=20)
    before = rows_found(world.open())
    monkeypatch.setitem(Maker.__init__.__kwdefaults__, "part_bytes", 100)
    table = world.open()
    table.create_text_index("body")
    assert table.indexes()[0].parts > 5
    assert rows_found(table) == before
    table.append(rows_of(range(100, 105)))
    table.optimize_index("body", whole=True)
    table.delete("id >= 100")
    assert table.indexes()[0].parts < 5
    assert rows_found(table) == before
    assert rows_found(world.open()) == before


def rows_found(table):
    found = table.search("body", 'slow "late delivery" deliv*', limit=None).to_arrow()
    return list(zip(found.column("id").to_pylist(), found.column("_score").to_pylist(), strict=True))


def test_make__from_older_parts__postings_are_those_of_the_texts(monkeypatch):
    monkeypatch.setattr(planning, "SMALL_TOKENS", 0)
    world = seeded(fragments=4, rows=6)
    table = world.open()
    table.create_text_index("body")
    table.append(rows_of(range(100, 107)))
    table.optimize_index("body")
    table.delete("id >= 6 and id < 12")  # a fragment is gone whole
    build = table.begin_optimize_index("body", whole=True)
    (merged,) = build._maker(1).make(0)
    (whole,) = made(table)
    one, two = (decode_part(part.data, part.facts, name="part") for part in (merged, whole))
    assert {name.name for name in merged.facts.fragments} == {name.name for name in whole.facts.fragments}
    if merged.facts.fragments == whole.facts.fragments:
        assert merged.data == whole.data
    assert one.terms.equals(two.terms)
    assert sorted(one.lengths.tolist()) == sorted(two.lengths.tolist())
    assert (np.diff(one.starts) == np.diff(two.starts)).all()


@pytest.mark.parametrize("damage", ["gone", "changed", "marker gone", "marker changed"])
def test_make__an_older_part_is_damaged__is_told_and_nothing_is_changed(damage):
    world = seeded()
    table = world.open()
    table.create_text_index("body")
    table.append(rows_of(range(100, 103)))
    (segment,) = table._now().indexes["body"].segments
    key = paths.index(segment.build, paths.MARKER if "marker" in damage else paths.part(0, 0))
    build = table.begin_optimize_index("body")
    if "gone" in damage:
        world.plain().delete([key])
    else:
        data = bytearray(world.plain().get(key))
        data[len(data) // 2] ^= 1
        world.plain().put(key, bytes(data))
    version = table.version
    with pytest.raises((MissingObjectError, CorruptionError)) as caught:
        world.open().index_build(build.name).run_all()
    assert key in caught.value.message
    assert table.version == version


def test_read_part__larger_than_other_objects_may_be__is_read():
    world = seeded()
    table = world.open()
    (part,) = made(table)
    data = bytes(OBJECT_BYTES_MAX + 1)
    facts = msgspec.structs.replace(part.facts, bytes=len(data), sha256=digest(data))
    world.plain().put("indexes/large", data)
    assert read_part(table._own_tools, "indexes/large", facts) == data
    world.plain().put("indexes/large", data + b"more")
    with pytest.raises(CorruptionError):
        read_part(table._own_tools, "indexes/large", facts)


def test_text_ends__nulls_slices_and_views__are_counted():
    texts = pa.chunked_array([pa.array(["ab", None, "", "ü"]).slice(1), pa.array(["xyz"])])
    assert text_ends(texts).tolist() == [0, 0, 2, 5]
    assert text_ends(pa.chunked_array([], pa.string())).tolist() == []


def test_run__texts_are_null_or_empty__are_documents_all_the_same():
    world = World()
    table = world.create()
    table.append([{"id": n, "body": text, "stars": 0} for n, text in enumerate([None, "", "   ", "slow", None])])
    table.create_text_index("body")
    info = table.indexes()[0]
    assert (info.indexed_rows, info.unindexed_rows) == (5, 0)
    (segment,) = table._now().indexes["body"].segments
    (part,) = table._covers.marker(table._log.store, segment).parts
    assert (part.documents, part.nulls, part.tokens) == (5, 2, 1)
    assert part.fragments == (Covered(part.fragments[0].name, 5),)
    assert table.search("body", "slow").to_arrow().column("id").to_pylist() == [3]
