"""Which service a store is at: every way to say it counts, and no password in it is taken or told."""

from __future__ import annotations

import pickle

import pytest

from siltstone.errors import InvalidInputError
from siltstone.store.connect import open_store
from siltstone.store.remote import RemoteStore

SECRET = "canary-91c4d7"
KEYS = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_region": "x"}
ELSEWHERE = "http://127.0.0.1:9"
AZURE_KEY = {"account_key": "aGVsbG8="}
VARIABLES = (
    "AWS_ENDPOINT",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_ENDPOINT",
)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


# -- endpoints of one's own --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option", ["endpoint", "aws_endpoint", "endpoint_url", "aws_endpoint_url", "aws_endpoint_url_s3", "endpoint_url_s3"]
)
def test_traits__endpoint_by_any_option__is_not_trusted_and_part_of_the_location(option):
    store = RemoteStore("s3://b/x", {**KEYS, option: ELSEWHERE})
    assert not store.traits.known_good
    assert ELSEWHERE in store.location
    assert ELSEWHERE in store.domain
    assert store.location != RemoteStore("s3://b/x", KEYS).location


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_traits__endpoint_by_any_variable__is_not_trusted_and_part_of_the_location(monkeypatch, variable):
    monkeypatch.setenv(variable, ELSEWHERE)
    store = RemoteStore("s3://b/x", KEYS)
    assert not store.traits.known_good
    assert ELSEWHERE in store.location
    assert ELSEWHERE in store.domain


def test_create__endpoint_by_aws_endpoint_url_s3__reaches_that_server(places):
    server = places.fault_server()
    options = dict(server.storage_options)
    options["aws_endpoint_url_s3"] = options.pop("aws_endpoint")
    store = open_store("s3://bkt/x", options)
    store.create("object", b"there")
    assert server.read("x/object") == b"there"
    assert not store.traits.known_good


# -- passwords in an endpoint -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "option"),
    [
        ("s3://b/x", "endpoint"),
        ("s3://b/x", "aws_endpoint"),
        ("s3://b/x", "aws_endpoint_url_s3"),
        ("az://c/x", "endpoint"),
        ("gs://b/x", "google_base_url"),
    ],
)
@pytest.mark.parametrize("who", [f"user:{SECRET}@", f"{SECRET}@", f":{SECRET}@"])
def test_open_store__password_in_the_endpoint__is_refused_and_not_echoed(uri, option, who):
    with pytest.raises(InvalidInputError) as caught:
        open_store(uri, {option: f"http://{who}127.0.0.1:9"})
    assert SECRET not in f"{caught.value} {caught.value!r} {caught.value.facts} {caught.value.hint}"


def test_open_store__password_in_an_endpoint_of_the_environment__is_refused_and_not_echoed(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://user:{SECRET}@127.0.0.1:9")
    with pytest.raises(InvalidInputError) as caught:
        open_store("s3://b/x", KEYS)
    assert SECRET not in f"{caught.value} {caught.value!r} {caught.value.facts}"


# -- two accounts of Azure ----------------------------------------------------------------------------------


def azure(uri: str, **options: str) -> RemoteStore:
    return RemoteStore(uri, {**AZURE_KEY, **options})


def test_location__two_accounts_with_one_container_name__differ():
    here, there = azure("az://c/x", account_name="here"), azure("az://c/x", account_name="there")
    assert here.location != there.location
    assert here.domain != there.domain
    assert here.location == azure("az://c/x", azure_storage_account_name="here").location


def test_location__account_in_the_environment__counts(monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "here")
    here = azure("az://c/x")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "there")
    assert here.location != azure("az://c/x").location
    assert here.domain != azure("az://c/x").domain


def test_location__account_in_the_uri__counts():
    here = azure("abfss://c@here.dfs.core.windows.net/x")
    there = azure("abfss://c@there.dfs.core.windows.net/x")
    assert here.location != there.location
    assert here.location == azure("az://c/x", account_name="here").location
    assert pickle.loads(pickle.dumps(here)).location == here.location
