"""Lost answers, silent servers, forks and crowds: no answer is made up, and asking again is enough."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from siltstone.commit.connect import open_registry
from siltstone.commit.registry import Truncated
from siltstone.errors import ClosedError, UnavailableError
from siltstone.testing.registry_suite import chain

pytestmark = pytest.mark.services


def opened(deployment, port=None, **options):
    return open_registry(deployment.uri(port), **{**deployment.options, **options})


def test_claim__answer_cut_off_after_the_effect__unknown_then_own_claim(deployment, proxy):
    first, second, third = chain("lost", 3)
    with opened(deployment) as direct, opened(deployment, proxy.port) as registry:
        assert registry.claim(first) == first
        proxy.lose("cut")
        with pytest.raises(UnavailableError):
            registry.claim(second)
        assert proxy.lost.is_set()
        assert direct.lookup("lost", 1) == second
        assert registry.claim(second) == second
        assert registry.claim(third) == third
        assert direct.newest("lost") == third


def test_claim__answer_cut_off_and_place_taken__winner_is_the_other(deployment, proxy):
    first, second = chain("rivals", 2)
    rival = type(second)("rivals", 1, "f" * 64, first.digest, "rival")
    with opened(deployment) as direct, opened(deployment, proxy.port) as registry:
        assert registry.claim(first) == first
        assert direct.claim(rival) == rival
        proxy.lose("cut")
        with pytest.raises(UnavailableError):
            registry.claim(second)
        assert proxy.lost.is_set()
        assert registry.claim(second) == rival


def test_call__server_goes_silent__unavailable_in_time_then_reconnects(deployment, proxy):
    first, second = chain("silent", 2)
    with opened(deployment, proxy.port, timeout_s=1.0) as registry:
        assert registry.claim(first) == first
        proxy.lose("freeze")
        before = time.monotonic()
        with pytest.raises(UnavailableError):
            registry.claim(second)
        assert proxy.lost.is_set()
        assert time.monotonic() - before < 30  # a driver without a limit waits for minutes
        assert registry.claim(second) == second
        assert registry.lookup("silent", 0) == first


def test_open__server_stopped__unavailable_naming_it(deployment):
    port = deployment.server.port
    with opened(deployment) as registry:
        registry.identity()
        deployment.server.stop()
        try:
            for _ in range(2):
                with pytest.raises(UnavailableError) as raised:
                    registry.identity()
                assert f":{port}" in str(raised.value)
                assert raised.value.hint
        finally:
            deployment.server.start()


def test_handle__used_in_a_forked_child__child_and_parent_have_their_own_connections(deployment):
    with opened(deployment) as registry:
        use_on_both_sides_of_a_fork(registry)


def use_on_both_sides_of_a_fork(registry):
    claims = chain("forked", 4)
    assert registry.claim(claims[0]) == claims[0]
    parents = link_of(registry)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            good = registry.claim(claims[1]) == claims[1] and registry.lookup("forked", 0) == claims[0]
            own = link_of(registry) is not parents
            registry.close()
            status = 0 if good and own else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert link_of(registry) is parents
    assert registry.claim(claims[2]) == claims[2]
    assert registry.newest("forked") == claims[2]


def link_of(registry):
    links = registry._links
    return links.shared or links.local.link


LOCK_WAITS = {
    "postgresql": "SELECT count(*) FROM pg_locks WHERE NOT granted",
    "mysql": "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
}


@pytest.mark.parametrize("deployment", LOCK_WAITS, indirect=True)
def test_claim__range_is_being_raised__waits_and_is_truncated(deployment):
    claims = chain("raised", 4)
    rival = type(claims[1])("raised", 1, "f" * 64, claims[0].digest, "rival")
    with opened(deployment) as registry, opened(deployment) as other, ThreadPoolExecutor(1) as pool:
        for claim in claims:
            assert registry.claim(claim) == claim
        sql, execute, encode = other._sql, other._dialect.execute, other._dialect.encode
        raw = other._link().raw
        execute(raw, "BEGIN", ())
        execute(raw, sql.raise_range, (3, encode(claims[2].digest), encode("raised"), 3))
        execute(raw, sql.delete, (encode("raised"), 0, 3))
        answer = pool.submit(registry.claim, rival)
        deadline = time.monotonic() + 30
        # InnoDB refreshes the view only when nobody asked for a tenth of a second.
        while execute(raw, LOCK_WAITS[registry.kind], ()).rows == [(0,)] and time.monotonic() < deadline:
            time.sleep(0.15)
        assert not answer.done()
        execute(raw, "COMMIT", ())
        assert answer.result(30) == Truncated(3)
        assert registry.lookup("raised", 1) is None


def test_close__then_a_call__closed_error(deployment):
    registry = opened(deployment)
    registry.identity()
    registry.close()
    with pytest.raises(ClosedError):
        registry.identity()


def test_thread__ended__its_connection_is_closed(deployment):
    with opened(deployment) as registry:
        if registry.thread_safe_connection:
            registry.identity()
            one = registry._links.shared
            run_in_thread(registry.identity)
            assert registry._links.shared is one
            return
        registry.identity()
        run_in_thread(registry.identity)
        assert len(registry._links.every) == 1


def run_in_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()


def first_use(uri, options, gate, answers):
    registry = open_registry(uri, **options)
    gate.wait(60)
    answers.put((registry.identity(), registry.claim(chain("first use", 1)[0]).digest))


def test_open__many_processes_create_the_table_at_once__one_identity(deployment):
    together(deployment.uri(), deployment.options)


def test_open__many_processes_create_the_sqlite_file_at_once__one_identity(tmp_path):
    together(f"sqlite://{tmp_path / 'claims.db'}", {})


def together(uri, options):
    spawned = multiprocessing.get_context("spawn")
    gate, answers = spawned.Barrier(4), spawned.Queue()
    processes = [spawned.Process(target=first_use, args=(uri, options, gate, answers)) for _ in range(4)]
    for process in processes:
        process.start()
    found = [answers.get(timeout=90) for _ in processes]
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    assert len({identity for identity, _ in found}) == 1
    assert len({digest for _, digest in found}) == 1
