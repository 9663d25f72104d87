"""Reading on Spark, beside Spark's own reader of Parquet files with the same rows, in the same session.

What must hold: both sides read the same rows, and answer the same; Spark's own files were written by Spark, by zstd.
"""

from __future__ import annotations

import sys
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from common import Target, alternate, seconds

import siltstone as ss

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("grp", pa.int32()),
        ("stars", pa.int32()),
        ("price", pa.float64()),
        ("weight", pa.float64()),
        ("text", pa.string()),
    ]
)
ROWS_AN_APPEND = 1_000_000
WORDS = 20_000
WORDS_A_TEXT = 8
MASKED = 0.05
FIRST = 1_000
MASTER = "local[2]"

Measured = tuple[dict[str, float], list[Target]]


class Scale(NamedTuple):
    """How much is done."""

    rows: int = 5_000_000
    rounds: int = 7


QUICK = Scale(rows=500_000, rounds=3)


def make_rows(start: int, count: int) -> pa.Table:
    """Rows of consecutive keys, with numbers and a text of some words each."""
    rng = np.random.default_rng(start)
    words = pa.array([f"w{number:x}" for number in rng.integers(0, 16**5, WORDS)])
    chosen = words.take(pa.array(rng.integers(0, WORDS, count * WORDS_A_TEXT)))
    offsets = np.arange(0, (count + 1) * WORDS_A_TEXT, WORDS_A_TEXT, dtype=np.int32)
    texts = pa.compute.binary_join(pa.ListArray.from_arrays(pa.array(offsets), chosen), " ")
    columns = [
        pa.array(np.arange(start, start + count)),
        pa.array(rng.integers(0, 1000, count), pa.int32()),
        pa.array(rng.integers(1, 6, count), pa.int32()),
        pa.array(np.round(rng.random(count) * 100, 2)),
        pa.array(rng.random(count)),
        texts,
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def fill(uri: str, *, rows: int, storage_options: dict[str, str] | None = None) -> ss.Table:
    """A table of these rows."""
    table = ss.create(uri, schema=SCHEMA, key="id", storage_options=storage_options, sync=False)
    for start in range(0, rows, ROWS_AN_APPEND):
        table.append(make_rows(start, min(ROWS_AN_APPEND, rows - start)))
    return table


# -- what is asked of a frame ----------------------------------------------------------------------


def drain(frame: DataFrame) -> None:
    """Read all columns of all rows, and keep nothing."""
    frame.write.format("noop").mode("overwrite").save()


def total(frame: DataFrame) -> object:
    return frame.groupBy().sum("price").collect()


def count(frame: DataFrame) -> object:
    return frame.count()


class Reading(NamedTuple):
    """One question: how it is put to a table and to Spark's own reader, and how many times longer it may take.

    Without a bound it is only told.
    """

    name: str
    bound: float | None
    ours: Callable[[], object]
    natives: Callable[[], object]


def compare(readings: list[Reading], *, rounds: int) -> Measured:
    """Seconds of each, and the ratios."""
    figures: dict[str, float] = {}
    targets = []
    for one in readings:
        ours, natives = partial(seconds, one.ours), partial(seconds, one.natives)
        alternate(2, {"": ours, "Spark": natives})  # the JVM compiles what it runs often
        found = alternate(rounds, {"siltstone": ours, "Spark": natives})
        figures |= {f"{one.name}, {side}: s": span for side, span in found.items()}
        ratio = found["siltstone"] / found["Spark"]
        figures[f"{one.name}, ratio"] = ratio
        if one.bound is not None:
            targets.append(Target(f"{one.name}, ratio to Spark's own", ratio, one.bound))
    return figures, targets


class Reads:
    """The parts of the benchmark. What two of them need is made once, by the first."""

    def __init__(self, directory: Path, scale: Scale) -> None:
        self.directory = directory
        self.scale = scale

    def run(self, name: str) -> dict[str, Measured]:
        """The figures and targets of one part, by what they are called."""
        return getattr(self, name)()  # type: ignore[no-any-return]

    @cached_property
    def spark(self) -> SparkSession:
        return ss.spark.session(master=MASTER, app="siltstone-bench")

    @cached_property
    def table(self) -> ss.Table:
        return fill(str(self.directory / "ours"), rows=self.scale.rows)

    @cached_property
    def parquet(self) -> str:
        path = str(self.directory / "parquet")
        rows = ss.spark.read(self.spark, self.table)
        rows.write.option("compression", "zstd").parquet(path)
        return path

    def native(self) -> DataFrame:
        return self.spark.read.parquet(self.parquet)

    def near(self) -> dict[str, Measured]:
        """A table on a disk."""
        read = partial(ss.spark.read, self.spark, self.table)
        first = f"id < {FIRST}"
        native = self.native
        assert read(where=first).count() == native().where(first).count() == min(FIRST, self.scale.rows)
        readings = [
            Reading("full scan", 1.15, lambda: drain(read()), lambda: drain(native())),
            Reading("sum of one column", 1.15, lambda: total(read()), lambda: total(native())),
            Reading("count", 1.0, lambda: read().count(), lambda: native().count()),
            Reading(first, 1.0, lambda: read(where=first).collect(), lambda: native().where(first).collect()),
        ]
        return {f"{self.scale.rows:,} rows on a disk": compare(readings, rounds=self.scale.rounds)}

    def far(self) -> dict[str, Measured]:
        """A table on S3, which Spark's own reader has on a disk."""
        from services import Services  # noqa: PLC0415 - drivers of all servers; worker processes need none of them

        services = Services()
        try:
            service = services("seaweedfs")
            uri = f"{service.bucket_uri}/spark"
            with fill(uri, rows=self.scale.rows, storage_options=service.storage_options) as table:
                read = partial(ss.spark.read, self.spark, table)
                native = self.native
                readings = [
                    Reading("full scan from S3", 1.4, lambda: drain(read()), lambda: drain(native())),
                    Reading("sum of one column from S3", 2.3, lambda: total(read(["price"])), lambda: total(native())),
                    Reading("count from S3", 1.0, lambda: read().count(), lambda: native().count()),
                ]
                return {f"{self.scale.rows:,} rows on S3": compare(readings, rounds=self.scale.rounds)}
        finally:
            services.close()

    def masked(self) -> dict[str, Measured]:
        """A table in which some rows are gone, beside itself before they went."""
        before = self.table.version
        step = round(1 / MASKED)
        self.table.delete(f"id % {step} = 3")
        gone = len(range(3, self.scale.rows, step))
        spark, table = self.spark, self.table
        try:
            whole = partial(ss.spark.read, spark, table, version=before)
            left = partial(ss.spark.read, spark, table)
            assert left().selectExpr("count(id)").collect()[0][0] == self.scale.rows - gone
            readings = [
                Reading("full scan, masked", 1.4, lambda: drain(left()), lambda: drain(whole())),
                Reading("sum of one column, masked", None, lambda: total(left()), lambda: total(whole())),
            ]
            return {"5 % of the rows masked, beside none": compare(readings, rounds=self.scale.rounds)}
        finally:
            table.restore(version=before)
