"""The load of ``tests/shard/test_load.py``, which runs beside all other tests, and its test, which comes last.

What must hold:
- It is started once in a session that has its test, by the process that is there from the beginning to the end: the
  only one, or the one that starts xdist's workers.
- It ends with that process, whatever ends it: its input ends then.
- The process that runs the test finds it by the id of the run.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import tempfile
import uuid
from pathlib import Path

import pytest

import crowd

TEST = "tests/shard/test_load.py::"
WORKER = Path(__file__).parent / "shard" / "load_run.py"
# The first is for trying it out; the second is the soak's.
SECONDS = float(os.environ.get("SILTSTONE_LOAD_SECONDS") or os.environ.get("SILTSTONE_TEST_SECONDS") or 600)
STOP_SECONDS_MAX = 60
HOME = pytest.StashKey[Path]()
RUNNING = pytest.StashKey[subprocess.Popen]()


def home_of(run: str) -> Path:
    """Where the load of a test run keeps everything."""
    return Path(tempfile.gettempdir()) / f"silt-load-{run}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.nodeid.startswith(TEST))


def pytest_collection_finish(session: pytest.Session) -> None:
    config = session.config
    if hasattr(config, "workerinput"):
        config.stash[HOME] = home_of(config.workerinput["testrunuid"])
    elif not config.option.collectonly:
        start(config, uuid.uuid4().hex, [item.nodeid for item in session.items])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node, ids: list[str]) -> None:
    start(node.config, node.workerinput["testrunuid"], ids)


def start(config: pytest.Config, run: str, ids: list[str]) -> None:
    """Start it where its test will be run and it was not started yet."""
    if RUNNING in config.stash or not any(one.startswith(TEST) for one in ids):
        return
    home = home_of(run)
    home.mkdir()
    (home / "output").touch()
    with (home / "alive").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the load has it from now on: the test sees by it that there is one
        job = {"home": str(home), "seconds": SECONDS, "seed": run, "lock": lock.fileno()}
        # A group of its own: an interrupt at the terminal is for the tests.
        process = crowd.start(job, worker=WORKER, pass_fds=[lock.fileno()], start_new_session=True)
    config.stash[HOME], config.stash[RUNNING] = home, process


def pytest_unconfigure(config: pytest.Config) -> None:
    process = config.stash.get(RUNNING, None)
    if process is None:
        return
    process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS_MAX)
    process.kill()
    process.wait()
    process.stdout.close()
