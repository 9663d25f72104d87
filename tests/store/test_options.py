"""Store URIs and options: one spelling for one place, and no secret in any word."""

from __future__ import annotations

import pickle

import pytest

from siltstone.errors import InvalidInputError
from siltstone.store.connect import open_store
from siltstone.store.local import LocalStore
from siltstone.store.options import parse_uri, resolve_options, scrub
from siltstone.store.remote import RemoteStore

SECRET = "canary-5d21e8"
OPTIONS = {
    "aws_access_key_id": "a",
    "aws_secret_access_key": SECRET,
    "aws_endpoint": "http://127.0.0.1:9",
    "aws_region": "x",
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("s3://b", "s3://b"),
        ("s3://b/", "s3://b"),
        ("s3://b//a/./c/", "s3://b/a/c"),
        ("s3a://b/a", "s3://b/a"),
        ("S3://b/a", "s3://b/a"),
        ("gs://b/a", "gs://b/a"),
        ("az://c/a", "az://c/a"),
        ("abfss://c@account.dfs.core.windows.net/a", "az://c/a"),
        ("memory://x/y", "memory://x/y"),
        ("file:///a/b/", "file:///a/b"),
        ("file:///a/../b", "file:///b"),
        ("/a//b/", "file:///a/b"),
        ("s3://b/grüße", "s3://b/grüße"),
    ],
)
def test_parse_uri__ways_to_write_it__one_spelling(given, expected):
    assert str(parse_uri(given)) == expected


def test_parse_uri__relative_path__is_taken_from_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(parse_uri("a/b")) == f"file://{tmp_path}/a/b"
    assert open_store(tmp_path / "a").uri == open_store("a").uri


@pytest.mark.parametrize(
    "uri", ["s3://b/a/../c", "s3://b/%2e%2e/../c", "file://host/a", "s3://", "memory:", "x://y", "://b"]
)
def test_parse_uri__leads_elsewhere_or_nowhere__is_refused(uri):
    if uri == "memory:":
        assert parse_uri(uri).scheme == "file"  # a name without "://" is a path
        return
    with pytest.raises(InvalidInputError):
        parse_uri(uri)


def test_resolve_options__reference_to_the_environment__is_filled_in(monkeypatch):
    monkeypatch.setenv("SILT_KEY", SECRET)
    assert resolve_options({"Key": "env:SILT_KEY"}, frozenset()) == {"key": SECRET}
    assert resolve_options({"a": True, "b": 3}, frozenset()) == {"a": "true", "b": "3"}
    assert resolve_options(None, frozenset()) == {}


def test_resolve_options__reference_to_nothing__names_the_variable(monkeypatch):
    monkeypatch.delenv("SILT_KEY", raising=False)
    with pytest.raises(InvalidInputError, match="SILT_KEY"):
        resolve_options({"key": "env:SILT_KEY"}, frozenset())


def test_open_store__option_misspelt__a_near_one_is_named(tmp_path):
    with pytest.raises(InvalidInputError, match="sync"):
        open_store(tmp_path, {"synk": "false"})
    with pytest.raises(InvalidInputError, match="no_such_option"):
        open_store("s3://b", {**OPTIONS, "no_such_option": "1"}).get("x")


def test_open_store__sync_as_an_option__reaches_the_store(tmp_path):
    assert open_store(tmp_path, {"sync": "false"}).inner.sync is False
    assert open_store(tmp_path).inner.sync is True
    assert open_store(tmp_path, sync=False).inner.sync is False


def test_scrub__secret_in_a_text__is_gone():
    assert scrub(f"denied for {SECRET}", {"aws_secret_access_key": SECRET}) == "denied for ***"
    assert scrub("at us-east-1", {"aws_region": "us-east-1"}) == "at us-east-1"


def test_remote_store__shown_in_any_way__has_no_secret():
    store = RemoteStore("s3://b/x", OPTIONS)
    assert SECRET not in f"{store!r} {store} {store.uri} {store.location}"


def test_remote_store__credential_by_reference__is_not_in_its_pickle(monkeypatch):
    monkeypatch.setenv("SILT_KEY", SECRET)
    store = RemoteStore("s3://b/x", {**OPTIONS, "aws_secret_access_key": "env:SILT_KEY"})
    assert SECRET.encode() not in pickle.dumps(store)


def test_location__two_endpoints_with_one_bucket_name__differ():
    here = RemoteStore("s3://b/x", OPTIONS)
    there = RemoteStore("s3://b/x", {**OPTIONS, "aws_endpoint": "http://127.0.0.1:10"})
    assert here.location != there.location
    assert here.domain != there.domain


@pytest.mark.parametrize(("options", "known_good"), [(OPTIONS, False), ({**OPTIONS, "known_good": "true"}, True)])
def test_traits__endpoint_of_ones_own__is_trusted_only_when_told(options, known_good):
    assert RemoteStore("s3://b", options).traits.known_good is known_good


def test_local_store__file_in_its_place__is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidInputError, match="not a directory"):
        LocalStore(tmp_path / "file")


@pytest.mark.parametrize("uri", ["/a/\ud800", "a\udfffb", "file:///a/\ud800", "s3://b/\ud800", "s3://b/c/\udcff"])
def test_parse_uri__half_of_a_surrogate_pair__is_refused(uri):
    with pytest.raises(InvalidInputError, match="surrogate"):
        parse_uri(uri)


def test_parse_uri__directory_whose_name_is_not_utf8__is_a_place(tmp_path):
    assert open_store(f"{tmp_path}/\udcff").uri == f"file://{tmp_path}/\udcff"
