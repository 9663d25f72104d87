"""A module imports its own layer and those before it, at its top."""

from __future__ import annotations

import ast
import sys

import pytest

from sources import PACKAGE, sources

# From the bottom up. Modules of one row may import each other.
LAYERS = (
    ("errors", "clock", "ids", "env", "locks", "paths", "closing", "telemetry", "_version"),
    ("format",),
    ("store",),
    ("commit",),
    ("log",),
    ("verify",),
    ("check",),
    ("table",),
    ("shard",),
    ("index",),
    ("query",),
    ("retain",),
    ("api",),
    ("spark",),
    ("pipeline",),
    ("cli", "console", "testing", "lance"),
    ("__main__",),
)
RANK = {part: rank for rank, row in enumerate(LAYERS) for part in row}
TOP = len(LAYERS)  # the package's own __init__, which gathers the public names
# The bottom row stands on the standard library alone.
BOTTOM = LAYERS[0]


def part_of(module: str) -> str:
    """``siltstone.store.base`` belongs to ``store``; the package itself to ``""``."""
    return [*module.split("."), ""][1]


def rank_of(module: str) -> int:
    part = part_of(module)
    return RANK[part] if part else TOP


def module_name(source) -> str:
    parts = ("siltstone", *source.path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(node: ast.AST, importer: str, *, package: bool) -> list[str]:
    """The siltstone modules that an import statement names, with relative ones written out."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parents = importer.split(".")
            kept = parents[: len(parents) - node.level + (1 if package else 0)]
            base = ".".join([*kept, base] if base else kept)
        # `from siltstone import log` names a module through the package.
        names = [f"{base}.{alias.name}" for alias in node.names] if base == "siltstone" else [base]
    else:
        return []
    return [name for name in names if name == "siltstone" or name.startswith("siltstone.")]


def modules():
    return [pytest.param(source, id=module_name(source)) for source in sources("src/siltstone")]


def names_of(source) -> list[tuple[int, str]]:
    package = source.path.name == "__init__.py"
    return [
        (node.lineno, name)
        for node in ast.walk(source.tree)
        for name in imported_modules(node, module_name(source), package=package)
    ]


@pytest.mark.parametrize("source", modules())
def test_module__has_a_place_in_the_layers__is_known(source):
    part = part_of(module_name(source))
    assert part in {"", *RANK}, f"{source.name}: give {part!r} a row in LAYERS"


@pytest.mark.parametrize("source", modules())
def test_imports__of_siltstone__reach_no_later_layer(source):
    own = rank_of(module_name(source))
    upwards = [
        f"line {line}: {name}"
        for line, name in names_of(source)
        # A name that is no module (`from siltstone import __version__`) comes from the package itself.
        if (RANK.get(part_of(name), TOP)) > own
    ]
    assert upwards == []


@pytest.mark.parametrize("source", modules())
def test_imports__of_siltstone__stand_at_the_top_of_the_module(source):
    package = source.path.name == "__init__.py"
    hidden = [
        f"{source.name}:{inner.lineno}"
        for function in ast.walk(source.tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(function)
        if imported_modules(inner, module_name(source), package=package)
    ]
    assert hidden == []


@pytest.mark.parametrize("part", BOTTOM)
def test_imports__of_the_bottom_layer__are_of_the_standard_library(part):
    source = next(source for source in sources("src/siltstone") if module_name(source) == f"siltstone.{part}")
    foreign = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            foreign |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            foreign.add((node.module or "").partition(".")[0])
    assert foreign - sys.stdlib_module_names - {"siltstone"} == set()


@pytest.mark.parametrize(
    ("code", "importer", "expected"),
    [
        ("import siltstone.log", "siltstone.errors", ["siltstone.log"]),
        ("from siltstone import log", "siltstone.errors", ["siltstone.log"]),
        ("from siltstone.log import Log", "siltstone.errors", ["siltstone.log"]),
        ("from . import base", "siltstone.store.remote", ["siltstone.store"]),
        ("from ..log import Log", "siltstone.store.remote", ["siltstone.log"]),
        ("import json", "siltstone.errors", []),
    ],
)
def test_imported_modules__each_way_to_write_it__is_seen(code, importer, expected):
    assert imported_modules(ast.parse(code).body[0], importer, package=False) == expected
