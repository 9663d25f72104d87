"""gc, as a command line has it."""

from __future__ import annotations

from siltstone.api import open_table
from siltstone.cli import collect

KEYS = {"uri", "version", "floor", "kept", "expired", "objects", "bytes", "dry_run", "doomed", "left"}


def rewritten(cli, reviews):
    cli("delete", reviews, "--where", "id = 1")
    cli("compact", reviews)


def test_gc__dry_run__says_of_each_object_why_it_may_go(cli, reviews):
    rewritten(cli, reviews)
    found = cli("gc", reviews, "--keep-days", "0", "--dry-run", "--json").json
    assert set(found) == KEYS
    assert found["dry_run"]
    assert all(set(one) == {"key", "kind", "why", "bytes"} for one in found["doomed"])
    text = cli("gc", reviews, "--keep-days", "0", "--dry-run").out
    for one in found["doomed"]:
        line = next(line for line in text.splitlines() if one["key"] in line)
        assert one["why"] in line
    assert "would be removed" in text
    assert open_table(reviews).version == found["version"]


def test_gc__more_objects_than_fit_a_screen__says_how_many_are_not_shown(cli, reviews, monkeypatch):
    rewritten(cli, reviews)
    monkeypatch.setattr(collect, "SHOWN_MOST", 2)
    count = len(cli("gc", reviews, "--keep-days", "0", "--dry-run", "--json").json["doomed"])
    assert f"and {count - 2} more; --json names all of them" in cli("gc", reviews, "--keep-days", "0", "--dry-run").out


def test_gc__then_verify__is_content(cli, reviews):
    rewritten(cli, reviews)
    rows = cli("scan", reviews, "--json").out
    done = cli("gc", reviews, "--keep-days", "0", "--json").json
    assert done["objects"]["fragment"] >= 1
    assert "removed" in cli("gc", reviews, "--keep-days", "0").out
    assert cli("verify", reviews, "--deep").code == 0
    assert cli("scan", reviews, "--json").out == rows
    assert cli("log", reviews, "--json").json["versions"][0]["operation"] == "collect"
    assert cli("scan", f"{reviews}@0", "--json").error == (1, "truncated")


def test_gc__default_of_the_table__counts(cli, reviews):
    rewritten(cli, reviews)
    assert cli("gc", reviews, "--json").json["floor"] == 0
    open_table(reviews).set({"gc.keep_days": "0"})
    assert cli("gc", reviews, "--json").json["floor"] > 0


def test_gc__bad_options__are_refused(cli, reviews):
    assert cli("gc", reviews, "--keep-days", "soon").code == 2
    assert cli("gc", reviews, "--keep-versions", "0").code == 2
    assert cli("gc", reviews, "--keep-days", "-1", "--json").code in {1, 2}
    assert cli("gc", f"{reviews}@0").code == 2
