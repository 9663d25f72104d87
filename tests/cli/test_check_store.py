"""Is a store safe? Asked of a directory, of honest servers and of liars."""

from __future__ import annotations

import json

import pytest

from siltstone.check import check_commits, check_store
from siltstone.commit.memory import MemoryRegistry, MemoryService
from siltstone.ids import SystemIds
from siltstone.testing.s3server import Faults

STORE_KEYS = {
    "uri", "kind", "safe", "store_safe", "known_good", "guard", "verdict", "findings", "remedies", "commits",
}  # fmt: skip
COMMITS_KEYS = {"uri", "kind", "identity", "safe", "latency_ms", "findings"}


def test_check_store__directory__safe_with_receipts(cli, tmp_path):
    result = cli("check-store", tmp_path)
    assert result.code == 0
    assert "Safe: tables on" in result.out
    assert "with the object store deciding" in result.out
    assert "known to keep its word" in result.out
    assert "guarded by receipts" in result.out
    assert "NO" not in result.out
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_check_store__directory_as_json__has_the_stable_keys(cli, tmp_path):
    found = cli("check-store", tmp_path, "--json").json
    assert set(found) == STORE_KEYS
    assert found["safe"] is found["store_safe"] is found["known_good"] is True
    assert found["commits"] is None
    assert found["guard"] == "receipt"
    assert all(set(finding) == {"check", "ok", "detail"} for finding in found["findings"])


def test_check_store__honest_server_of_an_unknown_provider__safe_with_witnesses(cli, s3):
    result = cli("check-store", "s3://bkt", *s3.words)
    assert result.code == 0
    assert "not known to keep its word" in result.out
    assert "guarded by witnesses" in result.out
    assert s3.server.objects() == []


@pytest.mark.parametrize("faults", [Faults(lie="always"), Faults(lie="check-then-put", window_ms=20)])
def test_check_store__lying_server__not_safe_and_names_commit_stores(cli, s3, faults):
    s3.server.set(faults)
    result = cli("check-store", "s3://bkt", *s3.words)
    assert result.code == 1
    assert "  NO  " in result.out
    assert "Not safe: s3://bkt does not create an object only once" in result.out
    for scheme in ("sqlite:///", "postgresql://", "mysql://", "redis://", "etcd://", "dynamodb://"):
        assert f"--commits {scheme}" in result.out
    assert "memory:" not in result.out
    assert s3.server.objects() == []


def test_check_store__asked_twice__the_second_answer_is_fresh(cli, s3):
    assert cli("check-store", "s3://bkt", *s3.words).code == 0
    s3.server.set(lie="always")
    assert cli("check-store", "s3://bkt", *s3.words).code == 1


def test_check_store__lying_server_with_sqlite__safe(cli, lying, tmp_path):
    words = ("check-store", "s3://bkt", *lying.words, "--commits", f"sqlite://{tmp_path}/claims.db")
    result = cli(*words)
    assert result.code == 0
    assert "Safe: tables on s3://bkt are safe with sqlite://" in result.out
    assert "commit store sqlite://" in result.out
    assert "A claim takes" in result.out
    found = cli(*words, "--json").json
    assert (found["safe"], found["store_safe"], found["guard"]) == (True, False, "receipt")
    assert set(found["commits"]) == COMMITS_KEYS
    assert found["commits"]["safe"] is True
    assert found["commits"]["latency_ms"] > 0


def test_check_store__memory_as_the_commit_store__not_safe_since_it_is_gone_with_the_process(cli, tmp_path):
    result = cli("check-store", tmp_path, "--commits", "memory://x")
    assert result.code == 1
    assert "Not safe: memory://x is memory of this process, and gone with it" in result.out
    assert cli("check-store", tmp_path, "--commits", "memory://x", "--json").json["safe"] is False


def test_check_store__redis_that_may_forget__the_verdict_says_so(cli, tmp_path, redis_server):
    weak = f"redis://127.0.0.1:{redis_server.port}/0?accept_weak_durability=1"
    result = cli("check-store", tmp_path, "--commits", weak)
    assert result.code == 0
    said = "accept_weak_durability lets it lose what it decided last."
    assert result.out.splitlines()[-1].endswith(said)
    assert cli("check-store", tmp_path, "--commits", weak, "--json").json["verdict"].endswith(said)


@pytest.mark.parametrize(("given", "meant"), [("endpont", "endpoint"), ("aws_endpont", "aws_endpoint")])
def test_check_store__storage_option_that_no_store_has__names_one_that_is_near(given, meant, cli):
    words = ("access_key_id=a", "secret_access_key=b", f"{given}=http://127.0.0.1:1")
    result = cli("check-store", "s3://bkt", *(word for one in words for word in ("--storage-option", one)))
    assert result.code == 1
    assert f"hint: did you mean {meant}? " in result.err


def test_check_store__missing_bucket__error_of_the_library(cli, s3):
    result = cli("check-store", "s3://nobody", *s3.words)
    assert result.code == 1
    assert "the bucket does not exist" in result.err
    assert "hint: create it, or correct the URI" in result.err


def test_check_store__not_allowed_to_write__error_of_the_library(cli, s3):
    s3.server.set(deny=("put",))
    result = cli("check-store", "s3://bkt", *s3.words, "--json")
    assert (result.code, result.json["error"]["kind"]) == (1, "permission-denied")


def test_check_store__secrets_on_the_command_line__never_printed(cli, s3, monkeypatch):
    monkeypatch.setenv("DEMO_SECRET", "tell-no-one-1")
    options = s3.options | {"aws_secret_access_key": "env:DEMO_SECRET", "aws_session_token": "tell-no-one-2"}
    words = [word for name, value in options.items() for word in ("--storage-option", f"{name}={value}")]
    commits = ["--commits", "postgresql://me:tell-no-one-3@127.0.0.1:1/db"]
    for uri in ("s3://bkt", "s3://nobody"):
        for extra in ([], ["--json"], commits, [*commits, "--json"]):
            result = cli("check-store", uri, *words, *extra)
            assert "tell-no-one" not in result.out + result.err
            assert result.code == (0 if uri == "s3://bkt" and "--commits" not in extra else 1)


def test_check_store__a_directory_that_is_a_file__error_of_the_library(cli, tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    result = cli("check-store", file)
    assert result.code == 1
    assert "is not a directory" in result.err


class Forgetful(MemoryRegistry):
    """Lets everyone win."""

    def claim(self, claim):
        with self.service.lock:
            self.service.claims.setdefault(claim.scope, {})[claim.position] = claim
        return claim


def test_check_commits__registry_that_lets_everyone_win__is_found_out(tmp_path):
    report = check_commits(Forgetful(MemoryService(), ids=SystemIds()))
    wrong = {finding.check for finding in report.findings if not finding.ok}
    assert wrong == {"claim twice", "predecessor", "race", "range"}
    assert not report.safe
    assert not check_store(tmp_path, Forgetful(MemoryService(), ids=SystemIds())).safe


def test_check_commits__good_registry__leaves_one_range_claim_on_its_own_scope():
    service = MemoryService()
    report = check_commits(MemoryRegistry(service, ids=SystemIds()))
    assert report.safe
    assert report.identity == service.identity
    assert [claims for claims in service.claims.values() if claims] == []
    [scope] = service.ranges
    assert scope.startswith("check:")


def test_check_store__json_of_a_refusal__is_one_document(cli, lying):
    result = cli("check-store", "s3://bkt", *lying.words, "--json")
    assert result.code == 1
    assert json.loads(result.out)["safe"] is False
    assert "postgresql" in result.json["remedies"]
    assert result.err == ""
