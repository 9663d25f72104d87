"""Completion, as a shell does it."""

from __future__ import annotations

import importlib
import os
import subprocess

import pytest

ASK = """
source "$1"
complete -p siltstone > /dev/null || exit 9
COMP_WORDS=("${@:2}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
COMP_LINE="${COMP_WORDS[*]}"
COMP_POINT=${#COMP_LINE}
function=$(complete -p siltstone | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
"$function" siltstone "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def script(cli, tmp_path):
    path = tmp_path / "completion.bash"
    path.write_text(cli("completion", "bash").out)
    return path


def offered(script, *words, directory=None):
    """What bash offers for the last word."""
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", str(script), "siltstone", *words],
        capture_output=True,
        text=True,
        cwd=directory,
        timeout=60,
        check=True,
        env={"PATH": os.environ["PATH"]},
    )
    return {one.strip() for one in done.stdout.split("\n") if one.strip()}


def test_completion__of_verbs_in_bash__offers_those_that_begin_so(script):
    assert offered(script, "sc") == {"scan"}
    assert {"check-store", "checkpoint", "changes"} <= offered(script, "ch")
    assert offered(script, "index", "st") == {"status"}
    assert {"scan", "append", "doctor", "completion"} <= offered(script, "")


def test_completion__of_options_and_choices_in_bash__offers_those_of_the_verb(script):
    assert {"--where", "--wal", "--wal-option"} == offered(script, "scan", "--w")
    assert offered(script, "scan", "--format", "p") == {"parquet"}
    assert offered(script, "completion", "z") == {"zsh"}
    assert "--where" not in offered(script, "log", "--w")


def test_completion__of_a_table_in_bash__offers_files(script, tmp_path):
    (tmp_path / "reviews").mkdir()
    (tmp_path / "rows.csv").touch()
    assert {one.rstrip("/") for one in offered(script, "scan", "rev", directory=tmp_path)} == {"reviews"}
    assert offered(script, "append", "reviews", "row", directory=tmp_path) == {"rows.csv"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion__of_each_shell__names_verbs_and_is_the_same_as_json(shell, cli):
    text = cli("completion", shell)
    assert text.code == 0
    assert all(word in text.out for word in ("siltstone", "check-store", "storage-option"))
    found = cli("completion", shell, "--json").json
    assert (found["shell"], found["script"].rstrip("\n")) == (shell, text.out.rstrip("\n"))


def test_completion__without_shtab__says_what_to_install(cli, monkeypatch):
    real = importlib.import_module

    def refused(name, *rest):
        if name == "shtab":
            raise ImportError("No module named 'shtab'")
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", refused)
    result = cli("completion", "bash")
    assert result.code == 1
    assert "pip install shtab" in result.err


def test_completion__of_an_unknown_shell__wrong_usage(cli):
    assert cli("completion", "powershell").code == 2
