"""No secret and no row leaves the process through telemetry or logs, whatever happens."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest
from opentelemetry.trace import StatusCode

import siltstone as ss
from siltstone.errors import SiltstoneError
from siltstone.store.connect import open_store
from siltstone.telemetry import seams
from siltstone.telemetry.text import name_of
from siltstone.testing.s3server import Faults, FaultServer
from telemetry_worlds import SCHEMA, note

CANARY = "c4n4ry-s3cr3t-v4lu3"
ROW = "Jane-Doe-31415926"


def attempt(call, *given, **options):
    """A call that may fail: what it tells is looked at, not what it does."""
    try:
        return call(*given, **options)
    except SiltstoneError as error:
        return error


@pytest.mark.parametrize(
    "faults",
    [
        Faults(),
        Faults(lie="always"),
        Faults(deny=("put",)),
        Faults(full=True),
        Faults(fail_every=3, fail_status=400),
        Faults(deny=("get", "list")),
    ],
    ids=["honest", "lies", "denies", "full", "fails", "unreadable"],
)
def test_told__secrets_in_options_and_uris__are_nowhere(ears, tmp_path, faults):
    ears.enable(requests=True)
    with FaultServer(in_thread=True) as server:
        options = {
            **server.storage_options,
            "aws_access_key_id": f"{CANARY}-id",
            "aws_secret_access_key": CANARY,
            "aws_session_token": f"{CANARY}-token",
        }
        table = ss.create("s3://bkt/orders", schema=SCHEMA, key="id", shards=1, storage_options=options)
        server.set(faults)
        attempt(ss.create, f"s3://{faults.full}-{faults.lie}/x", schema=SCHEMA, storage_options=options)
        attempt(table.append, note(1))
        attempt(table.merge_shards)
        attempt(ss.open, "s3://bkt/orders", storage_options=options)
        attempt(ss.open, f"s3://user:{CANARY}@bkt/orders", storage_options=options)
        attempt(ss.open, f"s3://bkt/orders?token={CANARY}", storage_options=options)
        attempt(ss.open, "s3://bkt/orders", storage_options={**options, "aws_secret_acess_key": CANARY})
        attempt(
            ss.create,
            "s3://bkt/y",
            schema=SCHEMA,
            storage_options=options,
            commits=f"postgresql://u:{CANARY}@127.0.0.1:1/db",
        )
        attempt(ss.create, f"{tmp_path}/z", schema=SCHEMA, commits=f"redis://:{CANARY}@127.0.0.1:1/0")
    assert ears.finished("siltstone.store.create")
    assert CANARY not in ears.everything()


def test_told__rows_that_are_refused_and_kept__are_nowhere(ears):
    ears.enable(requests=True)
    schema = pa.schema([pa.field("name", pa.string(), nullable=False), ("n", pa.int64())])
    table = ss.create("memory://telemetry-rows/people", schema=schema, key="name", shards=2, probe=False)
    table.append([{"name": ROW, "n": 1}])
    for call in (
        lambda: table.append([{"name": ROW, "n": 2}]),
        lambda: table.append([{"name": "x", "n": ROW}]),
        lambda: table.append([{"name": None, "n": 1}]),
        lambda: table.delete(f"nme = '{ROW}'"),
        lambda: table.delete(f"cast(name as int) = 3 and name <> '{ROW}x'"),
        lambda: table.update({"n": f"'{ROW}'"}),
        lambda: table.get([{"name": ROW, "x": 1}]),
        lambda: table.search("name", f'"{ROW}').to_arrow(),
        lambda: table.search("n", ROW).to_arrow(),
        lambda: table.scan(where=f"name = {ROW}").to_arrow(),
    ):
        attempt(call)
    with table.writer() as writer:
        writer.put([{"name": ROW, "n": 3}])
        attempt(writer.put, [{"name": ROW, "n": ROW}])
    table.merge_shards()
    table.create_text_index("name")
    assert table.search("name", ROW).to_arrow().num_rows == 1
    assert ears.count("siltstone.commits", outcome="duplicate-key") == 1
    assert ROW not in ears.everything()


def test_told__a_driver_made_up_words_with_a_password__masks_it(ears):
    @seams.traced("siltstone.trial")
    def fail():
        raise ss.errors.UnavailableError(f"can't reach postgresql://ana:{CANARY}@db:5432/x, password={CANARY}")

    with pytest.raises(ss.errors.UnavailableError):
        fail()
    (span,) = ears.finished()
    assert span.status.description == "can't reach postgresql://***@db:5432/x, password=***"


def test_told__events_with_secrets_in_their_fields__reach_plain_handlers_masked(ears):
    ss.telemetry.events.FENCED.tell(table=f"s3://u:{CANARY}@b/t", shard="a", reason=f"token={CANARY} \x1b[2J")
    (record, _) = ears.records.found[0]
    assert CANARY not in logging.Formatter().format(record) + str(vars(record))
    assert (record.table, record.reason) == ("t", "token=*** \\x1b[2J")


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("s3://bucket/a/orders", "orders"),
        ("s3://bucket/", "bucket"),
        ("file:///srv/lake/orders", "orders"),
        (f"s3://me:{CANARY}@bucket", "bucket"),
        ("memory://", "memory"),
        ("memory://x\x1b[2J", r"x\x1b[2J"),
        ("s3://b/" + "x" * 500, "x" * 64),
    ],
)
def test_name_of__any_uri__is_short_and_printable_and_without_userinfo(uri, name):
    assert name_of(uri) == name


def test_store__its_keys__are_in_no_metric_and_no_attribute(ears):
    ears.enable(requests=True)
    store = open_store("memory://telemetry-keys")
    store.put("some/very-special-key", b"x")
    list(store.list("some"))
    attempt(store.get, "some/other-special-key")
    assert "special-key" not in ears.everything()
    assert [span.status.status_code for span in ears.finished()] == [StatusCode.UNSET] * 3  # "not found" is an answer
