"""Raw logs: entries list, add and truncate; and show."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path

import pytest

from siltstone import paths
from siltstone.format import frame
from siltstone.format.describe import describe, part_of
from siltstone.format.records import BODY_BYTES_MAX, Header, Hint, encode_entry, encode_hint
from siltstone.ids import SystemIds
from siltstone.log import open_log

ENTRY_KEYS = {"position", "time_ms", "epoch", "op", "kind", "dead", "bytes", "writer", "digest"}
OP = "0123456789abcdef" * 2


@pytest.fixture
def log_dir(tmp_path):
    return tmp_path / "log"


def bodies(uri):
    return [entry.body for entry in open_log(uri).entries()]


# -- append and log ------------------------------------------------------------------------------


def test_entries_add__standard_input__is_one_entry(cli, log_dir):
    result = cli("entries", "add", log_dir, "-", "--create", stdin=b"hello\nworld\n")
    assert result.code == 0
    assert result.out.startswith("entry 0  ")
    assert bodies(log_dir) == [b"hello\nworld\n"]


def test_entries_add__files_and_json__one_entry_each_with_its_receipt(cli, log_dir, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    result = cli("entries", "add", log_dir, tmp_path / "a", tmp_path / "b", "--create", "--writer", "me", "--json")
    assert set(result.json) == {"uri", "log", "appended"}
    log = open_log(log_dir)
    appended = [(entry.position, entry.epoch, entry.digest) for entry in log.entries()]
    assert [tuple(found.values()) for found in result.json["appended"]] == appended
    assert [entry.writer for entry in log.entries()] == ["me", "me"]


def test_entries_add__lines__one_entry_each_without_line_ends(cli, log_dir):
    assert cli("entries", "add", log_dir, "-", "--create", "--lines", stdin=b"a\n\nb\r\nlast").code == 0
    assert bodies(log_dir) == [b"a", b"", b"b", b"last"]


def test_entries_add__no_log_and_no_create__not_found_and_nothing_written(cli, log_dir):
    result = cli("entries", "add", log_dir, "-", stdin=b"x")
    assert result.code == 1
    assert "there is no log at" in result.err
    assert not log_dir.exists()


def test_entries_add__same_op_twice__one_entry(cli, log_dir):
    first = cli("entries", "add", log_dir, "-", "--create", "--op", OP, "--json", stdin=b"x").json
    second = cli("entries", "add", log_dir, "-", "--op", OP, "--json", stdin=b"x").json
    assert first == second
    assert bodies(log_dir) == [b"x"]


@pytest.mark.parametrize("op", ["short", "G" * 32, OP.upper()])
def test_entries_add__op_that_is_no_op_id__refused(op, cli, log_dir):
    cli("entries", "add", log_dir, "-", "--create", stdin=b"x")
    result = cli("entries", "add", log_dir, "-", "--op", op, "--json", stdin=b"x")
    assert (result.code, result.json["error"]["kind"]) == (1, "invalid-input")
    assert len(bodies(log_dir)) == 1


def test_entries_add__body_over_the_limit__refused(cli, log_dir):
    result = cli("entries", "add", log_dir, "-", "--create", "--json", stdin=b"x" * (BODY_BYTES_MAX + 1))
    assert (result.code, result.json["error"]["kind"]) == (1, "limit-exceeded")
    assert bodies(log_dir) == []


def test_entries_add__fenced_epoch__code_3_and_how_many_were_appended(cli, log_dir):
    log = open_log(log_dir, create=True)
    log.fence(2)
    result = cli("entries", "add", log_dir, "-", "--lines", "--epoch", "1", "--json", stdin=b"a\nb\n")
    assert result.code == 3
    assert result.json["error"]["kind"] == "fenced"
    assert result.json["error"]["appended"] == 0
    assert cli("entries", "add", log_dir, "-", "--epoch", "1", stdin=b"a").code == 3
    assert cli("entries", "add", log_dir, "-", "--epoch", "2", stdin=b"a").code == 0


def test_entries_add__store_goes_away_in_the_middle__says_how_many_are_in(cli, s3):
    open_log(s3.uri, create=True, storage_options=s3.options).add(b"first")
    key = paths.entry("log/", 2)
    s3.server.set(deny=(), fail_every=1, fail_match=key, fail_status=403)
    result = cli("entries", "add", s3.uri, "-", "--lines", "--json", *s3.words, stdin=b"a\nb\nc\n")
    assert (result.code, result.json["error"]["kind"]) == (1, "permission-denied")
    assert result.json["error"]["appended"] == 1


@contextlib.contextmanager
def as_nobody():
    """Root may read everything; a plain user may not."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_entries_add__unreadable_file__permission_denied(cli):
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        (place / "secret").touch(mode=0)
        open_log(place / "log", create=True).close()
        with as_nobody():
            result = cli("entries", "add", place / "log", place / "secret", "--json")
        assert (result.code, result.json["error"]["kind"]) == (1, "permission-denied")
        assert "secret" in result.json["error"]["message"]
        assert bodies(place / "log") == []


def test_entries_add__log_of_a_commit_store_without_it__refused_and_says_which(cli, log_dir, tmp_path):
    commits = f"sqlite://{tmp_path}/claims.db"
    assert cli("entries", "add", log_dir, "-", "--create", "--commits", commits, stdin=b"a").code == 0
    result = cli("entries", "add", log_dir, "-", "--json", stdin=b"b")
    assert (result.code, result.json["error"]["kind"]) == (1, "wrong-commit-store")
    assert cli("entries", "add", log_dir, "-", "--commits", commits, stdin=b"b").code == 0
    assert bodies(log_dir) == [b"a", b"b"]


def test_entries_list__some_entries__newest_first_in_columns(cli, log_dir):
    with open_log(log_dir, create=True, writer="w\x1b[31m") as log:
        log.add(b"one", op=OP)
        log.fence(1)
        log.add(b"three!", epoch=1)
    result = cli("entries", "list", log_dir)
    assert result.code == 0
    head, third, second, first, count = result.out.splitlines()
    assert head.split() == ["position", "time", "epoch", "op", "kind", "bytes", "writer"]
    assert [line.split()[0] for line in (third, second, first)] == ["2", "1", "0"]
    assert OP in first
    assert "fence" in second
    assert first.endswith("w\\x1b[31m")  # shown, not sent to the terminal
    assert count == "3 of the entries 0 to 2"


def test_entries_list__as_json__has_the_stable_keys(cli, log_dir):
    open_log(log_dir, create=True).add(b"one", op=OP)
    found = cli("entries", "list", log_dir, "--json").json
    assert set(found) == {"uri", "log", "floor", "tip", "epoch", "entries"}
    [entry] = found["entries"]
    assert set(entry) == ENTRY_KEYS
    assert (entry["op"], entry["bytes"], entry["dead"]) == (OP, 3, False)


@pytest.mark.parametrize(
    ("words", "positions"),
    [
        ((), list(range(29, 9, -1))),
        (("--limit", "3"), [29, 28, 27]),
        (("--limit", "0"), []),
        (("--after", "26"), [29, 28, 27]),
        (("--after", "29"), []),
        (("--after", "999"), []),
        (("--after", "3", "--limit", "2"), [29, 28]),
        (("--limit", "1000"), list(range(29, -1, -1))),
    ],
)
def test_entries_list__limit_and_after__choose_the_entries(words, positions, cli, log_dir):
    lines = b"\n".join(b"%d" % number for number in range(30))
    cli("entries", "add", log_dir, "-", "--create", "--lines", stdin=lines)
    found = cli("entries", "list", log_dir, "--json", *words).json
    assert [entry["position"] for entry in found["entries"]] == positions


def test_entries_list__empty_log__says_so(cli, log_dir):
    open_log(log_dir, create=True)
    result = cli("entries", "list", log_dir)
    assert result.code == 0
    assert result.out.endswith("no entries\n")


def test_entries_list__limit__reads_no_more_entries_than_it_shows(cli, s3):
    with open_log(s3.uri, create=True, storage_options=s3.options) as log:
        for number in range(60):
            log.add(b"%d" % number)
    s3.server.reset_stats()
    assert len(cli("entries", "list", s3.uri, "--limit", "3", "--json", *s3.words).json["entries"]) == 3
    assert s3.server.stats().requests < 20


def test_entries_list__broken_chain__error_that_leads_to_verify(cli, log_dir):
    cli("entries", "add", log_dir, "-", "--create", "--lines", stdin=b"a\nb\nc")
    (log_dir / paths.entry("", 1)).unlink()
    result = cli("entries", "list", log_dir)
    assert result.code == 1
    assert "siltstone verify" in result.err


# -- truncate ------------------------------------------------------------------------------------


def test_entries_truncate__position_in_the_log__raises_the_floor(cli, log_dir):
    cli("entries", "add", log_dir, "-", "--create", "--lines", stdin=b"a\nb\nc")
    result = cli("entries", "truncate", log_dir, "--until", "2")
    assert result.code == 0
    assert "begins at entry 2 now" in result.out
    assert "Entries 0 to 1 can be deleted in 60 s" in result.out
    assert [e["position"] for e in cli("entries", "list", log_dir, "--json").json["entries"]] == [2]
    assert cli("verify", log_dir).code == 0
    again = cli("entries", "truncate", log_dir, "--until", "2", "--json").json
    assert set(again) == {"uri", "log", "floor", "deleted_below", "deleted_objects", "deleted_bytes"}
    assert (again["floor"], again["deleted_objects"]) == (2, 0)


def test_entries_truncate__log_that_trusts_nothing__deletes_at_once(cli, log_dir):
    with open_log(log_dir, create=True, trust_ms=0) as log:
        for body in (b"a", b"b", b"c"):
            log.add(body)
    result = cli("entries", "truncate", log_dir, "--until", "3")
    assert "3 objects were deleted" in result.out
    assert not list((log_dir / "entries").iterdir())


def test_entries_truncate__beyond_the_tip__refused(cli, log_dir):
    cli("entries", "add", log_dir, "-", "--create", stdin=b"a")
    result = cli("entries", "truncate", log_dir, "--until", "5", "--json")
    assert (result.code, result.json["error"]["kind"]) == (1, "invalid-input")
    assert open_log(log_dir).first().position == 0


# -- show ----------------------------------------------------------------------------------------


@pytest.fixture
def everything(s3):
    """A log with an object of each kind: witnesses need an unknown provider, staged ones a commit store."""
    with open_log(s3.uri, create=True, storage_options=s3.options, writer="me", trust_ms=0) as log:
        log.add(json.dumps({"text": "grüße"}).encode())
        log.add(b"plain text\nof two lines")
        log.add(bytes(range(256)) * 2)
        log.fence(1)
        log.store.put(paths.staged("", 4, SystemIds().new()), log.store.get(paths.entry("", 2)))
        log.truncate(next(log.entries()).end)
    return s3


def keys(s3, folder):
    return [facts.key for facts in s3.server.objects() if facts.key.startswith(f"log/{folder}")]


@pytest.mark.parametrize(
    ("folder", "kind", "role"),
    [
        ("identity", "identity", "identity"),
        ("entries/", "entry", "entry"),
        ("witness/", "entry", "witness"),
        ("staged/", "entry", "staged"),
        ("floor/", "floor", "floor"),
        ("hint", "hint", "hint"),
    ],
)
def test_show__every_kind_of_object__as_json_and_text(folder, kind, role, cli, everything):
    names = keys(everything, folder)
    assert names
    for name in names:
        uri = f"s3://bkt/{name}"
        found = cli("show", uri, *everything.words, "--json").json
        assert (found["object"], found["kind"], found["role"]) == (uri, kind, role)
        assert found["digest"] == frame.digest(everything.server.read(name))
        assert (found["body"] is not None) == (kind == "entry")
        text = cli("show", uri, *everything.words)
        assert text.code == 0
        for field in found["record"]:
            assert f"  {field} " in text.out


def test_show__json_body__pretty(cli, everything):
    [name] = [key for key in keys(everything, "witness/") if paths.digits(1) in key]
    assert "plain text\nof two lines" in cli("show", f"s3://bkt/{name}", *everything.words).out


def test_show__binary_body__hex_dump_of_its_beginning(cli, everything):
    out = cli("show", f"s3://bkt/log/{paths.entry('', 2)}", *everything.words).out
    assert "body (hex, 512 bytes, beginning)" in out
    assert "00000040  40 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f  @ABCDEFGHIJKLMNO" in out


def test_show__local_file_by_path_and_uri__the_same(cli, log_dir, monkeypatch):
    cli("entries", "add", log_dir, "-", "--create", stdin=b'{"a": [1, 2]}')
    monkeypatch.chdir(log_dir / "entries")
    name = paths.digits(0)
    by_name, by_uri = (cli("show", uri, "--json").json for uri in (name, f"file://{log_dir}/entries/{name}"))
    assert by_name == by_uri
    assert by_name["body"] == {"form": "json", "bytes": 13, "whole": True, "value": {"a": [1, 2]}}
    assert '  "a": [\n    1,' in cli("show", name).out


def test_show__body_with_terminal_codes__written_out(cli, log_dir):
    cli("entries", "add", log_dir, "-", "--create", stdin=b'{"a": "\\u001b[31m"}')
    assert "\x1b" not in cli("show", log_dir / "entries" / paths.digits(0)).out


def test_show__entry_under_another_name__doubt(cli, log_dir):
    cli("entries", "add", log_dir, "-", "--create", stdin=b"x")
    entries = log_dir / "entries"
    (entries / paths.digits(0)).rename(entries / paths.digits(7))
    result = cli("show", entries / paths.digits(7))
    assert "doubt: its name says position 7, its bytes say 0" in result.out


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "corruption"),
        (b"garbage that is longer than a frame's fixed part, so that its magic is looked at", "corruption"),
        (b"SLTS", "corruption"),
        (frame.wrap(b"[]", b""), "corruption"),
        (frame.wrap(b"\xff", b""), "corruption"),
        (frame.wrap(b"{}", b""), "corruption"),
        (frame.wrap(b'{"op": 1}', b""), "corruption"),
        (frame.wrap(b'{"guard": "x", "format": 99}', b""), "unsupported-format"),
        (frame.wrap(b"{}", b"").replace(b"SLTS\x01", b"SLTS\x63"), "unsupported-format"),
        (b'{"log": "x"}', "corruption"),
        (b"[" * 5000, "corruption"),
    ],
)
def test_show__garbage__typed_error(data, kind, cli, tmp_path):
    (tmp_path / "object").write_bytes(data)
    result = cli("show", tmp_path / "object", "--json")
    assert (result.code, result.json["error"]["kind"]) == (1, kind)


def test_show__one_bit_flipped_anywhere__corruption(cli, log_dir):
    cli("entries", "add", log_dir, "-", "--create", stdin=b"x")
    file = log_dir / "entries" / paths.digits(0)
    data = file.read_bytes()
    for place in range(0, len(data), 7):
        file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert cli("show", file).code == 1, place


def test_show__directory__refused_with_a_hint(cli, tmp_path):
    result = cli("show", tmp_path)
    assert result.code == 1
    assert "is a directory" in result.err


def test_describe__hint_and_witness_names__parts_are_told_by_name():
    ids = SystemIds()
    log, nonce = ids.new(), ids.new()
    assert part_of(f"s3://b/x/witness/{paths.digits(3)}/{nonce}") == ("witness", 3, nonce)
    assert part_of(f"entries/{paths.digits(3)}") == ("entry", 3, "")
    assert part_of(f"a/entries/{paths.digits(3)}/{nonce}") == ("entry", 3, nonce)
    assert part_of(f"a/identity/{nonce}").role == "identity"
    assert part_of("a/other").role == "unknown"
    assert describe(encode_hint(Hint(log=log, position=5)), name="hint")["record"] == {"log": log, "position": 5}
    header = Header(log=log, position=3, epoch=0, op=ids.new(), nonce=ids.new(), prev="0" * 64)
    found = describe(encode_entry(header, b""), name=f"witness/{paths.digits(3)}/{nonce}")
    assert found["body"]["form"] == "empty"
    assert found["doubts"] == [f"its name says attempt {nonce}, its bytes say {header.nonce}"]
