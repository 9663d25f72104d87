"""verify and repair, on logs whose commit store forgot, contradicts or is gone."""

from __future__ import annotations

import sqlite3

import pyarrow as pa
import pytest

import siltstone as ss
from damaged_logs import bodies, faults, fill
from siltstone import paths
from siltstone.commit.external import External
from siltstone.commit.registry import Claim
from siltstone.errors import CommitStoreBehindError, SplitHistoryError, WrongCommitStoreError
from siltstone.format.frame import digest
from siltstone.format.records import encode_entry
from siltstone.ids import SystemIds
from siltstone.log import open_log

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


@pytest.fixture(params=["create", "fork"])
def decided(request, cli, tmp_path):
    """A log whose places SQLite decides, on a directory (published by create) or a liar (published by fork)."""
    if request.param == "create":
        yield Decided(cli, str(tmp_path / "log"), [], {}, tmp_path / "claims.db")
    else:
        lying = request.getfixturevalue("lying")
        options = {"storage_options": lying.options}
        yield Decided(cli, lying.uri, lying.words, options, tmp_path / "claims.db")


class Decided:
    def __init__(self, cli, uri, words, options, database):
        self._cli, self.uri, self._words, self.database = cli, uri, words, database
        self.commits = f"sqlite://{database}"
        self.options = options | {"commits": self.commits}
        self.marks = fill(uri, [b"a", b"b", b"c"], **self.options)

    def open(self):
        return open_log(self.uri, **self.options)

    def cli(self, verb, *words, commits=True):
        return self._cli(verb, self.uri, *self._words, *(["--commits", self.commits] if commits else []), *words)

    def sql(self, statement):
        with sqlite3.connect(self.database) as connection:
            connection.execute(statement)
        connection.close()

    def empty(self):
        for file in self.database.parent.glob("claims.db*"):
            file.unlink()

    def claim_next(self, *, staged: bool):
        """What a writer leaves that died between its claim and its publication."""
        log = self.open()
        tip = log.tip()
        name = paths.staged("", tip.position, SystemIds().new())
        data = encode_entry(log._header(tip, tip.epoch, SystemIds().new(), "data"), b"undelivered")
        if staged:
            log.store.put(name, data)
        assert isinstance(log.commits, External)
        claim = Claim(log.identity.log, tip.position, digest(data), tip.digest, name)
        assert log.commits.registry.claim(claim) == claim

    def bodies(self):
        return bodies(self.uri, **self.options)

    def check_goes_on(self, expected):
        assert self.cli("verify").code == 0
        fill(self.uri, [b"more"], **self.options)
        assert self.bodies() == [*expected, b"more"]
        assert self.cli("verify").code == 0


def test_verify__with_its_commit_store__nothing_wrong(decided):
    result = decided.cli("verify")
    assert result.code == 0
    assert "decided by sqlite" in result.out


def test_verify__commit_store_not_given__checks_the_rest_and_says_so(decided):
    result = decided.cli("verify", commits=False)
    assert result.code == 0
    assert "note: not compared with its commit store (sqlite at sqlite://" in result.out


def test_repair__commit_store_not_given_but_needed__refused(decided, tmp_path):
    log = decided.open()
    log.store.delete([info.key for info in log.store.list(f"entries/{paths.digits(0)}")] or [paths.entry("", 0)])
    result = decided.cli("repair", "--json", commits=False)
    assert (result.code, result.json["error"]["kind"]) == (1, "wrong-commit-store")


def test_repair__commit_store_emptied__refused_without_adopt_and_mended_with_it(decided):
    decided.empty()
    with pytest.raises(WrongCommitStoreError):
        decided.open().add(b"d")
    assert faults(decided.cli("verify", "--json")) == [("commit-store", None)]
    refused = decided.cli("repair")
    assert refused.code == 1
    assert "siltstone repair --adopt" in refused.out
    assert decided.cli("verify").code == 1
    mended = decided.cli("repair", "--adopt")
    assert mended.code == 0
    assert "was given its former identity" in mended.out
    assert "put 3 rows back" in mended.out
    decided.check_goes_on([b"a", b"b", b"c"])


def test_repair__commit_store_emptied_after_truncation__range_is_restored_too(decided):
    decided.open().truncate(decided.marks[1])
    decided.empty()
    assert decided.cli("repair", "--adopt").code == 0
    decided.check_goes_on([b"c"])


def test_repair__another_commit_store_without_adopt__is_not_written_to(decided, tmp_path, cli):
    other = tmp_path / "other.db"
    decided.commits = f"sqlite://{other}"
    assert decided.cli("repair").code == 1
    with sqlite3.connect(other) as connection:
        [(rows,)] = connection.execute("SELECT count(*) FROM siltstone_claims WHERE scope <> ''").fetchall()
    connection.close()
    assert rows == 0


def test_repair__newest_rows_lost__put_back(decided):
    decided.sql("DELETE FROM siltstone_claims WHERE position >= 1")
    with pytest.raises(CommitStoreBehindError):
        decided.open().add(b"d")
    result = decided.cli("verify", "--json")
    assert (result.code, faults(result)) == (1, [("behind", 1)])
    mended = decided.cli("repair")
    assert mended.code == 0
    assert "put 2 rows back" in mended.out
    decided.check_goes_on([b"a", b"b", b"c"])


def test_verify__writer_died_after_its_claim__a_note_and_the_next_one_publishes(decided):
    decided.claim_next(staged=True)
    result = decided.cli("verify")
    assert result.code == 0
    assert "note: entry 3 was decided" in result.out
    decided.check_goes_on([b"a", b"b", b"c", b"undelivered"])


def test_repair__decided_bytes_are_gone__place_is_closed_and_the_log_goes_on(decided):
    decided.claim_next(staged=False)
    result = decided.cli("verify", "--json")
    assert (result.code, faults(result)) == (1, [("unpublished", 3)])
    mended = decided.cli("repair")
    assert mended.code == 1
    assert "entry 3: closed with an abort entry" in mended.out
    assert "what 1 entry held is gone, and may have been acknowledged" in mended.out
    assert "everything is there" not in mended.out
    assert decided.cli("repair").code == 0
    decided.check_goes_on([b"a", b"b", b"c"])


def test_verify__commit_store_once_decided_for_another_entry__a_note(decided):
    decided.sql(f"UPDATE siltstone_claims SET digest = '{'0' * 64}' WHERE position = 1 AND scope <> ''")
    result = decided.cli("verify")
    assert result.code == 0
    assert "note: entry 1: sqlite://" in result.out
    decided.check_goes_on([b"a", b"b", b"c"])


def test_repair__restored_commit_store_decided_the_last_place_anew__stepped_past(decided):
    decided.sql("DELETE FROM siltstone_claims WHERE position = 2")
    log = decided.open()
    rival = Claim(log.identity.log, 2, "0" * 64, decided.marks[1].digest, "nowhere")
    assert log.commits.registry.claim(rival) == rival
    with pytest.raises(CommitStoreBehindError):
        decided.open().add(b"d")
    assert faults(decided.cli("verify", "--json")) == [("commit-store", 2)]
    mended = decided.cli("repair")
    assert mended.code == 0
    assert "entry 3: an abort entry" in mended.out
    decided.check_goes_on([b"a", b"b", b"c"])


@pytest.mark.parametrize("followed", [False, True])
def test_repair__two_finals_on_a_liar__one_stays_and_the_other_is_appended_again(followed, cli, lying, tmp_path):
    database = tmp_path / "claims.db"
    decided = Decided(cli, lying.uri, lying.words, {"storage_options": lying.options}, database)
    late = decided.open()
    if not followed:
        log = decided.open()
        [third] = [info.key for info in log.store.list(f"entries/{paths.digits(2)}")]
        log.store.delete([third])
        decided.sql("DELETE FROM siltstone_claims WHERE position = 2")
    # The commit store comes back from a backup that did not have the decision about entry 1.
    decided.sql("DELETE FROM siltstone_claims WHERE position >= 1")
    with pytest.raises(SplitHistoryError):
        late.append(b"late", after=decided.marks[0])
    result = decided.cli("verify", "--json")
    assert result.code == 1
    assert ("split", 1) in faults(result)
    mended = decided.cli("repair")
    found = decided.bodies()
    # With a successor that names "b" the chain counts; else the commit store does, which says "late".
    assert found == ([b"a", b"b", b"c", b"late"] if followed else [b"a", b"late", b"b"])
    assert mended.code == 0
    decided.check_goes_on(found)


def test_verify__commit_store_does_not_answer__problem_that_names_it(cli, tmp_path, redis_server):
    uri = f"redis://127.0.0.1:{redis_server.port}/0"
    fill(tmp_path / "log", [b"a"], commits=uri + "?accept_weak_durability=true")
    result = cli("verify", tmp_path / "log", "--commits", "redis://127.0.0.1:1/0?accept_weak_durability=true")
    assert result.code == 1
    assert "can't be compared with the log" in result.out


# -- one that is elsewhere, or of others -----------------------------------------------------------


def test_repair__adopt_at_another_uri__refused_unless_it_was_moved(decided, tmp_path):
    decided.empty()
    decided.commits = f"sqlite://{tmp_path / 'elsewhere.db'}"
    refused = decided.cli("repair", "--adopt")
    assert refused.code == 1
    assert "elsewhere.db is not where the commit store of" in refused.err
    assert "--moved" in refused.err
    assert decided.cli("repair", "--adopt", "--dry-run").code == 1
    with sqlite3.connect(tmp_path / "elsewhere.db") as connection:
        [(rows,)] = connection.execute("SELECT count(*) FROM siltstone_claims WHERE scope <> ''").fetchall()
    connection.close()
    assert rows == 0
    assert decided.cli("repair", "--adopt", "--moved").code == 0
    decided.options["commits"] = decided.commits
    decided.check_goes_on([b"a", b"b", b"c"])


def test_repair__adopt_without_a_commit_store__refused(decided):
    result = decided.cli("repair", "--adopt", "--json", commits=False)
    assert result.error == (1, "invalid-input")
    assert "--commits" in result.json["error"]["hint"]
    assert decided.cli("repair", "--moved", "--json").error == (1, "invalid-input")


def test_repair__adopt_dry_run__says_what_the_real_one_does_and_does_nothing(decided):
    decided.empty()
    result = decided.cli("repair", "--adopt", "--dry-run")
    assert result.code == 1
    assert "would be given its former identity" in result.out
    assert "can't be mended" not in result.out
    assert "1 problem, 1 of them can be mended" in result.out
    assert faults(decided.cli("verify", "--json")) == [("commit-store", None)]


def test_verify__logs_of_several_commit_stores_below__those_of_others_get_a_note(cli, tmp_path):
    lake = tmp_path / "lake"
    first, second = (f"sqlite://{tmp_path / name}.db" for name in ("first", "second"))
    with ss.create(lake / "plain", schema=SCHEMA) as table:
        table.append([{"id": 1}])
    for name, commits in (("a", first), ("b", second), ("c", "memory://third")):
        with ss.create(lake / name, schema=SCHEMA, commits=commits) as table:
            table.append([{"id": 1}])
    result = cli("verify", lake, "--commits", first, "--json")
    assert result.code == 0
    notes = {one["root"]: one["notes"] for one in result.json["logs"]}
    assert {root for root, said in notes.items() if said} == {"b/log/", "c/log/"}
    assert "not compared with its commit store (sqlite at" in notes["b/log/"][0]
    assert len(result.json["tables"]) == 4
    next((lake / "b/log/entries").iterdir()).unlink()
    left = cli("repair", lake, "--commits", first, "--json")
    assert left.code == 1
    assert [one["root"] for one in left.json["logs"] if not one["ok"]] == ["b/log/"]


def test_verify__commit_store_decides_nothing_below__refused(cli, decided):
    decided.commits = "memory://x"
    assert decided.cli("verify", "--json").error == (1, "wrong-commit-store")


def test_repair__several_lost_commit_stores__one_does_not_stand_for_both(cli, tmp_path):
    for name in ("a", "b"):
        fill(tmp_path / "lake" / name, [b"x"], commits=f"sqlite://{tmp_path / name}.db")
    new = f"sqlite://{tmp_path / 'new.db'}"
    result = cli("repair", tmp_path / "lake", "--commits", new, "--adopt", "--moved", "--json")
    assert result.error == (1, "wrong-commit-store")
