"""What others do to the table while an index is built: the build fits in, or is refused and nothing is changed."""

from __future__ import annotations

import pyarrow as pa
import pytest

import shares
import siltstone as ss
from build_worlds import World, begun, found, rows_of, seeded
from siltstone.errors import AlreadyExistsError, ConflictError, NotFoundError
from siltstone.index import planning
from siltstone.testing.script import ANY


def check(table, column="body"):
    """A search finds what a search of the same rows without an index finds; no fragment is in two segments."""
    rows = table.scan().to_arrow().rename_columns({column: "body"} if column != "body" else {}).to_pylist()
    other = World().create()
    if rows:
        other.append([{key: row[key] for key in ("id", "body", "stars")} for row in rows])
    answer = table.search(column, "slow delivery", limit=None, columns=["id"]).to_arrow()
    assert dict(zip(*(one.to_pylist() for one in answer.columns), strict=True)) == pytest.approx(
        dict(found(other, "slow delivery"))
    )
    for index in table._now().indexes.values():
        markers = [table._covers.marker(table._log.store, one) for one in index.segments]
        names = [name for marker in markers for name in {one.name for part in marker.parts for one in part.fragments}]
        assert len(names) == len(set(names)), "a fragment is in two segments"


def indexed(**options):
    world = seeded()
    world.open().create_text_index("body", **options)
    return world


@pytest.fixture
def large(monkeypatch):
    """Every segment is large: it is left alone, and new ones come beside it."""
    monkeypatch.setattr(planning, "SMALL_TOKENS", 0)


# -- two at once ---------------------------------------------------------------------------------------


def test_create__twice_at_once__one_wins_and_the_other_is_told():
    lost = 0
    for nth in shares.calls():
        world = seeded()
        one, two = begun(world, items=1, staged=True), begun(world, items=1, staged=True)
        store = world.interleaves()
        slow = world.open(store).index_build(one)
        store.before(ANY, world.open().index_build(two).commit, nth=nth)
        try:
            slow.commit()
        except AlreadyExistsError:
            lost += 1
        else:
            if store.pending:
                break
            pytest.fail("both won")
        table = world.open()
        assert [index.segments[0].build for index in table._now().indexes.values()] == [two]
        check(table)
    with pytest.raises(AlreadyExistsError):
        world.open().index_build(two).commit()
    assert lost > 5


def test_create_text_index__another_one_of_the_name_lands_while_it_is_built__is_told():
    world = seeded()
    store = world.interleaves()
    table = world.open(store)
    store.before("copy", lambda: world.open().create_text_index("body"))
    with pytest.raises(AlreadyExistsError, match="body"):
        table.create_text_index("body")
    assert len(table.indexes()) == 1
    check(table)


@pytest.mark.parametrize("whole", [True, False])
def test_optimize__twice_at_once__every_fragment_is_in_one_segment(whole):
    for nth in (1, 20, 40, 60, 80, 100):
        world = indexed()
        world.open().append(rows_of(range(20, 24)))
        store = world.interleaves()
        table = world.open(store)
        store.before(ANY, lambda world=world: world.open().optimize_index("body", whole=whole), nth=nth)
        table.optimize_index("body", whole=whole)
        assert [(one.segments, one.unindexed_rows) for one in table.indexes()] == [(1, 0)]
        check(table)


def test_optimize__twice_at_once_beside_large_segments__every_fragment_is_in_one_segment(large):
    world = indexed()
    table = world.open()
    table.append(rows_of(range(20, 24)))
    one, two = (world.open().begin_optimize_index("body") for _ in range(2))
    for build in (one, two):
        build.run(0, threads=1)
    two.commit()
    version = table.version
    with pytest.raises(ConflictError):
        one.commit()
    assert table.version == version
    assert [(info.segments, info.unindexed_rows) for info in table.indexes()] == [(2, 0)]
    check(table)
    table.optimize_index("body", whole=True)
    assert [(info.segments, info.unindexed_rows) for info in table.indexes()] == [(1, 0)]
    check(table)


def test_optimize__another_one_took_in_later_rows_meanwhile__both_stay(large):
    world = indexed()
    table = world.open()
    table.append(rows_of(range(20, 24)))
    table.optimize_index("body")
    whole = table.begin_optimize_index("body", whole=True)
    table.append(rows_of(range(24, 28)))
    table.optimize_index("body")
    whole.run_all()
    assert [(info.segments, info.unindexed_rows) for info in table.indexes()] == [(2, 0)]
    check(table)


# -- committed more than once ----------------------------------------------------------------------------


def test_commit__again_after_the_index_was_dropped__it_stays_dropped():
    world = seeded()
    build = begun(world, staged=True)
    first = world.open().index_build(build).commit()
    world.open().drop_index("body")
    table = world.open()
    assert table.index_build(build).commit().version == first.version
    assert table.indexes() == []


def test_commit__again_after_another_build_took_its_place__changes_nothing(large):
    world = indexed()
    table = world.open()
    table.append(rows_of(range(20, 24)))
    build = table.begin_optimize_index("body")
    first = build.run_all()
    table.append(rows_of(range(24, 28)))
    table.optimize_index("body", whole=True)
    version = table.version
    assert world.open().index_build(build.name).commit().version == first.version
    assert table.version == version
    assert [info.segments for info in table.indexes()] == [1]
    check(table)


def test_commit__nothing_is_left_to_index__segments_go_and_again_is_fine():
    world = indexed()
    table = world.open()
    table.delete(None)
    build = table.begin_optimize_index("body")
    assert build.items == 0
    first = build.commit()
    assert world.open().index_build(build.name).commit().version == first.version
    assert [(info.segments, info.indexed_rows) for info in table.indexes()] == [(0, 0)]
    assert table.begin_optimize_index("body") is None
    check(table)


# -- rows and columns that others change -----------------------------------------------------------------


ROWS = {
    "append": lambda table: table.append(rows_of(range(30, 34))),
    "upsert": lambda table: table.upsert([{"id": 2, "body": "slow again", "stars": 1}]),
    "delete": lambda table: table.delete("stars = 2"),
    "delete all": lambda table: table.delete(None),
    "update": lambda table: table.update({"body": "'slow ' || body"}, where="id < 6"),
    "compact": lambda table: table.compact(),
    "overwrite": lambda table: table.overwrite(rows_of(range(50, 53))),
    "restore": lambda table: table.restore(version=2),
    "add column": lambda table: table.add_column("note", pa.string()),
    "other index": lambda table: table.create_text_index("body", name="other", stem=False),
}


@pytest.mark.parametrize("what", ROWS)
@pytest.mark.parametrize("when", ["before it is run", "before it is finalized", "between calls of commit"])
def test_create__rows_are_changed_meanwhile__search_finds_what_a_scan_does(what, when):
    for nth in (1, 12, 24, 30, 36, 40):
        world = seeded()
        store = world.interleaves()
        build = world.open(store).begin_text_index("body", items=2)
        if when == "before it is run":
            ROWS[what](world.open())
        for item in range(build.items):
            build.run(item, threads=1)
        if when == "between calls of commit":
            store.before(ANY, lambda world=world: ROWS[what](world.open()), nth=nth)
        elif when == "before it is finalized":
            ROWS[what](world.open())
        build.commit()
        table = world.open()
        assert "body" in {info.name for info in table.indexes()}
        if what != "other index":
            check(table)
            table.optimize_index("body")
            assert [info.unindexed_rows for info in table.indexes()] == [0]
        check_one(table)
        if when != "between calls of commit" or store.pending:
            return


def check_one(table):
    """As ``check``, where there may be several indexes."""
    names = {info.name for info in table.indexes()}
    for name in names:
        assert table.search("body", "slow", index=name, limit=None).count() == table.count("body like '%slow%'")


@pytest.mark.parametrize("what", [one for one in ROWS if one != "other index"])
def test_optimize__rows_are_changed_meanwhile__search_finds_what_a_scan_does(what, large):
    world = indexed()
    table = world.open()
    table.append(rows_of(range(20, 24)))
    for whole in (False, True):
        build = table.begin_optimize_index("body", whole=whole)
        ROWS[what](world.open()) if not whole else table.append(rows_of(range(70, 73)))
        build.run_all()
        check(table)
    table.optimize_index("body", whole=True)
    assert [info.unindexed_rows for info in table.indexes()] == [0]
    check(table)


def test_commit__column_was_dropped_meanwhile__is_told_and_nothing_is_changed():
    world = seeded()
    build = begun(world, items=2)
    table = world.open()
    table.drop_column("body")
    handle = world.open().index_build(build)
    for item in range(handle.items):
        handle.run(item, threads=1)
    version = table.version
    for _ in range(2):
        with pytest.raises(ConflictError, match="column that is being indexed"):
            handle.commit()
    table.add_column("body", pa.string())
    with pytest.raises(ConflictError, match="column that is being indexed"):
        handle.commit()
    assert table.version == version + 1
    assert table.indexes() == []


def test_optimize__column_was_dropped_meanwhile__is_told_and_nothing_is_changed():
    world = indexed()
    table = world.open()
    table.append(rows_of(range(20, 24)))
    build = table.begin_optimize_index("body")
    table.drop_column("body")
    assert table.indexes() == []
    with pytest.raises(NotFoundError, match="no index"):
        build.run_all()
    with pytest.raises(NotFoundError, match="no index"):
        table.optimize_index("body")


def test_commit__column_was_renamed_meanwhile__is_of_the_column():
    world = seeded()
    build = begun(world, items=2)
    world.open().rename_column("body", "text")
    world.open().index_build(build).run_all()
    table = world.open()
    assert [(info.name, info.column, info.unindexed_rows) for info in table.indexes()] == [("body", "text", 0)]
    check(table, "text")
    table.append([{"id": row["id"], "text": row["body"], "stars": 1} for row in rows_of(range(20, 24))])
    table.optimize_index("body")
    check(table, "text")


@pytest.mark.parametrize("again", [False, True])
def test_optimize__index_was_dropped_meanwhile__is_told_and_nothing_is_changed(again):
    world = indexed()
    table = world.open()
    table.append(rows_of(range(20, 24)))
    build = table.begin_optimize_index("body")
    table.drop_index("body")
    if again:
        table.create_text_index("body", stem=False)
    before = table.indexes()
    with pytest.raises(ConflictError if again else NotFoundError):
        build.run_all()
    assert table.indexes() == before
    check(table) if not again else None


# -- versions that are collected, tables that are dropped ----------------------------------------------------


@pytest.mark.parametrize("done", ["begun", "staged", "finalized"])
def test_build__its_version_was_collected__is_refused_and_nothing_is_changed(done):
    world = seeded()
    build = begun(world, items=2, staged=done != "begun")
    if done == "finalized":
        world.open().index_build(build).finalize()
    table = world.open()
    table.compact()
    table.upsert([{"id": 2, "body": "slow again", "stars": 1}])
    world.clock.advance(10 * 86_400)
    for _ in range(2):
        table.gc(keep_days=0)
        world.clock.advance(10 * 86_400)
    assert table._now().floor > 4
    version = table.version
    with pytest.raises(ConflictError, match="collected"):
        world.open().index_build(build).run_all() if done == "begun" else world.open().index_build(build).commit()
    assert table.version == version
    assert table.indexes() == []
    table.create_text_index("body")
    check(table)


def test_build__versions_are_collected_while_an_item_is_done__is_refused_and_nothing_is_changed():
    refused = 0
    for nth in range(1, 60, 3):
        world = seeded()
        build = begun(world, items=1)
        store = world.interleaves()
        table = world.open(store)

        def collect(world=world):
            other = world.open()
            other.compact()
            other.append(rows_of(range(40, 42)))
            for _ in range(2):
                world.clock.advance(10 * 86_400)
                other.gc(keep_days=0)

        store.before(ANY, collect, nth=nth)
        try:
            table.index_build(build).run_all()
        except ConflictError:
            refused += 1
        else:
            assert store.pending
        check(world.open())
    assert refused > 5


def test_optimize_index__versions_are_collected_meanwhile__is_done_anew():
    world = indexed()
    table = world.open()
    table.append(rows_of(range(20, 24)))
    store = world.interleaves()
    slow = world.open(store)

    def collect():
        table.optimize_index("body")
        table.append(rows_of(range(40, 42)))
        for _ in range(2):
            world.clock.advance(10 * 86_400)
            table.gc(keep_days=0)

    store.before("copy", collect, key="part_")
    slow.optimize_index("body")
    assert [(info.segments, info.unindexed_rows) for info in table.indexes()] == [(1, 0)]
    check(table)


def test_build__table_was_dropped_and_another_one_made_there__is_refused():
    world = seeded()
    build = begun(world, staged=True)
    old = world.open()
    ss.drop(world.plain(), env=world.env())
    other = world.create()
    other.append(rows_of(range(3)))
    with pytest.raises(NotFoundError):
        old.index_build(build).commit()
    version = other.version
    with pytest.raises((ConflictError, NotFoundError)):
        world.open().index_build(build).commit()
    assert other.version == version
    assert other.indexes() == []


def test_build__abandoned_anywhere__the_table_knows_nothing_of_it():
    world = seeded()
    before = found(world.open())
    begun(world, items=2)
    begun(world, items=2, staged=True)
    world.open().index_build(begun(world, items=2, staged=True)).finalize()
    table = world.open()
    assert table.indexes() == []
    assert found(table) == before
    table.create_text_index("body")
    assert found(table) == before
