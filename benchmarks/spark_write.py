"""Writing on Spark, beside Spark's own writer of Parquet: appends, and upserts beside a join that rewrites all."""

from __future__ import annotations

import itertools
import shutil
from functools import partial
from typing import TYPE_CHECKING

from common import Target, alternate, seconds
from spark_read import MASKED, SCHEMA, Measured, Reads

import siltstone as ss

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

WARM = 1
ROUNDS = 3


class Writes(Reads):
    """The parts that write."""

    _numbers = itertools.count()

    def append(self) -> dict[str, Measured]:
        """All rows into a table of its own."""
        figures, targets = {}, []
        for key in (None, "id"):
            name = "append" if key is None else "append with a key"
            spent = self._compare(partial(self._append, key), lambda: self._parquet(self.native()))
            figures |= {f"{name}, {side}: s": span for side, span in spent.items()}
            targets.append(Target(f"{name}, ratio to Spark's own", spent["siltstone"] / spent["Spark"], 1.15))
        return {f"append of {self.scale.rows:,} rows": (figures, targets)}

    def upsert(self) -> dict[str, Measured]:
        """Some rows by their keys, beside a join of the same frames that is written as Parquet."""
        step = round(1 / MASKED)
        changed = (
            self.native().where(f"id % {step} = 7").selectExpr("id", "grp", "stars", "price", "-1D as weight", "text")
        )
        changed = changed.cache()
        count = changed.count()

        def rewrite() -> float:
            others = self.native().join(changed, "id", "left_anti")
            return self._parquet(others.unionByName(changed))

        spent = self._compare(lambda: self._upsert(changed, count), rewrite)
        changed.unpersist()
        figures = {f"upsert, {side}: s": span for side, span in spent.items()}
        ratio = spent["siltstone"] / spent["Spark"]
        return {
            f"upsert of {count:,} of {self.scale.rows:,} rows": (figures, [Target("upsert, ratio to a join", ratio, 2)])
        }

    def _compare(self, ours: Callable[[], float], natives: Callable[[], float]) -> dict[str, float]:
        works = {"siltstone": ours, "Spark": natives}
        alternate(WARM, works)
        return alternate(min(ROUNDS, self.scale.rounds), works)

    def _append(self, key: str | None) -> float:
        path = self.directory / f"appended-{next(self._numbers)}"
        with ss.create(path, schema=SCHEMA, key=key, sync=False) as table:
            span = seconds(lambda: ss.spark.append(self.native(), table))
            assert table.count() == self.scale.rows
        shutil.rmtree(path)
        return span

    def _upsert(self, changed: DataFrame, count: int) -> float:
        path = self.directory / f"upserted-{next(self._numbers)}"
        shutil.copytree(self.table.uri.removeprefix("file://"), path)
        with ss.open(path, sync=False) as table:
            span = seconds(lambda: ss.spark.upsert(changed, table))
            assert (table.count(), table.count("weight = -1")) == (self.scale.rows, count)
        shutil.rmtree(path)
        return span

    def _parquet(self, frame: DataFrame) -> float:
        path = self.directory / f"parquet-{next(self._numbers)}"
        span = seconds(lambda: frame.write.option("compression", "zstd").parquet(str(path)))
        shutil.rmtree(path)
        return span
