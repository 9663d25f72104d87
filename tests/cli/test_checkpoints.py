"""checkpoint create, list, refresh and delete, and reading TABLE@checkpoint."""

from __future__ import annotations

import pytest

from siltstone.api import open_table
from siltstone.errors import InvalidInputError

KEYS = {"name", "version", "scope", "created", "expires", "pending", "holder", "shards", "id"}


def put(cli, table, rows):
    assert cli("put", table, "-", "--format", "jsonl", stdin=rows).code == 0


def test_checkpoint__with_and_without_its_verb__the_same(cli, reviews):
    first = cli("checkpoint", reviews, "before", "--json").json
    assert set(first) == KEYS | {"uri"}
    assert (first["name"], first["version"], first["scope"], first["expires"]) == ("before", 2, "all", None)
    assert (first["pending"], first["holder"], first["shards"]) == (False, None, [])
    assert first["created"].endswith("Z")
    said = cli("checkpoint", "create", reviews, "old", "--version", "0", "--keep-days", "1.5").out
    assert said.startswith("old keeps version 0 until 2")
    found = cli("checkpoint", "list", reviews, "--json").json
    assert set(found) == {"uri", "version", "checkpoints"}
    assert [(one["name"], one["version"]) for one in found["checkpoints"]] == [("old", 0), ("before", 2)]
    assert all(set(one) == KEYS for one in found["checkpoints"])


def test_checkpoint_list__text__has_a_line_for_each(cli, reviews):
    cli("checkpoint", reviews, "before")
    cli("checkpoint", reviews, "week", "--keep-days", "7")
    lines = cli("checkpoint", "list", reviews).out.splitlines()
    assert lines[0].split() == ["checkpoint", "version", "scope", "created", "expires"]
    assert lines[1].split()[:3] == ["before", "2", "all"]
    assert lines[1].split()[-1] == "never"
    assert lines[2].split()[:3] == ["week", "3", "all"]


@pytest.mark.parametrize("scope", ["all", "durable"])
def test_scan__of_a_checkpoint__has_its_rows(cli, events, scope):
    put(cli, events, b'{"id": 1, "name": "a"}\n{"id": 2, "name": "b"}\n')
    said = cli("checkpoint", events, "before", "--scope", scope).out
    assert ("and what is durable in" in said) == (scope == "durable")
    put(cli, events, b'{"id": 1, "name": "z"}\n{"id": 3, "name": "c"}\n')
    cli("merge", events)
    assert cli("scan", f"{events}@before", "--json").rows == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    assert cli("scan", f"{events}@before", "--count").out == "2\n"
    assert cli("sql", f"{events}@before", "SELECT count(*) AS n FROM events", "--json").rows == [{"n": 2}]


def test_restore__a_checkpoint__its_rows_are_back(cli, events):
    put(cli, events, b'{"id": 1, "name": "a"}\n')
    cli("checkpoint", events, "before")
    cli("delete", events, "--all")
    result = cli("restore", f"{events}@before", "--json")
    assert (result.code, result.json["operation"], result.json["changed"]) == (0, "restore", True)
    assert cli("scan", events, "--json").rows == [{"id": 1, "name": "a"}]
    assert cli("restore", f"{events}@nope", "--json").error == (1, "not-found")


def test_restore__a_checkpoint_with_rows_in_shards_alone__is_refused_and_can_be_cloned(cli, events, tmp_path):
    cli("checkpoint", events, "empty", "--scope", "durable")
    put(cli, events, b'{"id": 1, "name": "a"}\n')
    cli("checkpoint", events, "before", "--scope", "durable")
    cli("delete", events, "--all")
    refused = cli("restore", f"{events}@before", "--json")
    assert refused.error == (1, "invalid-input")
    assert "`siltstone clone` it" in refused.json["error"]["hint"]
    assert cli("clone", f"{events}@before", tmp_path / "clone").code == 0
    assert cli("scan", tmp_path / "clone", "--count").out == "1\n"
    assert cli("restore", f"{events}@empty").code == 0


def test_restore__a_checkpoint_by_name_or_itself__the_same(events):
    with open_table(events) as table:
        table.append([{"id": 1, "name": "a"}])
        kept = table.checkpoint("before")
        for which in (kept, "before"):
            table.delete("true")
            table.restore(checkpoint=which)
            assert table.count() == 1
        with pytest.raises(InvalidInputError, match="2 of version=, tag=, timestamp= and checkpoint= are given"):
            table.restore(checkpoint=kept, version=0)


def test_scan__of_a_name_that_a_tag_and_a_checkpoint_have__is_refused(cli, reviews):
    cli("checkpoint", reviews, "v1")
    cli("delete", reviews, "--where", "id = 1")
    cli("tag", reviews, "v1")
    refused = cli("scan", f"{reviews}@v1", "--count")
    assert (refused.code, refused.out) == (1, "")
    assert "a tag of version" in refused.err
    cli("tag", "delete", reviews, "v1")
    assert cli("scan", f"{reviews}@v1", "--count").out == "3\n"


def test_checkpoint_refresh__days_or_for_ever__is_said(cli, reviews):
    cli("checkpoint", reviews, "before", "--keep-days", "1")
    found = cli("checkpoint", "refresh", reviews, "before", "--keep-days", "30", "--json").json
    assert set(found) == KEYS | {"uri"}
    assert found["expires"] > found["created"]
    assert cli("checkpoint", "refresh", reviews, "before", "--for-ever").out == "before keeps version 2 for ever\n"
    assert cli("checkpoint", "refresh", reviews, "before").code == 2
    assert cli("checkpoint", "refresh", reviews, "before", "--for-ever", "--keep-days", "1").code == 2
    assert cli("checkpoint", "refresh", reviews, "other", "--for-ever", "--json").error == (1, "not-found")


def test_checkpoint_delete__one_that_is_there__is_gone_and_its_version_stays(cli, reviews):
    cli("checkpoint", reviews, "before")
    assert "before is no checkpoint any more" in cli("checkpoint", "delete", reviews, "before").out
    assert cli("checkpoint", "list", reviews, "--json").json["checkpoints"] == []
    assert cli("checkpoint", "delete", reviews, "before", "--json").error == (1, "not-found")
    assert cli("scan", f"{reviews}@2", "--count").out == "3\n"


def test_checkpoint__a_name_that_is_taken__is_refused(cli, reviews):
    cli("checkpoint", reviews, "before")
    assert cli("checkpoint", reviews, "before", "--json").error == (1, "already-exists")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("7",), 1),
        (("",), 1),
        (("a b",), 1),
        (("a", "--version", "9"), 1),
        (("a", "--scope", "durable", "--version", "0"), 1),
        (("a", "--scope", "some"), 2),
        (("a", "--keep-days", "0"), 2),
        (("a", "--keep-days", "nan"), 2),
        (("a", "--keep-days", "inf"), 2),
        (("a", "--keep-days", "soon"), 2),
        (("a", "--keep-days", "99999999"), 1),
    ],
)
def test_checkpoint__bad_words__are_refused(words, code, cli, reviews):
    assert cli("checkpoint", "create", reviews, *words).code == code
    assert open_table(reviews).version == 1


def test_checkpoint__of_an_earlier_version_by_its_name__is_refused(cli, reviews):
    assert cli("checkpoint", f"{reviews}@0", "a").code == 2
