"""``siltstone pipeline``: what it prints, and its exit codes. What steps do is in tests/pipeline."""

from __future__ import annotations

import subprocess
import sys

import pytest

import siltstone
from siltstone.cli.grammar.pipeline import CHECK_SHAPE, RUN_SHAPE
from siltstone.cli.pipeline import step_line
from siltstone.pipeline import Outcome

SECRET = "canary-77d0"
# These steps need no Spark.
TEXT = """\
name: small
vars: {t: "${here}/reviews"}
steps:
  - create: {table: "${t}", key: id, schema: {id: int64, body: string}}
  - tag: {table: "${t}", name: empty}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(TEXT)
    return path


def test_check__right_file__shows_its_steps_and_does_nothing(cli, file, tmp_path):
    result = cli("pipeline", "check", file)
    assert result.code == 0
    assert result.out.splitlines()[1].split() == ["1", "create", str(tmp_path / "reviews"), "4"]
    assert result.out.endswith("The file is right: 2 steps.\n")
    found = cli("pipeline", "check", file, "--json", "--run", "x", "--set", "t=elsewhere").json
    assert set(found) == set(CHECK_SHAPE)
    assert (found["name"], found["run"], found["master"]) == ("small", "x", None)
    assert found["steps"][1] == {"number": 2, "id": "2-tag", "kind": "tag", "line": 5, "target": "elsewhere"}
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("verb", ["check", "run"])
def test_verbs__wrong_file__name_the_line_and_do_nothing(verb, cli, file, tmp_path):
    file.write_text(TEXT.replace("tag:", "tga:"))
    result = cli("pipeline", verb, file)
    assert result.code == 1
    assert f"error: {file}: line 5: there is no step 'tga'" in result.err
    assert "hint: did you mean tag?" in result.err
    assert cli("pipeline", verb, file, "--json").error == (1, "invalid-input")
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("words", [["--set", "x"], ["--set", "x=1"], ["--run", "a/b"], ["--set", "run=1"]])
def test_verbs__wrong_words__are_refused(words, cli, file, tmp_path):
    assert cli("pipeline", "run", file, *words, "--json").error == (1, "invalid-input")
    assert list(tmp_path.iterdir()) == [file]


def test_run__twice_and_another_run__does_it_once_each(cli, file, tmp_path):
    first = cli("pipeline", "run", file)
    assert first.code == 0, first.err
    assert "[ 1] create     2 columns, version 0" in first.err
    assert "[ 2] tag        version 0 is now empty, version 1" in first.err
    assert first.out.startswith("Done: 2 steps of run 1 of small; ")
    again = cli("pipeline", "run", file)
    assert again.out.startswith("Nothing to do: every step of run 1 of small was applied before.\n")
    assert "[ 2] tag        applied before, in version 1" in again.err
    other = cli("pipeline", "run", file, "--run", "2", "--json")
    assert set(other.json) == set(RUN_SHAPE)
    assert [step["state"] for step in other.json["steps"]] == ["done", "done"]
    with siltstone.open(tmp_path / "reviews") as table:
        assert [one.message for one in table.history()] == [
            "pipeline small, run 2: 2-tag",
            "pipeline small, run 1: 2-tag",
            "",
        ]


def test_run__a_step_fails__text_and_json_say_which(cli, file):
    file.write_text(TEXT + '  - tag: {table: "${t}", name: x, version: 7}\n')
    result = cli("pipeline", "run", file)
    assert result.code == 1
    assert "error: step 3 (tag) in line 6: there is no version 7" in result.err
    assert "run the same again" in result.err
    assert cli("pipeline", "run", file, "--json").error == (1, "not-found")


def test_run__a_secret_of_the_environment__is_printed_nowhere(cli, file, monkeypatch):
    monkeypatch.setenv("TOKEN", SECRET)
    file.write_text(TEXT.replace("name: empty", "name: '${env:TOKEN} x'"))
    for words in ([], ["--json"]):
        for verb in ("check", "run"):
            result = cli("pipeline", verb, file, *words)
            assert result.code == 1
            assert SECRET not in result.out + result.err


def test_step_line__what_a_store_said__can_not_steer_the_terminal():
    line = step_line(Outcome(3, "x", "tag", "t", "done", "\x1b[31mred", version=4, seconds=1.25))
    assert line == "[ 3] tag        \\x1b[31mred, version 4  1.2 s"


def test_import__of_the_command_line__brings_neither_spark_nor_yaml():
    code = "import sys, siltstone.cli; print(sorted({'pyspark', 'yaml', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
