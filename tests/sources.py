"""The repository's own Python files, parsed, for the tests that hold its shape."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "siltstone"
DOTTED = {".ci", ".gitignore"}
MADE = {"build", "dist"}  # by ./run docs and by packaging
MACHINE_WRITTEN = {"package-lock.json"}  # other projects' addresses, not ours
CODE_DIRECTORIES = ("src", "tests", "benchmarks", "tools")


class Source(NamedTuple):
    """One Python file."""

    path: Path
    name: str  # from the root, with slashes
    text: str
    tree: ast.Module


@cache
def sources(*directories: str) -> tuple[Source, ...]:
    """Python files below some directories of the repository, in order of their names."""
    paths = sorted(path for directory in directories for path in (ROOT / directory).rglob("*.py"))
    return tuple(_read(path) for path in paths)


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """Names and contents of the repository's text files. Git is not asked: a copy without it is as good."""
    top = [path for path in ROOT.iterdir() if not path.name.startswith(".") or path.name in DOTTED]
    top = [path for path in top if path.name not in MADE]
    paths = [path for entry in top for path in (entry.rglob("*") if entry.is_dir() else [entry])]
    files = []
    for path in sorted(paths):
        if path.is_file() and "__pycache__" not in path.parts and path.name not in MACHINE_WRITTEN:
            data = path.read_bytes()
            if b"\0" not in data:
                files.append((path.relative_to(ROOT).as_posix(), data.decode("utf-8", errors="replace")))
    return tuple(files)


def _read(path: Path) -> Source:
    text = path.read_text(encoding="utf-8")
    return Source(path, path.relative_to(ROOT).as_posix(), text, ast.parse(text))
