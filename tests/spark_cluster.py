"""Spark as it runs elsewhere: a standalone master with workers, a Spark Connect server, and drivers of their own.

What must hold:
- Everything listens on 127.0.0.1 and ends with the tests (see service_base).
- A driver is a process of its own, so that it can be killed, and so that it can have a session of any kind.

A driver's script gets its session by ``driver_session()``, and so does what a driver does that takes orders:

    with cluster(workers=2) as here:
        here.driver().do("spark_drivers", "jobs", {"uri": "..."})
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING, ClassVar

import pyspark

import siltstone.spark
from service_base import HOST, Service, ServiceError
from siltstone.spark.java import find_java, java_home
from spark_classes import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyspark.sql import SparkSession

TESTS = Path(__file__).parent
SPARK_HOME = Path(pyspark.__file__).parent
DRIVER_SECONDS_MAX = 500.0  # a machine that does other things too takes three times as long
EXECUTOR_MB = 512
DRIVERS = 3  # that a cluster has room for, at the same time
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.quantile": "0.5",
    "spark.task.maxFailures": "4",
}
# The executors of a driver that was killed go when the master notices: nobody waits for all cores to be free.
AT_ONCE = {"spark.scheduler.maxRegisteredResourcesWaitingTime": "1s"}
_DONE = "done\n"
_MASTER = "SILTSTONE_TEST_MASTER"
_CONFIG = "SILTSTONE_TEST_CONFIG"


def driver_session(**config: str) -> SparkSession:
    """The session of a driver that ``run`` or ``start`` started; dots in keys are written as two underscores."""
    asked = json.loads(os.environ[_CONFIG]) | {key.replace("__", "."): value for key, value in config.items()}
    return siltstone.spark.session(master=os.environ[_MASTER], config=asked)


def start(
    script: str,
    *arguments: str,
    master: str,
    config: dict[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
    stderr: int | IO[str] = subprocess.PIPE,
) -> subprocess.Popen[str]:
    """Start a driver: Python text that asks for ``driver_session()``; its output is in pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env={**_clean(), _MASTER: master, _CONFIG: json.dumps(config or {}), "PYTHONPATH": str(TESTS)},
    )


def run(
    script: str, *arguments: str, master: str, config: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a driver to its end; an error where it fails, with all that it printed."""
    driver = start(script, *arguments, master=master, config=config)
    try:
        out, err = driver.communicate(timeout=DRIVER_SECONDS_MAX)
    finally:
        driver.kill()
    if driver.returncode != 0:
        raise AssertionError(f"the driver ended with {driver.returncode}\n{out}\n{err}")
    return subprocess.CompletedProcess(driver.args, driver.returncode, out, err)


class Driver:
    """A driver that takes orders: one process and one session for what needs none of its own."""

    def __init__(self, *, master: str, config: dict[str, str]) -> None:
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the driver
        script = "import spark_cluster; spark_cluster.take_orders()"
        self.process = start(script, master=master, config=config, stdin=subprocess.PIPE, stderr=self._said)

    def do(self, module: str, name: str, job: dict) -> list[dict]:
        """The answers of a function of a module; an error where the driver ends meanwhile, with all that it printed."""
        self.process.stdin.write(json.dumps([module, name, job]) + "\n")
        self.process.stdin.flush()
        patience = threading.Timer(DRIVER_SECONDS_MAX, self.process.kill)
        patience.start()
        try:
            return answers(self._hear())
        finally:
            patience.cancel()

    def _hear(self) -> str:
        said = ""
        for line in self.process.stdout:
            if line == _DONE:
                return said
            said += line
        self._said.seek(0)
        raise AssertionError(f"the driver ended with {self.process.wait()}\n{said}\n{self._said.read()}")

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self._said.close()


def take_orders() -> None:
    """What a ``Driver`` does in its process. Its first error is its end."""
    for line in sys.stdin:
        module, name, job = json.loads(line)
        getattr(importlib.import_module(module), name)(job)
        print(_DONE, end="", flush=True)


def answers(text: str) -> list[dict]:
    """The JSON lines of what a driver printed."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def _clean() -> dict[str, str]:
    """This process's environment, without what a session of its own has set there."""
    own = ("SPARK_", "PYSPARK_")
    return {name: value for name, value in os.environ.items() if name == OPTIONS or not name.startswith(own)}


class SparkDaemon(Service):
    """A JVM of Spark's that serves until it is stopped."""

    memory: ClassVar[str] = "256m"

    def prepare(self) -> None:
        self.java_home = java_home(find_java(), directory=self.directory)

    def variables(self) -> dict[str, str]:
        return {
            "JAVA_HOME": str(self.java_home),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(TESTS),
            # The port of the master's REST service is fixed.
            "SPARK_DAEMONOPTIONS_OPTS": f"-Dspark.master.rest.enabled=false {os.environ.get(OPTIONS, '')}",
            "SPARK_DAEMON_MEMORY": self.memory,
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": HOST,
        }


class SparkMaster(SparkDaemon):
    name = "spark-master"
    port_count = 2

    @property
    def uri(self) -> str:
        return f"spark://{HOST}:{self.port}"

    def command(self) -> list[str]:
        ports = ["--port", str(self.port), "--webui-port", str(self.ports[1])]
        return [*_class("org.apache.spark.deploy.master.Master"), "--host", HOST, *ports]

    def ping(self) -> None:
        self.state()

    def state(self) -> dict:
        """What the master knows: workers, applications."""
        with urllib.request.urlopen(f"http://{HOST}:{self.ports[1]}/json/", timeout=5) as answer:
            return json.load(answer)


class SparkWorker(SparkDaemon):
    name = "spark-worker"
    port_count = 2

    def __init__(self, master: SparkMaster, *, cores: int, host: str = HOST) -> None:
        super().__init__()
        self._master = master
        self._cores = cores
        self.host = host

    def command(self) -> list[str]:
        ports = ["--port", str(self.port), "--webui-port", str(self.ports[1])]
        means = ["--cores", str(DRIVERS * self._cores), "--memory", f"{DRIVERS * EXECUTOR_MB}m"]
        files = ["--work-dir", str(self.directory / "work")]
        worker = _class("org.apache.spark.deploy.worker.Worker")
        return [*worker, "--host", self.host, *ports, *means, *files, self._master.uri]

    def ping(self) -> None:
        known = self._master.state()["workers"]
        if not any(each["port"] == self.port and each["state"] == "ALIVE" for each in known):
            raise ServiceError("the master does not know the worker yet")


class SparkConnect(SparkDaemon):
    """A Spark Connect server on ``local[2]``, open to whoever has its token."""

    name = "spark-connect"
    memory = "1g"

    def __init__(self) -> None:
        super().__init__()
        self._token = secrets.token_hex(16)

    @property
    def uri(self) -> str:
        # The client sends a token in the clear to this name only.
        return f"sc://localhost:{self.port}/;token={self._token}"

    def variables(self) -> dict[str, str]:
        return super().variables() | {"SPARK_CONNECT_AUTHENTICATE_TOKEN": self._token, "SPARK_CONNECT_MODE": "0"}

    def command(self) -> list[str]:
        settings = {
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.bindAddress": HOST,
            "spark.driver.host": HOST,
            "spark.log.level": "WARN",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.warehouse.dir": (self.directory / "warehouse").as_uri(),
            "spark.ui.enabled": "false",
        }
        options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        server = "org.apache.spark.sql.connect.service.SparkConnectServer"
        return [str(SPARK_HOME / "bin" / "spark-submit"), "--class", server, "--master", "local[2]", *options]

    def ping(self) -> None:
        socket.create_connection((HOST, self.port), 5).close()


def _class(name: str) -> list[str]:
    return [str(SPARK_HOME / "bin" / "spark-class"), name]


class Cluster:
    """A standalone master with workers."""

    def __init__(self, *, workers: int, cores: int) -> None:
        self.daemon = SparkMaster()
        # Spark never runs a speculative attempt on the host of the first one: loopback goes by two names here.
        hosts = itertools.cycle((HOST, "localhost"))
        self.workers = [SparkWorker(self.daemon, cores=cores, host=next(hosts)) for _ in range(workers)]
        self._drivers: dict[str, Driver] = {}
        self.settings = {
            "spark.cores.max": str(workers * cores),
            "spark.executor.cores": str(cores),
            "spark.executor.extraJavaOptions": os.environ.get(OPTIONS, ""),
            "spark.executor.memory": f"{EXECUTOR_MB}m",
            "spark.executorEnv.PYTHONPATH": str(TESTS),
            # No task starts before every executor is there, so that the first job is spread over all of them.
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        }

    @property
    def master(self) -> str:
        """The URL that a session takes as its master."""
        return self.daemon.uri

    def open(self) -> None:
        self.daemon.start()
        with ThreadPoolExecutor(len(self.workers)) as threads:
            list(threads.map(SparkWorker.start, self.workers))

    def close(self) -> None:
        for each in (*self._drivers.values(), *self.workers, self.daemon):
            each.close()

    def driver(self, **config: str) -> Driver:
        """The driver with these settings that takes orders on this cluster; a new one where it has ended."""
        name = json.dumps(config)
        found = self._drivers.get(name)
        if found is None or found.process.poll() is not None:
            found = self._drivers[name] = Driver(master=self.master, config=self.settings | config)
        return found

    def executors(self, application: str) -> list[int]:
        """Process ids of the executors of a driver's application that run now."""
        homes = {f"spark://Worker@{worker.host}:{worker.port}" for worker in self.workers}
        return [
            pid
            for pid, (_, command) in processes().items()
            if application in (words := command.split()) and homes & {*words}
        ]


@contextlib.contextmanager
def cluster(*, workers: int = 2, cores: int = 1) -> Iterator[Cluster]:
    """A standalone cluster that ends with the block."""
    made = Cluster(workers=workers, cores=cores)
    try:
        made.open()
        yield made
    finally:
        made.close()


def wait_for_end(jvms: Collection[int]) -> None:
    """Wait until JVMs are gone whose driver was killed: they notice by themselves."""
    give_up = time.monotonic() + DRIVER_SECONDS_MAX
    # Nobody may be there to take notice of the end of an orphan: its id stays, and what it ran does not.
    while any("org.apache.spark" in command for pid, (_, command) in processes().items() if pid in jvms):
        assert time.monotonic() < give_up, "a JVM outlives its driver"
        time.sleep(0.2)


def python_workers(jvm: int) -> list[int]:
    """Process ids of the Python workers below an executor, or below the JVM of a local session."""
    running = processes()
    daemons = {pid for pid, (parent, command) in running.items() if parent == jvm and "pyspark.daemon" in command}
    return [pid for pid, (parent, _) in running.items() if parent in daemons]


def processes() -> dict[int, tuple[int, str]]:
    """Parent and command line of each process, by its id."""
    listed = subprocess.run(["ps", "-axww", "-o", "pid=,ppid=,command="], capture_output=True, text=True, check=True)
    found = (re.match(r"\s*(\d+)\s+(\d+)\s+(.*)", line) for line in listed.stdout.splitlines())
    return {int(each[1]): (int(each[2]), each[3]) for each in found if each}
