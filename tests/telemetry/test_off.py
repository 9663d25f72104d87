"""Telemetry that nobody asked for is not there: nothing is wrapped, made, loaded or configured."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
from pathlib import Path

import siltstone as ss
from siltstone import telemetry
from siltstone.commit.memory import MemoryRegistry, MemoryService
from siltstone.ids import SystemIds
from siltstone.log import open_log
from siltstone.store.memory import MemoryStore
from siltstone.telemetry import seams
from telemetry_worlds import fresh_uri, new_table, note

PACKAGE = str(Path(telemetry.__file__).parent)
WORK = """
import sys, logging
import siltstone as ss, pyarrow as pa
table = ss.create("memory://off/orders", schema=pa.schema([("id", pa.int64())]), key="id", shards=1)
table.append([{"id": 1}])
with table.writer() as writer:
    writer.put([{"id": 2}])
table.merge_shards()
assert not any(name.partition(".")[0] == "opentelemetry" for name in sys.modules), "loaded"
assert not logging.getLogger().handlers, "configured"
assert [type(one) for one in logging.getLogger("siltstone").handlers] == [logging.NullHandler], "configured"
"""


def test_open_store__telemetry_is_off__is_what_it_was_before():
    store = ss.open_store(fresh_uri())
    assert type(store.inner) is MemoryStore
    assert type(pickle.loads(pickle.dumps(store)).inner) is MemoryStore


def test_open_log__telemetry_is_off__its_commit_store_is_the_one_given():
    registry = MemoryRegistry(MemoryService(), ids=SystemIds())
    assert open_log(fresh_uri(), commits=registry, create=True, probe=False).commits.registry is registry


def test_seams__telemetry_is_off__are_a_look_at_one_attribute():
    """Whatever of telemetry runs in appends, puts and look-ups does nothing but look whether anybody hears."""
    table = new_table(shards=1)
    with table.writer() as writer:
        writer.put(note(1))
        ran = set()

        def watch(frame, what, _):
            if what == "call" and frame.f_code.co_filename.startswith(PACKAGE):
                ran.add(frame.f_code.co_name)

        sys.setprofile(watch)
        try:
            writer.put(note(2))
            table.append(note(3))
            table.get([3])
            table.scan().to_arrow()
        finally:
            sys.setprofile(None)
    assert seams.sink() is None
    assert ran <= {"call", "add"}  # a traced function's own frame, and a metric's
    assert "call" in ran


def test_import__nothing_asked_for__loads_no_opentelemetry_and_configures_no_logging():
    done = subprocess.run([sys.executable, "-c", WORK], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_traced__telemetry_is_off__leaves_name_signature_and_words_of_a_function():
    assert ss.open.__name__ == "open_table"
    assert "Open the table at a URI" in ss.open.__doc__
    assert list(ss.open.__annotations__)[:2] == ["uri", "version"]


def test_events__no_handler_but_the_one_that_drops_them__reach_nobody(capfd):
    telemetry.events.ALARM.tell(kind="corruption", reason="made up")
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("siltstone.log").getEffectiveLevel() == logging.WARNING
