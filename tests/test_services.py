"""Each server starts, does one real thing, and is gone when it was stopped."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from contextlib import closing
from pathlib import Path

import obstore
import psycopg
import pymysql
import pytest
import redis
import urllib3
from obstore.exceptions import AlreadyExistsError
from obstore.store import from_url

from service_base import HOST, POLL_SECONDS, Service, ServiceError, is_open
from services import KINDS, Redis

pytestmark = pytest.mark.services
GONE_SECONDS_MAX = 20.0


def store_of(service):
    options = dict(service.storage_options)
    client_options = {"allow_http": options.pop("allow_http") == "true"}
    return from_url(service.bucket_uri, config=options, client_options=client_options)


def test_postgresql__insert__is_read_back_after_a_kill(postgresql):
    with psycopg.connect(postgresql.commits_uri, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (n int)")
        connection.execute("INSERT INTO kept VALUES (7)")
    postgresql.kill()
    postgresql.start()
    with psycopg.connect(postgresql.commits_uri, autocommit=True) as connection:
        assert connection.execute("SELECT n FROM kept").fetchall() == [(7,)]
        connection.execute("DROP TABLE kept")


def test_mariadb__insert__is_read_back_after_a_kill(mariadb):
    database = mariadb.commits_uri.rpartition("/")[2]

    def query(*statements):
        with closing(
            pymysql.connect(host=HOST, port=mariadb.port, user="root", database=database, autocommit=True)
        ) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()

    query("CREATE TABLE kept (n int) ENGINE=InnoDB", "INSERT INTO kept VALUES (7)")
    mariadb.kill()
    mariadb.start()
    assert query("SELECT n FROM kept") == ((7,),)
    query("DROP TABLE kept")


def test_redis__set__is_read_back_after_a_kill(redis_server):
    key = uuid.uuid4().hex
    with redis.Redis.from_url(redis_server.commits_uri) as client:
        assert client.config_get("appendfsync") == {"appendfsync": "always"}
        client.set(key, "7")
    redis_server.kill()
    redis_server.start()
    with redis.Redis.from_url(redis_server.commits_uri) as client:
        assert client.getdel(key) == b"7"


def test_etcd__put__is_read_back_after_a_kill(etcd):
    key = base64.b64encode(uuid.uuid4().bytes).decode()
    http = urllib3.PoolManager(retries=False)
    body = json.dumps({"key": key, "value": base64.b64encode(b"7").decode()})
    assert http.request("POST", f"{etcd.endpoint}/v3/kv/put", body=body).status == 200
    etcd.kill()
    etcd.start()
    answer = http.request("POST", f"{etcd.endpoint}/v3/kv/range", body=json.dumps({"key": key})).json()
    assert base64.b64decode(answer["kvs"][0]["value"]) == b"7"


@pytest.mark.parametrize("name", ["seaweedfs", "ministack", "azurite"])
def test_create__object_is_there__is_refused(services, name):
    store = store_of(services(name))
    key = f"twice/{uuid.uuid4().hex}"
    obstore.put(store, key, b"first", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, key, b"second", mode="create")
    assert bytes(obstore.get(store, key).bytes()) == b"first"


@pytest.mark.parametrize("name", ["seaweedfs", "azurite"])
def test_restart__object_was_put__is_read_back(services, name):
    service = services(name)
    key = f"kept/{uuid.uuid4().hex}"
    obstore.put(store_of(service), key, b"kept")
    service.restart()
    assert bytes(obstore.get(store_of(service), key).bytes()) == b"kept"


def test_list__offset_given__starts_after_it(azurite):
    # With a plain endpoint the server ignores the offset; the emulator setting is what makes it honoured.
    store = store_of(azurite)
    prefix = uuid.uuid4().hex
    for n in range(3):
        obstore.put(store, f"{prefix}/{n}", b"")
    listed = [meta["path"] for page in obstore.list(store, prefix, offset=f"{prefix}/0") for meta in page]
    assert listed == [f"{prefix}/1", f"{prefix}/2"]


def test_dynamodb__conditional_put__is_refused_the_second_time(dynamodb):
    client = dynamodb.client("dynamodb")
    table = f"t{uuid.uuid4().hex}"
    client.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    put = {"TableName": table, "Item": {"k": {"S": "a"}}, "ConditionExpression": "attribute_not_exists(k)"}
    client.put_item(**put)
    with pytest.raises(client.exceptions.ConditionalCheckFailedException):
        client.put_item(**put)


@pytest.mark.parametrize("name", KINDS)
def test_stop__server_was_running__its_ports_are_closed(services, name):
    service = services(name)
    assert is_open(service.port)
    service.stop()
    assert not any(is_open(port) for port in service.ports)


def test_start__program_is_missing__error_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(Redis, "program", lambda self, name: Service.program(self, f"{name}-absent"))
    service = Redis()
    with pytest.raises(ServiceError, match="redis-server-absent is not installed; Debian/Ubuntu: apt-get"):
        service.start()
    service.close()


def test_start__program_ends_at_once__error_shows_its_log(monkeypatch):
    service = Redis()
    monkeypatch.setattr(service, "command", lambda: ["/bin/sh", "-c", "echo no room >&2; exit 3"])
    with pytest.raises(ServiceError, match="no room"):
        service.start()
    service.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_session__killed__takes_its_servers_along(tmp_path):
    script = textwrap.dedent("""
        import signal
        from services import Redis
        server = Redis()
        server.start()
        print(server.port, server.directory, flush=True)
        signal.pause()
    """)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as session:
        port = int(session.stdout.readline().split()[0])
        assert is_open(port)
        session.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + GONE_SECONDS_MAX
    while is_open(port):
        assert time.monotonic() < deadline
        time.sleep(POLL_SECONDS)
