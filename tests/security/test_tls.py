"""Commit stores on other machines: through TLS that was verified, or not at all; and the error says what to do."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

import pytest

from security.tls_servers import OTHER, RIGHT, SERVERS, make_certificates, start
from services import HOST
from siltstone.commit.connect import open_registry
from siltstone.errors import InvalidInputError, PermissionDeniedError, UnavailableError
from siltstone.testing.registry_suite import chain

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory)
    directory.chmod(0o755)
    return directory


@pytest.fixture(scope="module", params=SERVERS)
def server(request, certificates):
    with contextlib.closing(start(request.param, certificates)) as started:
        yield started


def refused(uri, *kinds, **options):
    kinds = kinds or (PermissionDeniedError, InvalidInputError)
    with open_registry(uri, **{"timeout_s": 5.0, **options}) as registry, pytest.raises(kinds) as caught:
        registry.identity()
    assert caught.value.hint
    return str(caught.value)


def test_open__authority_and_host_are_right__claims(server, certificates):
    with open_registry(server.uri(RIGHT), ca_file=str(certificates / "ca.crt")) as registry:
        [claim] = chain("tls", 1)
        assert registry.claim(claim) == claim
        assert registry.lookup(claim.scope, 0) == claim


def test_open__certificate_is_of_another_authority__is_refused_and_says_how_to_trust_one(server, certificates):
    assert "ca_file=" in refused(server.uri(RIGHT), ca_file=str(certificates / "wrong.crt"))


def test_open__authority_is_none_that_the_system_trusts__is_refused_and_says_how_to_trust_one(
    server, monkeypatch, tmp_path
):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "ca_file=" in refused(server.uri(RIGHT))


def test_open__certificate_is_of_another_host__is_refused_and_says_so(server, certificates):
    told = refused(server.uri(OTHER), ca_file=str(certificates / "ca.crt"))
    assert "host name" in told
    assert OTHER in told


def test_open__no_such_file_of_authorities__is_invalid_and_names_it(server, tmp_path):
    told = refused(server.uri(RIGHT), ca_file=str(tmp_path / "absent.crt"))
    assert "absent.crt" in told
    (tmp_path / "empty.crt").write_text("nothing")
    assert "empty.crt" in refused(server.uri(RIGHT), ca_file=str(tmp_path / "empty.crt"))


def test_open__insecure_was_asked_for__connects_to_any(server):
    with open_registry(server.uri(OTHER), insecure=True) as registry:
        assert registry.identity()


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "redis_server", "etcd"])
def test_open__server_without_tls_on_another_machine__is_refused_and_says_so(request, kind, certificates):
    server = request.getfixturevalue(kind)
    uri = server.commits_uri.replace(HOST, RIGHT).replace("redis:", "rediss:").replace("etcd:", "etcds:")
    # Redis and etcd only fall silent or hang up, as a broken network does: that may be tried again.
    told = refused(uri, PermissionDeniedError, UnavailableError, ca_file=str(certificates / "ca.crt"), timeout_s=1.0)
    assert "TLS" in told
    assert "insecure=True" in told


@pytest.mark.parametrize("uri", [f"redis://{RIGHT}", f"etcd://{RIGHT}", f"dynamodb://claims?endpoint=http://{RIGHT}"])
def test_open__plain_scheme_to_another_machine__is_refused_before_anything_is_sent(uri):
    with pytest.raises(InvalidInputError, match="insecure=True"):
        open_registry(uri)


def test_open__server_hangs_up_at_once__says_that_it_may_speak_no_tls(certificates):
    with socket.create_server((HOST, 0)) as listener:
        thread = threading.Thread(target=hang_up, args=(listener,), daemon=True)
        thread.start()
        uri = f"etcds://{RIGHT}:{listener.getsockname()[1]}"
        told = refused(uri, UnavailableError, ca_file=str(certificates / "ca.crt"), timeout_s=1.0)
    assert "TLS" in told
    assert "insecure=True" in told


def hang_up(listener):
    """Reset every connection: what was sent is not read."""
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
