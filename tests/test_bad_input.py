"""A wrong argument is refused with an error of ours that says what is accepted, and nothing is written."""

from __future__ import annotations

import os

import pytest

from siltstone.env import Env
from siltstone.errors import (
    ClosedError,
    InvalidInputError,
    LimitExceededError,
    UnavailableError,
)
from siltstone.format.records import BODY_BYTES_MAX
from siltstone.log import Mark, open_log
from siltstone.store.connect import open_store
from siltstone.store.memory import MemoryBucket, MemoryStore
from unchanged import unchanged

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


# -- arguments -------------------------------------------------------------------------------------

NOT_TEXT = [None, 7, 1.5, b"bytes", [], {}, Ellipsis]


@pytest.mark.parametrize(
    "uri", [*NOT_TEXT, "", "   ", "ftp://host/x", "s3x://b", "s3://", "gs:///x", "memory://"], ids=repr
)
def test_open_log__uri_is_none__is_refused(uri):
    with pytest.raises(InvalidInputError):
        open_log(uri, create=True)


@pytest.mark.parametrize(
    "uri",
    [
        f"s3://user:{SECRET}@bucket/x",
        f"s3://{SECRET}@bucket/x",
        f"s3://bucket/x?secret={SECRET}",
        f"s3://bucket/x#{SECRET}",
        f"az://account:{SECRET}@c/x",
        f"abfs://c:{SECRET}@account/x",
        f"http://[{SECRET}",
        f"s3://u:{SECRET}@[x",
        f"s3://user:{SECRET}\n@bucket/x",
    ],
)
def test_open_log__uri_holds_a_secret__is_refused_and_not_repeated(uri):
    with pytest.raises(InvalidInputError) as caught:
        open_log(uri, create=True)
    shown = f"{caught.value!r} {caught.value} {caught.value.facts} {caught.value.__cause__} {caught.value.__context__}"
    assert SECRET not in shown


@pytest.mark.parametrize(
    "uri", [f"redis://:{SECRET}@", f"postgresql://u:{SECRET}@[x/db", f"nosuch://u:{SECRET}@h/x", f"{SECRET}"]
)
def test_open_log__commits_uri_is_wrong__is_refused_and_not_repeated(store, uri):
    with unchanged(store), pytest.raises(InvalidInputError) as caught:
        open_log(store, commits=uri, create=True)
    assert SECRET not in f"{caught.value!r} {caught.value} {caught.value.facts}"


@pytest.mark.parametrize(
    "options",
    [
        *({"root": root} for root in [None, 7, b"x", "../up", "a/../b", "/abs", "a//b", "a\0", "%2e", "x" * 1001]),
        *({"commits": commits} for commits in [7, b"sqlite:", [], Ellipsis, ""]),
        *({"guard": guard} for guard in [None, "", "Receipt", 1, True]),
        *({"trust_ms": trust} for trust in [None, -1, 1.5, True, "7", 86_400_001, float("nan")]),
        *({"writer": writer} for writer in [None, 7, b"me", "x" * 257, "\ud800"]),
        *({flag: value} for flag in ["create", "probe", "sync"] for value in [None, 1, "yes"]),
        *(
            {"storage_options": given}
            for given in [7, [], "x", {1: "a"}, {"a": None}, {"nonsense": "1"}, {"a": "env:NOT_SET_9"}]
        ),
        {"lookup": 7},
        {"env": None},
    ],
    ids=str,
)
def test_open_log__an_option_is_wrong__is_refused_and_nothing_is_made(options):
    name = f"memory://{os.urandom(6).hex()}"
    with pytest.raises(InvalidInputError) as caught:
        open_log(name, **{"create": True, **options})
    assert not isinstance(caught.value, UnavailableError)
    assert list(open_store(name).list()) == []


BAD_MARKS = [
    *NOT_TEXT,
    (1, 0, DIGEST),
    Mark(-1, 0, DIGEST),
    Mark(2**63, 0, DIGEST),
    Mark("1", 0, DIGEST),
    Mark(True, 0, DIGEST),
    Mark(1, None, DIGEST),
    Mark(1, -1, DIGEST),
    Mark(1, 0, ""),
    Mark(1, 0, "x" * 64),
    Mark(1, 0, None),
]
BAD_NUMBERS = [-1, 1.5, True, "1", b"1", 2**63, float("nan"), []]
BAD_OPS = [None, 7, b"a" * 32, [], "a", "a" * 31, "a" * 33, "A" * 32, "g" * 32, " " + "a" * 31, "a" * 31 + "\n"]
CALLS = {
    "append body": (
        lambda log, bad: log.append(bad, after=log.tip()),
        [None, 7, "text", [], bytearray(b"x")],
    ),
    "append after": (lambda log, bad: log.append(b"x", after=bad), BAD_MARKS),
    "append epoch": (lambda log, bad: log.append(b"x", after=log.tip(), epoch=bad), BAD_NUMBERS),
    "append op": (lambda log, bad: log.append(b"x", after=log.tip(), op=bad), BAD_OPS),
    "add body": (lambda log, bad: log.add(bad), [None, 7, "text", [], bytearray(b"x")]),
    "add epoch": (lambda log, bad: log.add(b"x", epoch=bad), BAD_NUMBERS),
    "add op": (lambda log, bad: log.add(b"x", op=bad), BAD_OPS),
    "fence epoch": (lambda log, bad: log.fence(bad), [None, *BAD_NUMBERS]),
    "truncate until": (lambda log, bad: log.truncate(bad), BAD_MARKS),
    "find op": (lambda log, bad: log.find(bad), ["", *BAD_OPS]),
    "find since": (lambda log, bad: log.find("a" * 32, since=bad), BAD_MARKS[1:]),
    "tip since": (lambda log, bad: log.tip(bad), BAD_MARKS[1:]),
    "entries after": (lambda log, bad: list(log.entries(bad)), BAD_MARKS[1:]),
    "entries until": (lambda log, bad: list(log.entries(until=bad)), BAD_MARKS[1:]),
    "check_receipt": (lambda log, bad: log.check_receipt(bad), BAD_MARKS),
}


@pytest.mark.parametrize(
    ("name", "bad"), [(name, bad) for name in CALLS for bad in CALLS[name][1]], ids=lambda one: ascii(one)[:60]
)
def test_call__argument_is_wrong__is_refused_and_the_log_stays_as_it_was(store, log, name, bad):
    with unchanged(store), pytest.raises(InvalidInputError):
        CALLS[name][0](log, bad)
    assert [entry.body for entry in log.entries()] == [b"zero", b"one"]


def test_append__mark_of_another_log__is_refused(store, log):
    other = open_log(store, root="other", create=True, probe=False)
    for _ in range(5):
        mark = other.add(b"x")
    for foreign in (other.start, mark, Mark(2, 0, mark.digest)):
        with unchanged(store), pytest.raises(InvalidInputError):
            log.append(b"lost", after=foreign)
        with unchanged(store), pytest.raises(InvalidInputError):
            log.truncate(foreign if foreign.position else mark)


def test_add__body_over_the_limit__is_refused(store, log):
    with unchanged(store), pytest.raises(LimitExceededError, match=str(BODY_BYTES_MAX)):
        log.add(bytes(BODY_BYTES_MAX + 1))


def test_call__after_close__is_refused(store, log):
    mark = log.tip()
    log.close()
    with unchanged(store):
        for call in (
            lambda: log.add(b"x"),
            lambda: log.append(b"x", after=mark),
            lambda: log.fence(3),
            lambda: log.truncate(mark),
        ):
            with pytest.raises(ClosedError):
                call()


@pytest.mark.parametrize(
    ("path", "hint"),
    [("{}/a\x01b", "look for a line end or a tab in it"), ("{}/" + "a" * 300, "choose a shorter path")],
    ids=["control", "long"],
)
def test_open_log__path_that_no_disk_takes__says_what_to_do(tmp_path, path, hint):
    with pytest.raises(InvalidInputError) as caught:
        open_log(path.format(tmp_path), create=True)
    assert caught.value.hint == hint
    assert list(tmp_path.iterdir()) == []
