"""Pipeline files: what they say, and what is wrong with them, told with the line and before anything is done."""

from __future__ import annotations

import pytest

from siltstone.errors import InvalidInputError, LimitExceededError, NotFoundError
from siltstone.pipeline import load_pipeline, parse_pipeline
from siltstone.pipeline.document import DEPTH_MAX, FILE_BYTES_MAX
from siltstone.pipeline.file import STEPS_MAX
from siltstone.pipeline.steps import KINDS
from siltstone.pipeline.variables import parse_set

SECRET = "canary-41c7"
HEAD = "name: a\nsteps:\n"
CREATE = "  - create: {table: t, key: id, schema: {id: int64, body: string}}\n"

# What the file says, the line that is named, and words of the message and its hint.
MISTAKES = {
    "empty": ("", 0, "empty"),
    "no mapping": ("- a\n- b\n", 1, "keys and values, found a list"),
    "no YAML": ("name: a\nsteps: [1, 2\n", 3, "no YAML"),
    "unquoted colon": (f"{HEAD}  - delete: {{table: t, where: a: b}}\n", 3, "double quotes"),
    "tab": ("name: a\nsteps:\n\t- compact: {table: t}\n", 3, "indent with spaces"),
    "control character": ("name: a\x01\nsteps: []\n", 1, "control character"),
    "no UTF-8": (b"name: a\nsteps: \xff\xfe\n", 2, "UTF-8"),
    "anchor": (f"name: a\nvars: {{x: &x 1, y: *x}}\n{HEAD[8:]}{CREATE}", 2, "anchors"),
    "alias of nothing": ("name: *x\nsteps: []\n", 1, "anchors"),
    "tag of Python": (f"name: !!python/object/apply:os.system [id]\n{HEAD[8:]}{CREATE}", 1, "tag"),
    "two documents": (f"{HEAD}{CREATE}---\nname: b\n", 4, "second document"),
    "key twice": (f"name: a\nname: b\n{HEAD[8:]}{CREATE}", 2, "twice"),
    "key of a list": (f"? [a]\n: b\n{HEAD}{CREATE}", 1, "key is no text"),
    "unknown top key": (f"name: a\nstep: 1\n{HEAD[8:]}{CREATE}", 2, "did you mean steps"),
    "merge key": (f"<<: {{x: 1}}\n{HEAD}{CREATE}", 1, "no key '<<'"),
    "no name": (f"steps:\n{CREATE}", 1, "needs the key name"),
    "name with a slash": (f"name: a/b\nsteps:\n{CREATE}", 1, "the name is 'a/b'"),
    "name is a list": (f"name: [a]\nsteps:\n{CREATE}", 1, "the name is a list"),
    "no steps": ("name: a\n", 1, "needs the key steps"),
    "steps empty": ("name: a\nsteps: []\n", 2, "steps takes a list"),
    "steps no list": ("name: a\nsteps: {compact: {table: t}}\n", 2, "found keys and values"),
    "step no mapping": (f"{HEAD}  - compact\n", 3, "found text"),
    "unknown step": (f"{HEAD}  - compakt: {{table: t}}\n", 3, "did you mean compact"),
    "two kinds": (f"{HEAD}  - compact: {{table: t}}\n    delete: {{table: t, where: x}}\n", 3, "2 kinds"),
    "no kind": (f"{HEAD}  - id: x\n", 3, "no kind"),
    "step without keys": (f"{HEAD}  - compact:\n", 3, "found nothing"),
    "unknown key": (f"{HEAD}  - delete:\n      table: t\n      wehre: id = 1\n", 5, "did you mean where"),
    "no table": (f"{HEAD}  - compact: {{storage: {{aws_region: x}}}}\n", 3, "needs the key table"),
    "no where": (f"{HEAD}  - delete: {{table: t}}\n", 3, "needs the key where"),
    "where is a number": (f"{HEAD}  - delete: {{table: t, where: 7}}\n", 3, "takes text, found a whole number (7)"),
    "where is empty": (f"{HEAD}  - delete: {{table: t, where: '  '}}\n", 3, "where is empty"),
    "table is a list": (f"{HEAD}  - compact: {{table: [a]}}\n", 3, "table takes text, found a list"),
    "table in memory": (f"{HEAD}  - compact: {{table: 'memory://x'}}\n", 3, "can't reach"),
    "unknown scheme": (f"{HEAD}  - compact: {{table: 'ftp://h/x'}}\n", 3, "unknown scheme"),
    "rows is text": (f"{HEAD}  - check: {{table: t, rows: many}}\n", 3, "whole number"),
    "rows below 0": (f"{HEAD}  - check: {{table: t, rows: -1}}\n", 3, "whole number"),
    "rows is true": (f"{HEAD}  - check: {{table: t, rows: yes}}\n", 3, "found true or false"),
    "check of nothing": (f"{HEAD}  - check: {{table: t}}\n", 3, "rows or at_least"),
    "version and tag": (f"{HEAD}  - check: {{table: t, rows: 1, version: 2, tag: x}}\n", 3, "both given"),
    "version and fresh": (f"{HEAD}  - check: {{table: t, rows: 1, version: 2, fresh: true}}\n", 3, "both given"),
    "fresh is text": (f"{HEAD}  - check: {{table: t, rows: 1, fresh: 'true'}}\n", 3, "true or false, found text"),
    "no shards": (f"{HEAD}  - create: {{table: t, key: id, shards: 0, schema: {{id: int64}}}}\n", 3, "from 1 to"),
    "shards without a key": (f"{HEAD}  - create: {{table: t, shards: 2, schema: {{id: int64}}}}\n", 3, "without a key"),
    "unknown format": (f"{HEAD}  - append: {{from: x, format: xml, into: t}}\n", 3, "one of csv, json"),
    "unknown operation": (
        f"{HEAD}  - stream: {{from: x, format: json, into: t, checkpoint: c, operation: merge}}\n", 3, "append, upsert",
    ),
    "no checkpoint": (f"{HEAD}  - stream: {{from: x, format: json, into: t}}\n", 3, "needs the key checkpoint"),
    "unknown type": (f"{HEAD}  - create:\n      table: t\n      schema: {{id: int65}}\n", 3, "has the type 'int65'"),
    "key is no column": (f"{HEAD}  - create: {{table: t, key: nr, schema: {{id: int64}}}}\n", 3, "nr"),
    "schema empty": (f"{HEAD}  - create: {{table: t, schema: {{}}}}\n", 3, "schema takes names and values"),
    "tag of digits": (f"{HEAD}  - tag: {{table: t, name: '7'}}\n", 3, "not digits alone"),
    "set is text": (f"{HEAD}  - update: {{table: t, set: x = 1}}\n", 3, "set takes names and values"),
    "into and expect": (
        f"{HEAD}  - sql: {{tables: {{t: t}}, query: select 1, into: u, expect: 1}}\n", 3, "both given",
    ),
    "query's odd table": (f"{HEAD}  - sql: {{tables: {{'a-b': t}}, query: select 1}}\n", 3, "can't be used in a query"),
    "query's unknown key": (
        f"{HEAD}  - sql: {{tables: {{a: {{table: t, at: 1}}}}, query: select 1}}\n", 3, "table, version, tag",
    ),
    "expect no rows": (f"{HEAD}  - sql: {{tables: {{a: t}}, query: q, expect: [1, 2]}}\n", 3, "[[de, 12]"),
    "id twice": (
        f"{HEAD}  - {{id: x, compact: {{table: t}}}}\n  - {{id: x, compact: {{table: t}}}}\n", 4, "step 1 in line 3",
    ),
    "id like a number's": (
        f"{HEAD}  - compact: {{table: t}}\n  - {{id: 1-compact, compact: {{table: t}}}}\n", 4, "comes twice",
    ),
    "odd id": (f"{HEAD}  - {{id: a/b, compact: {{table: t}}}}\n", 3, "the id is 'a/b'"),
    "variable not set": (f"{HEAD}  - compact: {{table: '${{root}}/t'}}\n", 3, "known: here, name, run"),
    "variable not closed": (f"{HEAD}  - compact: {{table: '${{root'}}\n", 3, "closing bracket"),
    "environment not set": (f"{HEAD}  - compact: {{table: '${{env:NOT_SET_9}}'}}\n", 3, "variable 'NOT_SET_9'"),
    "variables in a circle": (
        "name: a\nvars: {x: '${y}', y: '${x}'}\nsteps:\n  - compact: {table: '${x}'}\n", 2, "x -> y -> x",
    ),
    "variable is a list": (f"name: a\nvars: {{x: [1]}}\nsteps:\n{CREATE}", 2, "takes one value"),
    "variable's odd name": (f"name: a\nvars: {{a-b: 1}}\nsteps:\n{CREATE}", 2, "no name of a variable"),
    "variable run": (f"name: a\nvars: {{run: 1}}\nsteps:\n{CREATE}", 2, "always there"),
    "vars no mapping": (f"name: a\nvars: [x]\nsteps:\n{CREATE}", 2, "names and values"),
    "spark's unknown key": (f"name: a\nspark: {{mastr: x}}\nsteps:\n{CREATE}", 2, "did you mean master"),
    "storage is text": (f"name: a\nstorage: x\nsteps:\n{CREATE}", 2, "storage takes names and values"),
    "whole variable no number": (
        "name: a\nvars: {n: many}\nsteps:\n  - check: {table: t, rows: '${n}'}\n", 4, "found 'many'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MISTAKES)
def test_parse__a_mistake__is_told_with_its_line_and_what_is_allowed(what):
    text, line, words = MISTAKES[what]
    with pytest.raises(InvalidInputError) as caught:
        parse_pipeline(text)
    error = caught.value
    assert error.hint
    assert words in f"{error.message} {error.hint}"
    if line:
        assert error.message.startswith(f"line {line}: ")
        assert error.facts["line"] == line


@pytest.mark.parametrize(
    "data",
    [
        f"{HEAD}{CREATE}".encode() + b"#" * FILE_BYTES_MAX,
        "name: a\nsteps: " + "[" * (DEPTH_MAX + 1),
        "[" * 100_000,
        "a: " * 1,
        HEAD + CREATE * (STEPS_MAX + 1),
        "name: a\nvars:\n"
        + "".join(f"  v{n}: '${{v{n + 1}}}${{v{n + 1}}}'\n" for n in range(60))
        + "  v60: xx\nsteps:\n  - compact: {table: '${v0}'}\n",
    ],
    ids=["large", "deep", "very deep", "cut", "many steps", "doubling variables"],
)
def test_parse__a_bomb__is_refused_at_once(data):
    with pytest.raises(InvalidInputError):
        parse_pipeline(data)


def test_parse__variables_that_double_nothing__are_worked_out_once_each():
    doubling = "".join(f"  v{n}: '${{v{n + 1}}}${{v{n + 1}}}'\n" for n in range(60))
    text = f"name: a\nvars:\n{doubling}  v60: ''\nsteps:\n  - compact: {{table: 't${{v0}}'}}\n"
    assert parse_pipeline(text).steps[0].settings["table"] == "t"


def test_parse__a_whole_file__says_what_it_says(tmp_path):
    made = parse_pipeline(
        """
name: nightly
spark: {master: "local[2]", config: {spark.sql.shuffle.partitions: 4, spark.ui.enabled: false}}
vars: {root: "${base}/reviews", base: "${here}", n: 20}
storage: {aws_region: eu-west-1}
steps:
  - create: {table: "${root}/t", key: [id, at], schema: {id: int64 not null, at: "timestamp[us, UTC]", d: date}}
  - id: new
    stream: {from: x, format: json, into: "${root}/t", checkpoint: c, files_per_batch: 3, storage: {aws_region: us}}
  - check: {table: "$${root}", rows: "${n}", where: at > '2026-01-01'}
  - sql: {tables: {a: "${root}/t", b: {table: u, tag: old}}, query: select 1, expect: [[1, null, true, 2.5, x]]}
""",
        here=tmp_path,
        run="2026-11-14",
    )
    assert (made.name, made.run, made.master) == ("nightly", "2026-11-14", "local[2]")
    assert made.config == {"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false"}
    assert [step.id for step in made.steps] == ["1-create", "new", "3-check", "4-sql"]
    create, stream, check, sql = (step.settings for step in made.steps)
    assert create["table"] == stream["into"] == f"{tmp_path}/reviews/t"
    assert create["key"] == ["id", "at"]
    assert create["storage"] == {"aws_region": "eu-west-1"}
    assert stream["storage"] == {"aws_region": "us"}
    assert stream["files_per_batch"] == 3
    assert (check["table"], check["rows"], check["where"]) == ("${root}", 20, "at > '2026-01-01'")
    assert sql["tables"] == {"a": {"uri": f"{tmp_path}/reviews/t"}, "b": {"uri": "u", "tag": "old"}}
    assert sql["expect"] == [[1, None, True, 2.5, "x"]]
    assert [step.label for step in made.steps[:2]] == ["step 1 (create)", "step 2 'new' (stream)"]


def test_parse__variables_that_are_set__win_and_must_be_used():
    text = "name: a\nvars: {x: file}\nsteps:\n  - compact: {table: '${x}-${y}'}\n"
    made = parse_pipeline(text, values=parse_set(["x=given=1", "y="]))
    assert made.steps[0].settings["table"] == "given=1-"
    with pytest.raises(InvalidInputError, match="nothing in the file uses it"):
        parse_pipeline(text, values={"y": "1", "z": "2"})


@pytest.mark.parametrize("words", [["x"], ["=1"], ["a-b=1"], ["x=1", "x=2"]])
def test_parse_set__wrong_words__are_refused(words):
    with pytest.raises(InvalidInputError):
        parse_set(words)


@pytest.mark.parametrize("run", ["", "a/b", "a b", "x" * 65, "\n", None, 7])
def test_parse__wrong_run__is_refused(run):
    with pytest.raises(InvalidInputError, match="the run is"):
        parse_pipeline(HEAD + CREATE, run=run)


def test_digest__of_a_step__changes_with_what_it_does_and_not_with_where_the_file_is(tmp_path, monkeypatch):
    def digests(text, here="a", **values):
        made = parse_pipeline(f"name: a\nvars: {{w: id = 1}}\nsteps:\n{text}", here=tmp_path / here, values=values)
        return [step.digest for step in made.steps]

    text = "  - delete: {table: '${here}/t', where: '${w}', storage: {aws_region: '${env:ZONE}'}}\n"
    monkeypatch.setenv("ZONE", "one")
    first = digests(text)
    monkeypatch.setenv("ZONE", "two")
    assert digests(text, here="b") == first
    assert digests(text.replace("aws_region", "region")) == first
    assert digests(text, w="id = 2") != first
    assert digests(text.replace("/t'", "/u'")) != first
    assert digests(text.replace("delete", "update").replace("where:", "set: {a: b}, where:")) != first


def test_parse__secrets_from_the_environment__are_in_no_message_and_no_repr(monkeypatch):
    monkeypatch.setenv("TOKEN", SECRET)
    reach = "commits: 'postgresql://u:${env:TOKEN}@h/d'\nstorage: {aws_secret_access_key: '${env:TOKEN}'}\n"
    text = f"name: a\n{reach}steps:\n"
    made = parse_pipeline(f"{text}{CREATE}")
    assert made.secrets == {SECRET}
    assert made.steps[0].settings["commits"] == f"postgresql://u:{SECRET}@h/d"
    assert SECRET not in repr(made)
    for wrong in ("  - compact: {table: 'ftp://${env:TOKEN}/x'}\n", "  - tag: {table: t, name: '${env:TOKEN} x'}\n"):
        with pytest.raises(InvalidInputError) as caught:
            parse_pipeline(text + wrong)
        shown = f"{caught.value} {caught.value.facts} {caught.value.__cause__}"
        assert SECRET not in shown


def test_load__no_file_or_no_readable_one__is_told_by_name(tmp_path):
    with pytest.raises(NotFoundError, match=r"nothing\.yaml"):
        load_pipeline(tmp_path / "nothing.yaml")
    with pytest.raises(InvalidInputError, match="can't be read"):
        load_pipeline(tmp_path)
    path = tmp_path / "bad.yaml"
    path.write_text("name: a\nsteps: 1\n")
    with pytest.raises(InvalidInputError, match=r"bad\.yaml: line 2: steps takes a list"):
        load_pipeline(path)
    path.write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    with pytest.raises(LimitExceededError):
        load_pipeline(path)


def test_kinds__of_steps__mark_a_table_or_do_no_harm_twice():
    unmarked = {name for name, kind in KINDS.items() if not kind.marks}
    assert unmarked == {"create", "compact", "check", "merge", "checkpoint", "clone", "gc", "index", "search"}
    assert all(kind.marks in kind.keys for kind in KINDS.values() if kind.marks)
