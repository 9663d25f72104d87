"""A table that says where else its rows are: nobody opens what it has no business to name."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest

import siltstone as ss
from bad_tables import QUICK, check_told, keys
from security.forged import forge
from siltstone.api import create_table, open_table
from siltstone.commit.registry import Claim
from siltstone.errors import (
    CorruptionError,
    InvalidInputError,
    MissingObjectError,
    PermissionDeniedError,
    SiltstoneError,
)
from siltstone.store.connect import open_store
from siltstone.store.memory import MemoryStore
from siltstone.table.origins import Others
from siltstone.testing.hostile import HOSTILE_KEYS

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
TEXTS = [key for key in HOSTILE_KEYS if isinstance(key, str)]
OTHER_BUCKETS = {"s3://other/x", "az://x/y"}  # a table may be cloned from there; it is asked for its log's id first
OPENED: list[str] = []
_watching: list[bool] = []


def watch(event, arguments):
    if _watching and event in {"open", "os.listdir", "os.scandir"}:
        OPENED.append(str(arguments[0]))


@pytest.fixture
def opened():
    """The files that are opened or listed meanwhile."""
    if not hasattr(sys, "_siltstone_watched"):
        sys.addaudithook(watch)
        sys._siltstone_watched = True
    OPENED.clear()
    _watching.append(True)
    yield OPENED
    _watching.clear()


@pytest.fixture
def clone(tmp_path):
    """A table whose rows are in another one, both on disk."""
    parent = create_table(tmp_path / "parent", schema=SCHEMA, env=QUICK)
    parent.append([{"id": 1, "v": "secret"}])
    made = parent.clone(tmp_path / "clone")
    assert made.count() == 1
    return made


@pytest.mark.parametrize("text", sorted({*TEXTS} - OTHER_BUCKETS), ids=lambda text: ascii(text)[:30])
def test_open__origin_at_a_hostile_place__is_refused_and_no_file_is_opened(text, opened, tmp_path):
    opens = Others(f"file://{tmp_path}/table")
    opened.clear()
    with pytest.raises((PermissionDeniedError, InvalidInputError)) as caught:
        opens(text, 1)
    check_told(caught.value, hint=False)
    assert [one for one in opened if not one.endswith((".py", ".pyc"))] == []


def test_open__origin_is_another_table_than_was_cloned__is_refused_and_none_of_its_rows_are_read(clone, tmp_path):
    other = create_table(tmp_path / "private", schema=SCHEMA, env=QUICK)
    other.append([{"id": 7, "v": "private"}])
    parent, private = f"file://{tmp_path}/parent", f"file://{tmp_path}/private"
    forge(open_store(clone.uri), lambda _, text: text.replace(parent.encode(), private.encode()))
    with pytest.raises(MissingObjectError, match="is not it"):
        open_table(clone.uri, env=QUICK)
    assert open_table(clone.uri, env=QUICK, origins={1: parent}).count() == 1, "only the place was wrong"


@pytest.mark.parametrize("place", ["{}/sub/../parent", "{}//parent", "{}/./parent", "{}/parent/"])
def test_open__origin_in_a_spelling_that_no_store_has__is_refused(clone, tmp_path, place):
    with pytest.raises(PermissionDeniedError, match="origins="):
        Others(clone.uri)(f"file://{place.format(tmp_path)}", 1)


@pytest.mark.parametrize("home", ["s3://bucket/table", "gs://bucket/table", "az://container/table"])
@pytest.mark.parametrize("place", ["file:///etc", "memory://other"])
def test_open__table_in_a_bucket_names_files_of_the_reader__is_refused_unless_the_user_says_so(home, place):
    with pytest.raises(PermissionDeniedError, match="origins="):
        Others(home)(place, 1)
    assert Others(home, None, {place: place})(place, 1).uri == place
    assert Others(home, None, {"1": MemoryStore("mine")})(place, 1).uri == "memory://mine"


def test_open__table_in_a_bucket_names_another_bucket__is_not_given_its_credentials():
    secret = {"aws_access_key_id": "x", "aws_secret_access_key": "canary-0a1b", "aws_region": "us-east-1"}
    opens = Others("s3://mine/table", secret)
    assert opens.options_for("s3://mine/parent") == secret
    assert opens.options_for("s3://other/parent") is None
    assert "canary" not in repr(opens)


def test_read__commit_store_names_hostile_staged_bytes__is_corrupt_and_nothing_else_is_read(tmp_path):
    registry = ss.open_commits(f"sqlite://{tmp_path}/claims.db")
    table = create_table(tmp_path / "t", schema=SCHEMA, commits=registry, env=QUICK)
    (tmp_path / "t" / "secret").write_bytes(b"secret")
    identity = table._log.identity.log
    entry = registry.newest(identity)
    for number, text in enumerate(text for text in TEXTS if text and "\0" not in text and text.isprintable()):
        position = entry.position + 1
        place = f"{identity}-{number}"
        registry.restore(Claim(place, position, "ab" * 32, entry.digest, text[:1000]))
        found = registry.lookup(place, position)
        assert found is not None
        assert found.value == text[:1000], "a commit store keeps any text"
    registry.restore(Claim(identity, entry.position + 1, "ab" * 32, entry.digest, "../../secret"))
    store = open_store(tmp_path / "t")
    before = keys(store, "")
    with pytest.raises(SiltstoneError) as caught:
        table.append([{"id": 1, "v": "x"}])
    check_told(caught.value, hint=False)
    assert isinstance(caught.value, CorruptionError)
    assert [key for key in keys(store, "") if key not in before and not key.startswith(("data/", "log/staged/"))] == []
