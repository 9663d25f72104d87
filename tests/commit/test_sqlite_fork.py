"""SQLite and ``os.fork()``: a child whose parent had a connection open decides nothing and damages nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings

import pytest

import siltstone
from siltstone.commit.connect import open_registry
from siltstone.errors import ForkedError
from siltstone.lance import commit_lock
from siltstone.testing.registry_suite import chain

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

DEADLINE_S = 60


class Child:
    """A forked copy of this process that waits to be let go, then says whether ``use`` raised ForkedError."""

    def __init__(self, use):
        self._gate, self._go = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if self._pid == 0:
            status = 3
            try:
                os.close(self._go)  # a parent that ends without a word lets go too
                os.read(self._gate, 1)
                use()
                status = 1
            except ForkedError as error:
                status = 0 if "spawn" in error.hint else 2
            finally:
                os._exit(status)

    def was_told(self):
        os.write(self._go, b"g")
        status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        os.close(self._gate)
        os.close(self._go)
        return status == 0


def elsewhere(script, *arguments):
    """What a fresh interpreter prints."""
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=True).stdout


THIRD = """
    import sys
    from siltstone.commit.connect import open_registry
    from siltstone.testing.registry_suite import chain
    with open_registry(sys.argv[1]) as registry:
        claims = chain("forked", 3)
        assert [registry.lookup("forked", n) for n in range(3)] == [claims[0], None, None]
        assert [registry.claim(claim) for claim in claims] == claims
"""


@pytest.mark.parametrize("handle", ["the parent's", "a copy of the child's own"])
def test_claim__parent_closes_then_forked_child_claims__child_is_told_and_others_decide(tmp_path, handle):
    uri = f"sqlite://{tmp_path}/claims.db"
    claims = chain("forked", 3)
    registry = open_registry(uri)
    assert registry.claim(claims[0]) == claims[0]
    used = {"the parent's": lambda: registry, "a copy of the child's own": lambda: open_registry(uri)}[handle]
    child = Child(lambda: used().claim(claims[1]))
    registry.close()
    assert child.was_told()
    elsewhere(THIRD, uri)
    with open_registry(uri) as again:
        assert again.newest("forked") == claims[2]


def test_claim__parent_still_has_its_connection__child_is_told_and_the_parent_goes_on(tmp_path):
    claims = chain("forked", 2)
    with open_registry(f"sqlite://{tmp_path}/claims.db") as registry:
        registry.claim(claims[0])
        child = Child(lambda: registry.lookup("forked", 0))
        grandchild = Child(lambda: Child(lambda: registry.lookup("forked", 0)).was_told() and registry.identity())
        assert [child.was_told(), grandchild.was_told()] == [True, True]
        assert registry.claim(claims[1]) == claims[1]


def test_commit_lock__used_before_the_fork__child_never_gets_inside(tmp_path):
    lock = commit_lock(f"sqlite://{tmp_path}/claims.db", dataset="s3://lake/reviews")
    with lock(1):
        pass

    def enter():
        with lock(2):
            pass

    child = Child(enter)
    lock.registry.close()
    assert child.was_told()


def test_add__log_opened_again_in_a_forked_child__acknowledges_nothing(tmp_path):
    uri = f"sqlite://{tmp_path}/claims.db"
    log = siltstone.open_log(tmp_path / "log", commits=uri, create=True)
    log.add(b"parent")
    child = Child(lambda: siltstone.open_log(tmp_path / "log", commits=uri).add(b"child"))
    log.close()
    assert child.was_told()
    with siltstone.open_log(tmp_path / "log", commits=uri) as again:
        again.add(b"after")
        assert [entry.body for entry in again.entries()] == [b"parent", b"after"]


def test_claim__parent_never_opened_sqlite_or_closed_it__child_decides(tmp_path):
    script = """
        import os, sys
        from siltstone.commit.connect import open_registry
        from siltstone.testing.registry_suite import chain
        registry = open_registry(sys.argv[1])
        claims = chain("forked", 2)
        for claim in claims:
            child = os.fork()
            if child == 0:
                os._exit(0 if registry.claim(claim) == claim else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            with open_registry(sys.argv[1]) as own:
                assert own.newest("forked") == claim
        print("decided", registry.newest("forked").position)
    """
    assert elsewhere(script, f"sqlite://{tmp_path}/claims.db") == "decided 1\n"


def test_fork__child_ends_like_any_program__inherited_connection_is_not_closed_in_its_name(tmp_path):
    # The last one to close a database in SQLite's write-ahead mode removes the -wal file: here nobody may.
    script = """
        import os, sys
        from siltstone.commit.connect import open_registry
        registry = open_registry(sys.argv[1])
        registry.identity()
        gone, parent = os.pipe()
        if os.fork():
            os._exit(0)
        os.close(parent)
        os.read(gone, 1)  # ends with the parent
        print("child ends")
    """
    assert elsewhere(script, f"sqlite://{tmp_path}/claims.db") == "child ends\n"
    assert (tmp_path / "claims.db-wal").exists()
