"""What a command line loads, and how long its first word takes."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys

import pytest

from siltstone.cli.options import load_verb
from siltstone.cli.run import THEMES, parser
from siltstone.index.settings import TOKENIZERS
from siltstone.pipeline.file import FIRST_RUN
from sources import ROOT, sources
from verbs import leaves

HEAVY = ("pyarrow", "datafusion", "obstore", "pyspark", "numpy", "msgspec", "shtab", "xxhash", "opentelemetry")
LOADED = """
import json, sys
from siltstone.cli import main
code = main(json.loads(sys.argv[1]))
print(json.dumps([code, [name for name in json.loads(sys.argv[2]) if name in sys.modules]]), file=sys.stderr)
"""


def loaded(*words: str, of=HEAVY) -> tuple[int, list[str]]:
    """The exit code of a command line, and what a process had loaded at its end."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, json.dumps(words), json.dumps(of)],
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        timeout=240,
        check=False,
    )
    code, names = json.loads(done.stderr.splitlines()[-1])
    return code, names


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--help",), 0),
        (("--version",), 0),
        (("scan", "--help"), 0),
        (("index", "create", "--help"), 0),
        (("nonsense",), 2),
        (("scan", "x", "--nonsense"), 2),
    ],
)
def test_main__help_version_or_a_complaint__loads_nothing_that_a_verb_needs(words, code):
    assert loaded(*words) == (code, [])


def test_completion__of_a_shell__loads_no_table():
    assert loaded("completion", "bash") == (0, ["shtab"])


def test_log_and_get__of_a_table__load_no_spark_and_no_pipeline(reviews):
    unneeded = (
        "datafusion",
        "pyspark",
        "yaml",
        "shtab",
        "siltstone.pipeline",
        "siltstone.cli.demo",
        "siltstone.verify",
    )
    assert loaded("log", str(reviews), of=unneeded) == (0, [])
    assert loaded("get", str(reviews), "1", of=unneeded) == (0, [])


def test_entries_list__of_a_log__loads_no_engine(reviews):
    assert loaded("entries", "list", str(reviews / "log"), of=("datafusion", "pyspark", "yaml"))[0] == 0


def test_import__of_the_package_and_of_verify__keeps_the_function():
    code = "import siltstone.verify.inspect; f = siltstone.verify; print(type(f).__name__, f.__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout == "function siltstone.verify.inspect\n"


@pytest.mark.parametrize("verb", leaves())
def test_grammar__what_a_verb_does__is_there(verb):
    run = leaves()[verb].get_default("run")
    assert isinstance(run, str)  # or its module would be loaded for every other verb
    assert callable(load_verb(run))


def test_grammar__its_modules__import_only_each_other_and_the_standard_library():
    foreign = []
    for source in sources("src/siltstone/cli/grammar"):
        for line in source.text.splitlines():
            words = line.split()
            if words[:1] in (["import"], ["from"]) and not line.startswith(" "):
                top = words[1].partition(".")[0]
                if top not in sys.stdlib_module_names and not words[1].startswith("siltstone.cli."):
                    foreign.append(f"{source.name}: {line}")
    assert foreign == []


def test_grammar__what_it_repeats_of_the_library__is_the_same():
    found = leaves()
    by_name = {action.dest: action for action in found["index create"]._actions}
    assert tuple(by_name["tokenizer"].choices) == TOKENIZERS
    assert found["pipeline run"].get_default("run_id") == FIRST_RUN


def test_help__of_all_verbs__lists_each_below_one_theme():
    named = [verb for verbs in THEMES.values() for verb in verbs]
    assert sorted(named) == sorted({verb.split()[0] for verb in leaves()})
    text = parser().format_help()
    places = [text.index(f"\n{title}:\n") for title in THEMES]
    assert places == sorted(places)
    for title, verbs in THEMES.items():
        part = text[text.index(f"\n{title}:\n") :].split("\n\n")[0]
        names = [line.split()[0] for line in part.splitlines()[2:] if re.match(r"  \S", line)]
        assert names == list(verbs)


def test_process__its_first_word__takes_a_fraction_of_a_second(process, capsys):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert process("--help").code == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    with capsys.disabled():
        print(f"[--help took {seconds:.2f} s of CPU]", end=" ")
