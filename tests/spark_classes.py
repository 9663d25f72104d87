"""An archive of the classes that Spark's JVMs load: a JVM that maps it starts with half of the work.

What must hold:
- It is made once for each Java and each pyspark, and kept: a JVM is trained by a few jobs, and writes it at its end.
- Without it everything runs as well, and slower: a Java that writes none, or does not like one, is no failed test.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path

from siltstone.spark.java import Java, find_java

# JVMs that live for seconds spend half of them on compiling well what they run once.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
OPTIONS = "SPARK_SUBMIT_OPTS"  # the environment's name for them
TRAINING_SECONDS_MAX = 500.0
# What most drivers do: tasks in Python, files of JSON, a shuffle, the format, a stream.
TRAINING = """
import json, sys
from pathlib import Path
import pyarrow as pa
import siltstone
from pyspark import SparkContext

root = Path(sys.argv[1])
spark = siltstone.spark.session(master="local[2]")
rows = "".join(json.dumps({"id": number, "body": str(number)}) + "\\n" for number in range(10))
(root / "in").mkdir()
(root / "in" / "a.json").write_text(rows)
uri = str(root / "table")
frame = spark.read.schema("id long, body string").json(str(root / "in"))
siltstone.create(uri, schema=pa.schema({"id": pa.int64(), "body": pa.string()}), key="id")
siltstone.spark.upsert(frame, uri)
assert siltstone.spark.read(spark, uri, where="id > 3").groupBy("body").count().count() == 6
stream = spark.readStream.schema("id long, body string").json(str(root / "in"))
writer = stream.writeStream.format("siltstone").option("operation", "upsert")
query = writer.option("checkpointLocation", str(root / "cp")).trigger(availableNow=True).start(uri)
query.awaitTermination()
assert spark.read.format("siltstone").load(uri).count() == 10
jvm = SparkContext._gateway.proc
spark.stop()
jvm.stdin.close()
sys.exit(jvm.wait())
"""


def java_options(cache: Path) -> str:
    """Options for JVMs of Spark's, with the archive that is kept in a directory, or is made there now."""
    java = find_java()
    kept = cache / _fingerprint(java)
    if not kept.exists():
        try:
            _make(java, kept)
        except (OSError, subprocess.SubprocessError) as error:
            warnings.warn(f"there is no archive of Spark's classes, and JVMs start slowly: {error}", stacklevel=2)
            return QUICK
    return f"{QUICK} {shlex.quote(_mapped(kept))} -Xlog:disable"


def _mapped(directory: Path, *names: str) -> str:
    return "-XX:SharedArchiveFile=" + os.pathsep.join(str(directory / name) for name in names or ("java", "spark"))


def _fingerprint(java: Java) -> str:
    """What an archive is good for: one Java, and these very files."""
    jars = sorted(Path(find_spec("pyspark").origin).parent.joinpath("jars").iterdir())
    told = subprocess.run([java.program, "-Xinternalversion"], capture_output=True, check=True).stdout
    found = [QUICK, TRAINING, told, *((str(one), one.stat().st_size, one.stat().st_mtime_ns) for one in jars)]
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


def _make(java: Java, kept: Path) -> None:
    made = Path(tempfile.mkdtemp(dir=kept.parent))
    try:
        # Some Javas come without an archive of their own classes, which the other one needs below it.
        _run([java.program, *QUICK.split(), "-Xshare:dump", _mapped(made, "java"), "-Xlog:disable"], dict(os.environ))
        paths = shlex.join([_mapped(made, "java"), f"-XX:ArchiveClassesAtExit={made}/spark"])
        own = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        with tempfile.TemporaryDirectory() as scratch:
            _run([sys.executable, "-c", TRAINING, scratch], own | {OPTIONS: f"{QUICK} {paths} -Xlog:disable"})
        if not (made / "spark").exists():
            raise OSError("the JVM wrote none")
        if not kept.exists():  # else another test run was faster
            made.rename(kept)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _run(command: list, environment: dict[str, str]) -> None:
    subprocess.run(command, env=environment, capture_output=True, timeout=TRAINING_SECONDS_MAX, check=True)
