"""A build on every kind of store: several handles work on it, and a finalizer that comes late finds the end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import siltstone as ss
from build_worlds import SCHEMA, found, read_as_anyone, rows_of
from places import STORES
from siltstone import paths
from siltstone.store.connect import open_store


@pytest.mark.parametrize("kind", [one for one in STORES if one != "memory"])
def test_build__by_several_handles_at_once__one_index_with_all_rows(places, kind):
    place = places.store(kind)
    options = {"storage_options": place.options or None}
    table = ss.create(place.uri, schema=SCHEMA, key="id", **options)
    for number in range(4):
        table.append(rows_of(range(number * 5, number * 5 + 5)))
    expected = found(table)
    build = table.begin_text_index("body", items=4)

    def work(item):
        handle = ss.open(place.uri, **options).index_build(build.name)
        handle.run(item % handle.items, threads=1)

    def end(_):
        return ss.open(place.uri, **options).index_build(build.name).commit().version

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))
        versions = list(pool.map(end, range(4)))
    assert len({*versions}) == 1
    store = open_store(place.uri, storage_options=place.options or None)
    assert read_as_anyone(store, build.name)
    counted = {one.attempt for one in build._build.staged().values()}
    left = [info.key for info in store.list(f"indexes/{build.name}/{paths.STAGING}")]
    assert not any(attempt in key for key in left for attempt in counted)
    assert found(table) == found(ss.open(place.uri, **options)) == expected
    assert [(one.segments, one.parts, one.unindexed_rows) for one in table.indexes()] == [(1, 4, 0)]
    table.append(rows_of(range(50, 55)))
    table.optimize_index("body")
    assert [(one.segments, one.unindexed_rows) for one in table.indexes()] == [(1, 0)]
