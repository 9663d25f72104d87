"""What the doctor sees of this machine: packages and extras, Java and Spark, limits, room on disks."""

from __future__ import annotations

import importlib
import platform
import re
import resource
import shutil
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, distribution, requires, version
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone import spark as siltstone_spark
from siltstone._version import __version__
from siltstone.cli.doctor_checks import Check
from siltstone.cli.progress import size_text
from siltstone.commit.connect import supported_schemes
from siltstone.errors import InvalidInputError, SiltstoneError
from siltstone.spark.java import find_java
from siltstone.store.options import parse_uri

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from siltstone.cli.doctor_checks import State

PACKAGES = "packages"
EXTRAS = "extras"
SPARK = "Spark"
MACHINE = "this machine"
PYTHON_MIN = (3, 11)
FILES_LEAST = 1024  # what systems give a process where nobody said otherwise
ROOM_LEAST_BYTES = 1_000_000_000
_OF = "siltstone"
# Which extra the commit stores of a scheme need; SQLite and memory need none.
_DRIVERS = {
    "postgresql": "sql", "mysql": "sql", "mariadb": "sql", "redis": "redis", "rediss": "redis", "etcd": "etcd",
    "etcds": "etcd", "dynamodb": "dynamodb",
}  # fmt: skip
_LINE = re.compile(r"([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?\s*([^;]*)(?:;(.*))?")
_EXTRA = re.compile(r"""extra == ['"]([\w-]+)['"]""")
_BOUND = re.compile(r"(>=|<)\s*(\d+(?:\.\d+)*)")


def check_packages() -> Iterator[Check]:
    """Python, siltstone, and what it can't do without."""
    right = sys.version_info >= PYTHON_MIN
    advice = "" if right else f"use Python {'.'.join(map(str, PYTHON_MIN))} or newer"
    yield Check(PACKAGES, "Python", "ok" if right else "no", platform.python_version(), advice)
    yield Check(PACKAGES, _OF, "ok", __version__)
    for name, bounds, extra in _required():
        if not extra:
            yield _package(name, bounds)


def _package(name: str, bounds: str) -> Check:
    try:
        found = version(name)
    except PackageNotFoundError:
        return Check(PACKAGES, name, "no", "is not installed", "pip install siltstone")
    if not _within(found, bounds):
        return Check(PACKAGES, name, "no", f"{found}, and siltstone needs {bounds}", "pip install --upgrade siltstone")
    for module in _modules(name):
        try:
            importlib.import_module(module)
        except Exception as error:  # a binary that does not fit this machine raises what it likes
            return Check(
                PACKAGES, name, "no", f"{found} can't be imported: {error}", f"pip install --force-reinstall {name}"
            )
    return Check(PACKAGES, name, "ok", found)


def check_extras(commits: str | None, *, spark: bool) -> Iterator[Check]:
    """What some stores, and Spark, need besides."""
    scheme = "" if commits is None else commits.partition(":")[0].lower()
    needed = {_DRIVERS.get(scheme, ""), "spark" if spark else ""}
    by_extra: dict[str, dict[str, str]] = {}
    for name, bounds, extra in _required():
        if extra and extra != "all" and name != _OF:
            by_extra.setdefault(extra, {}).setdefault(name, bounds)
    for extra, packages in by_extra.items():
        yield _extra(extra, packages, needed=extra in needed)
    known = ", ".join(supported_schemes())
    if scheme and scheme not in supported_schemes():
        yield Check(EXTRAS, "commit stores", "no", f"there is none for {scheme}:", f"there are {known}")
    else:
        yield Check(EXTRAS, "commit stores", "ok", known)


def _extra(extra: str, packages: Mapping[str, str], *, needed: bool) -> Check:
    there, wrong = [], []
    for name, bounds in packages.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            wrong.append(f"{name} is not installed")
            continue
        there.append(f"{name} {found}")
        if not _within(found, bounds):
            wrong.append(f"{name} {found} is not {bounds}")
    state: State = "ok" if not wrong else "no" if needed else "unknown"
    detail = ", ".join(there) if not wrong else ", ".join(wrong)
    return Check(EXTRAS, extra, state, detail, f"pip install 'siltstone[{extra}]'" if wrong else "")


def _required() -> list[tuple[str, str, str]]:
    """(package, bounds, extra) of all that siltstone says it needs; nothing where it was not installed as a package."""
    try:
        lines = requires(_OF) or []
    except PackageNotFoundError:
        return []
    found = []
    for line in lines:
        match = _LINE.fullmatch(line.strip())
        if match:
            extra = _EXTRA.search(match[3] or "")
            found.append((match[1], match[2].strip(), extra[1] if extra else ""))
    return found


def _within(found: str, bounds: str) -> bool:
    have = _numbers(found)
    return all(
        have >= _numbers(bound) if sign == ">=" else have < _numbers(bound) for sign, bound in _BOUND.findall(bounds)
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in re.findall(r"\d+", text.partition("+")[0])[:3])


def _modules(name: str) -> list[str]:
    """The modules that a package brings, by what it says of itself."""
    files = distribution(name).files or ()
    tops = {file.parts[0] for file in files if file.name == "__init__.py" and len(file.parts) == 2}
    return sorted(top for top in tops if top.isidentifier() and not top.startswith("_"))[:1]


# -- Java and Spark ------------------------------------------------------------------------------


def check_spark(*, start: bool) -> Iterator[Check]:
    """The Java that Spark would use, and whether a session starts."""
    missing: State = "no" if start else "unknown"
    try:
        java = find_java()
    except SiltstoneError as error:
        yield Check(SPARK, "Java", missing, error.message, error.hint)
    else:
        yield Check(SPARK, "Java", "ok", f"{java.major}, at {java.home}")
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        yield Check(SPARK, "session", missing, "pyspark is not installed", "pip install 'siltstone[spark]'")
        return
    if not start:
        said = f"pyspark {found} would be used; it was not started"
        yield Check(SPARK, "session", "unknown", said, "--spark starts one")
        return
    yield _session()


def _session() -> Check:
    try:
        session = siltstone_spark.session(app="siltstone doctor")
    except SiltstoneError as error:
        return Check(SPARK, "session", "no", error.message, error.hint)
    try:
        rows = session.range(10).count()
        said = f"Spark {session.version} started, and counted to {rows}"
        return Check(SPARK, "session", "ok" if rows == 10 else "no", said)
    finally:
        session.stop()


# -- limits --------------------------------------------------------------------------------------


def check_machine(uri: str | None) -> Iterator[Check]:
    """How many files may be open, and how much room there is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = "without limit" if soft == resource.RLIM_INFINITY else f"{soft:,}"
    few = soft != resource.RLIM_INFINITY and soft < FILES_LEAST
    advice = f"ulimit -n {min(hard, 4 * FILES_LEAST) if hard > 0 else 4 * FILES_LEAST}" if few else ""
    yield Check(MACHINE, "open files", "unknown" if few else "ok", most, advice)
    yield _room("temporary files", Path(tempfile.gettempdir()), "set TMPDIR to a directory with more room")
    try:
        place = None if uri is None else parse_uri(uri)
    except InvalidInputError:  # said where the store is looked at
        return
    if place is not None and place.scheme == "file":
        there = Path(place.path)
        while not there.exists():
            there = there.parent
        yield _room("the table's disk", there, "writes are refused when it is full; `siltstone gc` frees some")


def _room(what: str, place: Path, advice: str) -> Check:
    try:
        usage = shutil.disk_usage(place)
    except OSError as error:
        return Check(MACHINE, what, "no", f"{place}: {error.strerror}", "check that it is there and can be read")
    said = f"{size_text(usage.free)} free of {size_text(usage.total)} at {place}"
    if usage.free == 0:
        return Check(MACHINE, what, "no", said, advice)
    scarce = usage.free < ROOM_LEAST_BYTES
    return Check(MACHINE, what, "unknown" if scarce else "ok", said, advice if scarce else "")
