"""Tables with text indexes, and what searches of them must find: the same rows with the same scores, bit for bit.

What must hold after anything: a search gives what the texts alone give, nothing that an index names is missing or
wrong, and a table that stands alone has nothing of an index that no version names.
"""

from __future__ import annotations

import numpy as np

from clone_worlds import World, rows_of
from siltstone import paths
from siltstone.cli.index_check import check_indexes
from siltstone.index.planning import Work, coverage, text_items
from siltstone.retain.plan import builds_of

QUERIES = ("slow", '"late delivery"', "deliv*", "refnd~", "colour^2 late -refund", "nowhere")
WORDS = ("slow", "late delivery", "refund", "colour", "delivery was late", "colours", "fast delivery, refund")


def texts(start, stop):
    """Some texts, by ids; their words differ from row to row."""
    return {number: f"{WORDS[number % 7]} {WORDS[number * 3 % 5]} w{number % 4}" for number in range(start, stop)}


def hits(table, query, **options):
    """What a search finds: the bytes of scores, by ids."""
    found = table.search("v", query, limit=None, **options).to_arrow()
    scores = found["_score"].to_numpy()
    assert (np.diff(scores) <= 0).all(), "best first"
    made = {id_: score.tobytes() for id_, score in zip(found["id"].to_pylist(), scores, strict=True)}
    assert len(made) == found.num_rows, "a row is there twice"
    return made


def all_hits(table, **options):
    return {query: hits(table, query, **options) for query in QUERIES}


def all_texts(table):
    """The same, from the rows alone: in a table that has them and no index."""
    world = World()
    plain = world.create("plain")
    rows = table.scan().to_arrow()
    if rows.num_rows:
        plain.append(rows)
    return all_hits(plain)


def check(table):
    """Searches are right, and all that indexes name is there."""
    found = all_hits(table)
    assert found == all_texts(table)
    state, store = table._now(), table._own_tools.store
    assert check_indexes(store, state, deep=True, missing=frozenset()) == []
    return found


def builds(world, name):
    """The builds that have objects at a table."""
    return {paths.parse_index(key)[0] for key in world.keys(name, "indexes")}


def named(table):
    """The builds that the newest version names."""
    return builds_of(table._now().indexes.values())


def grown(world, name="parent", **options):
    """A table with an index of two segments and three parts, rows that are deleted, and rows that no segment has."""
    table = world.create(name, **{"key": "id", **options})
    table.append(rows_of(texts(0, 20)))
    table.append(rows_of(texts(20, 30)))
    table.begin_text_index("v", items=2).run_all()
    table.append(rows_of(texts(30, 45)))
    add_segment(table)
    table.delete("id in (3, 21, 33)")
    table.append(rows_of(texts(50, 56)))
    return table


def add_segment(table, name="v"):
    """Index what is not, without merging it with what is, as happens to large segments."""
    state = table._now()
    index = state.indexes[name]
    rest = coverage(state, table._markers(state, index).values()).rest
    table._begin(state, name, index, Work(tuple(text_items(rest)))).run_all()
