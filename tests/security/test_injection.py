"""Names and values that are text of another language to a commit store: each is only data there."""

from __future__ import annotations

import pytest

from siltstone.commit.connect import open_registry
from siltstone.errors import InvalidInputError
from siltstone.ids import SystemIds
from siltstone.testing.registry_suite import chain

pytestmark = pytest.mark.services

KINDS = ("sqlite", "postgresql", "mysql", "redis", "etcd", "dynamodb")
# SQL, Redis' protocol and scripts, etcd's ranges, DynamoDB's expressions, formats of Python and of drivers.
PAYLOADS = [
    *("'; DROP TABLE siltstone_claims; --", "' OR '1'='1", '" OR ""="', "`; DROP TABLE x; #", "x'); DELETE FROM x; --"),
    *("\\'; --", "'/**/UNION/**/SELECT/**/1--", "1; SELECT pg_sleep(9)", "' AND SLEEP(9)='", "$$; DROP TABLE x; $$"),
    *("E'\\x27'", "%s", "%(x)s", "%%", "$1", "?", ":scope", "{0}", "{scope}", "${jndi:ldap://x}", "'||(SELECT 1)||'"),
    *("\r\nFLUSHALL\r\n", "*1\r\n$8\r\nFLUSHALL\r\n", "redis.call('FLUSHALL')", "x\" ..redis.call('KEYS','*')"),
    *("../../identity", "claim/", "\x01", "\x7f", "#scope", "attribute_exists(scope)", '{"S": "x"}', "\u2019 OR 1=1"),
]
NAMED = {"sqlite": "table", "postgresql": "table", "mysql": "table", "redis": "namespace", "etcd": "prefix"}


def test_payloads__counted__are_at_least_thirty():
    assert len(set(PAYLOADS)) >= 30


@pytest.fixture(params=KINDS)
def place(request, places):
    """The URI of a commit store, and the option that names a part of it."""
    return places.commits_uri(request.param), request.param


def test_claim__payloads_as_scopes_and_values__come_back_and_change_nothing_else(place):
    uri, _ = place
    fresh = SystemIds().new()
    with open_registry(uri) as registry:
        identity = registry.identity()
        [neighbour] = chain(f"neighbour-{fresh}", 1)
        assert registry.claim(neighbour) == neighbour
        claims = [
            type(claim)(f"{payload}{fresh}", 0, claim.digest, "", payload)
            for payload in PAYLOADS
            for claim in chain(payload, 1)
        ]
        assert [registry.claim(claim) for claim in claims] == claims
        assert [registry.lookup(claim.scope, 0) for claim in claims] == claims
        assert [registry.newest(claim.scope) for claim in claims] == claims
        for claim in claims[::2]:
            registry.truncate(claim.scope, below=1, digest=claim.digest)
        assert [registry.lookup(claim.scope, 0) for claim in claims[1::2]] == claims[1::2]
        assert registry.lookup(neighbour.scope, 0) == neighbour
        assert registry.identity() == identity


def test_open__payloads_as_the_name_of_its_part__are_refused_or_only_a_name(place):
    uri, kind = place
    with open_registry(uri) as registry:
        identity = registry.identity()
        [neighbour] = chain(f"kept-{SystemIds().new()}", 1)
        registry.claim(neighbour)
        for payload in PAYLOADS:
            if kind not in {"redis", "etcd"}:
                with pytest.raises(InvalidInputError):
                    open_registry(uri, **{NAMED.get(kind, "table"): payload})
                continue
            with open_registry(uri, **{NAMED[kind]: payload}) as other:
                assert other.lookup(neighbour.scope, 0) is None
                assert other.identity() != identity
        assert registry.lookup(neighbour.scope, 0) == neighbour
        assert registry.identity() == identity


@pytest.mark.parametrize("payload", PAYLOADS, ids=ascii)
@pytest.mark.parametrize("kind", ["sqlite:///nowhere/x.db", "postgresql://u@127.0.0.1/d", "mysql://u@127.0.0.1/d"])
def test_open__payload_as_a_table__is_refused_before_anything_is_sent(kind, payload):
    with pytest.raises(InvalidInputError):
        open_registry(kind, table=payload)


@pytest.mark.parametrize("payload", PAYLOADS, ids=ascii)
def test_open__payload_as_a_dynamodb_table__is_refused_before_anything_is_sent(payload):
    with pytest.raises(InvalidInputError):
        open_registry(f"dynamodb://{payload}?region=x")
