"""Spark of other kinds than the session of this process: one through Spark Connect, and a cluster of two workers.

Each starts when a test first asks for it, once per test run. A process speaks to Spark in one way at a time: a test
asks for ``spark`` or for ``connect``, never for both.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import pytest
from pyspark.sql.connect.session import SparkSession as ConnectSession

import spark_cluster
import spark_cuts
from spark_cuts import INGEST, TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def connect_server() -> Iterator[spark_cluster.SparkConnect]:
    server = spark_cluster.SparkConnect()
    server.start()
    yield server
    server.close()


@pytest.fixture
def connect(connect_server: spark_cluster.SparkConnect, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """A Spark Connect session, new for each test, with its server in another process."""
    # What getOrCreate() would set, here for one test only: a classic session may run in this process as well.
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    made = ConnectSession.builder.remote(connect_server.uri).create()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def standalone() -> Iterator[spark_cluster.Cluster]:
    """A master and two workers with one core each, for drivers in processes of their own."""
    with spark_cluster.cluster(workers=2, cores=1) as made:
        yield made


@pytest.fixture(scope="session")
def cut_off(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> CutOff:
    """What a driver left that was killed with each of its jobs in the middle."""
    root = tmp_path_factory.mktemp("cut-off")
    points = ["append, after", TEXT, "task wrote", INGEST]
    # Its process commits wherever its tasks run, and a cluster starts slowly.
    place = {"master": "local[2]", "config": {}}
    if "SILTSTONE_TEST_SECONDS" in os.environ:
        points += ["before commit", "after commit", "append, before"]
        standalone = request.getfixturevalue("standalone")
        place = {"master": standalone.master, "config": standalone.settings | spark_cluster.AT_ONCE}
    return CutOff(root, points, spark_cuts.cut_off(root, points, **place))


class CutOff(NamedTuple):
    root: Path
    points: list[str]
    told: list[dict]

    def uri(self, point: str) -> str:
        return spark_cuts.table_of(self.root, point)
