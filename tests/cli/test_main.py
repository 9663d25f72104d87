"""Exit codes, errors, pipes and terminals."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys

import pytest

import siltstone
from siltstone.cli.errors import exit_code
from siltstone.cli.output import clean
from siltstone.cli.run import parser
from siltstone.errors import CommitUnknownError, ConflictError, CorruptionError, FencedError, InvalidInputError
from sources import ROOT
from terminals import read_terminal

VERBS = (
    "check-store", "create", "append", "upsert", "overwrite", "delete", "update", "put", "scan", "sql", "get",
    "changes", "search", "console", "log", "tag", "restore", "compact", "checkpoint", "clone", "detach", "drop", "gc",
    "column", "index", "shards", "merge", "split", "wal", "tail", "show", "verify", "repair", "entries", "pipeline",
    "demo", "doctor", "completion", "version",
)  # fmt: skip
GROUPS = {
    "tag": ("create", "list", "delete"),
    "checkpoint": ("create", "list", "refresh", "delete"),
    "column": ("list", "add", "drop", "rename", "widen"),
    "index": ("create", "list", "optimize", "drop", "status", "run", "commit"),
    "entries": ("list", "add", "truncate"),
    "pipeline": ("run", "check"),
}
LEAVES = [
    *(f"{group} {verb}" for group, inside in GROUPS.items() for verb in inside),
    *(verb for verb in VERBS if verb not in GROUPS),
]


def choices(top, dest):
    return next(dict(action.choices) for action in top._actions if action.dest == dest)


def test_parser__its_verbs__are_the_known_ones():
    found = choices(parser(), "verb")
    assert tuple(found) == VERBS
    assert {name: tuple(choices(found[name], "action")) for name in GROUPS} == GROUPS


def examples(text, verb):
    return [line.strip() for line in text.splitlines() if f"siltstone {verb}" in line and "usage" not in line]


@pytest.mark.parametrize("verb", [*LEAVES, *GROUPS])
def test_help__of_each_verb__teaches_with_an_example_that_parses(verb, cli):
    shown = cli(*verb.split(), "--help")
    assert shown.code == 0
    assert verb in GROUPS or "--json" in shown.out
    assert examples(shown.out, verb)
    for example in examples(shown.out, verb):
        words = shlex.split(example.partition("siltstone ")[2].removesuffix("\\"))
        words = words[: words.index(">")] if ">" in words else words
        found = parser().parse_args(words)
        assert verb in {found.verb, f"{found.verb} {getattr(found, 'action', '')}"}


def test_help__its_first_examples__parse():
    lines = [line.strip() for line in parser().description.splitlines() if line.startswith("  siltstone ")]
    assert len(lines) > 5
    for line in lines:
        words = shlex.split(re.split(r" {2,}|(?<=--key id) ", line)[0])
        assert parser().parse_args(words[1:]).verb == words[1]


def test_main__no_verb__usage_error(cli):
    result = cli()
    assert result.code == 2
    assert result.err.startswith("error: ")
    assert "hint: see `siltstone --help`" in result.err
    assert result.out == ""


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("scna", "x"), "did you mean scan? see `siltstone --help`"),
        (("scan", "x", "--whree", "a"), "did you mean --where? see `siltstone scan --help`"),
        (("scan", "x", "--fersh=1"), "did you mean --fresh? see `siltstone scan --help`"),
        (("index", "optmize", "x", "y"), "did you mean optimize? see `siltstone index --help`"),
        (("checkpoint", "crate", "x", "y"), "did you mean create? see `siltstone checkpoint --help`"),
        (("scan", "x", "--format", "cvs"), "did you mean csv? see `siltstone scan --help`"),
        (("append", "x", "y", "--where", "a"), "see `siltstone append --help`"),
        (("nonsense",), "see `siltstone --help`"),
    ],
)
def test_main__word_that_is_almost_a_known_one__the_hint_asks_for_that(words, hint, cli):
    result = cli(*words)
    assert (result.code, result.err.splitlines()[1]) == (2, f"hint: {hint}")


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("verify",),
        ("verify", "x", "--nonsense"),
        ("log", "x", "--limit", "-1"),
        ("log", "x", "--limit", "9" * 30),
        ("entries",),
        ("entries", "truncate", "x"),
        ("entries", "nonsense", "x"),
        ("tag",),
        ("tag", "x"),
        ("column",),
        ("column", "x"),
        ("create", "x"),
        ("create", "x", "--schema", "a int8", "--like", "y.csv"),
        ("create", "x", "--schema", "a int8", "--format", "csv"),
        ("append", "x"),
        ("append", "x", "-", "-"),
        ("append", "x@3", "-"),
        ("append", "x@", "-"),
        ("append", "@3", "-"),
        ("delete", "x"),
        ("delete", "x", "--where", "a", "--all"),
        ("update", "x", "--set", "a=1"),
        ("update", "x", "--set", "a", "--all"),
        ("update", "x", "--set", "a=1", "--set", "a=2", "--all"),
        ("update", "x@v1", "--set", "a=1", "--all"),
        ("scan", "x", "--format", "pdf"),
        ("scan", "x", "--output", "rows.pdf"),
        ("scan", "x", "--count", "--explain"),
        ("scan", "x@99999999999999999999"),
        ("get", "x"),
        ("changes", "x"),
        ("restore", "x"),
        ("compact", "x@3"),
        ("column", "widen", "x", "a"),
        ("check-store", "x", "--storage-option", "nothing"),
        ("check-store", "x", "--storage-option", "=value"),
        ("check-store", "x", "--storage-option", "a=1", "--storage-option", "a=2"),
        ("entries", "add", "x", "a", "b", "--op", "0" * 32),
        ("create", "x", "--schema", "a int8", "--shards", "0"),
        ("put",),
        ("put", "x@3"),
        ("put", "x", "-", "-"),
        ("put", "x", "--batch-rows", "0"),
        ("put", "x", "--nonsense", "rows.jsonl"),
        ("shards", "x@3"),
        ("merge", "x@v1"),
        ("split", "x"),
        ("split", "x", "none"),
        ("tail", "x"),
        ("tail", "x@3", "0"),
        ("tail", "x", "0", "--from", "-1"),
    ],
)
def test_main__wrong_usage__code_2_and_one_line_without_traceback(words, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = cli(*words)
    assert result.code == 2
    lines = result.err.splitlines()
    assert lines[0].startswith("error: ")
    assert all(line.startswith("hint: ") for line in lines[1:])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense", "--json"),
        ("log", "x", "--limit", "no", "--json"),
        ("scan", "x", "--format", "csv", "--json"),
        ("append", "x@3", "-", "--json"),
    ],
)
def test_main__wrong_usage_with_json__error_document(words, cli):
    result = cli(*words)
    assert result.code == 2
    assert result.json["error"]["kind"] == "usage"
    assert set(result.json["error"]) == {"kind", "message", "hint"}
    assert result.err == ""


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("check-store", "gopher://x"), "invalid-input"),
        (("verify", "s3://user:hunter2@bucket"), "invalid-input"),
        (("log", "no/such/dir"), "not-found"),
        (("scan", "no/such/dir"), "not-found"),
        (("scan", "no/such/dir@3"), "not-found"),
        (("sql", "no/such/dir", "select 1"), "not-found"),
        (("get", "no/such/dir", "1"), "not-found"),
        (("changes", "no/such/dir", "--since", "0"), "not-found"),
        (("delete", "no/such/dir", "--all"), "not-found"),
        (("update", "no/such/dir", "--all", "--set", "a=1"), "not-found"),
        (("append", "no/such/dir", "-"), "not-found"),
        (("append", "dir", "no-such-file.csv"), "not-found"),
        (("tag", "no/such/dir", "v1"), "not-found"),
        (("restore", "no/such/dir@1"), "not-found"),
        (("compact", "no/such/dir"), "not-found"),
        (("column", "list", "no/such/dir"), "not-found"),
        (("put", "no/such/dir"), "not-found"),
        (("put", "dir", "no-such-file.jsonl"), "not-found"),
        (("shards", "no/such/dir"), "not-found"),
        (("merge", "no/such/dir"), "not-found"),
        (("split", "no/such/dir", "2"), "not-found"),
        (("tail", "no/such/dir", "0"), "not-found"),
        (("create", "dir", "--like", "no-such-file.csv"), "not-found"),
        (("create", "dir", "--schema", "id int65"), "invalid-input"),
        (("create", "dir", "--schema", "id int64", "--key", "nope"), "invalid-input"),
        (("verify", "no/such/dir"), "not-found"),
        (("repair", "no/such/dir"), "not-found"),
        (("entries", "list", "no/such/dir"), "not-found"),
        (("entries", "add", "dir", "no-such-file", "--create"), "not-found"),
        (("entries", "truncate", "no/such/dir", "--until", "1"), "not-found"),
        (("check-store", "dir", "--commits", "gopher://x"), "invalid-input"),
        (("check-store", "dir", "--commits", "sqlite:///no/such/dir/x.db"), "invalid-input"),
        (("show", "no-such-object"), "not-found"),
        (("show", "s3://bucket"), "invalid-input"),
    ],
)
def test_main__library_refuses__its_error_and_code_1(words, kind, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = cli(*words)
    assert result.code == 1
    assert result.err.startswith("error: ")
    assert result.out == ""
    assert "hunter2" not in result.err
    again = cli(*words, "--json")
    assert again.code == 1
    assert again.json["error"]["kind"] == kind
    assert again.err == ""
    assert not list(tmp_path.glob("dir/**/entries"))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConflictError("x"), 3),
        (FencedError("x"), 3),
        (CommitUnknownError("x"), 1),
        (CorruptionError("x"), 1),
        (InvalidInputError("x"), 1),
    ],
)
def test_exit_code__each_kind_of_error__is_the_documented_one(error, code):
    assert exit_code(error) == code


def test_main__unexpected_error__one_line_unless_a_traceback_is_asked_for(cli, monkeypatch):
    monkeypatch.setattr("siltstone.cli.stores.check_store", lambda *_: 1 // 0)
    result = cli("check-store", "x")
    assert result.code == 1
    assert result.err.splitlines()[0] == "error: ZeroDivisionError: integer division or modulo by zero"
    monkeypatch.setenv("SILTSTONE_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        cli("check-store", "x")


def test_main__unexpected_error_with_a_secret_in_it__masked(cli, monkeypatch):
    monkeypatch.setenv("MY_SECRET", "correct-horse")

    def fail(*_):
        raise RuntimeError("sent correct-horse and battery-staple and p%40ssword p@ssword to us-east-1")

    monkeypatch.setattr("siltstone.cli.stores.check_store", fail)
    words = ["check-store", "x", "--commits", "postgresql://me:p%40ssword@h/db"]
    for option in ("aws_secret_access_key=env:MY_SECRET", "aws_session_token=battery-staple", "aws_region=us-east-1"):
        words += ["--storage-option", option]
    for result in (cli(*words), cli(*words, "--json")):
        said = result.out + result.err
        assert "sent *** and *** and *** *** to us-east-1" in said


def test_main__interrupted__code_130(cli, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("siltstone.cli.stores.check_store", interrupt)
    result = cli("check-store", "x")
    assert (result.code, result.err) == (130, "error: interrupted\n")


def test_version__as_text_and_json__name_what_is_installed(cli, process):
    found = cli("version", "--json").json
    assert found["siltstone"] == siltstone.__version__
    assert set(found) == {"siltstone", "python", "obstore", "format", "frame", "commit_stores"}
    assert siltstone.__version__ in cli("version").out
    assert process("--version") == (0, f"siltstone {siltstone.__version__}\n", "")


def test_version__of_the_package__is_the_one_that_is_built():
    assert f'\nversion = "{siltstone.__version__}"\n' in (ROOT / "pyproject.toml").read_text()


def test_process__interrupted_while_it_waits__code_130_and_what_was_put_stays(cli, events):
    child = subprocess.Popen(
        [sys.executable, "-m", "siltstone", "put", str(events), "--no-wait", "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )
    child.stdin.write(b'{"id": 1}\n')
    child.stdin.flush()
    while not cli("scan", events, "--fresh", "--json").out:  # it is durable, and the child waits for more
        assert child.poll() is None
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=240)
    assert child.returncode == 130
    assert err.decode().splitlines()[-1] == "error: interrupted"
    assert out == b""


def test_process__a_writer_that_was_fenced__code_3(process, tmp_path):
    for epoch, code in ((2, 0), (1, 3)):
        done = process("entries", "add", tmp_path / "log", "-", "--create", "--epoch", epoch, stdin=b"x")
        assert done.code == code
    assert done.err.startswith("error: ")


def test_process__exit_codes__reach_the_shell(process, tmp_path):
    assert process("verify", tmp_path).code == 1
    assert process("nonsense").code == 2
    done = process("entries", "add", tmp_path / "log", "-", "--create", stdin=b"hello")
    assert (done.code, done.err) == (0, "")


def test_process__reader_closes_the_pipe__ends_quietly(process, tmp_path):
    lines = b"".join(b"line %d\n" % number for number in range(300))
    assert process("entries", "add", tmp_path / "log", "-", "--create", "--lines", stdin=lines).code == 0
    child = subprocess.Popen(
        [sys.executable, "-m", "siltstone", "entries", "list", str(tmp_path / "log"), "--limit", "300", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )
    child.stdout.close()  # before anything was written: the child's first write meets a closed pipe
    said = child.stderr.read()
    child.stderr.close()
    assert child.wait(60) == 141
    assert said == b""


def on_a_terminal(*argv: object, **environment: str) -> str:
    """What a process prints to a terminal."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "siltstone", *map(str, argv)],
        stdout=theirs,
        stderr=theirs,
        env={k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        | {"PYTHONPATH": str(ROOT / "src"), "TERM": "xterm"}
        | environment,
    )
    os.close(theirs)
    said = read_terminal(ours)
    assert child.wait(60) == 0
    return said.decode()


def test_process__on_a_terminal__colours_unless_no_color(process, tmp_path):
    assert "\x1b[32m" in on_a_terminal("check-store", tmp_path / "a")
    assert "\x1b[" not in on_a_terminal("check-store", tmp_path / "a", NO_COLOR="1")
    assert "\x1b[" not in on_a_terminal("check-store", tmp_path / "a", TERM="dumb")
    assert "\x1b[" not in process("check-store", tmp_path / "a").out
    shown = on_a_terminal("check-store", tmp_path / "a", "--json")
    assert json.loads(shown[shown.index("{") :])["safe"] is True


def test_clean__control_characters__are_written_out():
    assert clean("a\x1b[31mb\n\u202ec é") == "a\\x1b[31mb\\n\\u202ec é"
    assert clean("a\n\tb\x07", lines=True) == "a\n\tb\\x07"
