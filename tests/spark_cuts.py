"""A driver that is killed once, with several jobs in the middle of what they do: each waits at a point of its own.

A driver that starts takes longer than all of these jobs. ``cut_off`` is called by a test, the rest by the driver.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path

import figures
import siltstone as ss
import spark_ingests
import spark_texts
from siltstone.api.index_builds import IndexBuild
from siltstone.api.staging import Staging
from spark_cluster import DRIVER_SECONDS_MAX, answers, driver_session, start, wait_for_end
from spark_drivers import SCHEMA, frame, write
from spark_faults import FaultySource, hold

TEXT, INGEST = "text, before commit", "ingest, middle"
APPENDS = ("append, before", "append, after")
SCRIPT = "import spark_cuts; spark_cuts.main()"
POLL_SECONDS = 0.1


def table_of(root: Path, point: str) -> str:
    """Where the table is whose job is cut off at a point."""
    return str(root / point.replace(", ", "-").replace(" ", "-"))


def marker_of(root: Path, point: str) -> Path:
    """A file that is there when the job is at its point."""
    return Path(f"{table_of(root, point)}.met")


def cut_off(root: Path, points: list[str], *, master: str, config: dict[str, str]) -> list[dict]:
    """Kill a driver when each job is at its point, and wait for the end of its JVM; what the driver told."""
    driver = start(SCRIPT, json.dumps({"root": str(root), "points": points}), master=master, config=config)
    give_up = time.monotonic() + DRIVER_SECONDS_MAX
    while not all(marker_of(root, point).exists() for point in points):
        if driver.poll() is not None or time.monotonic() > give_up:
            driver.kill()
            raise AssertionError("not each job came to its point\n{}\n{}".format(*driver.communicate()))
        time.sleep(POLL_SECONDS)
    driver.kill()
    told = answers(driver.communicate()[0])
    assert driver.returncode == -signal.SIGKILL
    figures.record("kills")
    wait_for_end([told[0]["jvm"]])
    return told


# -- in the driver ---------------------------------------------------------------------------------


def main() -> None:
    """Bring one job after another to its point, where it waits for the end."""
    asked = json.loads(sys.argv[1])
    root = Path(asked["root"])
    spark = driver_session()
    spark.dataSource.register(FaultySource)
    spark_texts.say(jvm=spark._jvm.java.lang.ProcessHandle.current().pid())
    Staging.commit = _held_appends(root, Staging.commit)
    IndexBuild.commit = _held_build(root)
    # Those last that keep one of two cores.
    for point in sorted(asked["points"], key=["task wrote", INGEST].__contains__):
        job = threading.Thread(target=_begin, args=(spark, root, point), name=point, daemon=True)
        job.start()
        while not marker_of(root, point).exists():
            if not job.is_alive():
                sys.exit(f"{point}: the job ended and did not come to its point")
            time.sleep(POLL_SECONDS)
    threading.Event().wait()


def _begin(spark, root: Path, point: str) -> None:
    uri, marker = table_of(root, point), str(marker_of(root, point))
    if point == TEXT:
        ss.spark.build_text_index(spark, spark_texts.make(uri), "body", items=spark_texts.ITEMS)
    elif point == INGEST:
        spark.conf.set(*spark_ingests.SMALL_BATCHES)
        ss.create(uri, schema=spark_ingests.SCHEMA, key="id", shards=spark_ingests.SHARDS)
        print(spark_ingests.put(spark, uri, fault="hold@middle", marker=marker), file=sys.stderr)
    else:
        ss.create(uri, schema=SCHEMA)
        # A thread has no session of its own, where Spark looks for formats.
        spark._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
        if point in APPENDS:
            ss.spark.append(frame(spark), uri, once="job")
        else:
            print(write(spark, uri, fault=f"hold@{point}", marker=marker), file=sys.stderr)


def _held_appends(root: Path, commit):
    """``Staging.commit`` that waits before or behind what it does, by the name of its thread."""

    def held(self, works):
        point = threading.current_thread().name
        if point == "append, before":
            hold(str(marker_of(root, point)))
        done = commit(self, works)
        if point == "append, after":
            hold(str(marker_of(root, point)))
        return done

    return held


def _held_build(root: Path):
    def held(self, progress=None):
        spark_texts.say(build=self.name, missing=self.missing())
        hold(str(marker_of(root, TEXT)))

    return held
