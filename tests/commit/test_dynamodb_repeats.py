"""The DynamoDB driver sends a request once: what was lost and what was refused are told apart by whoever calls."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from siltstone.commit.base import Place
from siltstone.commit.connect import open_registry
from siltstone.commit.external import External
from siltstone.env import Env
from siltstone.errors import CommitUnknownError, PermissionDeniedError, UnavailableError
from siltstone.store.memory import MemoryStore
from siltstone.testing.registry_suite import chain

LOST = (500, "com.amazonaws.dynamodb.v20120810#InternalServerError")
EXPIRED = (400, "com.amazon.coral.service#ExpiredTokenException")


class Server(ThreadingHTTPServer):
    """Answers each request with the next of its answers, and with the last one for ever."""

    daemon_threads = True

    def __init__(self, *answers):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = list(answers)
        self.asked = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append(self.headers["x-amz-target"].partition(".")[2])
        answers = self.server.answers
        status, kind = answers.pop(0) if len(answers) > 1 else answers[0]
        body = json.dumps({"__type": kind, "message": "as the test says"}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/x-amz-json-1.0")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def serve(monkeypatch):
    """A registry on a server with given answers; the environment asks the driver for repeats."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "5")
    running = []

    def start(*answers):
        server = Server(*answers)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        uri = f"dynamodb://claims?region=us-east-1&endpoint=http://127.0.0.1:{server.server_address[1]}"
        registry = open_registry(uri, aws_access_key_id="key", aws_secret_access_key="secret")
        running.append((server, thread, registry))
        return server, registry

    yield start
    for server, thread, registry in running:
        registry.close()
        server.shutdown()
        thread.join(30)
        server.server_close()


def test_claim__answer_lost_then_denied__no_answer_is_not_reported_as_denied(serve):
    server, registry = serve(LOST, EXPIRED)
    with pytest.raises(UnavailableError):
        registry.claim(chain("lost", 1)[0])
    assert server.asked == ["TransactWriteItems"]
    with pytest.raises(PermissionDeniedError):
        registry.claim(chain("lost", 1)[0])


def test_decide__answer_lost_then_denied__unknown_and_not_denied(serve):
    _, registry = serve(LOST, EXPIRED)
    commits = External(MemoryStore(), registry, publish="create", env=Env(patience_s=1))
    with pytest.raises(CommitUnknownError):
        commits.decide(Place("entries/0", "scope"), b"bytes")
