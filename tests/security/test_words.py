"""Texts made to keep a matcher busy: each call that takes a text ends soon, and no pattern of a user is Python's."""

from __future__ import annotations

import ast
import contextlib
import itertools

import pyarrow as pa
import pytest

import siltstone as ss
from moments import ends_soon
from siltstone.cli.schemas import parse_schema
from siltstone.commit.connect import open_registry
from siltstone.errors import SiltstoneError
from sources import PACKAGE

PIECES = [
    *(
        "a",
        "(a+)+$",
        "((",
        "))",
        "[",
        "{",
        "\\",
        '"',
        '\\"',
        "'",
        "''",
        "--",
        "/*",
        "*/",
        "/**/",
        "%",
        "_%",
        "$",
        "${",
        "${a",
    ),
    *(
        "*",
        "**",
        "a*",
        "~",
        "~2",
        "^",
        "^2",
        "-",
        "+",
        " ",
        "\t",
        "\n",
        " not",
        " null",
        "a b",
        "or ",
        "and ",
        "not ",
        "(a",
        "a)",
    ),
    *(
        "\u0301",
        "\u200d",
        "\U0001f468\u200d",
        "aa\u0301",
        ":",
        "::",
        "<",
        "list<",
        "map<",
        ",",
        ";",
        ";;",
        "0",
        "1e9",
        "@",
    ),
]
LENGTHS = (27, 20_000)
CALLS = {
    "search": lambda table, text: table.search("body", text).to_arrow(),
    "snippets": lambda table, text: table.search(
        "body", "word", snippets=True, where=f"body <> '{text[:50]}'"
    ).to_arrow(),
    "where": lambda table, text: table.scan(where=text).to_arrow(),
    "like": lambda table, text: table.scan(where=f"body like '{text.replace(chr(39), '')}'").to_arrow(),
    "sql": lambda table, text: table.sql(text, t=table).to_arrow(),
    "commits": lambda _, text: open_registry(text),
    "uri": lambda _, text: ss.open_store(f"s3://{text}"),
    "schema": lambda _, text: parse_schema(text),
}


@pytest.fixture(scope="module")
def table():
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("body", pa.string())])
    made = ss.create("memory://words", schema=schema, key="id")
    made.append([{"id": 1, "body": "a" * 5000 + "!"}, {"id": 2, "body": "word " * 1000}])
    made.create_text_index("body")
    return made


def test_pieces__counted__are_at_least_fifty():
    assert len(PIECES) >= 50


@pytest.mark.parametrize("call", CALLS)
def test_calls__a_piece_again_and_again__each_ends_soon(table, call):
    for piece, length in itertools.product(PIECES, LENGTHS):
        text = (piece * (length // len(piece) + 1))[:length] + "!"
        with ends_soon(), contextlib.suppress(SiltstoneError):
            CALLS[call](table, text)


def test_source__each_pattern_of_re__is_written_there():
    """A pattern that comes from elsewhere could be one that never ends."""
    matchers = {"compile", "match", "search", "sub", "fullmatch", "findall", "split", "finditer"}

    def is_loose(node):
        call = node.func if isinstance(node, ast.Call) else None
        return (
            isinstance(call, ast.Attribute)
            and isinstance(call.value, ast.Name)
            and (call.value.id, call.attr in matchers) == ("re", True)
            and not isinstance(node.args[0], ast.Constant)
        )

    sources = {str(path.relative_to(PACKAGE)): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
    loose = [name for name, text in sources.items() if "re." in text and any(map(is_loose, ast.walk(ast.parse(text))))]
    # These are put together of names and numbers that are ours.
    ours = {"cli/entries.py", "cli/files.py", "cli/hints.py", "format/version.py", "spark/ingest.py", "table/state.py"}
    assert set(loose) <= ours
