"""Every registry of ours passes the conformance suite, on real servers."""

from __future__ import annotations

import base64
import contextlib
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import psycopg
import pymysql
import pytest
import redis
import urllib3

import figures
from services import BUCKET, HOST
from siltstone.commit.connect import open_registry
from siltstone.commit.memory import MemoryRegistry, MemoryService
from siltstone.ids import SystemIds
from siltstone.testing.registry_suite import RegistrySuite, chain

services = pytest.mark.services


class TestMemory(RegistrySuite):
    @pytest.fixture(autouse=True)
    def _service(self):
        self.name = SystemIds().new()

    def make(self):
        return open_registry(f"memory://{self.name}")

    def empty(self):
        self.make().service.empty()


def test_memory__ids_given__identity_comes_from_them():
    class Counted(SystemIds):
        def new(self):
            return "0" * 31 + "7"

    assert MemoryRegistry(MemoryService(), ids=Counted()).identity() == "0" * 31 + "7"


class TestSqlite(RegistrySuite):
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path):
        self.path = tmp_path / "claims é.db"

    def make(self):
        return open_registry(f"sqlite://{self.path}")

    def empty(self):
        for name in (self.path, f"{self.path}-wal", f"{self.path}-shm"):
            with contextlib.suppress(FileNotFoundError):
                Path(name).unlink()

    def test_claim__process_killed_right_after_the_answer__claim_stays(self):
        script = (
            "import os, signal, sys\n"
            "from siltstone.commit.connect import open_registry\n"
            "from siltstone.testing.registry_suite import chain\n"
            "registry = open_registry(sys.argv[1])\n"
            "assert [registry.claim(claim) for claim in chain('killed', 20)] == chain('killed', 20)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        done = subprocess.run([sys.executable, "-c", script, f"sqlite://{self.path}"], check=False)
        assert done.returncode == -signal.SIGKILL
        figures.record("kills")
        registry = self.handle()
        assert [registry.lookup("killed", position) for position in range(21)] == [*chain("killed", 20), None]

    def test_connect__settings__commits_are_synced(self):
        registry = self.handle()
        registry.identity()
        raw = registry._links.local.link.raw
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert raw.execute("PRAGMA synchronous").fetchone() == (2,)

    def test_identity__file_replaced_by_an_older_copy__seen_at_the_next_call(self, tmp_path):
        registry, scope = self.handle(), self.scope()
        claims = chain(scope, 3)
        self.fill(registry, claims[:1])
        copy = tmp_path / "copy.db"
        with (
            contextlib.closing(sqlite3.connect(self.path)) as source,
            contextlib.closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
        self.fill(registry, claims[1:2])
        self.empty()
        copy.rename(self.path)
        assert registry.newest(scope) == claims[0]
        assert registry.claim(claims[2]).found is None


class ServerSuite(RegistrySuite):
    """A suite on a server of the test session, in a table or namespace of its own."""

    fixture = ""
    option = "table"

    @pytest.fixture(autouse=True)
    def _server(self, request):
        self.server = request.getfixturevalue(self.fixture)
        self.name = f"t{SystemIds().new()}"

    def make(self):
        return open_registry(self.server.commits_uri, **{self.option: self.name})

    def crash(self):
        self.server.kill()
        figures.record("servers killed")
        self.server.start()


@services
class TestPostgresql(ServerSuite):
    fixture = "postgresql"

    def empty(self):
        with psycopg.connect(self.server.commits_uri, autocommit=True) as connection:
            connection.execute(f"DROP TABLE {self.name}")

    def test_connect__server_default_is_weaker__commits_are_synced(self):
        with psycopg.connect(self.server.commits_uri, autocommit=True) as connection:
            for weak in ("off", "local", "remote_write"):
                connection.execute(f"ALTER ROLE postgres SET synchronous_commit = {weak}")
                registry = self.handle()
                registry.identity()
                assert registry._links.local.link.raw.execute("SHOW synchronous_commit").fetchone() == ("on",)
            connection.execute("ALTER ROLE postgres SET synchronous_commit = remote_apply")
            registry = self.handle()
            registry.identity()
            assert registry._links.local.link.raw.execute("SHOW synchronous_commit").fetchone() == ("remote_apply",)
            connection.execute("ALTER ROLE postgres RESET synchronous_commit")


@services
class TestMariadb(ServerSuite):
    fixture = "mariadb"

    def empty(self):
        with contextlib.closing(pymysql.connect(host=HOST, port=self.server.port, user="root", database=BUCKET)) as raw:
            raw.cursor().execute(f"DROP TABLE {self.name}")


@services
class TestRedis(ServerSuite):
    fixture = "redis_server"
    option = "namespace"

    def empty(self):
        with redis.Redis(HOST, self.server.port) as client:
            client.delete(*client.scan_iter(f"siltstone:{len(self.name)}:{self.name}:*"))

    def test_claim__keys__never_expire(self):
        registry, scope = self.handle(), self.scope()
        registry.identity()
        claims = chain(scope, 2)
        self.fill(registry, claims)
        registry.truncate(scope, below=1, digest=claims[0].digest)
        with redis.Redis(HOST, self.server.port) as client:
            keys = list(client.scan_iter(f"siltstone:{len(self.name)}:{self.name}:*"))
            assert len(keys) == 2
            assert {client.ttl(key) for key in keys} == {-1}


@services
class TestEtcd(ServerSuite):
    fixture = "etcd"
    option = "prefix"

    def empty(self):
        start, end = (base64.b64encode(f"{self.name}{mark}".encode()).decode() for mark in "/0")
        urllib3.request("POST", f"{self.server.endpoint}/v3/kv/deleterange", json={"key": start, "range_end": end})


@services
class TestDynamoDb(RegistrySuite):
    """On ministack, which keeps nothing over a crash."""

    @pytest.fixture(autouse=True)
    def _server(self, dynamodb):
        self.server = dynamodb
        self.table = f"Claims-{SystemIds().new()}"

    def make(self):
        uri = self.server.commits_uri.replace(f"//{BUCKET}?", f"//{self.table}?")
        return open_registry(uri, create=True, **self.server.commits_options)

    def empty(self):
        client = self.server.client("dynamodb")
        for item in client.scan(TableName=self.table)["Items"]:
            client.delete_item(TableName=self.table, Key={name: item[name] for name in ("scope", "position")})
