"""A canary goes in as every kind of credential, through the calls of tables; then it is looked for everywhere.

On Spark: tests/spark/test_secrets.py. Of commit stores alone: tests/commit/test_registry_access.py.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import pickle
import traceback
import warnings

import psycopg
import pyarrow as pa
import pytest

import siltstone as ss
from services import HOST
from siltstone.cli import main
from siltstone.errors import SiltstoneError
from siltstone.store.connect import open_store

pytestmark = pytest.mark.services

CANARY = "canary-3d7e91"
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("body", pa.string())])


class Seen:
    """All that could show a secret, gathered; what may hold it is not put in."""

    def __init__(self):
        self.texts = []

    def add(self, *things):
        for one in things:
            self.texts += [repr(one), str(one)]

    def fails(self, call):
        """A call that must be refused: its error, with all that led to it."""
        try:
            call()
        except SiltstoneError as caught:
            error = caught
        else:
            pytest.fail(f"it was taken: {inspect.getsource(call)}")
        self.texts.append("".join(traceback.format_exception(error)))
        while error is not None:
            self.add(error, error.args, getattr(error, "facts", ""), getattr(error, "hint", ""))
            error = error.__cause__ or error.__context__

    def check(self):
        assert len(self.texts) > 50
        assert [text[:300] for text in self.texts if CANARY in text] == []


@pytest.fixture
def role(postgresql):
    """A role whose password is the canary."""
    name = "canary_role"
    rules = postgresql.directory / "data" / "pg_hba.conf"
    before = rules.read_text()
    with psycopg.connect(postgresql.commits_uri, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{CANARY}-pw'")
        connection.execute(f"GRANT CREATE ON SCHEMA public TO {name}")
        rules.write_text(f"host all {name} 127.0.0.1/32 scram-sha-256\n{before}")
        connection.execute("SELECT pg_reload_conf()")
        yield f"postgresql://{name}:{CANARY}-pw@{HOST}:{postgresql.port}/postgres?table=canary_claims"
        rules.write_text(before)
        connection.execute("SELECT pg_reload_conf()")
        connection.execute(f"DROP OWNED BY {name}")
        connection.execute(f"DROP ROLE {name}")


def work(table, seen, trial, wal):
    """Every kind of object is written, and everything is shown."""
    seen.add(table, table.append([{"id": one, "body": f"late {one}"} for one in range(20)]))
    seen.add(table.upsert([{"id": 1, "body": "x"}]), table.delete("id = 2"), table.update({"body": "'y'"}, "id = 3"))
    seen.add(table.tag("t"), table.set({"owner": "me"}), table.compact(), table.create_text_index("body"))
    build = table.begin_text_index("body", name="other", items=2)
    seen.add(build, build.run(0), build.missing(), table.indexes(), table.search("body", "late"))
    with table.writer() as writer:
        seen.add(writer, writer.put([{"id": 100, "body": "late"}]), writer.stats(), writer.wal_stats())
        seen.add(table.checkpoint("durable", scope="durable"))
    seen.add(table.merge_shards(), table.shards(), table.checkpoint("all"), table.checkpoints())
    seen.add(table.scan(fresh=True), table.changes(1), table.history(), table.sql("select 1 as a"))
    clone = table.clone(*trial[0], at="all", **trial[1])
    seen.add(clone, clone.append([{"id": 500, "body": "z"}]), clone.detach(), clone.history())
    seen.add(table.gc(keep_days=0), table.gc(keep_days=0, dry_run=True), table.settings, table.tags, wal)


def objects(store):
    return [(info.key, store.get(info.key, limit=2**28)) for info in store.list()]


def wrong_calls(again, place, secret, role, other):
    """Calls that are refused, each for another reason."""
    return (
        lambda: again.scan(where="nope = 1"),
        lambda: again.append([{"wrong": 1}]),
        lambda: again.at(version=999),
        lambda: again.search("nope", "x"),
        lambda: again.delete_checkpoint("nope"),
        lambda: ss.open(place.uri, storage_options=secret, commits=f"{role}x-other", wal=other.uri).append([{"id": 9}]),
        lambda: ss.open(f"{place.uri}/absent", storage_options=secret),
        lambda: ss.open(place.uri, storage_options={**secret, "aws_secret_acces_key": CANARY}),
        lambda: ss.open(place.uri.replace("s3://", f"s3://u:{CANARY}@"), storage_options=secret),
        lambda: ss.open_commits(role.replace("-pw@", "-wrong@")).identity(),
        lambda: ss.open_commits(role.replace("postgresql", "postgresq")),
        lambda: ss.create(place.uri, schema=SCHEMA, storage_options=secret, commits=role),
        lambda: ss.open(place.uri, storage_options=secret).append([{"id": 900, "body": "no commit store"}]),
    )


def test_secrets__through_every_call__are_in_no_object_log_error_or_text(places, role, caplog, capsys, monkeypatch):
    place, second, wal, other = (places.store("ministack") for _ in range(4))
    secret = {**place.options, "aws_secret_access_key": f"{CANARY}-key", "aws_session_token": f"{CANARY}-token"}
    caplog.set_level(logging.DEBUG)
    seen = Seen()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        table = ss.create(
            *(place.uri,),
            schema=SCHEMA,
            key="id",
            shards=2,
            commits=role,
            storage_options=secret,
            wal=wal.uri,
            wal_options=secret,
        )
        work(table, seen, ((second.uri,), {"storage_options": secret, "commits": role}), wal.uri)
        again = ss.open(place.uri, storage_options=secret, commits=role, wal=wal.uri, wal_options=secret)
        seen.add(
            again, again.name, again.uri, again._log, again._log.store, again._log.identity, vars(again._log.store)
        )
        for call in wrong_calls(again, place, secret, role, other):
            seen.fails(call)
        monkeypatch.setenv("CANARY_KEY", f"{CANARY}-key")
        named = {**place.options, "aws_secret_access_key": "env:CANARY_KEY"}
        seen.add(pickle.dumps(ss.open(place.uri, storage_options=named)))
        for command in (
            ["log", place.uri],
            ["show", place.uri],
            ["verify", place.uri],
            ["checkpoint", "list", place.uri],
        ):
            options = [f"--storage-option={name}={value}" for name, value in named.items()]
            with contextlib.suppress(SystemExit):
                main([*command, *options, "--commits", role])
    for root in (place, second, wal):
        found = objects(open_store(root.uri, place.options))
        assert found
        assert [key for key, data in found if CANARY.encode() in data or CANARY in key] == []
    printed = capsys.readouterr()
    seen.texts += [printed.out, printed.err, caplog.text, *(str(one.message) for one in warned)]
    assert "late 1" not in caplog.text, "rows are not logged either"
    seen.check()
    ss.drop(second.uri, storage_options=secret, commits=role)
