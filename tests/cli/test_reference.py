"""The page about the command line, and the JSON that it promises."""

from __future__ import annotations

import re
import runpy

import pytest

from siltstone.cli.errors import CONFLICT, DONE, FAILED, INTERRUPTED, PIPE_CLOSED, USAGE
from siltstone.cli.grammar.keys import KEYS, key_of
from sources import ROOT
from verbs import leaves

TOOL = "tools/cli_reference.py"
KINDS = {"text": str, "flag": bool, "list": list, "object": dict, "number": (int, float)}


def shapes(verb):
    one = leaves()[verb]
    return {"": one.get_default("shape"), **one.get_default("shapes")}


def test_page__of_the_command_line__is_what_the_grammar_says():
    made = runpy.run_path(str(ROOT / TOOL))["page"]()
    assert (ROOT / "docs/cli.md").read_text(encoding="utf-8") == made, f"run {TOOL}"


def test_page__its_verbs__are_all_of_them():
    text = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^### (.+)$", text, re.MULTILINE)) == sorted(leaves())


def test_page__its_exit_codes__are_those_of_the_command_line():
    text = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    codes = [int(code) for code in re.findall(r"^\| (\d+) \| ", text, re.MULTILINE)]
    assert codes == [DONE, FAILED, USAGE, CONFLICT, INTERRUPTED, PIPE_CLOSED]


def test_keys__of_all_shapes__are_explained_and_no_others():
    used = {(verb, key) for verb in leaves() for keys in shapes(verb).values() for key in keys}
    explained = {f"{verb} {key}" if f"{verb} {key}" in KEYS else key for verb, key in used}
    assert set(KEYS) == explained
    assert all(one.kind.rstrip("?") in KINDS for one in KEYS.values())


@pytest.mark.parametrize("verb", leaves())
def test_help__of_a_verb__names_the_keys_of_its_json(verb):
    text = " ".join(leaves()[verb].format_help().split())
    for when, keys in shapes(verb).items():
        assert ", ".join(keys) in text
        assert when in text


def check(verb, document, when=""):
    """Exactly the keys that are documented, each with a value of its kind."""
    assert set(document) == set(shapes(verb)[when])
    for key, value in document.items():
        kind = key_of(verb, key).kind
        if value is None:
            assert kind.endswith("?"), key
        else:
            assert isinstance(value, KINDS[kind.rstrip("?")]), (key, value)
            assert kind == "flag" or not isinstance(value, bool), (key, value)


ROW = b'{"id": 4}'
CALLS = [
    ("check-store", ("new",), ""),
    ("check-store", ("new", "--commits", "sqlite:claims.db"), ""),
    ("doctor", (), ""),
    ("completion", ("bash",), ""),
    ("version", (), ""),
    ("create", ("new", "--schema", "a int64"), ""),
    ("append", ("reviews", "-"), ""),
    ("upsert", ("reviews", "-"), ""),
    ("overwrite", ("reviews", "-"), ""),
    ("delete", ("reviews", "--all"), ""),
    ("delete", ("reviews", "--where", "id = 77"), ""),
    ("update", ("reviews", "--set", "stars=1", "--all"), ""),
    ("column list", ("reviews",), ""),
    ("column add", ("reviews", "x", "int8"), ""),
    ("column drop", ("reviews", "stars"), ""),
    ("column rename", ("reviews", "lang", "x"), ""),
    ("column widen", ("reviews", "stars", "int64"), ""),
    ("drop", ("events", "--yes"), ""),
    ("scan", ("reviews", "--count"), "with --count"),
    ("scan", ("reviews", "--explain"), "with --explain"),
    ("search", ("reviews", "lang", "en", "--count"), "with --count"),
    ("search", ("reviews", "lang", "en", "--explain"), "with --explain"),
    ("log", ("reviews",), ""),
    ("tag create", ("reviews", "v1"), ""),
    ("tag list", ("reviews",), ""),
    ("tag delete", ("reviews", "there"), ""),
    ("checkpoint create", ("reviews", "before"), ""),
    ("checkpoint list", ("reviews",), ""),
    ("checkpoint refresh", ("reviews", "kept", "--for-ever"), ""),
    ("checkpoint delete", ("reviews", "kept"), ""),
    ("restore", ("reviews@1",), ""),
    ("clone", ("reviews", "twin"), ""),
    ("detach", ("reviews",), ""),
    ("compact", ("reviews",), ""),
    ("gc", ("reviews", "--keep-days", "0"), ""),
    ("gc", ("reviews", "--dry-run"), ""),
    ("index create", ("reviews", "lang"), ""),
    ("index create", ("reviews", "lang", "--begin"), "with --begin"),
    ("index list", ("reviews",), ""),
    ("index optimize", ("reviews", "langs"), ""),
    ("index optimize", ("reviews", "langs", "--begin"), "with --begin"),
    ("index drop", ("reviews", "langs"), ""),
    ("index status", ("reviews",), "without BUILD"),
    ("index status", ("reviews", "BUILD"), ""),
    ("index run", ("reviews", "BUILD"), ""),
    ("index commit", ("reviews", "DONE"), ""),
    ("verify", ("reviews",), ""),
    ("repair", ("reviews",), ""),
    ("put", ("events", "-"), ""),
    ("merge", ("events",), ""),
    ("shards", ("events",), ""),
    ("split", ("events", "3"), ""),
    ("wal", ("events",), ""),
    ("show", ("reviews/log/identity",), ""),
    ("show", ("reviews/log/entries/00000000000000000001",), ""),
    ("entries list", ("reviews/log",), ""),
    ("entries add", ("raw", "-", "--create"), ""),
    ("entries truncate", ("raw", "--until", "0"), ""),
    ("pipeline check", ("pipeline.yaml",), ""),
]
# Each is asked for its JSON elsewhere: they start Spark or a server, or follow a WAL.
ELSEWHERE = {"demo": "test_demo", "pipeline run": "test_pipeline", "console": "test_console", "tail": "test_tail"}
ROWS = {"scan", "sql", "get", "changes", "search", "tail"}


def test_json__the_calls_below__are_all_verbs_and_all_of_their_shapes():
    asked = {(verb, when) for verb, _, when in CALLS}
    there = {(verb, when) for verb in leaves() for when, keys in shapes(verb).items() if keys}
    assert there - asked == {(verb, "") for verb in ELSEWHERE}


@pytest.fixture
def home(reviews, events, monkeypatch):
    """A directory with tables and a pipeline's file, which is the current one."""
    monkeypatch.chdir(reviews.parent)
    (reviews.parent / "pipeline.yaml").write_text("name: n\nsteps:\n  - compact: {table: reviews}\n")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("verb", "words", "when"), CALLS)
def test_json__of_a_verb__has_the_keys_and_kinds_that_are_documented(verb, words, when, cli):
    builds = {}
    if verb.startswith(("index", "search", "compact")):
        assert cli("index", "create", "reviews", "lang", "--name", "langs").code == 0
        assert cli("append", "reviews", "-", stdin=b'{"id": 5, "lang": "nl"}').code == 0
    if "BUILD" in words or "DONE" in words:
        builds["BUILD"] = builds["DONE"] = cli("index", "create", "reviews", "lang", "--begin", "--json").json["build"]
    if "DONE" in words:
        assert cli("index", "run", "reviews", builds["DONE"]).code == 0
    if verb.startswith("tag"):
        cli("tag", "reviews", "there")
    if verb.startswith("checkpoint"):
        cli("checkpoint", "reviews", "kept")
    if words[0:1] == ("raw",):
        cli("entries", "add", "raw", "-", "--create", stdin=b"x")
    if verb == "merge":
        cli("put", "events", "-", stdin=ROW)
    if verb == "detach":
        assert cli("clone", "reviews", "twin").code == 0
        words = ("twin",)
    result = cli(*verb.split(), *(builds.get(word, word) for word in words), "--json", stdin=ROW)
    assert result.code == 0, result.out
    check(verb, result.json, when)


def test_json__of_a_write_that_changes_nothing__has_the_same_keys(cli, reviews, events):
    assert cli("index", "create", reviews, "lang").code == 0
    for verb, words in (("merge", (events,)), ("index optimize", (reviews, "lang")), ("compact", (reviews,))):
        result = cli(*verb.split(), *words, "--json")
        assert result.code == 0
        check(verb, result.json)
        assert not result.json.get("changed", False)


def test_json__of_verbs_that_give_rows__is_lines_or_a_shape_of_its_own():
    assert {verb for verb, one in leaves().items() if one.get_default("rows")} == ROWS
