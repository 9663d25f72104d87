"""Lance writers behind the lock: real processes, a store that lies."""

from __future__ import annotations

import base64
import contextlib
import json
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import figures
from siltstone.commit.connect import open_registry
from siltstone.format.frame import digest
from siltstone.lance import commit_lock, parse_record
from siltstone.testing.registries import FaultRegistry
from siltstone.testing.s3server import Faults, FaultServer

WORKER = Path(__file__).with_name("lance_worker.py")
URI = "s3://bkt/dataset"
SCOPE = f"lance:{digest(URI.encode())}"
MANIFESTS = "/_versions/"
DEADLINE_S = 30.0


class Writer:
    """A process that appends rows, from the moment it is told to."""

    def __init__(self, server, *, name, rows, lock, uri=URI) -> None:
        packed = base64.b64encode(pickle.dumps(lock)).decode() if lock else ""
        options = server.storage_options
        self.name = name
        job = {"uri": uri, "storage_options": options, "writer": name, "rows": rows, "lock": packed}
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def go(self):
        assert self.process.stdout.readline() == "ready\n"
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self

    def results(self) -> list[dict]:
        output, _ = self.process.communicate(timeout=120)
        return [json.loads(line) for line in output.splitlines()]

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def make_dataset(server, uri=URI):
    lance.write_dataset(row("maker", 0), uri, storage_options=server.storage_options)


def row(writer, number):
    return pa.table({"writer": [writer], "number": [number]})


def append(server, lock, writer, number=0):
    lance.write_dataset(
        row(writer, number), URI, mode="append", storage_options=server.storage_options, commit_lock=lock
    )


def kept_rows(server, uri=URI) -> list[tuple[str, int]]:
    table = lance.dataset(uri, storage_options=server.storage_options).to_table()
    pairs = zip(table["writer"].to_pylist(), table["number"].to_pylist(), strict=True)
    return sorted(pair for pair in pairs if pair[0] != "maker")


def run_eight(server, *, lock, uri, rows=6):
    """Eight processes append at once; with no lock, all their first manifests wait for each other."""
    make_dataset(server, uri)
    with contextlib.ExitStack() as stack:
        names = [f"w{number}" for number in range(8)]
        writers = [stack.enter_context(Writer(server, name=n, rows=rows, lock=lock, uri=uri)) for n in names]
        if lock is None:
            server.set(hold=MANIFESTS)
        for writer in writers:
            writer.go()
        if lock is None:
            server.wait_held(8, timeout_s=DEADLINE_S)
            server.set(hold="")
            server.release()
        results = [(writer.name, result) for writer in writers for result in writer.results()]
    failed = [result["error"] for _, result in results if result["error"]]
    return sorted((name, result["number"]) for name, result in results if not result["error"]), failed


@pytest.fixture
def sqlite_uri(tmp_path):
    return f"sqlite:///{tmp_path}/claims.db"


@pytest.fixture
def lying():
    with FaultServer(Faults(lie="always")) as server:
        yield server


@pytest.mark.slow
@pytest.mark.services
@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "redis"])
def test_write_dataset__eight_processes_on_a_store_that_lies__keeps_every_row(kind, lying, sqlite_uri, services):
    plain_acknowledged, _ = run_eight(lying, lock=None, uri="s3://bkt/plain", rows=1)
    assert len(plain_acknowledged) == 8
    assert len(kept_rows(lying, "s3://bkt/plain")) < 8  # what the lock is for: acknowledged rows are gone

    commits = sqlite_uri if kind == "sqlite" else services(kind).commits_uri
    lock = commit_lock(commits, dataset=f"{lying.endpoint}/bkt/dataset")
    acknowledged, failed = run_eight(lying, lock=lock, uri=URI)

    assert failed == []
    assert len(acknowledged) == 48
    assert kept_rows(lying) == acknowledged


def test_write_dataset__threads_of_one_process__keep_every_row(lying, sqlite_uri):
    make_dataset(lying)
    lock = commit_lock(sqlite_uri, dataset=URI)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda n: append(lying, lock, "thread", n), range(18)))

    assert kept_rows(lying) == [("thread", n) for n in range(18)]


def test_write_dataset__holder_killed_inside__is_passed_over(lying, sqlite_uri):
    make_dataset(lying)
    lying.set(hold=MANIFESTS)
    lock = commit_lock(sqlite_uri, dataset=URI, takeover_after_s=1)
    with Writer(lying, name="killed", rows=1, lock=lock) as killed:
        killed.go()
        lying.wait_held(timeout_s=DEADLINE_S)
        killed.process.send_signal(signal.SIGKILL)
        killed.process.wait()
        figures.record("kills")
        lying.set(hold="")

        append(lying, lock, "next")
        append(lying, lock, "next", 1)

    assert kept_rows(lying) == [("next", 0), ("next", 1)]
    assert parse_record(open_registry(sqlite_uri).newest(SCOPE)).state == "free"


def test_write_dataset__holder_stalled_past_the_takeover__gets_an_error(lying, sqlite_uri):
    make_dataset(lying)
    lying.set(hold=MANIFESTS)
    lock = commit_lock(sqlite_uri, dataset=URI, takeover_after_s=1)
    with Writer(lying, name="stalled", rows=1, lock=lock) as stalled:
        stalled.go()
        lying.wait_held(timeout_s=DEADLINE_S)
        stalled.process.send_signal(signal.SIGSTOP)
        lying.set(hold="")

        append(lying, lock, "next")

        stalled.process.send_signal(signal.SIGCONT)
        lying.release()
        [result] = stalled.results()

    assert "CommitUnknownError" in result["error"]
    assert "taken over by one that wants version 2" in result["error"]


def test_write_dataset__store_slower_than_the_takeover__holder_keeps_its_turn(lying, sqlite_uri):
    make_dataset(lying)
    lying.set(hold=MANIFESTS)
    lock = commit_lock(sqlite_uri, dataset=URI, takeover_after_s=1.5)
    registry = open_registry(sqlite_uri)
    with Writer(lying, name="slow", rows=1, lock=lock) as slow, Writer(lying, name="next", rows=1, lock=lock) as other:
        slow.go()
        lying.wait_held(timeout_s=DEADLINE_S)
        holder = parse_record(registry.newest(SCOPE)).nonce
        other.go()
        until(lambda: parse_record(registry.newest(SCOPE)).renewal >= 4)  # longer than the takeover time
        assert parse_record(registry.newest(SCOPE)).nonce == holder
        assert len(lying.stats().held) == 1

        lying.set(hold="")
        lying.release()
        results = slow.results() + other.results()

    assert [result["error"] for result in results] == ["", ""]
    assert kept_rows(lying) == [("next", 0), ("slow", 0)]


def until(condition):
    """Look again until it holds; how long that takes decides nothing but the time of the test."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, "what was waited for did not come"
        time.sleep(0.01)


def test_write_dataset__commit_fails__frees_the_lock(lying, sqlite_uri):
    make_dataset(lying)
    registry = FaultRegistry(open_registry(sqlite_uri))
    lock = commit_lock(registry, dataset=URI)
    registry.after("claim", lambda: lying.set(deny=("put",)))  # the data is written; its manifest is refused

    with pytest.raises(OSError, match="privileges"):
        append(lying, lock, "refused")
    assert parse_record(registry.newest(SCOPE)).state == "free"
    lying.set(deny=())
    append(lying, lock, "next")

    assert kept_rows(lying) == [("next", 0)]


def test_write_dataset__another_was_first__goes_behind_it(lying, sqlite_uri):
    make_dataset(lying)
    registry = FaultRegistry(open_registry(sqlite_uri))

    def append_first():
        # Lance refuses to start inside of its own call, so it is another process that gets in between.
        with Writer(lying, name="first", rows=1, lock=commit_lock(sqlite_uri, dataset=URI)) as writer:
            assert writer.go().results() == [{"number": 0, "error": ""}]

    registry.before("newest", append_first)
    append(lying, commit_lock(registry, dataset=URI), "second")

    assert kept_rows(lying) == [("first", 0), ("second", 0)]
