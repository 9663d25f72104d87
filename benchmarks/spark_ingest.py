"""Shards on Spark: ingesting through WALs beside the plain append, fresh reads beside an anti-join of Parquet files.

What must hold: both sides of a comparison end with the same rows, durable or read.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from common import Target, alternate, seconds
from spark_read import MASKED, SCHEMA, Measured, Reading, compare, drain, total
from spark_write import ROUNDS, WARM, Writes

import siltstone as ss

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHARDS = 4


class Shards(Writes):
    """The parts that have to do with shards."""

    def ingest(self) -> dict[str, Measured]:
        """All rows into the WALs of some shards, beside an append of them to a table with the same key."""
        works = {"ingest": self._ingest, "append": lambda: self._append("id")}
        alternate(WARM, works)
        spent = alternate(min(ROUNDS, self.scale.rounds), works)
        figures = {f"{name}: s": span for name, span in spent.items()}
        figures |= {f"{name}: rows/s": self.scale.rows / span for name, span in spent.items()}
        speed = Target("ingest, speed by that of the append", spent["append"] / spent["ingest"], 0.5, at_least=True)
        return {f"ingest of {self.scale.rows:,} rows through {SHARDS} shards": (figures, [speed])}

    def fresh(self) -> dict[str, Measured]:
        """Reads with some rows replaced and not merged, in WALs or in fragments of shards."""
        changed = self._changed()
        path = str(self.directory / "changed")
        changed.write.option("compression", "zstd").parquet(path)
        found: dict[str, Measured] = {}
        for name, config in {
            "in WALs": ss.ShardWriterConfig(),
            "in fragments of shards": ss.ShardWriterConfig(enable_memtable=True, max_memtable_rows=20_000),
        }.items():
            place = self.directory / f"fresh-{next(self._numbers)}"
            shutil.copytree(self.table.uri.removeprefix("file://"), place)
            with ss.open(place, sync=False) as table:
                table.split_shards(SHARDS)
                ss.spark.ingest(changed, table, config=config)
                found[f"5 % of {self.scale.rows:,} rows replaced, {name}"] = self._compare_fresh(table, path, name)
            shutil.rmtree(place)
        return found

    def _compare_fresh(self, table: ss.Table, path: str, name: str) -> Measured:
        def ours() -> DataFrame:
            return ss.spark.read(self.spark, table, fresh=True)

        def joined() -> DataFrame:
            newer = self.spark.read.parquet(path)
            return self.native().join(newer.select("id"), "id", "left_anti").unionByName(newer)

        assert ours().where("weight = -1").count() == joined().where("weight = -1").count() > 0
        assert ours().selectExpr("count(id)").first() == joined().selectExpr("count(id)").first()
        readings = [
            Reading(f"full scan, {name}", 1.1, lambda: drain(ours()), lambda: drain(joined())),
            Reading(f"sum of one column, {name}", 1.1, lambda: total(ours()), lambda: total(joined())),
        ]
        return compare(readings, rounds=self.scale.rounds)

    def _changed(self) -> DataFrame:
        some = self.native().where(f"id % {round(1 / MASKED)} = 7")
        return some.selectExpr("id", "grp", "stars", "price", "-1D as weight", "text")

    def _ingest(self) -> float:
        path = self.directory / f"ingested-{next(self._numbers)}"
        with ss.create(path, schema=SCHEMA, key="id", shards=SHARDS, sync=False) as table:
            span = seconds(lambda: ss.spark.ingest(self.native(), table))
            assert sum(one.wal_end for one in table.shards()) > 0
            assert table.count(fresh=True) == self.scale.rows
        shutil.rmtree(path)
        return span
