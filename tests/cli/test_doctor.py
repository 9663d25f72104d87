"""What the doctor says of this machine, of stores and of commit stores."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import pytest

from siltstone.cli import doctor_machine, doctor_store
from siltstone.cli.doctor_checks import Check
from siltstone.store.connect import open_store
from siltstone.testing.s3server import FaultServer
from unchanged import unchanged


def states(result, part):
    """What a part's lines say, by what they are about."""
    return {one["what"]: one["state"] for one in result.json["checks"] if one["part"] == part}


def line(result, what):
    return next(one for one in result.json["checks"] if one["what"] == what)


def test_doctor__of_this_machine__finds_what_the_tests_run_with(cli):
    result = cli("doctor", "--json")
    assert result.code == 0, result.out
    packages = states(result, "packages")
    assert {"Python", "siltstone", "pyarrow", "obstore", "datafusion", "numpy"} <= set(packages)
    assert set(packages.values()) == {"ok"}
    assert {"sql", "redis", "etcd", "dynamodb", "spark"} <= set(states(result, "extras"))
    assert set(states(result, "this machine")) == {"open files", "temporary files"}
    assert line(result, "Java")["state"] == "ok"
    assert line(result, "session") == {
        "part": "Spark",
        "what": "session",
        "state": "unknown",
        "detail": line(result, "session")["detail"],
        "advice": "--spark starts one",
    }
    assert "store" not in {one["part"] for one in result.json["checks"]}


def test_doctor__as_text__a_sign_on_each_line_and_a_verdict(cli, tmp_path):
    result = cli("doctor", tmp_path / "new")
    assert result.code == 0
    signs = {one.split()[0] for one in result.out.splitlines() if one.startswith("  ") and not one.startswith("   ")}
    assert signs == {"ok", "--"}
    assert result.out.endswith("\nNothing that is needed is wrong.\n")


def test_doctor__of_a_table_without_write__leaves_everything_as_it_was(cli, reviews):
    with open_store(str(reviews)) as store, unchanged(store):
        result = cli("doctor", reviews, "--json")
    assert result.code == 0
    assert states(result, "store") == {"address": "ok", "list": "ok", "write": "unknown", "clock": "ok", "table": "ok"}
    assert line(result, "table")["detail"] == "version 1, 3 rows"
    assert states(result, "this machine")["the table's disk"] == "ok"


def test_doctor__with_write__tries_an_object_of_its_own_and_removes_it(cli, reviews):
    result = cli("doctor", f"{reviews}@1", "--write", "--json")
    assert result.code == 0
    tried = {"create": "ok", "read": "ok", "create once": "ok", "clock": "ok", "delete": "ok"}
    assert tried.items() <= states(result, "store").items()
    with open_store(str(reviews)) as store:
        assert [info.key for info in store.list() if "probe" in info.key] == []


def test_doctor__of_a_store_that_overwrites__says_no_unless_a_commit_store_decides(cli, lying, tmp_path):
    result = cli("doctor", lying.uri, "--write", "--json", *lying.words)
    assert result.code == 1
    assert result.json["ok"] is False
    assert line(result, "create once")["state"] == "no"
    decided = cli("doctor", lying.uri, "--write", "--json", "--commits", f"sqlite:{tmp_path}/c.db", *lying.words)
    assert decided.code == 0, decided.out
    assert line(decided, "create once")["state"] == "unknown"
    assert states(decided, "commit store") == {"address": "ok", "answers": "ok"}


def test_doctor__of_an_s3_server__compares_clocks_by_its_answer(cli, s3):
    result = cli("doctor", s3.uri, "--json", *s3.words)
    assert result.code == 0, result.out
    assert line(result, "clock")["state"] in {"ok", "unknown"}
    assert line(result, "list")["state"] == "ok"
    assert line(result, "table")["state"] == "unknown"


def test_doctor__of_a_server_that_is_gone__says_no_and_shows_no_secret(cli, tmp_path):
    with FaultServer(in_thread=True) as server:
        options = {**server.storage_options, "aws_secret_access_key": "correct-horse-battery"}
    words = [word for name, value in options.items() for word in ("--storage-option", f"{name}={value}")]
    commits = "postgresql://me:hunter2hunter2@127.0.0.1:9/db"
    for result in (
        cli("doctor", "s3://bkt/t", "--commits", commits, *words),
        cli("doctor", "s3://bkt/t", "--commits", commits, "--json", *words),
    ):
        assert result.code == 1
        assert "correct-horse" not in result.out + result.err
        assert "hunter2" not in result.out + result.err
    assert line(result, "list")["state"] == "no"
    assert states(result, "commit store") == {"address": "ok", "answers": "no"}


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("gopher://x",), "address"),
        (("new", "--commits", "nonsense:x"), "commit stores"),
    ],
)
def test_doctor__of_what_can_not_be__says_no_with_advice(words, what, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = cli("doctor", *words, "--json")
    assert result.code == 1
    assert (line(result, what)["state"], line(result, what)["advice"] != "") == ("no", True)


def test_doctor__of_a_table_that_another_decides_for__hint_names_the_option(cli, reviews, tmp_path):
    result = cli("doctor", reviews, "--commits", f"sqlite:{tmp_path}/c.db", "--json")
    assert result.code == 1
    assert line(result, "table")["advice"] == "open it without --commits"


def test_check_machine__few_open_files__says_how_to_get_more():
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096));"
        "from siltstone.cli.doctor_machine import check_machine;"
        "print(next(iter(check_machine(None))))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=True)
    assert "state='unknown', detail='256', advice='ulimit -n 4096'" in done.stdout
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 256


def test_check_packages__a_version_out_of_bounds__is_wrong():
    assert doctor_machine._within("0.12.3", ">=0.12,<0.13")
    assert not doctor_machine._within("0.13.0", ">=0.12,<0.13")
    assert not doctor_machine._within("0.11.9", ">=0.12")
    assert doctor_machine._package("no-such-package", ">=1").state == "no"
    assert doctor_machine._package("pyarrow", ">=9999").state == "no"
    assert doctor_machine._extra("x", {"no-such-package": ">=1"}, needed=False).state == "unknown"
    assert doctor_machine._extra("x", {"no-such-package": ">=1"}, needed=True).advice == "pip install 'siltstone[x]'"


@pytest.mark.parametrize(
    ("ahead_s", "state", "said"),
    [(5, "ok", "agree"), (-400, "unknown", "6 min 40 s behind"), (4000, "unknown", "1 h 06 min ahead")],
)
def test_clock__that_differs__is_told_and_what_it_matters_for(ahead_s, state, said):
    found = doctor_store._skew(ahead_s)
    assert isinstance(found, Check)
    assert found.state == state
    assert said in found.detail
    assert state == "ok" or "gc" in found.detail


def test_clock__of_an_object_that_was_written__is_the_store_s(reviews):
    with open_store(str(reviews)) as store:
        info = next(iter(store.list()))
        assert abs(time.time() - info.modified_ms / 1000) < 600
        assert doctor_store._clock_by_object(store, info.key).state == "ok"
        assert doctor_store._clock_by_object(store, "nothing").state == "unknown"
