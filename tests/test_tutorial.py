"""Every program and command of the tutorial, run as a reader would, with its output compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sources import ROOT
from test_readme import matches

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(python|console|text|none)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\S+\.(?:py|jsonl))\n")
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def printed_by(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.timeout(900)
def test_tutorial__every_block__prints_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    printed, saved, ran = "", [], 0
    for language, block in BLOCK.findall(PAGE):
        named = FILE.match(block)
        if language == "console":
            for command, shown in COMMAND.findall(block):
                told = printed_by("bash", "-c", command)
                assert matches(shown, told), f"$ {command}\n{told}"
                ran += 1
        elif language == "text":
            assert matches(block, printed), printed
        elif named:
            saved.append(named[1])
            (tmp_path / named[1]).write_text(block[named.end() :])
        else:
            printed = printed_by(sys.executable, "-c", block)
            ran += 1
    assert saved == ["service.py", "day1.jsonl", "nightly.py"]
    assert ran == PAGE.count("\n$ ") + 5
