"""Merges and splits that meet others, and what people and the change feed are told of them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from bad_tables import told
from paper_tables import Adds, cursor, fragment, new_table
from row_tables import RowTable, numbered
from siltstone import paths
from siltstone.api import open_table
from siltstone.cli.documents import version_document
from siltstone.env import REAL
from siltstone.errors import ConflictError, InvalidInputError
from siltstone.format.table import Change, Counts, Cursor, Sharding
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.table.changes import Changes
from siltstone.table.commit import commit
from siltstone.table.operations import Delete, Upsert, Work
from siltstone.table.tools import make_tools
from siltstone.table.versions import describe
from siltstone.testing.stores import Interleaves

# -- commits -------------------------------------------------------------------------------------------------


class Moves(Adds):
    """A merge on paper: brings a fragment, unless another has merged as far already; counts how often it is run."""

    operation = "merge"

    def __init__(self, shard, to, *, rows=False):
        super().__init__()
        self.shard, self.to, self.rows, self.runs = shard, to, rows, 0
        self.brings = fragment()

    def run(self, draft):
        self.runs += 1
        draft.depends(rows=self.rows, columns=True, shards=[self.shard])
        at = draft.state.shards.get(self.shard, Cursor())
        if at.position < self.to.position:
            draft.add([self.brings])
            draft.set_shards({self.shard: self.to})
            draft.count(inserted=1)


def meet(mine, *theirs):
    """What becomes of a merge that others come before: (what it was told, the state at the end)."""
    tools, history, state = new_table()
    begun = commit(tools, history, state, [Moves("a", cursor(1)), Moves("b", cursor(1))], base=0).state
    newest = begun
    for work in theirs:
        newest = commit(tools, history, newest, [work], base=newest.version).state
    done = commit(tools, history, begun, [mine], base=begun.version)
    assert done.state.shards == history.newest().shards
    return done


def test_commit__another_merged_the_same_shard_less_far__mine_is_run_again():
    mine, theirs = Moves("a", cursor(9)), Moves("a", cursor(4))
    done = meet(mine, theirs)
    assert mine.runs == 2
    assert done.state.shards == {"a": cursor(9), "b": cursor(1)}
    assert {mine.brings.name, theirs.brings.name} <= {live.fragment.name for live in done.state.fragments}


def test_commit__another_merged_the_same_shard_as_far__mine_changes_nothing():
    mine, theirs = Moves("a", cursor(9)), Moves("a", cursor(9))
    done = meet(mine, theirs)
    assert (mine.runs, done.change) == (2, None)
    assert mine.brings.name not in done.state.fragments, "no row is there twice"


def test_commit__another_shard_was_merged__mine_stands_as_it_is():
    mine = Moves("a", cursor(9))
    done = meet(mine, Moves("b", cursor(3)), Moves("c", cursor(2)))
    assert mine.runs == 1
    assert done.state.shards == {"a": cursor(9), "b": cursor(3), "c": cursor(2)}


def test_commit__another_shard_was_merged_with_a_key__mine_looks_at_its_rows():
    mine = Moves("a", cursor(9), rows=True)
    meet(mine, Moves("b", cursor(3)))
    assert mine.runs == 2


def test_commit__keys_were_spread_anew__mine_is_run_again():
    mine = Moves("a", cursor(9))
    done = meet(mine, Adds(shards={"0001-0000": Cursor()}, sharding=Sharding(count=1, map=1)))
    assert mine.runs == 2
    assert done.state.sharding == Sharding(count=1, map=1)


def test_commit__two_splits__the_second_is_run_again_and_can_refuse():
    class Split(Work):
        operation = "split"

        def run(self, draft):
            if draft.state.sharding is not None:
                raise ConflictError("the table was split meanwhile", hint="look first")
            draft.set_shards({"0001-0000": Cursor()}, Sharding(count=1, map=1))

    with pytest.raises(ConflictError, match="was split meanwhile"):
        meet(Split(), Split())


def test_commit__merge_lands_right_before_mine__no_place_is_merged_twice():
    bucket = MemoryBucket()
    tools, history, state = new_table(MemoryStore(bucket=bucket))
    store = Interleaves(MemoryStore(bucket=bucket))
    mine_tools, mine_history = make_tools(store, REAL), type(history)(open_table(store)._log)
    mine, theirs = Moves("a", cursor(9)), Moves("a", cursor(9))
    store.before("create", lambda: commit(tools, history, state, [theirs], base=0), key=paths.entry(paths.LOG, 1))
    done = commit(mine_tools, mine_history, mine_history.newest(), [mine], base=0)
    assert store.pending == 0
    assert done.change is None
    assert history.newest().shards == {"a": cursor(9)}
    assert [live.fragment.name for live in history.newest().fragments] == [theirs.brings.name]


# -- columns -------------------------------------------------------------------------------------------------


def widened():
    """A table whose versions 1 and 2 have a narrower column than 3, the newest."""
    table = RowTable(pa.schema([("id", pa.int64()), ("n", pa.int32()), ("m", pa.int8())]), "id")
    table.append([{"id": 1, "n": 7, "m": 1}])
    table.drop_column("m")
    table.widen_column("n", pa.int64())
    return table


@pytest.mark.parametrize("version", [0, 1, 2])
def test_restore__narrower_columns_of_a_table_with_shards__is_refused(version):
    table = widened()
    table.do(Adds(shards={"a": Cursor()}))
    with told(InvalidInputError, match=r"has shards.*would not fit column 'n'.*overwrite"):
        table.restore(version)
    assert table.refresh().state.version == 4
    table.restore(3)
    table.rename_column("n", "number")
    table.add_column(pa.field("late", pa.string()))
    assert table.state.schema.fields[1].type == "int64"


def test_restore__a_column_that_rows_in_shards_lack_and_can_not_be_null__is_refused():
    table = RowTable(pa.schema([("id", pa.int64()), ("n", pa.int8()), pa.field("m", pa.int8(), nullable=False)]), "id")
    table.drop_column("m")
    table.do(Adds(shards={"a": Cursor()}))
    with told(InvalidInputError, match="would not fit column 'm'"):
        table.restore(0)
    assert table.refresh().state.version == 2


def test_restore__a_column_that_may_be_null__comes_back_in_a_table_with_shards():
    table = RowTable(key="id")
    table.drop_column("text")
    table.do(Adds(shards={"a": Cursor()}))
    table.restore(0)
    assert [one.name for one in table.state.schema.fields] == ["id", "text"]


def test_restore__a_shard_came_right_before__is_refused():
    table = widened()
    table.other().do(Adds(shards={"a": Cursor()}))
    with told(InvalidInputError, match="would not fit column 'n'"):
        table.restore(1)
    assert table.refresh().state.shards == {"a": Cursor()}
    assert table.state.schema.fields[1].type == "int64"


# -- for people ----------------------------------------------------------------------------------------------


def test_history__merges_and_splits__say_what_they_did():
    tools, history, state = new_table()
    state = commit(tools, history, state, [Moves("b", cursor(4)), Moves("a", cursor(1))], base=0).state
    split = Change(operation="split", shards={"a": None, "c": Cursor()}, sharding=Sharding(count=1))
    merged = describe(state.recent[-1])
    assert (merged.operation, merged.inserted, merged.fragments_added) == ("merge", 2, 2)
    assert merged.shards == ("a", "b")
    assert describe(replace(state.recent[-1], said=split)).operation == "split"
    document = version_document(describe(replace(state.recent[-1], said=split)))
    assert (document["operation"], document["shards"]) == ("split", ["a", "c"])
    appended = describe(replace(state.recent[-1], said=Change(operation="append", counts=Counts(inserted=3))))
    assert (appended.inserted, appended.shards) == (3, ())


# -- the change feed -----------------------------------------------------------------------------------------


class Merge(Work):
    """What a merge does to a table with a key: rows replace those of the same keys, tombstones delete."""

    operation = "merge"

    def __init__(self, table, rows, gone, to):
        self._upsert = Upsert(table.inserted(rows, twice="last wins"))
        self._delete = Delete(f"id in ({gone})", table.state.schema) if gone else None
        self._to = to

    def run(self, draft):
        if self._delete is not None:
            self._delete.run(draft)
        self._upsert.run(draft)
        draft.set_shards(self._to)


def feed(table, since):
    rows = Changes(table.tools, table.history, table.state, since=since).to_arrow().to_pylist()
    return [(row["_version"], row["_change"], row["id"], row["text"]) for row in rows]


def test_changes__merge__are_told_as_those_of_an_upsert():
    table = RowTable(key="id")
    table.append(numbered(1, 2, 3, 4))
    table.do(Merge(table, numbered(2, 3, 9, text="b"), "1, 3", {"a": cursor(7)}))
    assert table.state.recent[-1].change.operation == "merge"
    assert feed(table, 1) == [
        (2, "delete", 1, "a1"),
        (2, "update_before", 2, "a2"),
        (2, "update_before", 3, "a3"),
        (2, "update_after", 2, "b2"),
        (2, "update_after", 3, "b3"),
        (2, "insert", 9, "b9"),
    ]


def test_changes__merge_of_tombstones_alone__are_deletes():
    table = RowTable(key="id")
    table.append(numbered(1, 2, 3))
    table.do(Merge(table, [], "1, 2", {"a": cursor(7)}))
    assert feed(table, 1) == [(2, "delete", 1, "a1"), (2, "delete", 2, "a2")]


def test_changes__merge_and_split_that_move_shards_alone__are_none():
    table = RowTable(key="id")
    table.append(numbered(1))
    table.do(Adds(shards={"a": cursor(7)}))
    table.do(Adds(shards={"a": None, "b": Cursor()}, sharding=Sharding(count=1)))
    assert table.state.version == 3
    assert feed(table, 1) == []


def test_restore__of_an_earlier_version__shards_stay_where_they_are_merged_to():
    table = RowTable(key="id")
    table.append(numbered(1))
    table.do(Merge(table, numbered(2), "", {"a": cursor(7)}))
    table.do(Adds(sharding=Sharding(count=3)))
    table.restore(1)
    assert table.rows() == numbered(1)
    assert table.state.shards == {"a": cursor(7)}
    assert table.state.sharding == Sharding(count=3)
