"""Names that users and tables give: refused in plain words, and never a part of an object's name."""

from __future__ import annotations

import pyarrow as pa
import pytest

import siltstone as ss
from bad_tables import check_works, keys, print_of, row, store_of, told
from bad_tables import new_table as small_table
from siltstone.errors import InvalidInputError, NotFoundError

# Out of a root, into another host, a shell, a query, a terminal; two spellings, nothing, too much, a number.
NAMES = [
    *("", " ", ".", "..", "../x", "a/../b", "/etc/passwd", "a/b", "a\\b", "..\\x", "~", "~root", "-rf", "--help", "*"),
    *("%2e%2e", "a%00b", "a\0b", "a\nb", "a\r\nb", "a\tb", "\x1b[2J", "\x7f", "file:///x", "s3://b/k", "a?b", "a#b"),
    *("'; DROP TABLE x; --", '"', "`id`", "$(id)", "${HOME}", "{0}", "a b", "a;b", "a|b", "a&b", "a@b", "<b>"),
    *("e\u0301", "\u202eabc", "\ufeffa", "\ud800", "gr\u00fc\u00dfe", "7", "x" * 257, "x" * 5000),
]
SHARD_NAMES = [*NAMES, "A", "_a", "x" * 65]


def test_names__counted__are_at_least_forty():
    assert len(set(NAMES)) >= 40


MAKES = {
    "tag": lambda table, name: table.tag(name),
    "checkpoint": lambda table, name: table.checkpoint(name),
    "index": lambda table, name: table.create_text_index("text", name=name),
    "build": lambda table, name: table.begin_text_index("text", name=name),
    "setting": lambda table, name: table.set({name: "x"}),
}
LOOKS_UP = {
    "tag": lambda table, name: table.at(tag=name),
    "checkpoint": lambda table, name: table.at(checkpoint=name),
    "delete": lambda table, name: table.delete_checkpoint(name),
    "drop": lambda table, name: table.drop_index(name),
    "build": lambda table, name: table.index_build(name),
    "search": lambda table, name: table.search("text", "x", index=name).to_arrow(),
}


def check_all(table, names, call, *kinds, hint):
    """Each name is refused, and nothing was written for any of them."""
    before = print_of(store_of(table))
    for name in names:
        try:
            with told(*kinds, hint=hint):
                call(table, name)
        except BaseException as error:
            error.add_note(f"with {ascii(name)[:80]}")
            raise
    assert print_of(store_of(table)) == before
    check_works(table)


@pytest.mark.parametrize("call", MAKES)
def test_calls__hostile_name_for_something_new__is_refused_and_nothing_is_written(call):
    check_all(small_table(), NAMES, MAKES[call], InvalidInputError, hint=True)


@pytest.mark.parametrize("call", LOOKS_UP)
def test_calls__hostile_name_of_something_there__is_refused_and_nothing_is_written(call):
    check_all(small_table(), NAMES, LOOKS_UP[call], InvalidInputError, NotFoundError, hint=False)


def test_shard__hostile_name__is_refused():
    names = [name for name in SHARD_NAMES if name != "7"]  # a shard may be called by a number
    check_all(small_table(key=None), names, lambda table, name: table.shard(name), InvalidInputError, hint=True)


@pytest.mark.parametrize(
    "uri",
    [
        *("s3://bucket/../x", "s3://bucket/a/../../b", "s3://", "s3:///x", "s3://user:canary-7f3a9c@bucket/x"),
        *("s3://bucket/x?versionId=1", "s3://bucket/x#y", "http://host/x", "ftp://host/x", "javascript://x", "", " "),
        *("s3://bucket/a\0b", "s3://bucket/a\nb", "a\0b", "file://host/share/x", "data://x", "s3://[::1/x"),
        *(
            "s3://a b/x",
            "s3://b\u00fccket/x",
            "s3://$(id)/x",
            "s3://${HOME}/x",
            "gs://{0}/x",
            "s3://%2e%2e/x",
            "s3://*/x",
            "gs://bucket/..",
            "az://canary-7f3a9c:x@container/y",
            "abfss://c:canary-7f3a9c@account.host/x",
            None,
            7,
            b"x",
        ),
    ],
    ids=lambda uri: ascii(uri)[:30],
)
def test_create__hostile_uri__is_refused_before_a_request(uri):
    with told(InvalidInputError, hint=False):
        ss.create(uri, schema=pa.schema([("id", pa.int64())]))
    with told(InvalidInputError, hint=False):
        ss.open(uri)


def test_calls__odd_names_that_are_allowed__are_in_records_and_in_no_key():
    table = small_table()
    odd = ["a..b", "x-..-y", "CON", "aux.txt", "_", "nul.", "a" * 256]
    for name in odd:
        table.tag(name)
        table.checkpoint(name)
        table.create_text_index("text", name=name)
    table.append([row(50)])
    assert [key for key in keys(store_of(table), "") if any(name in key for name in odd if len(name) > 1)] == []
    assert {one.name for one in table.checkpoints()} == set(odd)
