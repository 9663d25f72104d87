"""Hints of the library, as whoever typed a command reads them."""

from __future__ import annotations

import ast
import re

import pytest

from siltstone.api import Table
from siltstone.cli.hints import _OPTIONS, _VERBS, on_command_line
from sources import sources
from verbs import leaves

# What the command line has no word for, or never comes to: calls of Spark's, of writers' and of query objects.
ELSEWHERE = ("spark/", "lance.py", "testing/", "console/", "telemetry/", "cli/")


def hints():
    """All that the library says as a hint, with {} for what is filled in."""
    found = set()
    for source in sources("src/siltstone"):
        if any(part in source.name for part in ELSEWHERE):
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, ast.keyword) and node.arg == "hint":
                found |= {text for part in ast.walk(node.value) if (text := literal(part))}
    return sorted(found)


def literal(node):
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def test_hints__that_name_calls_of_a_table__name_verbs_instead():
    calls = re.compile(rf"\b({'|'.join(_VERBS)})\(\)")
    left = [text for text in map(on_command_line, hints()) if calls.search(text)]
    assert left == []
    assert any(calls.search(text) for text in hints())


@pytest.mark.parametrize("argument", ["commits=", "wal=", "keep_days=", "storage_options", "exist_ok=True"])
def test_hints__that_name_an_argument_with_an_option__name_the_option(argument):
    named = [text for text in hints() if argument in text]
    assert named
    assert [text for text in map(on_command_line, named) if argument in text] == []


def test_translation__its_verbs_and_options__are_there():
    assert set(_VERBS.values()) <= set(leaves()) | {"tag"}
    assert [name for name in _VERBS if name not in {"create", "open", "drop"} and not hasattr(Table, name)] == []
    options = {word for one in leaves().values() for action in one._actions for word in action.option_strings}
    assert set(_OPTIONS.values()) <= options


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        ("open it without commits=", "open it without --commits"),
        ("use upsert() to replace rows", "use `siltstone upsert` to replace rows"),
        ("pass stem=False, or another tokenizer", "give --no-stem, or another tokenizer"),
        ("for example columns=['id']", "for example columns=['id']"),
        ("check the URI", "check the URI"),
        ("", ""),
    ],
)
def test_on_command_line__a_hint__is_reworded_and_no_more(hint, said):
    assert on_command_line(hint) == said


def test_append__a_key_that_is_there__hint_names_the_verb(cli, reviews):
    result = cli("append", reviews, "-", stdin=b'{"id": 1}')
    assert result.code == 1
    assert "hint: use `siltstone upsert` to replace rows\n" in result.err
    assert cli("append", reviews, "-", "--json", stdin=b'{"id": 1}').json["error"]["hint"].startswith("use `siltstone")
