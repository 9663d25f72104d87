"""Every command and snippet of the README, run as a reader would, with its output compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from siltstone.testing.s3server import Faults, FaultServer

REPO = Path(__file__).parents[1]
README = (REPO / "README.md").read_text()
BLOCK = re.compile(r"^```(python|console|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [match.groups() for match in BLOCK.finditer(README)]


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """A newcomer's shell: an empty directory and a bucket ``lake`` on a store that lies."""
    with FaultServer(Faults(lie="always"), buckets=("lake",)) as server:
        monkeypatch.chdir(tmp_path)
        for name, value in {
            "AWS_ACCESS_KEY_ID": "demo",
            "AWS_SECRET_ACCESS_KEY": "demo",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT": server.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }.items():
            monkeypatch.setenv(name, value)
        yield tmp_path


def matches(shown: str, printed: str) -> bool:
    """Whether what was printed is what the page shows; a ``...`` there stands for anything."""
    pattern = ".*".join(re.escape(part) for part in re.split(r"\.\.\.", shown.strip()))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


def run_console(block: str) -> None:
    status = 0
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
        if command == "echo $?":
            assert str(status) == shown.strip()
            continue
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
        status = done.returncode
        assert matches(shown, done.stdout), f"$ {command}\n{done.stdout}{done.stderr}"


def test_readme__every_block__prints_what_it_shows(reader):
    ran = 0
    printed = ""
    for language, block in BLOCKS:
        if language == "console":
            run_console(block)
        elif language == "text":
            assert matches(block, printed), printed
        else:
            done = subprocess.run(
                [sys.executable, "-c", block], capture_output=True, text=True, timeout=300, check=False
            )
            assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
            printed = done.stdout
        ran += 1
    assert ran >= 5
    assert (reader / "claims.db").exists()  # where the reader works, not at the root of the disk
