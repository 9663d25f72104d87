"""Damaged objects, missing rights, full disks: told in an error of ours that says what to do, and nothing is torn."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from siltstone import paths
from siltstone.env import Env
from siltstone.errors import (
    CorruptionError,
    ForkedError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    SiltstoneError,
    StoreFullError,
    UnavailableError,
    UnsupportedFormatError,
)
from siltstone.format import frame
from siltstone.format.records import Header, encode_entry
from siltstone.log import open_log
from siltstone.store.local import LocalStore
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.testing.s3server import Faults
from unchanged import unchanged
from worlds import attempt

SECRET = "canary-7f3a9c"
DIGEST = "ab" * 32
QUICK = Env(patience_s=0.2)


@pytest.fixture
def store():
    return MemoryStore(bucket=MemoryBucket())


@pytest.fixture
def log(store):
    made = open_log(store, create=True, probe=False)
    made.add(b"zero")
    made.add(b"one")
    return made


# -- what is there ---------------------------------------------------------------------------------


def test_open_log__nothing_there__is_not_found_and_says_how_to_make_one(store):
    with unchanged(store), pytest.raises(NotFoundError, match="create=True"):
        open_log(store)


def test_open_log__other_files_there__is_not_found(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(NotFoundError):
        open_log(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


# What becomes of an entry: its bytes changed, or an entry that says something else of itself.
CHANGED = {
    "empty": lambda data: data[:0],
    "cut": lambda data: data[:-1],
    "grown": lambda data: data + b"\0",
    "one bit": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "other words": lambda data: data.replace(b"SLTS", b"<html>"),
    "deep": lambda data: frame.wrap(b"[" * 60_000, data),
    "oversized": lambda data: data + bytes(65 * 1024 * 1024),
    "newer frame": lambda data: data[:4] + b"\2" + data[5:],
}
OTHERS = {
    "out of the chain": {},
    "another place": {"position": 9},
    "another log": {"log": "c" * 32},
    "newer entry": {"format": 2},
    "new feature": {"requires": ("x",)},
}
NEWER = {"newer frame", "newer entry", "new feature"}


def damaged(how, data, log):
    if how in CHANGED:
        return CHANGED[how](data)
    fields = {"log": log.identity.log, "position": 1, "epoch": 0, "op": "a" * 32, "nonce": "b" * 32, "prev": DIGEST}
    return encode_entry(Header(**{**fields, **OTHERS[how]}), b"x")


def error_of(how):
    return UnsupportedFormatError if how in NEWER else CorruptionError


@pytest.mark.parametrize("how", [*CHANGED, *OTHERS])
def test_entries__an_entry_is_damaged__is_told_and_nothing_is_added_behind_it(store, log, how):
    kind, key = error_of(how), paths.entry("", 1)
    store.put(key, damaged(how, store.get(key), log))
    fresh = open_log(store, probe=False, env=QUICK)
    with unchanged(store):
        calls = [lambda: list(fresh.entries()), lambda: fresh.add(b"x", op="a" * 32)]
        # Finding the tip reads the last entry and not the chain before it, which is what "out of the chain" is about.
        calls += [] if how == "out of the chain" else [lambda: fresh.add(b"x"), fresh.tip]
        for call in calls:
            with pytest.raises(kind) as caught:
                call()
            assert "entries/" in str(caught.value)


@pytest.mark.parametrize("how", ["empty", "cut", "one bit", "other words", "newer frame"])
def test_open_log__identity_is_damaged__is_told_and_no_other_log_is_made(store, log, how):
    store.put("identity", damaged(how, store.get("identity"), log))
    with unchanged(store), pytest.raises(error_of(how), match="identity"):
        open_log(store, create=True, probe=False)


@pytest.mark.parametrize("data", [b"", b"{}", b"\0" * 100, b'{"log":"x","position":-1}', b"[" * 4096, b"x" * 100_000])
def test_open_log__hint_is_damaged__is_as_good_as_none(store, log, data):
    store.put("hint", data)
    assert open_log(store, probe=False).add(b"two").position == 3


@pytest.mark.parametrize("data", [b"", b"\0" * 100, b"{}"])
def test_open_log__floor_is_damaged__is_told(store, log, data):
    store.put(paths.floor("", 1), data)
    with pytest.raises(CorruptionError, match="floor/"):
        open_log(store, probe=False).add(b"two")


@pytest.mark.parametrize(
    "name", ["floor/x", "entries/x", "entries/-1", f"entries/{5:021d}", "staged/x", "witness/x/y", "readme.txt"]
)
def test_entries__foreign_objects_lie_about__are_left_alone(store, log, name):
    store.put(name, b"mine")
    fresh = open_log(store, probe=False, trust_ms=0)
    assert fresh.add(b"two").position == 3
    assert len(list(fresh.entries())) == 3
    fresh.truncate(fresh.tip())
    assert store.get(name) == b"mine"


# -- the surroundings ---------------------------------------------------------------------------------


def test_open_log__bucket_does_not_exist__is_told(places):
    place = places.store("faulty")
    with pytest.raises(InvalidInputError, match="bucket does not exist"):
        open_log("s3://no-such-bucket/x", storage_options=place.options, create=True)


@pytest.mark.parametrize("right", ["get", "list", "put", "delete"])
def test_add__credentials_do_not_allow_it__is_told_which_right_is_missing(places, right):
    server = places.fault_server()
    options = {**server.storage_options, "aws_secret_access_key": SECRET}
    log = open_log("s3://bkt/log", storage_options=options, create=True, probe=False)
    log.add(b"zero")
    server.set(Faults(deny=(right,)))
    fresh = attempt(lambda: open_log("s3://bkt/log", storage_options=options, probe=False, env=QUICK))
    told = fresh if isinstance(fresh, SiltstoneError) else attempt(lambda: fresh.add(b"one"))
    server.set(Faults())
    if right == "delete":  # a log needs it only to clean up
        assert told.position == 2
        return
    assert isinstance(told, SiltstoneError)
    assert told.kind in {"permission-denied", "commit-unknown"}
    assert SECRET not in f"{told!r} {told} {told.facts}"
    assert len(list(log.entries())) == (2 if told.kind == "commit-unknown" else 1)


@pytest.mark.parametrize("status", [507, 403])
def test_add__store_is_full__is_told_and_nothing_is_there(places, status):
    server = places.fault_server()
    log = open_log("s3://bkt/log", storage_options=server.storage_options, create=True, probe=False)
    log.add(b"zero")
    server.set(Faults(full=True, full_status=status))
    with pytest.raises((StoreFullError, PermissionDeniedError)):
        log.add(b"one")
    server.set(Faults())
    assert [entry.body for entry in log.entries()] == [b"zero"]
    assert log.add(b"one").position == 2


def test_open_log__nobody_listens__is_unavailable_and_names_the_place():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        options = {
            "aws_endpoint": f"http://127.0.0.1:{held.getsockname()[1]}",
            "aws_access_key_id": "a",
            "aws_secret_access_key": SECRET,
            "aws_region": "us-east-1",
        }
        with pytest.raises(UnavailableError, match="s3://bkt") as caught:
            open_log("s3://bkt/x", storage_options=options)
    assert SECRET not in f"{caught.value!r} {caught.value} {caught.value.facts}"


@pytest.mark.parametrize("kind", ["redis", "postgresql", "mysql", "etcd"])
def test_open_log__commit_store_is_not_there__is_unavailable_and_shows_no_password(store, kind):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        uri = f"{kind}://user:{SECRET}@127.0.0.1:{held.getsockname()[1]}/{'0' if kind == 'redis' else 'db'}"
        uri = uri.removesuffix("/db") if kind == "etcd" else uri
        with unchanged(store), pytest.raises(UnavailableError) as caught:
            open_log(store, commits=uri, create=True, probe=False, env=QUICK)
    assert SECRET not in f"{caught.value!r} {caught.value} {caught.value.facts}"


@pytest.mark.parametrize("place", ["below a file", "in /proc", "in /sys", "a file", "a device"])
def test_open_log__no_place_for_files__is_told(tmp_path, place):
    (tmp_path / "file").write_text("x")
    path = {
        "below a file": tmp_path / "file" / "log",
        "in /proc": Path("/proc/siltstone-log"),
        "in /sys": Path("/sys/siltstone-log"),
        "a file": tmp_path / "file",
        "a device": Path("/dev/null"),
    }[place]
    with pytest.raises((InvalidInputError, PermissionDeniedError)) as caught:
        open_log(path, create=True)
    assert caught.value.hint
    assert (tmp_path / "file").read_text() == "x"


@contextlib.contextmanager
def mounted(directory, *options):
    """A file system of its own, where this user may make one."""
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "none", str(directory)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("this user can't mount a file system")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def fill(path):
    """A file that takes all the room there is."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while os.write(file, bytes(4096)):
            pass
    os.close(file)


def test_add__file_system_is_full__is_told_nothing_is_torn_and_it_goes_on_with_room(tmp_path):
    with mounted(tmp_path / "small", "size=256k") as small:
        log = open_log(small / "log", create=True, env=QUICK)
        log.add(b"zero")
        filler = small / "filler"
        fill(filler)
        with pytest.raises(StoreFullError):
            log.add(bytes(64 * 1024))
        assert [entry.body for entry in log.entries()] == [b"zero"]
        assert not list(small.rglob(".siltstone-*"))
        filler.unlink()
        assert log.add(b"one").position == 2


def test_add__file_system_is_read_only__reads_work_and_writes_are_told(tmp_path):
    with mounted(tmp_path / "small", "size=1m") as small:
        open_log(small / "log", create=True).add(b"zero")
        subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
        log = open_log(small / "log", probe=False, env=QUICK)
        assert [entry.body for entry in log.entries()] == [b"zero"]
        with pytest.raises(PermissionDeniedError):
            log.add(b"one")
        with pytest.raises(PermissionDeniedError):
            open_log(small / "other", create=True)
        assert [entry.body for entry in log.entries()] == [b"zero"]


def test_add__files_may_not_grow__is_told_and_nothing_is_torn(tmp_path):
    script = """
import resource, sys
from siltstone.errors import StoreFullError
from siltstone.log import open_log
log = open_log(sys.argv[1], create=True)
log.add(b"zero")
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    log.add(bytes(5000))
except StoreFullError:
    assert [entry.body for entry in log.entries()] == [b"zero"]
    log.add(b"one")
    print("told")
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "log")], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "told\n", done.stderr
    assert [entry.body for entry in open_log(tmp_path / "log").entries()] == [b"zero", b"one"]


# -- out of the root ----------------------------------------------------------------------------------


def test_local_store__links_lead_out_of_the_root__are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("mine")
    root = tmp_path / "root"
    root.mkdir()
    (root / "directory").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    (root / "dangling").symlink_to(tmp_path / "nowhere")
    store = LocalStore(root)
    for key in ("directory/secret", "file"):
        for call in (store.get, store.head, lambda key: store.get_ranges(key, [(0, 1)])):
            with pytest.raises(InvalidInputError, match="symbolic link"):
                call(key)
    for write in (store.create, store.put):
        with pytest.raises(InvalidInputError, match="symbolic link"):
            write("directory/new", b"x")
    with pytest.raises(SiltstoneError):
        store.create("dangling", b"x")
    with pytest.raises(InvalidInputError):
        list(store.list("directory"))
    assert not [info.key for info in store.list() if "/" in info.key]
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_local_store__pipe_in_the_place_of_an_object__is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotFoundError):
        LocalStore(tmp_path).get("pipe")


def test_add__handle_from_before_a_fork__child_is_told_and_does_not_hang(places):
    place = places.store("faulty")
    log = open_log(place.uri, storage_options=place.options, create=True)
    log.add(b"zero")
    child = os.fork()
    if child == 0:
        try:
            log.add(b"from the child")
        except ForkedError:
            os._exit(0)
        except BaseException:
            os._exit(2)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert log.add(b"one").position == 2
    assert [entry.body for entry in log.entries()] == [b"zero", b"one"]
