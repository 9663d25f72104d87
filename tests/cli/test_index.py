"""index create, list, optimize and drop, and builds that several command lines work on."""

from __future__ import annotations

import re
import sys

import pyarrow as pa
import pytest

from siltstone.api import create_table, open_table

INDEX_KEYS = {
    "name", "column", "analyzer", "segments", "parts", "bytes", "indexed_rows", "unindexed_rows", "unindexed_fragments",
}  # fmt: skip
TEXTS = ["a slow delivery", "late, and slow", "the fox", None]


@pytest.fixture
def notes(tmp_path):
    """A keyed table with four texts in two fragments, at version 2."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("body", pa.string()), ("n", pa.int64())])
    with create_table(tmp_path / "notes", schema=schema, key="id") as table:
        table.append([{"id": n, "body": text, "n": n} for n, text in enumerate(TEXTS[:2])])
        table.append([{"id": n, "body": text, "n": n} for n, text in enumerate(TEXTS[2:], 2)])
    return tmp_path / "notes"


def listed(cli, table):
    return cli("index", "list", table, "--json").json["indexes"]


def found(cli, table, query):
    return [row["id"] for row in cli("search", table, "body", query, "--json").rows]


def test_index_create__of_a_column__is_listed_and_used(cli, notes):
    made = cli("index", "create", notes, "body", "--json").json
    assert (made["changed"], made["operation"], made["version"]) == (True, "index", 3)
    assert made["index"]["indexed_rows"] == 4
    assert listed(cli, notes) == [made["index"]]
    assert set(made["index"]) == INDEX_KEYS
    assert (made["index"]["name"], made["index"]["column"]) == ("body", "body")
    assert "1 segments" in cli("search", notes, "body", "slow", "--explain").out
    assert "no index" in cli("search", f"{notes}@2", "body", "slow", "--explain").out
    assert listed(cli, f"{notes}@2") == []


def test_index_create__text__says_what_it_has(cli, notes):
    said = cli("index", "create", notes, "body").out
    assert re.fullmatch(r"version 3: index body has 4 rows, \d+ B\n", said)
    head, line = cli("index", "list", notes).out.splitlines()
    assert head.split() == ["index", "column", "words", "indexed", "not", "yet", "segments", "parts", "size"]
    assert line.split()[:6] == ["body", "body", "simple,", "english", "4", "0"]


@pytest.mark.parametrize(
    ("words", "analyzer", "text"),
    [
        ((), {"stem": True, "stop_words": True, "positions": True, "language": "english"}, "simple, english"),
        (("--no-stem",), {"stem": False, "stop_words": True}, "simple, english, no stems"),
        (("--no-stop-words", "--language", "german"), {"language": "german"}, "simple, german, with stop words"),
        (("--no-positions",), {"positions": False}, "simple, english, no positions"),
        (("--tokenizer", "whitespace", "--no-lower"), {"tokenizer": "whitespace", "lower": False}, "whitespace"),
        (("--tokenizer", "ngram", "--ngram-max", "5"), {"ngram_min": 3, "ngram_max": 5}, "ngram 3 to 5"),
        (("--no-fold", "--max-token-bytes", "40"), {"fold": False, "max_token_bytes": 40}, "simple, english"),
    ],
)
def test_index_create__options__are_those_of_the_index(words, analyzer, text, cli, notes):
    assert cli("index", "create", notes, "body", "--name", "own", *words).code == 0
    (made,) = listed(cli, notes)
    assert made["name"] == "own"
    assert {name: made["analyzer"][name] for name in analyzer} == analyzer
    assert f"  {text}  " in cli("index", "list", notes).out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("n",), 1, "only texts"),
        (("other",), 1, "other"),
        (("body", "--language", "klingon"), 1, "klingon"),
        (("body", "--tokenizer", "raw", "--stem"), 1, "stem"),
        (("body", "--ngram-min", "2"), 1, "ngram"),
        (("body", "--name", "a b"), 1, "a b"),
        (("body", "--tokenizer", "odd"), 2, "odd"),
        (("body", "--ngram-min", "0"), 2, "1 at least"),
        (("body", "--items", "2"), 2, "--begin"),
        (("body", "--begin", "--items", "0"), 2, "1 at least"),
        ((), 2, "COLUMN"),
    ],
)
def test_index_create__bad_words__are_refused_and_nothing_changes(words, code, said, cli, notes):
    refused = cli("index", "create", notes, *words)
    assert refused.code == code
    assert said in refused.err
    assert refused.out == ""
    assert open_table(notes).version == 2
    assert not (notes / "indexes").exists()


def test_index_create__a_name_that_is_taken__is_refused(cli, notes):
    cli("index", "create", notes, "body")
    assert cli("index", "create", notes, "body", "--json").error == (1, "already-exists")
    assert cli("index", "create", f"{notes}@1", "body", "--name", "old").code == 2


def test_index_optimize__rows_came_since__are_taken_in(cli, notes):
    cli("index", "create", notes, "body")
    cli("append", notes, "-", "--format", "jsonl", stdin=b'{"id": 9, "body": "slow slow", "n": 9}')
    assert [(one["indexed_rows"], one["unindexed_rows"]) for one in listed(cli, notes)] == [(4, 1)]
    before = found(cli, notes, "slow")
    assert set(before) == {0, 1, 9}
    assert cli("index", "optimize", notes, "body").out.startswith("version 5: index body has 5 rows, ")
    assert [(one["indexed_rows"], one["unindexed_rows"]) for one in listed(cli, notes)] == [(5, 0)]
    assert found(cli, notes, "slow") == before
    assert cli("index", "optimize", notes, "body").out == "nothing to do: the table is at version 5\n"
    begun = cli("index", "optimize", notes, "body", "--begin", "--json").json
    assert (begun["changed"], begun["version"]) == (False, 5)


def test_index_optimize__whole__makes_one_part_of_all(cli, notes):
    cli("index", "create", notes, "body")
    cli("append", notes, "-", "--format", "jsonl", stdin=b'{"id": 9, "body": "slow slow", "n": 9}')
    cli("index", "optimize", notes, "body")
    before = found(cli, notes, "slow")
    made = cli("index", "optimize", notes, "body", "--whole", "--json").json
    assert (made["changed"], made["version"]) == (True, 6)
    assert (made["index"]["segments"], made["index"]["parts"], made["index"]["indexed_rows"]) == (1, 1, 5)
    assert found(cli, notes, "slow") == before
    nothing = cli("index", "optimize", notes, "body", "--whole", "--json").json
    assert (nothing["changed"], nothing["version"]) == (False, 6)


def test_index_optimize__no_such_index__is_refused(cli, notes):
    assert cli("index", "optimize", notes, "body", "--json").error == (1, "not-found")
    assert cli("index", "drop", notes, "body", "--json").error == (1, "not-found")


def test_index_drop__one_that_is_there__is_gone_and_earlier_versions_have_it(cli, notes):
    cli("index", "create", notes, "body")
    assert cli("index", "drop", notes, "body").out == "version 4: index body dropped\n"
    assert listed(cli, notes) == []
    assert [one["name"] for one in listed(cli, f"{notes}@3")] == ["body"]
    assert set(found(cli, notes, "slow")) == {0, 1}


def test_index_begin__items_run_by_several__become_one_version(cli, notes):
    begun = cli("index", "create", notes, "body", "--begin", "--items", "2", "--json").json
    assert set(begun) == {"uri", "build", "name", "items", "missing", "rows", "begun_on", "new", "committed"}
    assert (begun["name"], begun["begun_on"], begun["new"], begun["committed"]) == ("body", 2, True, None)
    assert (begun["items"], begun["missing"], begun["rows"]) == (2, [0, 1], 4)
    build = begun["build"]
    assert cli("index", "status", notes, build).out == "0 of 2 items are done; missing: 0, 1; not committed yet\n"
    first = cli("index", "run", notes, build, "1", "--threads", "1", "--json").json
    assert set(first) == {"uri", "build", "done", "missing"}
    assert [(one["item"], one["rows"]) for one in first["done"]] == [(1, 2)]
    assert first["missing"] == [0]
    refused = cli("index", "commit", notes, build, "--json")
    assert refused.error == (1, "unfinished")
    assert "fragments" in refused.json["error"]["message"]
    again = cli("index", "run", notes, build, "1", "--json").json["done"]
    assert again == first["done"]  # what came first counts
    said = cli("index", "run", notes, build).out.splitlines()
    assert said[0].startswith("item 0: 2 rows in 1 parts, ")
    assert said[1] == "no item is missing: commit it"
    assert cli("index", "status", notes, build, "--json").json["missing"] == []
    assert cli("index", "status", notes, build).out == "2 of 2 items are done; ready to be committed\n"
    assert listed(cli, notes) == []
    assert cli("index", "commit", notes, build).out == "version 3: index body made\n"
    assert cli("index", "status", notes, build).out == "2 of 2 items are done; committed as version 3\n"
    assert cli("index", "commit", notes, build).out == "nothing to do: the table is at version 3\n"
    assert [one["indexed_rows"] for one in listed(cli, notes)] == [4]


def test_index_begin__to_optimize__is_committed_by_its_name(cli, notes):
    cli("index", "create", notes, "body")
    cli("append", notes, "-", "--format", "jsonl", stdin=b'{"id": 9, "body": "slow slow", "n": 9}')
    said = cli("index", "optimize", notes, "body", "--begin").out
    build = re.match(r"build (\S+): 2 items, 5 rows\n", said)[1]
    assert cli("index", "run", notes, build).code == 0
    assert cli("index", "commit", notes, build).out == "version 5: index body optimized\n"
    assert [(one["indexed_rows"], one["unindexed_rows"]) for one in listed(cli, notes)] == [(5, 0)]


def test_index_status__without_a_build__lists_those_that_are_not_committed(cli, notes):
    assert cli("index", "status", notes).out == "no build is under way\n"
    cli("index", "create", notes, "body", "--name", "whole")
    names = [
        cli("index", "create", notes, "body", "--name", name, "--begin", "--items", "2", "--json").json["build"]
        for name in ("one", "two", "three")
    ]
    cli("index", "run", notes, names[1], "0")
    cli("index", "run", notes, names[2])
    cli("index", "commit", notes, names[2])
    found = cli("index", "status", notes, "--json").json["builds"]
    assert {one["name"]: (one["missing"], one["begun_on"], one["committed"], one["problem"]) for one in found} == {
        "one": ([0, 1], 3, None, ""),
        "two": ([1], 3, None, ""),
    }
    said = cli("index", "status", notes).out
    assert all(name in said for name in names[:2])
    assert "1 of 2 items are done" in said
    assert "not committed yet" in said


def test_index_status__a_build_whose_plan_is_gone__is_listed_with_its_problem(cli, notes):
    build = cli("index", "create", notes, "body", "--begin", "--json").json["build"]
    (plan,) = (notes / "indexes" / build / "log" / "entries").iterdir()
    plan.unlink()
    (found,) = cli("index", "status", notes, "--json").json["builds"]
    assert found["build"] == build
    assert found["problem"] != ""
    assert found["problem"] in cli("index", "status", notes).out


def test_log__of_indexes__says_which_and_what_became_of_them(cli, notes):
    cli("index", "create", notes, "body")
    cli("append", notes, "-", stdin=b'{"id": 9, "body": "new"}')
    cli("index", "optimize", notes, "body")
    cli("index", "create", notes, "body", "--name", "again")
    cli("index", "drop", notes, "body")
    said = cli("log", notes).out.splitlines()
    operations = [re.split(r"  +", line.strip())[2] for line in said[1:-1]]
    assert operations == [
        "index body dropped", "index again made", "index body optimized", "append", "index body made", "append",
        "append", "create",
    ]  # fmt: skip
    found = [one["indexes"] for one in cli("log", notes, "--json", "--limit", "3").json["versions"]]
    assert found == [{"body": "dropped"}, {"again": "made"}, {"body": "optimized"}]  # known by the version before


def test_compact__rows_that_an_index_lacks__says_how_many(cli, notes):
    assert cli("compact", notes, "--json").json["indexes"] == []
    cli("index", "create", notes, "body")
    cli("append", notes, "-", stdin=b'{"id": 9, "body": "new"}')
    said = cli("compact", notes).out.splitlines()
    ((name, rows),) = [(one["name"], one["unindexed_rows"]) for one in listed(cli, notes)]
    assert rows > 0
    hint = "`siltstone index optimize` takes them in"
    assert said[1:] == [f"index {name}: {rows} rows are searched by reading their texts; {hint}"]
    assert cli("compact", notes, "--json").json["indexes"] == [{"name": name, "unindexed_rows": rows}]
    cli("index", "optimize", notes, "body")
    assert "index" not in cli("compact", notes).out


@pytest.mark.parametrize("verb", ["status", "run", "commit"])
def test_index_build__a_name_that_is_none__is_refused(verb, cli, notes):
    assert cli("index", verb, notes, "odd", "--json").error == (1, "invalid-input")
    missing = f"{0:020}-{0:032x}"
    assert cli("index", verb, notes, missing, "--json").error == (1, "not-found")


def test_index_run__an_item_that_is_none__is_refused(cli, notes):
    build = cli("index", "create", notes, "body", "--begin", "--json").json["build"]
    assert cli("index", "run", notes, build, "7", "--json").error == (1, "invalid-input")
    assert cli("index", "run", notes, build, "x").code == 2


def test_index_create__on_a_terminal__shows_a_bar_for_each_stage(cli, notes, monkeypatch):
    assert cli("index", "create", notes, "body", "--name", "quiet").err == ""
    monkeypatch.setattr("siltstone.cli.progress.SHOW_EVERY_S", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    shown = cli("index", "create", notes, "body").err
    assert re.search(r"index body  \[#{20}\] 100%  4 rows", shown)
    assert re.search(r"copy body  \[#{20}\] 100%", shown)
    build = cli("index", "create", notes, "body", "--name", "b2", "--begin", "--json").json["build"]
    assert re.search(r"item 0  \[#{20}\] 100%  \d rows", cli("index", "run", notes, build).err)


# -- show ----------------------------------------------------------------------------------------


@pytest.fixture
def build(cli, notes):
    """The directory of a build that is part of the table."""
    cli("index", "create", notes, "body")
    return next((notes / "indexes").iterdir())


def test_show__marker__its_parts(cli, build):
    shown = cli("show", build / "metadata", "--json").json
    assert (shown["kind"], shown["role"], shown["doubts"]) == ("marker", "marker", [])
    assert (shown["record"]["build"], shown["parts"]["parts"]["count"]) == (build.name, 1)
    assert shown["parts"]["parts"]["first"][0]["name"] == "part_0_0.text"
    assert "parts (1)" in cli("show", build / "metadata").out
    other = build.parent / build.name.replace("0002-", "0001-")
    other.mkdir()
    (build / "metadata").rename(other / "metadata")
    assert "its name says another build" in cli("show", other / "metadata").out


@pytest.mark.parametrize("folder", ["", "staging"])
def test_show__part_of_an_index__its_end(folder, cli, build):
    (build / "staging").mkdir(exist_ok=True)
    place = build / folder / "part_0_0.text"
    if folder:
        (build / "part_0_0.text").rename(place)
    shown = cli("show", place, "--json").json
    assert (shown["kind"], shown["role"]) == ("part", "staged" if folder else "part")
    assert (shown["record"]["documents"], shown["record"]["nulls"], shown["record"]["terms"]) == (4, 1, 4)
    assert shown["parts"]["dictionary pages"]["first"][0]["first"] == "deliveri"
    assert "dictionary pages (1)" in cli("show", place).out


def test_show__part_with_a_long_end__is_read_once_more(cli, build, monkeypatch):
    whole = cli("show", build / "part_0_0.text", "--json").json
    monkeypatch.setattr("siltstone.cli.showing.TAIL_BYTES", 32)
    assert cli("show", build / "part_0_0.text", "--json").json == whole


def test_show__plan_that_is_packed__as_json(cli, tmp_path):
    with create_table(tmp_path / "t", schema=pa.schema([("body", pa.string())])) as table:
        for number in range(20):
            table.append([{"body": f"text {number}"}])
        table.create_text_index("body")
    (plan,) = (tmp_path / "t/indexes").glob("*/log/entries/*0")
    assert b"fragments" not in plan.read_bytes()
    shown = cli("show", plan, "--json").json
    assert len(shown["body"]["value"]["items"][0]["fragments"]) == 20


@pytest.mark.parametrize("name", ["metadata", "part_0_0.text"])
@pytest.mark.parametrize("damage", ["cut", "end", "empty"])
def test_show__damaged_marker_or_part__typed_error(name, damage, cli, build):
    data = (build / name).read_bytes()
    (build / name).write_bytes({"cut": data[:-20], "end": data[:-1] + b"x", "empty": b""}[damage])
    assert cli("show", build / name, "--json").error == (1, "corruption")
