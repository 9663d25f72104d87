"""Data is never run: nothing that reads objects can unpickle, evaluate or compile what is in them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from sources import PACKAGE

FORBIDDEN_MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "joblib",
    "code",
    "runpy",
}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
WORDS = (
    *FORBIDDEN_MODULES,
    *FORBIDDEN_CALLS,
    "yaml",
    "os.",
    ".load",
    "deserialize",
    "register_",
    "shell",
    "import_module",
)
FORBIDDEN_ATTRIBUTES = {
    *(
        ("yaml", name)
        for name in ("load", "load_all", "unsafe_load", "full_load", "UnsafeLoader", "FullLoader", "Loader")
    ),
    *(("os", name) for name in ("system", "popen")),
    *(("np", "load"), ("numpy", "load"), ("pa", "deserialize"), ("pa", "register_extension_type"), ("pickle", "loads")),
}
# Between the driver of a Spark job and its own tasks, and a handle that is copied: nothing there comes out of a store.
PICKLES = {*(f"spark/{name}.py" for name in ("parts", "workers", "text", "merge")), "table/staged.py"}
KIT = "testing/"  # for tests: it reads nobody's objects but its own


def modules():
    found = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}
    return {name: path for name, path in found.items() if not name.startswith(KIT)}


def code_in(path):
    """What in a module could run data as code."""
    found, source = set(), path.read_text()
    for node in ast.walk(ast.parse(source)) if any(word in source for word in WORDS) else ():
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names if one.name.partition(".")[0] in FORBIDDEN_MODULES}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in FORBIDDEN_MODULES:
            found.add(node.module)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
            found.add(f"{node.func.id}()")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= {f"{node.value.id}.{node.attr}"} if (node.value.id, node.attr) in FORBIDDEN_ATTRIBUTES else set()
        elif isinstance(node, ast.keyword) and node.arg in {"allow_pickle", "shell"}:
            off = isinstance(node.value, ast.Constant) and node.value.value is False
            found |= set() if off else {f"{node.arg}="}
    return found


def test_source__each_module__can_not_run_data():
    found = {name: code_in(path) for name, path in modules().items()}
    assert {name for name, what in found.items() if what} == PICKLES
    for name in PICKLES:
        assert found[name] <= {"pickle", "pickle.loads"}


def test_source__a_module_that_could__is_found(tmp_path):
    module = tmp_path / "bad.py"
    for line in (
        *("import pickle", "from marshal import loads", "import numpy as np; np.load(x)", "eval(x)", "exec(x)"),
        *("import yaml; yaml.load(x)", "f(x, shell=True)", "np.load(x, allow_pickle=y)", "compile(x, y, z)"),
    ):
        module.write_text(line)
        assert code_in(module), line


CHILD = Path(__file__).parent / "watched_reader.py"


@pytest.mark.parametrize("what", ["fragment", "wal", "rollup", "mutated"])
def test_read__objects_made_to_run_code__nothing_is_unpickled_compiled_or_run(tmp_path, what):
    done = subprocess.run(
        [sys.executable, str(CHILD), str(tmp_path), what],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": ""},
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.endswith("watched\n"), done.stdout
    assert not (tmp_path / "ran").exists()
