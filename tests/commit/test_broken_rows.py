"""What a commit store keeps, changed by someone else: a clear error, never a claim that was not made."""

from __future__ import annotations

import random
import sqlite3

import pytest
import redis

from siltstone.commit.checks import parse_row, stored_claim
from siltstone.commit.connect import open_registry
from siltstone.commit.registry import Claim
from siltstone.errors import CorruptionError

CLAIM = Claim("scope", 0, "a" * 64, "b" * 64, "staged/00000000000000000000-" + "c" * 32)
ROW = f"{CLAIM.digest}:{CLAIM.parent}:{CLAIM.value}".encode()


def mutated(rng: random.Random, row: bytes) -> bytes:
    data = bytearray(row)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) or 1)
        match rng.randrange(4):
            case 0:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del data[at : at + rng.randint(1, 30)]
            case 2:
                data[at:at] = rng.randbytes(rng.randint(1, 20))
            case _:
                data += b"x" * rng.choice([1, 2000])
    return bytes(data)


def test_parse_row__whole__is_the_claim():
    assert parse_row("scope", 0, ROW) == CLAIM


def test_parse_row__2000_mutations__are_refused_or_well_formed():
    rng = random.Random(7)
    refused = 0
    for _ in range(2000):
        row = mutated(rng, ROW)
        try:
            claim = parse_row("scope", 0, row)
        except CorruptionError:
            refused += 1
        else:
            assert f"{claim.digest}:{claim.parent}:{claim.value}" == row.decode("utf-8", "replace")
    assert refused > 1000


@pytest.mark.parametrize("length", range(len(ROW)))
def test_parse_row__cut_anywhere__is_no_other_digest(length):
    try:
        claim = parse_row("scope", 0, ROW[:length])
    except CorruptionError:
        return
    assert claim.digest == CLAIM.digest
    assert claim.value != CLAIM.value  # `value` has no end mark: what it names is then not there


@pytest.mark.parametrize(("digest", "parent", "value"), [(None, "", ""), (5, "", ""), ("", b"", ""), ("", "", None)])
def test_stored_claim__other_types__are_refused(digest, parent, value):
    with pytest.raises(CorruptionError):
        stored_claim("scope", 0, digest, parent, value)


@pytest.mark.parametrize("column", ["digest", "parent"])
def test_lookup__row_changed_by_hand__is_corruption(tmp_path, column):
    registry = open_registry(f"sqlite:///{tmp_path}/claims.db")
    assert registry.claim(CLAIM) == CLAIM
    with sqlite3.connect(f"{tmp_path}/claims.db") as database:
        database.execute(f"UPDATE siltstone_claims SET {column} = 'zz' WHERE scope = 'scope' AND position = 0")
    with pytest.raises(CorruptionError, match="not a claim"):
        registry.lookup("scope", 0)


def test_lookup__redis_row_changed_by_hand__is_corruption(redis_server):
    registry = open_registry(f"{redis_server.commits_uri}?namespace=broken")
    assert registry.claim(CLAIM) == CLAIM
    client = redis.Redis.from_url(redis_server.commits_uri)
    [key] = client.keys("siltstone:6:broken:*scope")
    client.hset(key, b"%019d" % 0, b"\xff\xfe:::")
    with pytest.raises(CorruptionError, match="not a claim"):
        registry.lookup("scope", 0)
    client.close()
