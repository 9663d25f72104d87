from __future__ import annotations

import base64
import contextlib
import itertools
import json
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pyarrow
import pytest

from siltstone.commit.connect import open_registry
from siltstone.commit.memory import MemoryRegistry, MemoryService
from siltstone.commit.registry import Claim
from siltstone.env import REAL
from siltstone.errors import (
    CommitStoreBehindError,
    CommitUnknownError,
    CorruptionError,
    InvalidInputError,
    UnavailableError,
)
from siltstone.format.frame import digest
from siltstone.ids import SystemIds
from siltstone.lance import KEPT_CLAIMS, TRUNCATE_EVERY, commit_lock, parse_record
from siltstone.testing.manual import manual_env
from siltstone.testing.registries import FaultRegistry
from siltstone.testing.s3server import FaultServer, Faults
from siltstone.testing.script import Fault

WORKER = Path(__file__).with_name("lance_worker.py")
URI = "s3://bkt/dataset"
SCOPE = f"lance:{digest(URI.encode())}"
MANIFESTS = "/_versions/"
DEADLINE_S = 30.0


# -- real writers --------------------------------------------------------------------------------


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
    return pyarrow.table({"writer": [writer], "number": [number]})


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
    lock = commit_lock(sqlite_uri, dataset=URI, takeover_after_s=0.5)
    registry = open_registry(sqlite_uri)
    with Writer(lying, name="slow", rows=1, lock=lock) as slow, Writer(lying, name="next", rows=1, lock=lock) as other:
        slow.go()
        lying.wait_held(timeout_s=DEADLINE_S)
        holder = parse_record(registry.newest(SCOPE)).nonce
        other.go()
        until(lambda: parse_record(registry.newest(SCOPE)).renewal >= 6)  # two takeover times
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


# -- the chain, step by step ---------------------------------------------------------------------


@pytest.fixture
def service():
    return MemoryService()


def registry_on(service):
    return FaultRegistry(MemoryRegistry(service, ids=SystemIds()))


def lock_on(registry, **options):
    return commit_lock(registry, dataset=URI, **({"env": manual_env(next(seeds))} | options))


seeds = itertools.count()


def states(service) -> list[str]:
    claims = service.claims[SCOPE]
    return [parse_record(claims[position]).state for position in sorted(claims)]


def test_turn__one_after_the_other__hold_and_free(service):
    for version in (1, 2, 2):
        with lock_on(registry_on(service))(version):
            assert states(service)[-1] == "hold"
    assert states(service) == ["hold", "free"] * 3


def test_turn__held_by_another__waits_until_it_is_free(service):
    first = lock_on(registry_on(service))(5)
    second = registry_on(service)
    first.__enter__()
    second.after("newest", lambda: second.after("newest", lambda: first.__exit__(None, None, None)))

    with lock_on(second)(5):
        assert states(service) == ["hold", "free", "hold"]


def test_turn__two_at_a_free_lock__one_gets_it(service):
    first, second = lock_on(registry_on(service))(5), registry_on(service)
    second.before("claim", first.__enter__)  # between looking and taking

    with pytest.raises(UnavailableError, match="got no turn within 59"):
        lock_on(second, takeover_after_s=58, patience_s=59)(5).__enter__()

    assert states(service) == ["hold"]


def test_turn__same_hold_seen_for_the_takeover_time__is_passed_over(service):
    dead = lock_on(registry_on(service), takeover_after_s=60)(5)
    dead.__enter__()
    env = manual_env()

    with lock_on(registry_on(service), takeover_after_s=1, env=env)(5):
        # The hold says how long it is good for, not the one who waits.
        assert 60 <= env.clock.monotonic() < 61

    assert states(service) == ["hold", "hold", "free"]


def test_turn__passed_over__raises_on_leaving(service):
    stalled = lock_on(registry_on(service))(5)
    stalled.__enter__()
    with lock_on(registry_on(service))(5):
        pass

    with pytest.raises(CommitUnknownError, match="whose commit version 5 of s3://bkt/dataset is"):
        stalled.__exit__(None, None, None)


def test_turn__passed_over_and_long_forgotten__raises_on_leaving(service):
    stalled = lock_on(registry_on(service))(5)
    stalled.__enter__()
    lock = lock_on(registry_on(service))
    for version in range(KEPT_CLAIMS + TRUNCATE_EVERY):
        with lock(version):
            pass
    assert 0 not in service.claims[SCOPE]

    with pytest.raises(CommitUnknownError):
        stalled.__exit__(None, None, None)


@pytest.mark.parametrize("verb", ["newest", "claim"])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("fault", [Fault.LOSE, Fault.REFUSE])
def test_turn__answer_of_the_registry_lost__is_taken_once(service, verb, nth, fault):
    registry = registry_on(service)
    registry.on(verb, fault, nth=nth, times=3)

    for version in (1, 2):
        with lock_on(registry)(version):
            pass

    assert states(service) == ["hold", "free"] * 2


def test_turn__renewal_with_a_lost_answer__is_found_on_leaving(service):
    registry = registry_on(service)
    turn = commit_lock(registry, dataset=URI, takeover_after_s=0.06, env=manual_env(patience_s=0))(5)
    turn.__enter__()
    registry.on("claim", Fault.LOSE, times=2)  # all tries of the first renewal
    until(lambda: len(service.claims[SCOPE]) == 2 and not turn._renewer.is_alive())

    turn.__exit__(None, None, None)

    assert states(service) == ["hold", "hold", "free"]


def test_turn__registry_gone_on_leaving_in_time__result_stands_and_the_next_waits(service):
    registry = registry_on(service)
    turn = lock_on(registry)(5)
    turn.__enter__()
    registry.on("claim", Fault.REFUSE, times=10_000)

    turn.__exit__(None, None, None)
    with lock_on(registry_on(service))(6):
        pass

    assert states(service) == ["hold", "hold", "free"]


def test_turn__registry_gone_on_leaving_too_late__raises(service):
    registry = registry_on(service)
    env = manual_env()
    turn = lock_on(registry, env=env)(5)
    turn.__enter__()
    registry.on("claim", Fault.REFUSE, times=10_000)
    env.clock.advance(61)

    with pytest.raises(CommitUnknownError, match="can't be asked"):
        turn.__exit__(None, None, None)


def test_turn__registry_emptied_while_held__raises_on_leaving(service):
    turn = lock_on(registry_on(service))(5)
    turn.__enter__()
    service.empty()

    with pytest.raises(CommitStoreBehindError, match="lost claims of the lock"):
        turn.__exit__(None, None, None)


def test_turn__claim_of_another_kind_in_the_chain__is_refused(service):
    registry = registry_on(service)
    registry.claim(Claim(SCOPE, 0, digest(b""), "", "hold 5 by-someone"))

    with pytest.raises(CorruptionError, match="claim 0"):
        lock_on(registry)(5).__enter__()


def test_turn__hundreds_of_them__old_claims_go_and_the_chain_goes_on(sqlite_uri):
    registry = open_registry(sqlite_uri)
    lock = commit_lock(registry, dataset=URI)
    for version in range(150):
        with lock(version):
            pass

    assert registry.newest(SCOPE).position == 299
    assert registry.lookup(SCOPE, 299 - KEPT_CLAIMS - TRUNCATE_EVERY - 2) is None
    assert registry.lookup(SCOPE, 299 - KEPT_CLAIMS + 1) is not None


def test_lock__pickled__is_the_same_lock(sqlite_uri):
    lock = commit_lock(sqlite_uri, dataset=URI, takeover_after_s=7, patience_s=70)
    copy = pickle.loads(pickle.dumps(lock))
    registry = open_registry(sqlite_uri)

    with copy(3):
        held = parse_record(registry.newest(SCOPE))
    assert (held.state, held.version, held.takeover_ms) == ("hold", 3, 7000)
    assert (copy.dataset, copy.patience_s) == (URI, 70)


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": ""}, "must name the dataset"),
        ({"dataset": 7}, "must name the dataset"),
        ({"dataset": "s3://key:secret@bkt/d"}, "password or a query"),
        ({"dataset": "az://c/d?sig=abc"}, "password or a query"),
        ({"takeover_after_s": 0}, "takeover_after_s must be a number"),
        ({"takeover_after_s": True}, "takeover_after_s must be a number"),
        ({"takeover_after_s": float("nan")}, "takeover_after_s must be a number"),
        ({"patience_s": "long"}, "patience_s must be a number"),
        ({"patience_s": 60, "takeover_after_s": 60}, "nobody would wait"),
    ],
)
def test_commit_lock__wrong_argument__is_refused(options, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        commit_lock("memory://lance", **({"dataset": URI} | options))
    assert "secret" not in str(caught.value)
    assert "abc" not in str(caught.value)


def test_commit_lock__two_spellings_of_a_directory__are_one_lock(service):
    registry = registry_on(service)
    with commit_lock(registry, dataset=URI + "/", env=REAL)(1):
        assert states(service) == ["hold"]


def test_commit_lock__lance_not_installed__says_what_to_install():
    code = (
        "import sys\n"
        "import importlib.util, siltstone.lance\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name == 'lance' else found(name)\n"
        "try: siltstone.lance.commit_lock('memory://x', dataset='d')\n"
        "except siltstone.errors.MissingDependencyError as error: print(error)\n"
        "print('lance' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Lance is not installed (pip install 'siltstone[lance]')\nFalse\n"
