"""The lock's chain of claims, step by step, with time in the test's hand."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
import time

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
from siltstone.testing.script import Fault

URI = "s3://bkt/dataset"
SCOPE = f"lance:{digest(URI.encode())}"
DEADLINE_S = 30.0


@pytest.fixture
def sqlite_uri(tmp_path):
    return f"sqlite:///{tmp_path}/claims.db"


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


def until(condition):
    """Look again until it holds; how long that takes decides nothing but the time of the test."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, "what was waited for did not come"
        time.sleep(0.01)


def test_turn__renewal_with_a_lost_answer__is_found_on_leaving(service):
    registry = registry_on(service)
    turn = commit_lock(registry, dataset=URI, takeover_after_s=0.06, env=manual_env(patience_s=0))(5)
    turn.__enter__()
    registry.on("claim", Fault.LOSE, times=2)  # all tries of a renewal, which ends renewing
    until(lambda: not turn._renewer.is_alive())

    turn.__exit__(None, None, None)

    *holds, last = states(service)
    assert (set(holds), last) == ({"hold"}, "free")
    assert len(holds) > 1


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


def test_lock__relative_path_pickled_while_held__worker_in_another_directory_sees_the_hold(tmp_path, monkeypatch):
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.chdir(tmp_path)
    lock = commit_lock("sqlite:claims.db", dataset=URI)
    (there / "lock").write_bytes(pickle.dumps(lock))
    script = (
        "import pickle, pathlib\n"
        "lock = pickle.loads(pathlib.Path('lock').read_bytes())\n"
        "print(lock.registry.newest({scope!r}).value.split()[0])\n"
    )
    with lock(1):
        command = [sys.executable, "-c", script.format(scope=SCOPE)]
        done = subprocess.run(command, cwd=there, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "hold\n"
    assert [path.name for path in there.iterdir()] == ["lock"]


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


@pytest.mark.parametrize("written", ["s3a://lake/x", "s3://lake//x", "S3://lake/x/", "s3://lake/x"])
def test_commit_lock__one_dataset_written_otherwise__is_the_same_lock(written):
    registry = registry_on(MemoryService())
    assert commit_lock(registry, dataset=written).dataset == commit_lock(registry, dataset="s3://lake/x").dataset
    assert commit_lock(registry, dataset="s3://lake/X").dataset != "s3://lake/x"
