"""Spark sessions that work as they come: quiet, on loopback, in UTC, with a Java and this Python.

What must hold:
- What the user named wins: the arguments, then Spark's own settings (spark-submit, spark-defaults.conf, environment).
- A session that runs already is returned as it is, with a warning that names what could not be applied.
- A local session listens on 127.0.0.1 alone, and leaves nothing in the working directory or the environment.
- Settings may be secrets: messages name their keys, never their values, and no secret is on a command line.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from siltstone.errors import InvalidInputError, MissingDependencyError, UnavailableError
from siltstone.spark.java import find_java, java_home

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LOOPBACK = "127.0.0.1"
_starting = threading.Lock()  # the environment is changed while a session starts
_context = getattr(pyspark, "SparkContext", None)  # a pyspark that is only a client has none
_LOCAL = "local[*]"
_CONNECT = "sc://"
_CONNECT_PORT = 15002
_ANSWER_SECONDS_MAX = 5.0
_MASTERS = re.compile(r"local|spark://|yarn|k8s://|sc://")
_NEAR = re.compile(r"local(-cluster)?(\[.*\])?|spark://(localhost|127\.[\d.]+)(:\d+)?")
_CORES = re.compile(r"local\[(\d+)(?:,.*)?\]|local-cluster\[(\d+),(\d+),\d+\]")
_SHUFFLE_PARTITIONS_MIN = 4
# Read when the JVM starts, and never again.
_LAUNCH_KEYS = frozenset(
    f"spark.driver.{name}"
    for name in ("memory", "defaultJavaOptions", "extraJavaOptions", "extraClassPath", "extraLibraryPath")
)
_JAVA_ERROR = re.compile(r":?\s*[\w.$]+(?:Exception|Error): (.+)")
_REASON_MAX = 500
_OWN_ARGUMENTS = frozenset({"spark.app.name", "spark.master", "spark.remote"})
_SECRET = re.compile(r"secret|password|passphrase|token|credential|key", re.IGNORECASE)
_DEFAULTS_LINE = re.compile(r"\s*(spark\.[^\s=:]+)[\s=:]+(.*?)\s*")


def session(
    *,
    master: str | None = None,
    app: str | None = None,
    config: Mapping[str, str | bool | float] | None = None,
) -> SparkSession:
    """The running Spark session, or a new one; ``master`` may also name a Spark Connect server (``sc://host:port``).

    Without ``master`` it is the one that Spark's own settings name, else ``local[*]``.
    Raises MissingDependencyError where there is no Java, InvalidInputError where Spark refuses the master or a setting.
    """
    _check_master(master)
    asked = _checked(config or {}) | ({"spark.app.name": app} if app else {})
    with _starting:
        running = _running()
        if running is not None:
            _apply(running, master=master, asked=asked)
            return running
        if "PYSPARK_GATEWAY_PORT" in os.environ:
            # spark-submit started this process: its settings are the user's, down to the last.
            return _build(master or "", asked)
        found = _spark_defaults()
        place = master or os.environ.get("SPARK_REMOTE") or found.get("spark.master") or _LOCAL
        if place.startswith(_CONNECT):
            _check_server(place)
            return _build(place, _for_every_session() | asked)
        _check_launch(asked)
        scratch = _scratch()
        ours = _for_every_session() | _for_a_driver(scratch)
        if _NEAR.fullmatch(place):
            ours |= _for_this_machine(place, scratch)
        settings = {key: value for key, value in ours.items() if key not in found} | asked
        with _environment(_variables(place, scratch)):
            _launch(place, settings, scratch=scratch)
            return _build(place, settings)


def _check_master(master: str | None) -> None:
    if master is not None and not (isinstance(master, str) and _MASTERS.match(master)):
        raise InvalidInputError(
            f"master is {master!a}",
            hint="it is local[N], spark://host:port, yarn, k8s://..., or the sc://host:port of a Spark Connect server",
        )


def _check_server(address: str) -> None:
    """Say at once that nobody listens; Spark's client would try for minutes."""
    parts = urlsplit(address)
    try:
        socket.create_connection((parts.hostname or "", parts.port or _CONNECT_PORT), _ANSWER_SECONDS_MAX).close()
    except ConnectionRefusedError as error:
        raise UnavailableError(
            f"no Spark Connect server listens at {parts.netloc!a}", hint="start it, or correct master="
        ) from error
    except (OSError, ValueError):  # there may be a proxy on the way, or something is wrong that Spark says better
        return


def _checked(config: Mapping[str, str | bool | float]) -> dict[str, str]:
    asked = {}
    for key, value in config.items():
        if not isinstance(key, str) or not key.startswith("spark."):
            raise InvalidInputError(f"config has the key {key!a}", hint="keys of Spark begin with 'spark.'")
        if key in _OWN_ARGUMENTS:
            raise InvalidInputError(
                f"config has the key {key!a}", hint="there are the arguments app= and master= for it"
            )
        if not isinstance(value, str | bool | int | float):
            raise InvalidInputError(
                f"config[{key!a}] is of the type {type(value).__name__}", hint="give a text, a number, True or False"
            )
        asked[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return asked


def _running() -> SparkSession | None:
    try:
        return SparkSession.active()
    except (PySparkException, ImportError):  # there is none
        pass
    except Exception as error:  # each kind of connection has its own
        raise UnavailableError("this process's Spark session does not answer", hint="start a new process") from error
    # A context without a session has settings of its own, as a session has.
    return SparkSession.builder.getOrCreate() if getattr(_context, "_active_spark_context", None) else None


def _apply(running: SparkSession, *, master: str | None, asked: dict[str, str]) -> None:
    """Set what a running session lets be set, and warn about the rest."""
    refused = [] if master is None or _is_at(running, master) else ["master"]
    for key, value in asked.items():
        if running.conf.get(key, None) == value:
            continue
        try:
            running.conf.set(key, value)
        except PySparkException:
            refused.append(key)
    if refused:
        warnings.warn(
            f"a Spark session runs already, and these could not be applied to it: {', '.join(refused)} "
            "(call stop() on it first)",
            stacklevel=3,
        )


def _is_at(running: SparkSession, master: str) -> bool:
    if master.startswith(_CONNECT):
        client = getattr(running, "client", None)
        return client is not None and master.removeprefix(_CONNECT).startswith(client.host)
    return running.conf.get("spark.master", None) == master


def _check_launch(asked: dict[str, str]) -> None:
    """A JVM outlives the session that started it, and some settings are read only when it starts."""
    jvm = getattr(_context, "_jvm", None)
    if jvm is None:
        return
    late = [key for key in sorted(_LAUNCH_KEYS & set(asked)) if jvm.System.getProperty(key) != asked[key]]
    if late:
        warnings.warn(
            f"Spark's JVM runs already in this process, and these could not be applied to it: {', '.join(late)} "
            "(start a new process)",
            stacklevel=3,
        )


def _launch(master: str, settings: dict[str, str], *, scratch: Path) -> None:
    """Start the JVM without the settings that are secret: it gets these on its command line, which everybody can read.

    They reach the session itself all the same, by a socket.
    """
    shown = {key: value for key, value in settings.items() if not _SECRET.search(key) and key != "spark.api.mode"}
    conf = pyspark.SparkConf(loadDefaults=False).setMaster(master).setAll(list(shown.items()))
    with _explained(master):
        pyspark.SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001 - getOrCreate() calls it with all of them
    # A process that is killed runs nothing at its end; the JVM notices, and ends in its own time.
    with contextlib.suppress(Exception):  # Spark's own, and a directory that stays does no harm
        jvm: Any = getattr(_context, "_jvm", None)
        jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(jvm.java.io.File(str(scratch)))


def _build(master: str, settings: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder.config(map={**settings})
    if master:
        builder = builder.remote(master) if master.startswith(_CONNECT) else builder.master(master)
    with _explained(master):
        return builder.getOrCreate()


@contextlib.contextmanager
def _explained(master: str) -> Iterator[None]:
    """Turn what Spark raises while it starts into an error of siltstone."""
    try:
        yield
    except ImportError as error:
        raise MissingDependencyError(
            f"Spark Connect can't be used: {error}", hint="pip install 'siltstone[connect]'"
        ) from error
    except Exception as error:  # Py4J, gRPC and Spark have one each
        lines = str(error).strip().splitlines() or [type(error).__name__]
        shown = master.partition(";")[0]  # a token may follow
        raise InvalidInputError(
            f"Spark did not start with the master {shown!a}: {_reason(lines)}",
            hint="check master= and config=; what Spark's JVM printed says more",
        ) from error


def _reason(lines: list[str]) -> str:
    """What a Java error says, without the class that raised it."""
    told = next((found[1] for line in lines if (found := _JAVA_ERROR.match(line))), lines[0])
    return ascii(told)[1:-1][:_REASON_MAX]


# -- settings ------------------------------------------------------------------------------------


def _for_every_session() -> dict[str, str]:
    return {
        "spark.app.name": "siltstone",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    }


def _for_a_driver(scratch: Path) -> dict[str, str]:
    options = [f"-Dderby.system.home={scratch}"]  # only a session with Hive support has a Derby
    conf = _conf_directory()
    if "LOG4J_CONFIGURATION_FILE" not in os.environ and not (conf / "log4j2.properties").exists():
        options.append(f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}")
    return {
        "spark.driver.defaultJavaOptions": " ".join(f'"{option}"' for option in options),
        "spark.driver.memory": "2g",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.showConsoleProgress": "false",
    }


def _for_this_machine(master: str, scratch: Path) -> dict[str, str]:
    # Unix sockets between the JVM and its Python workers are left off: with them each worker that Spark ends after a
    # minute without work prints a traceback.
    return {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.sql.shuffle.partitions": str(max(_SHUFFLE_PARTITIONS_MIN, 2 * _cores(master))),
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        "spark.ui.enabled": "false",
    }


def _cores(master: str) -> int:
    found = _CORES.fullmatch(master)
    if found is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads, workers, each = found.groups()
    return int(threads) if threads else int(workers) * int(each)


def _conf_directory() -> Path:
    """Where Spark looks for its own files of settings."""
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    return Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")


def _spark_defaults() -> dict[str, str]:
    try:
        lines = (_conf_directory() / "spark-defaults.conf").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # most have none; one that can't be read is Spark's to complain about
        return {}
    return {found[1]: found[2] for found in map(_DEFAULTS_LINE.fullmatch, lines) if found}


# -- where it runs -------------------------------------------------------------------------------


def _scratch() -> Path:
    """A new directory that is closed to others and goes with this process."""
    try:
        made = Path(tempfile.mkdtemp(prefix="siltstone-spark-"))
    except OSError as error:
        raise UnavailableError(
            f"no directory for Spark's own files can be made ({error.strerror})",
            hint="set TMPDIR to a directory that can be written to",
        ) from error
    atexit.register(_remove, made, os.getpid())
    return made


def _remove(directory: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child ends before its parent
        shutil.rmtree(directory, ignore_errors=True)


def _variables(master: str, scratch: Path) -> dict[str, str]:
    """What Spark reads from the environment when it starts, as far as the user has not set it."""
    wanted = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": LOOPBACK} if _NEAR.fullmatch(master) else {}
    wanted = {name: value for name, value in wanted.items() if not os.environ.get(name)}
    if getattr(_context, "_gateway", None) is None:  # else a JVM runs
        wanted["JAVA_HOME"] = str(java_home(find_java(), directory=scratch))
    return wanted


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set variables of this process, and put them back."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
