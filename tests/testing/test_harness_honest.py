"""What peers are measured with is fair: the server is honest without a fault, and the counts say what happened."""

from __future__ import annotations

import http.client
from concurrent.futures import ThreadPoolExecutor

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError
from obstore.store import S3Store

from siltstone.testing.s3server import Faults, FaultServer
from sources import ROOT

CLIENTS = 16
PLACES = 25


@pytest.fixture
def crowds(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import peers_fault_crowd  # noqa: PLC0415 - found only now

    return peers_fault_crowd


@pytest.fixture
def server():
    """In a process of its own, as benchmarks have it."""
    with FaultServer() as running:
        yield running


def put(server, key: str, headers: dict[str, str]) -> int:
    """The status of one put, with the headers spelt as they are given."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request("PUT", f"/bkt/{key}", b"body", headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("spelling", ["If-None-Match", "if-none-match", "IF-NONE-MATCH", "iF-nOnE-mAtCh"])
@pytest.mark.parametrize("blanks", ["*", " *", "*  "])
def test_create__header_spelt_in_any_way__is_honoured(s3, spelling, blanks):
    assert [put(s3, "k", {spelling: blanks}) for _ in range(3)] == [200, 412, 412]
    assert [facts.writes for facts in s3.objects()] == [1]
    assert s3.stats().conditional == {"honoured": 3, "refused": 2, "ignored": 0, "overwrote": 0}


@pytest.mark.parametrize("spelling", ["If-Match", "if-match", "IF-MATCH"])
def test_replace__header_spelt_in_any_way__is_honoured(s3, spelling):
    assert put(s3, "k", {}) == 200
    [facts] = s3.objects()
    assert put(s3, "k", {spelling: '"another"'}) == 412
    assert put(s3, "k", {spelling: facts.etag}) == 200


def test_create__many_clients_each_with_its_connections__one_winner_whose_bytes_stay(server):
    stores = [S3Store.from_url("s3://bkt", **server.obstore_options) for _ in range(CLIENTS)]

    def race(client: int) -> list[str]:
        won = []
        for place in range(PLACES):
            try:
                obstore.put(stores[client], f"place/{place:02d}", b"%d" % client, mode="create")
            except AlreadyExistsError:
                continue
            won.append(f"place/{place:02d}")
        return won

    with ThreadPoolExecutor(CLIENTS) as pool:
        wins = list(enumerate(pool.map(race, range(CLIENTS))))
    winners = {key: client for client, keys in wins for key in keys}
    assert sum(len(keys) for _, keys in wins) == len(winners) == PLACES
    assert {key: int(server.read(key)) for key in winners} == winners
    assert server.stats().conditional["overwrote"] == 0


def test_create__deleted_in_between__is_free_again(s3, s3_boto):
    assert [put(s3, "k", {"If-None-Match": "*"}) for _ in range(2)] == [200, 412]
    s3_boto.delete_object(Bucket="bkt", Key="k")
    assert put(s3, "k", {"If-None-Match": "*"}) == 200


# -- the counts --------------------------------------------------------------------------------------


def test_counted__rows_missing_doubled_and_of_a_failed_append__each_is_told(crowds):
    answers = {(0, 0): "", (0, 1): "", (1, 0): "OSError: no answer", (1, 1): "OSError: no answer"}
    kept, cut, failed = (list(crowds.ids_of(*one)) for one in [(0, 0), (0, 1), (1, 0)])
    facts = crowds.counted(answers, [*kept, *cut[:40], *failed, *failed], "")
    assert facts == {
        "acknowledged": 2,
        "errors_told": 2,
        "rows_acknowledged": 200,
        "rows_found": 340,
        "rows_lost_silently": 60,
        "rows_doubled": 100,
        "failed_yet_there": 1,
        "told": "OSError: no answer",
    }


def test_counted__reader_refused__nothing_was_lost_in_silence(crowds):
    facts = crowds.counted({(0, 0): ""}, None, "")
    assert (facts["rows_found"], facts["rows_lost_silently"]) == (None, 0)


@pytest.mark.slow
@pytest.mark.parametrize("product", ["pylance", "deltalake", "slatedb", "siltstone", "siltstone, commit store"])
def test_run__honest_store__every_product_comes_out_right(crowds, tmp_path, product):
    row = crowds.run(product, "none", tmp_path, writers=2, appends=3)
    assert row.right
    assert (row.acknowledged, row.errors_told, row.rows_found, row.fault_hits) == (6, 0, 600, 0)


@pytest.mark.slow
def test_run__two_who_create_the_same_object_on_a_store_that_lies__loss_is_seen(crowds, tmp_path, monkeypatch):
    """Both first commits are held until both are there, so that one overwrites the other for certain."""
    held = Faults(lie="always", hold="_versions/")
    monkeypatch.setitem(crowds.CASES, "held", crowds.Case("held", Faults(), None))
    plain = crowds.crowd

    def crowd(name, place, server, case, **sizes):
        server.set(held)
        with ThreadPoolExecutor(1) as pool:
            told = pool.submit(plain, name, place, server, case, **sizes)
            server.wait_held(2, timeout_s=60)
            server.set(hold="")
            server.release()
            return told.result()

    monkeypatch.setattr(crowds, "crowd", crowd)
    row = crowds.run("pylance", "held", tmp_path, writers=2, appends=1)
    assert (row.acknowledged, row.rows_found, row.rows_lost_silently) == (2, 100, 100)
    assert not row.right
