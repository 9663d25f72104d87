"""Text indexes through Spark Connect: built by tasks, and searched in SQL."""

from __future__ import annotations

import siltstone as ss
from spark_texts import ITEMS, QUERY, hits, make


def test_connect__index_and_search__are_those_of_the_table(connect, tmp_path):
    table = make(tmp_path / "table")
    before = hits(table)
    done = ss.spark.build_text_index(connect, table, "body", items=ITEMS)
    assert done.items >= ITEMS
    assert hits(table, indexed_only=True) == before
    wanted = table.search("body", QUERY, limit=5).to_arrow().to_pylist()
    assert ss.spark.search(connect, table, "body", QUERY, limit=5).toArrow().to_pylist() == wanted
    ss.spark.register_search(connect)
    ss.spark.register_search(connect, "find", table=table)
    for call in (f"siltstone_search('{table.uri}', 'body', '{QUERY}', 5)", f"find('body', '{QUERY}', 5)"):
        assert connect.sql(f"select * from {call}").toArrow().to_pylist() == wanted
