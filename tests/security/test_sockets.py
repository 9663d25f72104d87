"""Nothing listens to the network: no call of tables opens a port, and servers of ours listen on this machine alone."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from siltstone.testing.s3server import FaultServer
from sources import PACKAGE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells who listens in /proc")
LISTENS = "0A"
LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}


def listening(pid):
    """(address, port) of the sockets that a process listens on."""
    inodes = set()
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            target = one.readlink().name
            inodes |= {target[8:-1]} if target.startswith("socket:[") else set()
    found = set()
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes and (fields[3] == LISTENS or table.startswith("udp")):
                address, port = fields[1].split(":")
                found.add((address, int(port, 16)))
    return found


CHILD = """
import sys
import pyarrow as pa
import siltstone as ss
schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("body", pa.string())])
table = ss.create(sys.argv[1], schema=schema, key="id", shards=2)
table.append([{"id": 1, "body": "word"}])
table.create_text_index("body")
with table.writer() as writer:
    writer.put([{"id": 2, "body": "word"}])
    table.search("body", "word", fresh=True).to_arrow()
    table.sql("select count(*) from t").to_arrow()
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_tables__in_use__listen_nowhere(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path / "t")], stdin=-1, stdout=-1, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        assert listening(child.pid) == set()
    finally:
        child.stdin.close()
        child.wait(60)


def test_fault_server__started__listens_on_this_machine_alone():
    with FaultServer() as server:
        port = int(server.endpoint.rpartition(":")[2])
        found = set().union(*(listening(pid) for pid in family()))
        assert {address for address, at in found if at == port} in ({one} for one in LOOPBACK)


def family():
    """This process and its children."""
    found = {os.getpid()}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread of an earlier test ended meanwhile; it has none
            found |= {int(one) for one in (task / "children").read_text().split()}
    return found


def test_source__each_module__binds_to_no_address_of_the_network():
    named = {path.name for path in PACKAGE.rglob("*.py") for line in path.read_text().splitlines() if "0.0.0.0" in line}
    assert named == set()
