"""Fixtures that every test may ask for. A server starts when a test first asks for it, once per session."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import siltstone
from places import Places
from services import Azurite, Etcd, MariaDB, Ministack, PostgreSQL, Redis, SeaweedFS, Services
from spark_classes import OPTIONS, QUICK, java_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


pytest_plugins = ["figures_plugin", "load_plugin"]

# How long one example takes is the machine's business.
settings.register_profile("siltstone", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("siltstone")

# Tests that start Spark: one process of several should run them all, one after another, where xdist's groups work
# (not with pytest 9.2, which does not let it change the ids of tests). A JVM and its workers take all cores
# there are, and two of them make each other wait for longer than Spark is patient.
SPARK = (
    "tests/spark/",
    "tests/pipeline/",
    "tests/cli/test_demo.py",
    "tests/cli/test_pipeline.py",
    "tests/test_readme.py",
    "tests/test_tutorial.py",
)


@pytest.hookimpl(tryfirst=True)  # before xdist's own, which reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(SPARK):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let the JVMs of a test come up quickly. What that takes is no part of the time that the test may take."""
    if OPTIONS not in os.environ and item.nodeid.startswith(SPARK) and starts_java(item):
        cache = getattr(item.config, "cache", None)  # which may be turned off
        os.environ[OPTIONS] = java_options(cache.mkdir("spark-classes")) if cache else QUICK
    return (yield)


def starts_java(item: pytest.Item) -> bool:
    """Whether a test of those above asks for a session, or starts a driver of its own."""
    asked = {"spark", "connect_server", "standalone", "cut_off"} & set(item.fixturenames)
    return bool(asked or item.get_closest_marker("slow")) or not item.nodeid.startswith(SPARK[:2])


@pytest.fixture(autouse=True)
def plain_interrupts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Ctrl-C as Python has it: a Spark session that an earlier test started in this process handles it otherwise."""
    if request.node.nodeid.startswith(SPARK) or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A classic session on two threads of this process's own JVM: one for all tests, whoever asks first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))  # workers import the faults that tests ask for
        made = siltstone.spark.session(master="local[2]", app="siltstone-tests")
    yield made
    made.stop()


@pytest.fixture(scope="session")
def services() -> Iterator[Services]:
    """All servers by name: ``services("redis")``."""
    started = Services()
    yield started
    started.close()


@pytest.fixture
def postgresql(services: Services) -> PostgreSQL:
    return services("postgresql")


@pytest.fixture
def mariadb(services: Services) -> MariaDB:
    return services("mariadb")


@pytest.fixture
def redis_server(services: Services) -> Redis:
    return services("redis")


@pytest.fixture
def etcd(services: Services) -> Etcd:
    return services("etcd")


@pytest.fixture
def dynamodb(services: Services) -> Ministack:
    return services("ministack")


@pytest.fixture
def ministack(services: Services) -> Ministack:
    return services("ministack")


@pytest.fixture
def seaweedfs(services: Services) -> SeaweedFS:
    return services("seaweedfs")


@pytest.fixture
def azurite(services: Services) -> Azurite:
    return services("azurite")


@pytest.fixture(scope="session")
def places(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """Fresh roots of every kind of store, and every kind of commit store: ``places.store("azurite")``."""
    found = Places(services, tmp_path_factory.mktemp("places"))
    yield found
    found.close()
