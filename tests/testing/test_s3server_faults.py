"""Each fault of the fault server does what it says, and no more."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor

import obstore
import pytest
from botocore.exceptions import ClientError, HTTPClientError
from obstore.exceptions import AlreadyExistsError
from obstore.store import S3Store

from siltstone import errors
from siltstone.testing.s3server import Faults, FaultServer


def create(store, key: str, body: bytes) -> bool:
    """Whether the server said that the create won."""
    try:
        obstore.put(store, key, body, mode="create")
    except AlreadyExistsError:
        return False
    return True


def keys(server) -> list[str]:
    return [facts.key for facts in server.objects()]


def status_of(call) -> int:
    """The status that boto3, asking once, was answered with."""
    try:
        return call()["ResponseMetadata"]["HTTPStatusCode"]
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"]


# -- lies about conditions -------------------------------------------------------------------------


def test_lie__always__every_create_wins_and_the_last_stays(s3, s3_store, s3_boto):
    s3.set(lie="always")
    assert [create(s3_store, "k", body) for body in (b"1", b"2", b"3")] == [True, True, True]
    s3_boto.put_object(Bucket="bkt", Key="k", Body=b"4", IfMatch='"no such etag"')
    assert s3.read("k") == b"4"
    assert s3.objects()[0].writes == 4
    assert s3.stats().conditional == {"honoured": 0, "refused": 0, "ignored": 4, "overwrote": 2}


def test_lie__check_then_put__passes_in_sequence_and_fails_in_a_race(s3, s3_store):
    s3.set(lie="check-then-put", window_ms=250)
    assert [create(s3_store, "sequence", b"1"), create(s3_store, "sequence", b"2")] == [True, False]
    with ThreadPoolExecutor(8) as pool:
        winners = list(pool.map(lambda number: create(s3_store, "race", b"%d" % number), range(8)))
    assert sum(winners) >= 2
    assert s3.read("sequence") == b"1"
    facts = {facts.key: facts.writes for facts in s3.objects()}
    assert facts == {"sequence": 1, "race": sum(winners)}


def test_lie__check_then_put_with_both_held__both_win(s3, s3_store):
    s3.set(lie="check-then-put", window_ms=0, hold="k")
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(create, s3_store, "k", b"first")
        s3.wait_held(1)
        second = pool.submit(create, s3_store, "k", b"second")
        s3.wait_held(2)
        assert s3.release() == ("k", "k")
        assert (first.result(), second.result()) == (True, True)
    assert s3.read("k") == b"second"


def test_lie_after__so_many_conditional_puts__honest_until_then(s3, s3_store):
    s3.set(lie_after=3)
    assert [create(s3_store, "k", b"%d" % turn) for turn in range(5)] == [True, False, False, True, True]
    assert s3.read("k") == b"4"
    s3.set(Faults(lie="check-then-put", window_ms=0, lie_after=1))
    assert [create(s3_store, "other", b"%d" % turn) for turn in range(3)] == [True, False, False]
    assert s3.stats().conditional["ignored"] == 2


# -- answers lost after the effect -----------------------------------------------------------------


def test_lose_answer__every_third__takes_effect_all_the_same(s3, s3_boto):
    s3.set(lose_answer_every=3)
    for number in range(1, 7):
        key = f"k{number}"
        if number % 3:
            s3_boto.put_object(Bucket="bkt", Key=key, Body=b"x")
            s3_boto.get_object(Bucket="bkt", Key=key)  # reads are neither hit nor counted
        else:
            with pytest.raises(HTTPClientError):
                s3_boto.put_object(Bucket="bkt", Key=key, Body=b"x")
    assert keys(s3) == [f"k{number}" for number in range(1, 7)]
    assert s3.stats().statuses == {200: 8, 0: 2}


def test_lose_answer__first_of_a_key__client_that_retries_sees_its_own_write(s3):
    s3.set(lose_answer_match="mine", lose_answer_max=1)
    store = S3Store.from_url("s3://bkt", **s3.obstore_options)
    assert create(store, "other", b"x")
    assert not create(store, "mine", b"x")
    assert keys(s3) == ["mine", "other"]
    assert s3.stats().statuses == {200: 1, 0: 1, 412: 1}


def test_lose_answer__delete_and_copy__are_hit_too(s3, s3_boto):
    s3_boto.put_object(Bucket="bkt", Key="k", Body=b"x")
    s3.set(lose_answer_every=1)
    with pytest.raises(HTTPClientError):
        s3_boto.copy_object(Bucket="bkt", Key="copied", CopySource="bkt/k")
    with pytest.raises(HTTPClientError):
        s3_boto.delete_object(Bucket="bkt", Key="k")
    with pytest.raises(HTTPClientError):
        s3_boto.delete_objects(Bucket="bkt", Delete={"Objects": [{"Key": "copied"}]})
    assert keys(s3) == []


@pytest.mark.parametrize("status", [500, 503])
def test_status_after_effect__instead_of_silence__effect_is_there(s3, s3_boto, status):
    s3.set(lose_answer_every=2, status_after_effect=status)
    answers = [status_of(lambda key=key: s3_boto.put_object(Bucket="bkt", Key=key)) for key in "abcd"]
    assert answers == [200, status, 200, status]
    assert keys(s3) == list("abcd")


# -- failures before the effect --------------------------------------------------------------------


@pytest.mark.parametrize("status", [503, 500, 409, 403])
def test_fail__every_second__nothing_is_stored(s3, s3_boto, status):
    s3.set(fail_every=2, fail_status=status)
    answers = [status_of(lambda key=key: s3_boto.put_object(Bucket="bkt", Key=key)) for key in "abcd"]
    assert answers == [200, status, 200, status]
    assert keys(s3) == ["a", "c"]


def test_fail__matching_keys_so_many_times__then_stops(s3, s3_boto):
    s3.set(fail_match="log/", fail_max=2)
    put = [("log/1", 503), ("data", 200), ("log/1", 503), ("log/1", 200)]
    assert [status_of(lambda key=key: s3_boto.put_object(Bucket="bkt", Key=key)) for key, _ in put] == [
        s for _, s in put
    ]


def test_conflict__without_effect__409_and_the_retry_wins(s3, s3_boto):
    s3.set(conflict_without_effect_every=2)
    assert status_of(lambda: s3_boto.put_object(Bucket="bkt", Key="a", IfNoneMatch="*")) == 200
    assert status_of(lambda: s3_boto.put_object(Bucket="bkt", Key="plain")) == 200
    with pytest.raises(ClientError, match="ConditionalRequestConflict"):
        s3_boto.put_object(Bucket="bkt", Key="b", IfNoneMatch="*")
    assert keys(s3) == ["a", "plain"]
    assert status_of(lambda: s3_boto.put_object(Bucket="bkt", Key="b", IfNoneMatch="*")) == 200


def test_deny__each_right__stops_those_verbs_only(s3, s3_boto):
    calls = {
        "put": lambda: s3_boto.put_object(Bucket="bkt", Key="k", Body=b"x"),
        "get": lambda: s3_boto.get_object(Bucket="bkt", Key="k"),
        "list": lambda: s3_boto.list_objects_v2(Bucket="bkt"),
        "delete": lambda: s3_boto.delete_object(Bucket="bkt", Key="k"),
    }
    for denied in calls:
        s3.set(Faults())
        calls["put"]()
        s3.set(deny=(denied,))
        answers = {right: status_of(call) for right, call in calls.items()}
        assert answers == {"put": 200, "get": 200, "list": 200, "delete": 204} | {denied: 403}
        assert keys(s3) == (["k"] if denied == "delete" else [])


@pytest.mark.parametrize(("status", "code"), [(507, "InsufficientStorage"), (403, "QuotaExceeded")])
def test_full__puts__are_refused_and_reads_go_on(s3, s3_boto, status, code):
    s3_boto.put_object(Bucket="bkt", Key="k", Body=b"x")
    s3.set(full=True, full_status=status)
    with pytest.raises(ClientError, match=code):
        s3_boto.put_object(Bucket="bkt", Key="k", Body=b"y")
    with pytest.raises(ClientError, match=code):
        s3_boto.create_multipart_upload(Bucket="bkt", Key="k")
    assert s3_boto.get_object(Bucket="bkt", Key="k")["Body"].read() == b"x"
    s3_boto.delete_object(Bucket="bkt", Key="k")


# -- time ------------------------------------------------------------------------------------------


def test_latency__many_requests__overlap(s3, s3_store):
    obstore.put(s3_store, "slow", b"x")
    obstore.put(s3_store, "quick", b"x")
    s3.set(latency_ms=2_000, latency_match="slow")
    start = time.monotonic()
    obstore.get(s3_store, "quick").bytes()
    assert time.monotonic() - start < 2
    start = time.monotonic()
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda _: obstore.get(s3_store, "slow").bytes(), range(20)))
    assert 2 <= time.monotonic() - start < 20 * 2 / 2


def test_hold__a_create__decides_when_released_not_when_received(s3, s3_store):
    s3.set(hold="held")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(create, s3_store, "held/1", b"late")
        assert s3.wait_held() == ("held/1",)
        with pytest.raises(errors.NotFoundError):
            s3.read("held/1")
        s3.set(hold="")
        assert create(s3_store, "held/1", b"early")
        assert s3.release("other") == ()
        assert s3.release("held") == ("held/1",)
        assert not waiting.result()
    assert s3.read("held/1") == b"early"


def test_release__limit_one__lets_the_oldest_through(s3, s3_store):
    s3.set(hold="k")
    with ThreadPoolExecutor(2) as pool:
        older = pool.submit(obstore.put, s3_store, "k", b"older")
        s3.wait_held(1)
        newer = pool.submit(obstore.put, s3_store, "k", b"newer")
        assert s3.wait_held(2) == ("k", "k") == s3.stats().held
        s3.release(limit=1)
        assert s3.read("k") == b"older"
        s3.release()
        older.result()
        newer.result()
    assert s3.read("k") == b"newer"


def test_hold__client_gone_meanwhile__effect_comes_all_the_same(s3):
    s3.set(hold="k")
    with socket.create_connection(("127.0.0.1", s3.port)) as client:
        client.sendall(b"PUT /bkt/k HTTP/1.1\r\ncontent-length: 4\r\n\r\nlate")
        s3.wait_held()
    assert s3.release() == ("k",)
    assert s3.read("k") == b"late"


def test_wait_held__nothing_comes__says_so_at_the_limit(s3):
    with pytest.raises(errors.UnavailableError, match="0 puts are held"):
        s3.wait_held(timeout_s=0.05)


# -- steering --------------------------------------------------------------------------------------


def test_set__some_fields__keeps_the_others(s3):
    s3.set(lie="always", latency_ms=1)
    assert s3.set(latency_ms=2, deny=["put"]) == Faults(lie="always", latency_ms=2, deny=("put",)) == s3.faults()
    assert s3.set(Faults(full=True)) == Faults(full=True) == s3.faults()


def test_set__in_another_process__takes_effect_there():
    with FaultServer(Faults(lie="always"), buckets=("one", "two")) as server:
        store = S3Store.from_url("s3://two", **server.obstore_options)
        assert [create(store, "k", b"1"), create(store, "k", b"2")] == [True, True]
        server.set(Faults())
        assert not create(store, "k", b"3")
        assert server.read("k", bucket="two") == b"2"
        assert server.stats().verbs == {"put": 3}
        server.reset_stats()
        assert server.stats().requests == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"lie": "sometimes"},
        {"lie": True},
        {"window_ms": -1},
        {"latency_ms": "10"},
        {"fail_every": 1.5},
        {"fail_every": True},
        {"fail_status": 200},
        {"status_after_effect": 503},
        {"lose_answer_every": 1, "status_after_effect": 404},
        {"deny": "put"},
        {"deny": ["read"]},
        {"full": 1},
        {"latency": 10},
    ],
)
def test_faults__a_value_that_would_do_nothing__is_refused(s3, changes):
    with pytest.raises(errors.InvalidInputError):
        Faults().changed(changes)
    with pytest.raises(errors.InvalidInputError):
        s3.set(**changes)
    assert s3.faults() == Faults()
