"""Passwords, permissions and durability settings on real servers: refused in plain words, and no secret shown."""

from __future__ import annotations

import contextlib
import pickle
import traceback

import psycopg
import pymysql
import pytest
import redis
import urllib3

from services import BUCKET, HOST, Etcd, PostgreSQL, Redis
from siltstone.commit.connect import open_registry
from siltstone.errors import InvalidInputError, PermissionDeniedError, UnavailableError, UnsafeStoreError
from siltstone.testing.registry_suite import chain

pytestmark = pytest.mark.services

SECRET = "canary-Zq7-secret"
WRONG = "canary-Zq7-wrong"


HOSTILE_TABLES = [
    *("claims'; DROP TABLE x; --", 'a"b', "a`b", "A", "1a", "a-b", "a.b", "a b", "", "a" * 64, "a\0b", "é", "a;b"),
    *("a)--", "a/**/b", "pg_catalog.x", "%s", "{x}", "a\n"),
]
HOSTILE_TEXTS = [
    *("'; DROP TABLE siltstone_claims; --", "' OR '1'='1", "\\'; --", '"', "`", "%s%(x)s", "$1", "?", ":s", "{0}"),
    "\r\nFLUSHALL\r\n",
]


def assert_unseen(*texts):
    for text in texts:
        assert "canary-Zq7" not in text, text


def refused(kind, uri, **options):
    """The error of a first call, which shows no secret anywhere."""
    registry = open_registry(uri, **options)
    assert_unseen(repr(registry), str(registry), registry.uri, repr(registry._location))
    with registry, pytest.raises(kind) as raised:
        registry.identity()
    error = raised.value
    assert error.hint
    assert_unseen(str(error), repr(error), repr(error.facts), "".join(traceback.format_exception(error)))
    return error


def works(uri, **options):
    with open_registry(uri, **options) as registry:
        assert_unseen(repr(registry), str(registry), registry.uri, repr(vars(registry)["_location"]))
        [claim] = chain(f"works/{registry.identity()}", 1)
        assert registry.claim(claim) == claim
        with pickle.loads(pickle.dumps(registry)) as copy:
            assert copy.lookup(claim.scope, 0) == claim
        return registry.uri


@pytest.fixture
def guarded_postgresql(postgresql):
    """The server with a role that must give a password."""
    rules = postgresql.directory / "data" / "pg_hba.conf"
    before = rules.read_text()
    with psycopg.connect(postgresql.commits_uri, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE guarded LOGIN PASSWORD '{SECRET}'")
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute("GRANT CREATE ON SCHEMA public TO guarded")
        rules.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{before}")
        connection.execute("SELECT pg_reload_conf()")
        yield postgresql
        rules.write_text(before)
        connection.execute("SELECT pg_reload_conf()")
        connection.execute("DROP OWNED BY guarded")
        connection.execute("DROP ROLE guarded")
        connection.execute("DROP ROLE reader")


def test_postgresql__password__wrong_refused_right_works(guarded_postgresql, monkeypatch):
    place = f"{HOST}:{guarded_postgresql.port}/postgres?table=guarded_claims"
    refused(PermissionDeniedError, f"postgresql://guarded:{WRONG}@{place}")
    refused(PermissionDeniedError, f"postgresql://guarded@{place}")
    refused(PermissionDeniedError, f"postgresql://nobody:{WRONG}@{place}")
    refused(PermissionDeniedError, f"postgresql://reader@{place}_other")
    shown = works(f"postgresql://guarded:{SECRET}@{place}")
    assert shown == f"postgresql://{place}"
    monkeypatch.setenv("CLAIMS_PASSWORD", SECRET)
    works(f"postgresql://guarded@{place}", password_env="CLAIMS_PASSWORD")
    monkeypatch.setenv("PGPASSWORD", SECRET)
    works(f"postgresql://guarded@{place}")
    refused(PermissionDeniedError, f"postgresql://guarded@{place}", password_env="NOT_SET_ANYWHERE")


def test_pickle__password_from_the_environment__is_not_inside(postgresql, monkeypatch):
    monkeypatch.setenv("CLAIMS_PASSWORD", SECRET)
    uris = (
        postgresql.commits_uri,
        f"mysql://u@{HOST}/db",
        f"redis://u@{HOST}",
        f"etcd://u@{HOST}",
    )
    for uri in uris:
        data = pickle.dumps(open_registry(uri, password_env="CLAIMS_PASSWORD"))
        assert b"canary-Zq7" not in data


def test_postgresql__unknown_database__named_without_the_password(postgresql):
    error = refused(InvalidInputError, f"postgresql://postgres:{SECRET}@{HOST}:{postgresql.port}/absent")
    assert "absent" in str(error)


def test_postgresql__fsync_off__refused_unless_accepted():
    class Careless(PostgreSQL):
        def command(self):
            return [*super().command(), "-c", "fsync=off"]

    server = Careless()
    with contextlib.closing(server):
        server.start()
        assert "fsync" in str(refused(UnsafeStoreError, server.commits_uri))
        works(server.commits_uri, accept_weak_durability=True)


def test_mysql__password_and_database__wrong_refused_right_works(mariadb):
    place = f"{HOST}:{mariadb.port}/{BUCKET}"
    with contextlib.closing(pymysql.connect(host=HOST, port=mariadb.port, user="root")) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE USER guarded@'%%' IDENTIFIED BY %s", (SECRET,))
        cursor.execute(f"GRANT ALL ON {BUCKET}.* TO guarded@'%'")
        try:
            refused(PermissionDeniedError, f"mysql://guarded:{WRONG}@{place}")
            refused(PermissionDeniedError, f"mysql://guarded:{SECRET}@{HOST}:{mariadb.port}/mysql")
            error = refused(InvalidInputError, f"mysql://root@{HOST}:{mariadb.port}/absent")
            assert "absent" in str(error)
            works(f"mysql://guarded:{SECRET}@{place}")
            works(f"mariadb://guarded:{SECRET}@{place}?table=other_claims")
        finally:
            cursor.execute("DROP USER guarded@'%'")


def test_mysql__log_not_flushed_at_commit__refused_unless_accepted(mariadb):
    with contextlib.closing(pymysql.connect(host=HOST, port=mariadb.port, user="root")) as connection:
        cursor = connection.cursor()
        cursor.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
        try:
            assert "innodb_flush_log_at_trx_commit" in str(refused(UnsafeStoreError, mariadb.commits_uri))
            works(mariadb.commits_uri, accept_weak_durability=True)
        finally:
            cursor.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 1")


def test_mysql__server_read_only__unavailable(mariadb):
    with contextlib.closing(pymysql.connect(host=HOST, port=mariadb.port, user="root")) as connection:
        cursor = connection.cursor()
        cursor.execute("SET GLOBAL read_only = 1")
        try:
            assert "primary" in str(refused(UnavailableError, mariadb.commits_uri))
        finally:
            cursor.execute("SET GLOBAL read_only = 0")


@pytest.mark.parametrize("payload_table", HOSTILE_TABLES)
@pytest.mark.parametrize(
    "scheme", ["sqlite:///nowhere/claims.db", "postgresql://u@127.0.0.1/db", "mysql://u@127.0.0.1/db"]
)
def test_open__hostile_table_name__refused_before_anything_is_sent(scheme, payload_table):
    with pytest.raises(InvalidInputError):
        open_registry(scheme, table=payload_table)


def test_claim__hostile_scopes_and_values__are_only_data(deployment):
    payloads = HOSTILE_TEXTS
    with open_registry(deployment.uri(), **deployment.options) as registry:
        claims = [
            type(claim)(payload, 0, claim.digest, "", payload) for payload in payloads for claim in chain(payload, 1)
        ]
        assert [registry.claim(claim) for claim in claims] == claims
        assert [registry.lookup(claim.scope, 0) for claim in claims] == claims


@pytest.fixture
def redis_admin(redis_server):
    with redis.Redis(HOST, redis_server.port, decode_responses=True) as client:
        yield client


def test_redis__password__wrong_refused_right_works(redis_server, redis_admin):
    place = f"{HOST}:{redis_server.port}/0"
    redis_admin.execute_command("ACL", "SETUSER", "guarded", "on", f">{SECRET}", "~*", "+@all")
    try:
        refused(PermissionDeniedError, f"redis://guarded:{WRONG}@{place}")
        works(f"redis://guarded:{SECRET}@{place}")
        redis_admin.execute_command("ACL", "SETUSER", "guarded", "-hget")
        redis_admin.execute_command("ACL", "SETUSER", "guarded", "-evalsha", "-eval")
        refused(PermissionDeniedError, f"redis://guarded:{SECRET}@{place}")
    finally:
        redis_admin.execute_command("ACL", "DELUSER", "guarded")


def test_redis__database_number_too_high__invalid(redis_server):
    refused(InvalidInputError, f"redis://{HOST}:{redis_server.port}/999")


@pytest.mark.parametrize(
    ("setting", "weak", "strong"),
    [("appendfsync", "everysec", "always"), ("appendonly", "no", "yes")],
)
def test_redis__answers_before_it_syncs__refused_unless_accepted(redis_server, redis_admin, setting, weak, strong):
    redis_admin.config_set(setting, weak)
    try:
        assert f"{setting} {weak}" in str(refused(UnsafeStoreError, redis_server.commits_uri))
        works(redis_server.commits_uri, accept_weak_durability=True)
    finally:
        redis_admin.config_set(setting, strong)


def test_redis__may_evict_keys__refused_always(redis_server, redis_admin):
    redis_admin.config_set("maxmemory-policy", "allkeys-lru")
    try:
        for accepted in (False, True):
            assert "allkeys-lru" in str(
                refused(UnsafeStoreError, redis_server.commits_uri, accept_weak_durability=accepted)
            )
    finally:
        redis_admin.config_set("maxmemory-policy", "noeviction")


def test_redis__config_forbidden__refused_unless_accepted(redis_server, redis_admin):
    uri = f"redis://managed:{SECRET}@{HOST}:{redis_server.port}/0"
    redis_admin.execute_command("ACL", "SETUSER", "managed", "on", f">{SECRET}", "~*", "+@all", "-config")
    try:
        assert "unknown" in str(refused(UnsafeStoreError, uri))
        works(uri, accept_weak_durability=True)
        redis_admin.config_set("maxmemory-policy", "allkeys-lru")
        refused(UnsafeStoreError, uri, accept_weak_durability=True)
    finally:
        redis_admin.config_set("maxmemory-policy", "noeviction")
        redis_admin.execute_command("ACL", "DELUSER", "managed")


def test_redis__replica__unavailable(redis_server):
    class Replica(Redis):
        def command(self):
            return [*super().command(), "--replicaof", HOST, str(redis_server.port)]

    replica = Replica()
    with contextlib.closing(replica):
        replica.start()
        assert "primary" in str(refused(UnavailableError, replica.commits_uri))


def test_etcd__password__wrong_refused_right_works():
    server = Etcd()
    with contextlib.closing(server):
        server.start()
        place = f"{HOST}:{server.port}"

        def ask(path, **body):
            assert urllib3.request("POST", f"{server.endpoint}/v3/auth/{path}", json=body).status == 200

        ask("user/add", name="root", password=SECRET)
        ask("user/grant", user="root", role="root")
        ask("user/add", name="stranger", password=SECRET)
        ask("enable")
        refused(PermissionDeniedError, f"etcd://root:{WRONG}@{place}")
        refused(PermissionDeniedError, f"etcd://{place}")
        refused(PermissionDeniedError, f"etcd://stranger:{SECRET}@{place}")
        works(f"etcd://root:{SECRET}@{place}")
        with open_registry(f"etcd://root:{SECRET}@{place}") as registry:
            before = registry.identity()
            server.restart()  # its tokens are gone
            assert registry.identity() == before


def test_dynamodb__no_such_table__says_how_to_make_it(dynamodb):
    error = refused(InvalidInputError, dynamodb.commits_uri.replace(BUCKET, "absent"), **dynamodb.commits_options)
    assert "create=True" in str(error)


def test_dynamodb__secret_key_option__is_shown_nowhere(dynamodb):
    keys = {"aws_access_key_id": "id", "aws_secret_access_key": SECRET}
    uri = works(dynamodb.commits_uri.replace(BUCKET, "with-keys"), create=True, **keys)
    assert uri.startswith("dynamodb://with-keys?region=")


def test_dynamodb__no_credentials__permission_denied(dynamodb, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "absent"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    refused(PermissionDeniedError, dynamodb.commits_uri)
