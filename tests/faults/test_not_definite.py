"""An effect that took place is never reported as refused for good: the caller would run the operation again."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from siltstone.errors import CommitUnknownError, SiltstoneError, StoreFullError, UnavailableError
from siltstone.log import open_log
from siltstone.store.connect import open_store
from siltstone.store.local import LocalStore
from siltstone.testing.manual import manual_env
from siltstone.testing.peek import bodies
from siltstone.testing.s3server import Faults
from worlds import attempt

OP = "ab" * 16
# What the same call would mean before the effect: full, not allowed, a wrong name.
DEFINITE = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.ENOENT)


class Directories:
    """Lets so many syncs of a directory fail."""

    def __init__(self, monkeypatch) -> None:
        self.code = self.left = 0
        self._sync = os.fsync
        monkeypatch.setattr(os, "fsync", self)

    def fail(self, code: int, *, times: int = 10**9) -> None:
        self.code, self.left = code, times

    def __call__(self, file: int) -> None:
        if self.left and stat.S_ISDIR(os.fstat(file).st_mode):
            self.left -= 1
            raise OSError(self.code, os.strerror(self.code))
        self._sync(file)


@pytest.fixture
def directories(monkeypatch) -> Directories:
    return Directories(monkeypatch)


# -- a server that answers 500 after the effect, and then something definite ---------------------------


@pytest.mark.parametrize("status", [403, 404, 507])
def test_append__done_and_answered_500_then_refused__is_unknown_or_done(places, status):
    server = places.fault_server()
    log = open_log(
        "s3://bkt/log", create=True, probe=False, storage_options=server.storage_options, env=manual_env(patience_s=5)
    )
    mark = log.add(b"zero")
    server.set(
        Faults(
            lose_answer_match="entries/",
            lose_answer_max=1,
            status_after_effect=500,
            fail_match="entries/",
            fail_every=2,
            fail_max=1,
            fail_status=status,
        )
    )
    told = attempt(lambda: log.append(b"one", after=mark, op=OP))
    assert isinstance(told, CommitUnknownError) or not isinstance(told, SiltstoneError)
    server.set(Faults())
    end = log.add(b"one", op=OP)
    assert end.position == 2
    assert bodies(log) == [b"zero", b"one"]


@pytest.mark.parametrize("status", [0, 500, 503])
def test_create__answer_lost_after_the_effect__was_sent_once(places, status):
    server = places.fault_server(Faults(lose_answer_match="object", lose_answer_max=1, status_after_effect=status))
    store = open_store("s3://bkt/x", server.storage_options)
    with pytest.raises(UnavailableError):
        store.create("object", b"mine")
    assert server.stats().requests == 1
    assert server.read("x/object") == b"mine"


def test_create__server_refuses_before_the_effect__was_sent_once(places):
    server = places.fault_server(Faults(fail_match="object", fail_max=1))
    store = open_store("s3://bkt/x", server.storage_options)
    with pytest.raises(UnavailableError):
        store.create("object", b"mine")
    assert server.stats().requests == 1
    assert server.objects() == []


# -- a disk that can't make a name last ----------------------------------------------------------------------


@pytest.mark.parametrize("code", DEFINITE)
@pytest.mark.parametrize("verb", ["create", "put"])
def test_local_store__directory_can_not_be_synced_after_the_effect__is_not_definite(tmp_path, directories, verb, code):
    store = LocalStore(tmp_path)
    store.create("directory/first", b"there")
    directories.fail(code)
    with pytest.raises(UnavailableError) as caught:
        getattr(store, verb)("directory/object", b"mine")
    assert not isinstance(caught.value, StoreFullError)
    assert store.get("directory/object") == b"mine"


@pytest.mark.parametrize("code", DEFINITE)
@pytest.mark.parametrize(("times", "told"), [(1, None), (10**9, CommitUnknownError)])
def test_append__directory_can_not_be_synced__is_unknown_or_done_and_there_once(
    tmp_path, directories, code, times, told
):
    log = open_log(tmp_path / "log", create=True, probe=False, env=manual_env(patience_s=1))
    mark = log.add(b"zero")
    directories.fail(code, times=times)
    result = attempt(lambda: log.append(b"one", after=mark, op=OP))
    assert isinstance(result, told) if told else result.position == 2
    directories.fail(0, times=0)
    assert log.add(b"one", op=OP).position == 2
    assert bodies(open_log(tmp_path / "log")) == [b"zero", b"one"]


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP])
@pytest.mark.parametrize("verb", ["create", "put"])
def test_local_store__file_system_syncs_no_directories__is_done(tmp_path, directories, verb, code):
    store = LocalStore(tmp_path)
    directories.fail(code)
    getattr(store, verb)("directory/object", b"mine")
    assert store.get("directory/object") == b"mine"
