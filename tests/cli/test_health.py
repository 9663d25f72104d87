"""verify and repair, on logs that were really damaged."""

from __future__ import annotations

import sys
import threading

import pytest

from damaged_logs import bodies, faults, fill
from siltstone import paths
from siltstone.errors import UnsafeStoreError
from siltstone.ids import SystemIds
from siltstone.log import open_log
from siltstone.verify import verify

LOG_KEYS = {
    "ok", "uri", "root", "log", "decided_by", "guard", "floor", "tip", "entries", "epoch", "dead", "staged",
    "problems", "notes", "repaired", "given_up",
}  # fmt: skip
PROBLEM_KEYS = {"fault", "detail", "position", "op", "object", "repairable"}


class Damaged:
    """A log of three entries on an honest server of an unknown provider: it has witnesses."""

    def __init__(self, cli, s3):
        self.s3 = s3
        self._cli = cli
        self.marks = fill(s3.uri, [b"a", b"b", b"c"], storage_options=s3.options)
        self.store = open_log(s3.uri, storage_options=s3.options).store

    def cli(self, verb, *words):
        return self._cli(verb, self.s3.uri, *self.s3.words, *words)

    def bodies(self):
        return bodies(self.s3.uri, storage_options=self.s3.options)

    def flip(self, position):
        name = paths.entry("", position)
        data = self.store.get(name)
        self.store.put(name, data[:-1] + bytes([data[-1] ^ 1]))


@pytest.fixture
def witnessed(cli, s3):
    return Damaged(cli, s3)


# -- nothing wrong -------------------------------------------------------------------------------


def test_verify__honest_log__code_0_and_one_sentence(cli, tmp_path):
    fill(tmp_path, [b"a", b"b"])
    result = cli("verify", tmp_path)
    assert result.code == 0
    assert result.out.endswith("Everything is there: 1 log with 2 entries.\n")
    assert "decided by the object store, guarded by receipts" in result.out


def test_verify__as_json__has_the_stable_keys(cli, tmp_path):
    fill(tmp_path, [b"a"])
    found = cli("verify", tmp_path, "--json").json
    assert set(found) == {"ok", "logs", "tables"}
    [log] = found["logs"]
    assert set(log) == LOG_KEYS
    assert found["ok"] is log["ok"] is True
    assert (log["entries"], log["tip"], log["problems"]) == (1, 1, [])


def test_verify__several_logs_below__each_is_reported(cli, tmp_path):
    for name in ("x", "y/z"):
        fill(tmp_path / name, [b"a"])
    (tmp_path / "y/z/entries" / paths.digits(0)).write_bytes(b"garbage")
    result = cli("verify", tmp_path, "--json")
    assert result.code == 1
    assert [(log["root"], log["ok"]) for log in result.json["logs"]] == [("x/", True), ("y/z/", False)]


def test_repair__nothing_wrong__changes_nothing(cli, witnessed):
    before = witnessed.s3.server.objects()
    result = witnessed.cli("repair")
    assert result.code == 0
    assert "Nothing to mend: 1 log with 3 entries." in result.out
    assert witnessed.s3.server.objects() == before


def test_verify__dead_entries_and_fences__are_no_problem(cli, tmp_path):
    log = open_log(tmp_path, create=True)
    mark = log.fence(1)
    with open_log(tmp_path) as new:
        new.fence(2)
        with pytest.raises(Exception, match="at epoch 2"):
            log.append(b"late", after=mark, epoch=1)
    assert cli("verify", tmp_path).code == 0


def test_verify__while_writers_work__no_false_alarm(s3):
    open_log(s3.uri, create=True, storage_options=s3.options).add(b"first")
    enough = threading.Event()
    added = []

    def write():
        with open_log(s3.uri, storage_options=s3.options) as log:
            while not enough.is_set():
                added.append(log.add(b"x"))

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        while len(added) < 60:
            [report] = verify(s3.uri, storage_options=s3.options)
            assert report.problems == ()
    finally:
        enough.set()
        for writer in writers:
            writer.join()


def test_verify__long_log_on_a_terminal__progress_on_standard_error_only(cli, tmp_path, monkeypatch, capsys):
    fill(tmp_path, [b"%d" % number for number in range(25)], sync=False)
    monkeypatch.setattr(sys.modules["siltstone.verify.inspect"], "PROGRESS_EVERY", 10)
    monkeypatch.setattr("siltstone.cli.progress.SHOW_EVERY_S", 0.0)
    assert cli("verify", tmp_path).err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    result = cli("verify", tmp_path)
    assert "verify: log: 10 entries read" in result.err
    assert "verify: log: 20 entries read" in result.err
    assert "entries read" not in result.out


# -- a store that lies ---------------------------------------------------------------------------


def test_repair__tip_overwritten_on_a_lying_store__lost_operation_is_named_and_brought_back(cli, lying):
    options = {"probe": False, "storage_options": lying.options}
    first, second = (open_log(lying.uri, create=True, **options) for _ in range(2))
    op = SystemIds().new()
    acknowledged = first.append(b"mine", after=first.start, op=op)
    with pytest.raises(UnsafeStoreError):
        second.append(b"theirs", after=second.start)
    result = cli("verify", lying.uri, *lying.words)
    assert result.code == 1
    assert f"lost: entry 0: operation {op} was written at 0 and is in no entry now: can be mended" in result.out
    assert "1 problem in 1 log with 1 entry; `siltstone repair` mends all of them." in result.out
    [with_receipt] = verify(lying.uri, receipts=[acknowledged], storage_options=lying.options)
    assert {problem.fault for problem in with_receipt.problems} == {"lost", "receipt"}
    dry = cli("repair", lying.uri, *lying.words, "--dry-run")
    assert dry.code == 1
    assert "Nothing was changed: 1 problem, 1 of them can be mended." in dry.out
    assert bodies(lying.uri, **options) == [b"theirs"]
    mended = cli("repair", lying.uri, *lying.words)
    assert mended.code == 0
    assert f"mended: operation {op} (was at 0) appended again as entry 1" in mended.out
    assert bodies(lying.uri, **options) == [b"theirs", b"mine"]
    assert cli("verify", lying.uri, *lying.words).code == 0
    assert "Nothing to mend" in cli("repair", lying.uri, *lying.words).out
    assert bodies(lying.uri, **options) == [b"theirs", b"mine"]


def test_repair__middle_overwritten_on_a_lying_store__the_chain_gets_its_entry_back(cli, lying):
    options = {"probe": False, "storage_options": lying.options}
    log, late = (open_log(lying.uri, create=True, **options) for _ in range(2))
    start = log.append(b"zero", after=log.start)
    middle = log.append(b"one", after=start)
    log.append(b"two", after=middle)
    with pytest.raises(UnsafeStoreError):
        late.append(b"late", after=start)
    result = cli("verify", lying.uri, *lying.words, "--json")
    assert result.code == 1
    assert faults(result) == [("overwritten", 1)]
    assert result.json["logs"][0]["problems"][0]["repairable"] is True
    assert cli("entries", "list", lying.uri, *lying.words).code == 1
    assert cli("repair", lying.uri, *lying.words).code == 0
    assert bodies(lying.uri, **options) == [b"zero", b"one", b"two", b"late"]
    assert cli("verify", lying.uri, *lying.words).code == 0


def test_repair__overwriting_entry_had_another_past__its_word_on_the_past_does_not_count(cli, lying):
    options = {"probe": False, "storage_options": lying.options}
    log, rival = (open_log(lying.uri, create=True, **options) for _ in range(2))
    log.append(b"a0", after=log.start)
    with pytest.raises(UnsafeStoreError):  # but its entry 0 stands for a moment
        rival.append(b"b0", after=rival.start)
    b0 = log.store.get(paths.entry("", 0))
    b_mark = log.read(b0, 0).end
    a0 = next(e for e in (log.read(log.store.get(i.key), 0) for i in log.store.list("witness")) if e.body == b"a0")
    log.store.copy(paths.witness("", 0, a0.nonce), paths.entry("", 0))
    a_mark = log.append(b"a1", after=a0.end)
    log.append(b"a2", after=a_mark)
    rival._tip = b_mark  # it is sure of its mark, and does not look it up
    with pytest.raises(UnsafeStoreError):
        rival.append(b"b1", after=b_mark)
    assert cli("repair", lying.uri, *lying.words).code == 0
    found = bodies(lying.uri, **options)
    assert found[:3] == [b"a0", b"a1", b"a2"]
    assert sorted(found[3:]) == [b"b0", b"b1"]
    assert cli("verify", lying.uri, *lying.words).code == 0


def test_repair__lost_fence_on_a_lying_store__the_epoch_is_taken_again(cli, lying):
    options = {"probe": False, "storage_options": lying.options}
    first, second = (open_log(lying.uri, create=True, **options) for _ in range(2))
    first.fence(5)
    with pytest.raises(UnsafeStoreError):
        second.append(b"from the past", after=second.start)
    assert faults(cli("verify", lying.uri, *lying.words, "--json")) == [("lost", 0)]
    assert cli("repair", lying.uri, *lying.words).code == 0
    with open_log(lying.uri, **options) as log:
        assert log.tip().epoch == 5
    assert cli("verify", lying.uri, *lying.words).code == 0


def test_repair__witnesses_contradict_the_newest_entry__writers_go_on_behind_an_abort_entry(cli, lying):
    options = {"probe": False, "storage_options": lying.options}
    first, second = (open_log(lying.uri, create=True, **options) for _ in range(2))
    op = SystemIds().new()
    first.append(b"x", after=first.start, op=op)
    with pytest.raises(UnsafeStoreError):  # one operation, sent through two writers at once
        second.append(b"x", after=second.start, op=op)
    with pytest.raises(UnsafeStoreError):
        open_log(lying.uri, **options).add(b"y")
    assert faults(cli("verify", lying.uri, *lying.words, "--json")) == [("contested", 0)]
    assert cli("repair", lying.uri, *lying.words).code == 0
    open_log(lying.uri, **options).add(b"y")
    assert bodies(lying.uri, **options) == [b"x", b"y"]
    assert cli("verify", lying.uri, *lying.words).code == 0


# -- objects that are gone or damaged ------------------------------------------------------------


@pytest.mark.parametrize("gone", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
def test_repair__deleted_entries_with_witnesses__all_come_back_in_their_places(gone, witnessed):
    before = {position: witnessed.store.get(paths.entry("", position)) for position in range(3)}
    witnessed.store.delete([paths.entry("", position) for position in gone])
    result = witnessed.cli("verify", "--json")
    assert result.code == 1
    assert faults(result) == [("missing", position) for position in gone]
    problems = result.json["logs"][0]["problems"]
    assert all(set(problem) == PROBLEM_KEYS and problem["repairable"] and problem["op"] for problem in problems)
    mended = witnessed.cli("repair")
    assert mended.code == 0
    assert f"Mended with {len(gone)} repair" in mended.out
    assert {position: witnessed.store.get(paths.entry("", position)) for position in range(3)} == before
    fill(witnessed.s3.uri, [b"d"], storage_options=witnessed.s3.options)
    assert witnessed.bodies() == [b"a", b"b", b"c", b"d"]
    assert witnessed.cli("verify").code == 0


@pytest.mark.parametrize("position", [0, 1, 2])
def test_repair__flipped_bit_with_witness__comes_back(position, witnessed):
    witnessed.flip(position)
    result = witnessed.cli("verify", "--json")
    assert (result.code, faults(result)) == (1, [("corrupt", position)])
    assert witnessed.cli("repair").code == 0
    assert witnessed.bodies() == [b"a", b"b", b"c"]
    fill(witnessed.s3.uri, [b"d"], storage_options=witnessed.s3.options)
    assert witnessed.cli("verify").code == 0


def test_verify__damaged_witness__named_and_not_mended(witnessed):
    [name] = [info.key for info in witnessed.store.list(f"witness/{paths.digits(1)}")]
    witnessed.store.delete([paths.entry("", 1)])
    witnessed.store.put(name, b"garbage")
    result = witnessed.cli("repair")
    assert result.code == 1
    assert "can't be mended" in result.out
    assert "2 problems left" in result.out


@pytest.mark.parametrize("position", [0, 1, 2])
def test_verify__flipped_bit_without_witness__named_and_can_not_be_mended(position, cli, tmp_path):
    fill(tmp_path, [b"a", b"b", b"c"])
    file = tmp_path / paths.entry("", position)
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    result = cli("verify", tmp_path)
    assert result.code == 1
    assert f"corrupt: entry {position}: " in result.out
    assert "1 problem in 1 log with 2 entries; none of them can be mended from what is there." in result.out
    assert cli("repair", tmp_path).code == 1
    assert file.read_bytes() != data


def test_verify__deleted_entry_without_witness__named(cli, tmp_path):
    fill(tmp_path, [b"a", b"b", b"c"])
    (tmp_path / paths.entry("", 1)).unlink()
    result = cli("verify", tmp_path)
    assert result.code == 1
    assert "missing: entry 1: the entry is gone: can't be mended" in result.out


def test_verify__object_of_a_far_position__one_problem_and_no_endless_walk(cli, tmp_path):
    fill(tmp_path, [b"a"])
    (tmp_path / paths.entry("", 2**63 - 1)).write_bytes(b"stray")
    result = cli("verify", tmp_path, "--json")
    assert result.code == 1
    assert faults(result) == [("missing", 1), ("corrupt", 2**63 - 1)]


def test_verify__objects_that_are_not_ours__ignored(cli, tmp_path):
    fill(tmp_path, [b"a"])
    for name in ("entries/readme", "entries/1", "witness/x/y", "staged/x", "floor/none", "other"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("not ours")
    assert cli("verify", tmp_path).code == 0


@pytest.mark.parametrize("name", ["identity", f"floor/{paths.digits(1)}"])
def test_verify__identity_or_floor_damaged__named_and_other_logs_still_checked(name, cli, tmp_path):
    fill(tmp_path / "good", [b"a"])
    marks = fill(tmp_path / "bad", [b"a", b"b"])
    open_log(tmp_path / "bad").truncate(marks[0])
    (tmp_path / "bad" / name).write_bytes(b"garbage")
    for verb in ("verify", "repair"):
        result = cli(verb, tmp_path, "--json")
        assert result.code == 1
        assert [(log["root"], log["ok"]) for log in result.json["logs"]] == [("bad/", False), ("good/", True)]
        [problem] = result.json["logs"][0]["problems"]
        assert (problem["fault"], problem["object"]) == ("corrupt", f"bad/{name}")


def test_verify__first_entry_of_another_log__named(cli, tmp_path):
    fill(tmp_path / "one", [b"a"])
    fill(tmp_path / "two", [b"b"])
    entry = paths.entry("", 0)
    (tmp_path / "one" / entry).write_bytes((tmp_path / "two" / entry).read_bytes())
    result = cli("verify", tmp_path / "one")
    assert result.code == 1
    assert "belongs to log" in result.out
