"""What the tests' servers have in common: on loopback, in a directory of its own, ended with the test session.

What must hold:
- A server listens on 127.0.0.1 only, keeps its ports over stop, kill and restart, and outlives no test run:
  on Linux the kernel kills it with its parent, elsewhere its process group is killed at exit.
- ``start`` returns when the server answered a request of its own protocol, or raises with the end of its log.
- A server that is not installed is an error that says what to install. No test is skipped for it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

HOST = "127.0.0.1"
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 20.0
START_ATTEMPTS = 5
POLL_SECONDS = 0.05
LOG_TAIL_BYTES = 4000

# Steps down to another user where one is named, asks the kernel to kill the server with its parent, then becomes
# the server. The parent-death signal is set last: changing the user would clear it.
_LAUNCH = """
import ctypes, os, pwd, sys
parent, user, *command = sys.argv[1:]
if user:
    entry = pwd.getpwnam(user)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
    if os.getppid() != int(parent):
        sys.exit("the test session is gone")
os.execv(command[0], command)
"""

# The kernel takes the thread that started a child for its parent, so one thread that lives as long as the
# process starts them all: a test may restart a server from a thread that ends.
_spawner = ThreadPoolExecutor(1, thread_name_prefix="spawner")
_handed_out: set[int] = set()


class ServiceError(Exception):
    """A server is not installed, did not start or did not stop."""


class Service(ABC):
    """One server. Stopping, killing and restarting keep its data, unless the class says otherwise."""

    name: ClassVar[str]
    install: ClassVar[str] = "run ./run test, which installs it"
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    port_count: ClassVar[int] = 1
    user: str = ""

    def __init__(self) -> None:
        # Not below pytest's own directory: that one is closed to the user PostgreSQL runs as.
        self.directory = Path(tempfile.mkdtemp(prefix=f"silt-{self.name}-"))
        self.ports: list[int] = []
        self.environment: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._prepared = False
        self._was_ready = False
        self._pid = os.getpid()
        atexit.register(self.close)

    @property
    def port(self) -> int:
        return self.ports[0]

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @abstractmethod
    def command(self) -> list[str]:
        """What to run, the program with its full path."""

    @abstractmethod
    def ping(self) -> None:
        """Ask for something that only a working server answers; raise whatever it raises."""

    def prepare(self) -> None:  # noqa: B027 - most servers make their own files
        """Make what the first start needs."""

    def first_ready(self) -> None:  # noqa: B027 - most servers need nothing
        """Make what the tests need, once, in the running server."""

    def variables(self) -> dict[str, str]:
        """Environment of the server."""
        return {}

    def start(self) -> None:
        """Start it and wait until it answers."""
        if self.running:
            return
        if not self._prepared:
            self.prepare()
            self._prepared = True
        deadline = time.monotonic() + START_SECONDS_MAX
        for _ in range(START_ATTEMPTS):
            if not self._was_ready:
                self.ports = free_ports(self.port_count)
            self._spawn()
            if self._wait_until_ready(deadline):
                if not self._was_ready:
                    self.first_ready()
                    self._was_ready = True
                return
            # Another process took the port in between, or the last life of this server is not quite over.
            time.sleep(POLL_SECONDS * 4)
        raise ServiceError(f"{self.name} ended {START_ATTEMPTS} times while starting; its log ends:\n{self._tail()}")

    def stop(self) -> None:
        """End it as an operator would; kill it where it takes too long."""
        if self._process is None:
            return
        if self.running:
            self._process.send_signal(self.stop_signal)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS_MAX)
        self.kill()

    def kill(self) -> None:
        """End it at once, as a power cut would end the process (SIGKILL)."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(STOP_SECONDS_MAX)
        self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """Kill it and remove its files."""
        if os.getpid() != self._pid:
            return  # a forked child must not end its parent's servers
        atexit.unregister(self.close)
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def program(self, name: str, *directories: str) -> str:
        """Full path of a program on the PATH or in one of some directories (patterns)."""
        found = shutil.which(name)
        if found is not None:
            return found
        for pattern in (*directories, "/usr/sbin", "/usr/local/sbin"):
            root = Path(pattern.partition("*")[0]).anchor
            for candidate in sorted(Path(root).glob(f"{pattern.lstrip('/')}/{name}"), reverse=True):
                if os.access(candidate, os.X_OK):
                    return str(candidate)
        raise ServiceError(f"{self.name}: the program {name} is not installed; {self.install}")

    def run(self, *command: str) -> None:
        """Run a program of the server's to its end, as the server's user."""
        done = self._launch(list(command)).wait(START_SECONDS_MAX)
        if done != 0:
            raise ServiceError(f"{self.name}: {command[0]} ended with {done}; the log ends:\n{self._tail()}")

    def _spawn(self) -> None:
        self._process = self._launch(self.command())

    def _launch(self, command: list[str]) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return _spawner.submit(
                subprocess.Popen,
                [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), self.user, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env={**os.environ, **self.variables()},
                start_new_session=True,
            ).result()

    def _wait_until_ready(self, deadline: float) -> bool:
        refusal = ""
        while self.running:
            try:
                self.ping()
            except Exception as error:  # each driver has its own; the last one is reported
                refusal = repr(error)
            else:
                return True
            if time.monotonic() > deadline:
                self.kill()
                late = f"{self.name} did not answer within {START_SECONDS_MAX:.0f} s ({refusal})"
                raise ServiceError(f"{late}; its log ends:\n{self._tail()}")
            time.sleep(POLL_SECONDS)
        return False

    @property
    def _log(self) -> Path:
        return self.directory / "log"

    def _tail(self) -> str:
        return self._log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace") if self._log.exists() else "(no log)"


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now and that were not handed out before in this process."""
    ports: list[int] = []
    with contextlib.ExitStack() as held:
        while len(ports) < count:
            probe = held.enter_context(socket.socket())
            probe.bind((HOST, 0))
            port = probe.getsockname()[1]
            if port not in _handed_out:
                _handed_out.add(port)
                ports.append(port)
    return ports


def is_open(port: int) -> bool:
    """Whether somebody listens on a loopback port."""
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex((HOST, port)) == 0
