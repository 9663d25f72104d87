"""A canary goes through every call as a credential, and is then looked for in all that Spark and siltstone wrote."""

from __future__ import annotations

import json

import pytest

import spark_cluster

CANARY = "canary-5e9f1c"
DRIVER = """
import json, sys, traceback
import pyarrow as pa
import siltstone as ss
from spark_cluster import driver_session

job = json.loads(sys.argv[1])
uri, options = job["uri"], job["options"]
spark = driver_session()
schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.int64()), ("body", pa.string())])
table = ss.create(uri, schema=schema, key="id", storage_options=options, commits=job["commits"])
rows = spark.range(100).selectExpr("id", "id as x", "concat('word', id % 7) as body")
ss.spark.append(rows, table)
ss.spark.upsert(rows.selectExpr("id", "-1L as x", "body"), table)
ss.spark.update(spark, table, {"x": "x - 1"}, "id < 10")
ss.spark.delete(spark, table, "id < 5")
ss.spark.compact(spark, table)
frame = ss.spark.read(spark, table, where="x < 0")
frame.explain(True)
print(frame, frame.schema, table, ss.spark.read(spark, table).count())
given = {f"storage.{name}": value for name, value in options.items()} | {"commits_secret": job["commits"]}
other = rows.selectExpr("id + 1000 as id", "x", "body")
other.write.format("siltstone").mode("append").options(**given).save(uri)
loaded = spark.read.format("siltstone").options(**given).load(uri)
loaded.explain(True)
print(loaded, loaded.count())
text = ss.spark.build_text_index(spark, table, "body")
print(text, table.indexes())
found = ss.spark.search(spark, table, "body", "word3")
found.explain(True)
print(found, found.count())
before = table.checkpoint("before")
trial = table.clone(job["trial"], at=before, storage_options=options, commits=job["commits"])
ss.spark.append(rows.selectExpr("id + 5000 as id", "x", "'late' as body"), trial)
print(before, trial, table.checkpoints(), ss.spark.read(spark, trial).count())
for wrong in ({"version": "99"}, {"where": "nope = 1"}, {"commits": job["commits"]}):
    try:
        spark.read.format("siltstone").options(**{**given, **wrong}).load(uri).count()
    except Exception:
        traceback.print_exc()
    else:
        raise SystemExit(f"{wrong} was taken")
spark.stop()
print("done")
"""


@pytest.mark.slow
def test_secrets__through_every_call__are_in_no_log_plan_or_error(places, postgresql, tmp_path):
    place = places.store("ministack")
    user = postgresql.commits_uri.partition("://")[2]
    commits = f"postgresql://{user.partition('@')[0].partition(':')[0]}:{CANARY}-pw@{user.partition('@')[2]}"
    options = {**place.options, "aws_secret_access_key": f"{CANARY}-key"}
    events = tmp_path / "events"
    events.mkdir()
    config = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }
    job = json.dumps({"uri": place.uri, "trial": f"{place.uri}-trial", "options": options, "commits": commits})
    done = spark_cluster.run(DRIVER, job, master="local[2]", config=config)
    assert done.stdout.endswith("done\n"), done.stdout + done.stderr
    written = [one for one in events.rglob("*") if one.is_file()]
    assert sum(one.stat().st_size for one in written) > 10_000
    seen = done.stdout + done.stderr + "".join(one.read_text(errors="replace") for one in written)
    assert "siltstone" in seen
    assert CANARY not in seen
