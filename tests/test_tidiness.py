"""The repository stays small in its parts, portable, and finished.

A limit may be passed only by a row in a table below, with its reason, and a row that is no longer needed fails too.
"""

from __future__ import annotations

import ast
import re

import pytest

from sources import CODE_DIRECTORIES, sources, texts

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60

LONG_MODULES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}

# Each word is written with a bracket in it, so that this file does not find itself.
LEFTOVERS = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X]|HA[C]K|WI[P])\b")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(ro[o]t|wo[r]k|home/\w+|Users/\w+)/")
REGISTRY_HOSTS = re.compile(
    r"py[p]i\.org|python[h]osted\.org|npm[j]s\.(org|com)|index-[u]rl|trusted-[h]ost", re.IGNORECASE
)
REGISTRY_EXCEPTIONS = {
    "run": "the flags that keep index lines out of the lock name them",
}
TEST_NAME = re.compile(r"test_[a-z0-9_]*[a-z0-9]__[a-z0-9][a-z0-9_]*")


def functions(source):
    """Qualified names and nodes of all functions, methods and nested ones."""

    def walk(node, prefix):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}{child.name}"
                if not isinstance(child, ast.ClassDef):
                    yield name, child
                yield from walk(child, f"{name}.")
            else:
                yield from walk(child, prefix)

    return walk(source.tree, "")


def test_modules__over_the_limit__are_exactly_those_with_a_reason():
    long = {source.name for source in sources(*CODE_DIRECTORIES) if source.text.count("\n") > MODULE_LINES_MAX}
    assert long == set(LONG_MODULES)


def test_functions__over_the_limit__are_exactly_those_with_a_reason():
    long = {
        f"{source.name}:{name}"
        for source in sources(*CODE_DIRECTORIES)
        for name, node in functions(source)
        if node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    }
    assert long == set(LONG_FUNCTIONS)


@pytest.mark.parametrize(
    ("what", "pattern", "exceptions"),
    [
        ("leftover", LEFTOVERS, {}),
        ("machine path", MACHINE_PATHS, {}),
        ("package registry", REGISTRY_HOSTS, REGISTRY_EXCEPTIONS),
    ],
)
def test_texts__of_the_repository__hold_nothing_that_does_not_belong(what, pattern, exceptions):
    found = [
        f"{name}:{number}: {what} {match.group()}"
        for name, text in texts()
        if name not in exceptions
        for number, line in enumerate(text.splitlines(), 1)
        for match in pattern.finditer(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (LEFTOVERS, f"# {'TO'}{'DO'} later"),
        (MACHINE_PATHS, f"open('/{'root'}/x')"),
        (REGISTRY_HOSTS, f"https://py{'pi'}.org/simple"),
    ],
)
def test_patterns__given_what_they_are_for__find_it(pattern, text):
    assert pattern.search(text)


def test_tests__by_name__say_call_condition_and_outcome():
    wrong = [
        f"{source.name}: {name}"
        for source in sources("tests")
        for name, _ in functions(source)
        if name.rpartition(".")[2].startswith("test_") and not TEST_NAME.fullmatch(name.rpartition(".")[2])
    ]
    assert wrong == []


def test_modules__of_the_package__begin_with_a_docstring():
    silent = [source.name for source in sources("src") if source.text.strip() and not ast.get_docstring(source.tree)]
    assert silent == []
