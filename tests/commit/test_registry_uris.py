"""From a URI to a registry: what is refused, what is shown, and when TLS is asked for."""

from __future__ import annotations

import builtins
import importlib
import os
import pickle
import sqlite3
import ssl
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from siltstone.commit import connect
from siltstone.commit.connect import open_registry, supported_schemes
from siltstone.commit.location import parse_location
from siltstone.commit.memory import MemoryRegistry
from siltstone.errors import CorruptionError, InvalidInputError, MissingDependencyError, PermissionDeniedError

SECRET = "canary-Zq7"
REMOTE = "db.example.net"


@pytest.mark.parametrize("uri", ["", "claims.db", "//host/db", "1a://x", None, 7, b"redis://x"])
def test_open__no_uri__says_what_is_supported(uri):
    with pytest.raises(InvalidInputError, match=r"etcd://.*sqlite:"):
        open_registry(uri)


def test_open__unknown_scheme__lists_the_supported_ones():
    with pytest.raises(InvalidInputError, match=r"did you mean postgresql://") as raised:
        open_registry(f"postgresq://u:{SECRET}@{REMOTE}/db")
    assert all(scheme in str(raised.value) for scheme in supported_schemes())
    assert SECRET not in str(raised.value)


def test_open__unknown_option__names_the_near_one():
    with pytest.raises(InvalidInputError, match="did you mean 'table'"):
        open_registry("sqlite:///tmp/x.db", tabel="x")
    with pytest.raises(InvalidInputError, match="given twice"):
        open_registry("sqlite:///tmp/x.db?table=a", table="b")


@pytest.mark.parametrize(
    "uri",
    [
        f"postgresql://user:{SECRET}/x@{REMOTE}/db",
        f"postgresql://user:{SECRET}?x@{REMOTE}/db",
        f"postgresql://user:{SECRET}#x@{REMOTE}/db",
        f"postgresql://user:12/{SECRET}@{REMOTE}/db",
        f"postgresql://user:{SECRET}@{REMOTE}:port/db",
        f"postgresql://user:{SECRET}@[::1/db",
        f"postgresql://user:{SECRET}@{REMOTE}",
        f"postgresql://user:{SECRET}@/db",
        f"redis://user:{SECRET}@127.0.0.1/zero",
        f"redis://:{SECRET}@127.0.0.1?password={SECRET}",
        f"etcd://user:{SECRET}@127.0.0.1/a?prefix=b",
        f"mysql://user:{SECRET}@127.0.0.1/db?timeout_s=soon",
        f"mysql://user:{SECRET}@127.0.0.1/db?insecure=perhaps",
        f"sqlite://user:{SECRET}@host/file.db",
        f"dynamodb://user:{SECRET}@table?region=x",
        f"dynamodb://table?region=x&endpoint=http://u:{SECRET}@127.0.0.1",
        "dynamodb://t?region=x",
        "sqlite:///:memory:",
        "sqlite://",
        "memory://",
    ],
)
def test_open__malformed_uri__refused_without_repeating_the_password(uri):
    with pytest.raises(InvalidInputError) as raised:
        open_registry(uri)
    error = raised.value
    assert error.hint
    assert error.__cause__ is None
    assert SECRET not in f"{error} {error!r} {error.facts}"


@pytest.mark.parametrize(
    "uri", [f"redis://{REMOTE}", f"etcd://{REMOTE}", f"dynamodb://claims?endpoint=http://{REMOTE}"]
)
def test_open__remote_host_without_tls__needs_insecure(uri):
    with pytest.raises(InvalidInputError, match="insecure=True"):
        open_registry(uri)
    open_registry(uri, insecure=True).close()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "[::1]", "localhost"])
def test_open__loopback_without_tls__is_accepted(host):
    for uri in (f"redis://{host}", f"etcd://{host}", f"dynamodb://claims?endpoint=http://{host}:1"):
        open_registry(uri).close()


def test_postgresql__remote_host__asks_for_a_verified_certificate():
    def mode(uri, **options):
        return open_registry(uri, **options)._dialect._conninfo()["sslmode"]

    assert mode(f"postgresql://u@{REMOTE}/db") == "verify-full"
    assert mode(f"postgresql://u@{REMOTE}/db", insecure=True) == "prefer"
    assert mode("postgresql://u@localhost/db") == "prefer"
    assert mode("postgresql://u@10.0.0.1/db") == "verify-full"


def test_mysql__remote_host__asks_for_a_verified_certificate(monkeypatch):
    asked = []
    pymysql = importlib.import_module("pymysql")

    def connect_to(**arguments):
        asked.append(arguments["ssl"])
        raise pymysql.err.OperationalError(2003, "no network here")

    monkeypatch.setattr(pymysql, "connect", connect_to)
    for options in ({}, {"insecure": True}):
        with pytest.raises(Exception, match="no network here"):
            open_registry(f"mysql://u@{REMOTE}/db", **options).identity()
    assert (asked[0].verify_mode, asked[0].check_hostname) == (ssl.CERT_REQUIRED, True)
    assert asked[1] is None


@pytest.mark.parametrize(
    ("uri", "module", "extra"),
    [
        ("postgresql://u@127.0.0.1/db", "psycopg", "sql"),
        ("mysql://u@127.0.0.1/db", "pymysql", "sql"),
        ("redis://127.0.0.1", "redis", "redis"),
        ("etcd://127.0.0.1", "urllib3", "etcd"),
        ("dynamodb://claims?region=x", "boto3", "dynamodb"),
    ],
)
def test_open__driver_not_installed__names_the_extra(monkeypatch, uri, module, extra):
    real = builtins.__import__

    def absent(name, *args, **kwargs):
        if name.partition(".")[0] == module:
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    def absent_import(name, package=None):
        if name.partition(".")[0] == module:
            raise ModuleNotFoundError(name)
        return importlib.__import__(name, fromlist=["_"])

    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", absent)
    monkeypatch.setattr("siltstone.commit.location.importlib.import_module", absent_import)
    with pytest.raises(MissingDependencyError, match=rf"pip install 'siltstone\[{extra}\]'"):
        open_registry(uri).identity()


def test_open__entry_point_of_another_package__is_used(monkeypatch):
    point = EntryPoint("mine", "siltstone.commit.memory:open_registry", connect.ENTRY_POINT_GROUP)
    takeover = EntryPoint("sqlite", "os:system", connect.ENTRY_POINT_GROUP)

    def entry_points(group, **wanted):
        assert group == connect.ENTRY_POINT_GROUP
        return [each for each in (point, takeover) if each.name == wanted.get("name", each.name)]

    monkeypatch.setattr(connect, "entry_points", entry_points)
    assert isinstance(open_registry("mine://x"), MemoryRegistry)
    assert "mine" in supported_schemes()
    assert open_registry("sqlite:///tmp/x.db").kind == "sqlite"


def test_sqlite__directory_absent__invalid_and_nothing_made(tmp_path):
    with pytest.raises(InvalidInputError, match="does not exist"):
        open_registry(f"sqlite://{tmp_path}/absent/claims.db").identity()
    assert list(tmp_path.iterdir()) == []


def test_sqlite__is_a_directory__permission_denied(tmp_path):
    with pytest.raises(PermissionDeniedError):
        open_registry(f"sqlite://{tmp_path}").identity()


def test_sqlite__not_a_database__corruption_and_file_unchanged(tmp_path):
    path = tmp_path / "claims.db"
    path.write_bytes(b"something else entirely, and long enough to be looked at" * 100)
    before = path.read_bytes()
    with pytest.raises(CorruptionError):
        open_registry(f"sqlite://{path}").identity()
    assert path.read_bytes() == before


def test_sqlite__relative_path__is_bound_when_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    registry = open_registry("sqlite:claims.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    registry.identity()
    assert (tmp_path / "claims.db").exists()


@pytest.mark.parametrize("name", ["plain", "a b@c?d#e%f", "größer"])
def test_sqlite__relative_path_pickled__reaches_the_same_file_from_another_directory(tmp_path, monkeypatch, name):
    here, there = tmp_path / name, tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    with open_registry("sqlite:claims.db?table=mine") as registry:
        before = registry.identity()
        copied = pickle.dumps(registry)
        monkeypatch.chdir(there)
        with pickle.loads(copied) as copy, open_registry(registry.uri) as shown:
            assert [copy.identity(), shown.identity()] == [before, before]
            assert copy.uri == shown.uri == registry.uri
    assert registry.uri.startswith("sqlite:///")
    assert registry.uri.endswith("/claims.db?table=mine")
    assert list(there.iterdir()) == []


def test_sqlite__directory_whose_name_is_no_text__refused_when_opened(tmp_path, monkeypatch):
    odd = tmp_path / os.fsdecode(b"\xff\xfe")
    try:
        odd.mkdir()
    except OSError:
        pytest.skip("this file system has no such names")
    monkeypatch.chdir(odd)
    with pytest.raises(InvalidInputError, match="plain name"):
        open_registry("sqlite:claims.db")


RELATIVE = "write sqlite:x for a file in this directory"


def test_sqlite__absolute_path_to_nowhere__says_how_to_write_a_relative_one(tmp_path, monkeypatch):
    with pytest.raises(InvalidInputError, match=RELATIVE):
        open_registry("sqlite:///absent-directory/claims.db").identity()
    with pytest.raises(PermissionDeniedError, match=RELATIVE):
        open_registry(f"sqlite://{tmp_path}").identity()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError) as raised:
        open_registry("sqlite:absent/claims.db").identity()
    assert RELATIVE not in str(raised.value)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can become another user")
def test_sqlite__three_slashes_and_not_root__says_how_to_write_a_relative_one():
    script = (
        "import os\n"
        "from siltstone.commit.connect import open_registry\n"
        "registry = open_registry('sqlite:///absent-claims.db')\n"
        "os.setgid(65534)\n"
        "os.setuid(65534)\n"
        "try:\n"
        "    registry.identity()\n"
        "except Exception as error:\n"
        "    print(error.kind, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("permission-denied ")
    assert RELATIVE in done.stdout


@pytest.mark.parametrize(
    ("secret", "shown"), [("e", "the server refused"), ("ser", "the server refused"), ("refused", "the server ***")]
)
def test_scrub__secret_of_a_few_letters__leaves_the_words_whole(secret, shown):
    for uri, options in (
        (f"postgresql://u:{secret}@127.0.0.1/db", {}),
        ("dynamodb://table", {"aws_session_token": secret}),
    ):
        location = parse_location(uri, options, accepts={"aws_session_token": str})
        assert location.scrub("the server refused") == shown


def test_sqlite__locked_by_another__unavailable_in_time(tmp_path):
    path = tmp_path / "claims.db"
    with open_registry(f"sqlite://{path}", timeout_s=0.2) as registry:
        before = registry.identity()
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(Exception, match="locked") as raised:
            registry.truncate("scope", below=1, digest="")
        assert raised.value.kind == "unavailable"
        holder.close()
        registry.truncate("scope", below=1, digest="")
        assert registry.identity() == before
