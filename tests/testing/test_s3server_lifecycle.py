"""The fault server listens on loopback only, starts or says why not, and ends with its owner."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from siltstone import errors, open_log
from siltstone.testing.s3server import Faults, FaultServer, server

# -- lifecycle -------------------------------------------------------------------------------------


def refuses_connections(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def wait_until(condition, seconds: float = 15.0) -> bool:
    """Look again and again, as another process gives no other sign of its end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux to list listening sockets")
def test_server__in_a_process__listens_on_loopback_only():
    with FaultServer() as running:
        listening = []
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                address, state = line.split()[1], line.split()[3]
                if state == "0A" and int(address.rpartition(":")[2], 16) == running.port:
                    listening.append(address.rpartition(":")[0])
    assert listening == ["0100007F"]


@pytest.mark.parametrize("in_thread", [True, False])
def test_close__running_with_open_connections__nothing_is_left(in_thread):
    with FaultServer(Faults(latency_ms=60_000), in_thread=in_thread) as running:
        port, pid = running.port, running.pid
        waiting = socket.create_connection(("127.0.0.1", port))
        waiting.sendall(b"GET /bkt/k HTTP/1.1\r\n\r\n")
    assert refuses_connections(port)
    waiting.close()
    with pytest.raises(errors.ClosedError):
        running.stats()
    if not in_thread:
        assert not Path(f"/proc/{pid}").exists()


def test_server__owner_killed__ends_too():
    script = (
        "from siltstone.testing.s3server import FaultServer\n"
        "with FaultServer() as s:\n"
        "    print(s.pid, s.port, flush=True)\n"
        "    input()\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    child, port = map(int, owner.stdout.readline().split())
    assert not refuses_connections(port)
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    ended = wait_until(lambda: refuses_connections(port))
    if not ended:
        os.kill(child, signal.SIGKILL)
    assert ended


def test_close__by_a_forked_copy__leaves_the_owners_server():
    script = (
        "import os\n"
        "from siltstone.testing.s3server import FaultServer\n"
        "with FaultServer() as s:\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        s.close()\n"
        "        os._exit(0)\n"
        "    os.waitpid(pid, 0)\n"
        "    print(s.stats().requests)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == b"0\n"


@pytest.mark.parametrize("in_thread", [True, False])
def test_start__port_in_use__says_so(in_thread, s3):
    with pytest.raises(errors.UnavailableError, match="did not start"), FaultServer(port=s3.port, in_thread=in_thread):
        pass


def test_start__bad_bucket__is_refused():
    with pytest.raises(errors.InvalidInputError), FaultServer(buckets=("Not A Bucket",)):
        pass


def test_command_line__faults_as_flags__are_in_force():
    command = [sys.executable, "-m", "siltstone.testing.s3server", "--port", "0", "--bucket", "one", "--bucket", "two"]
    command += ["--lie", "always", "--latency-ms", "1", "--deny", "list", "--faults", '{"fail_status": 500}']
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        address = process.stdout.readline().decode().split()[-1]
        with urllib.request.urlopen(f"{address}/_faults", timeout=10) as answer:
            found = answer.read()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(f"{address}/two", timeout=10)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 0
    assert Faults().changed(json.loads(found)) == Faults(lie="always", latency_ms=1, deny=("list",), fail_status=500)


@pytest.mark.parametrize(
    "flags", [["--lie", "sometimes"], ["--faults", "[]"], ["--faults", "{"], ["--fail-status", "200"]]
)
def test_command_line__bad_fault__exits_with_usage(flags):
    command = [sys.executable, "-m", "siltstone.testing.s3server", "--port", "0", *flags]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.returncode == 2
    assert b"error:" in done.stderr


def test_server__port_was_a_lying_servers__is_tried_out_anew(monkeypatch):
    with FaultServer(Faults(lie="always"), in_thread=True) as liar:
        with pytest.raises(errors.UnsafeStoreError):
            open_log("s3://bkt/log", storage_options=liar.storage_options, create=True)
        port = liar.port
    monkeypatch.setattr(server._Thread, "start", with_port(server._Thread.start, port))
    with FaultServer(in_thread=True) as honest:
        assert honest.port == port
        open_log("s3://bkt/log", storage_options=honest.storage_options, create=True).close()


def with_port(start, port):
    """As if the system had chosen a port."""
    return lambda self, faults, buckets, _: start(self, faults, buckets, port)
