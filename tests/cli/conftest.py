"""The command line, called as a function or as a process."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from siltstone.api import create_table
from siltstone.cli import main
from siltstone.testing.s3server import Faults, FaultServer
from sources import ROOT


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[Any]:
        """Of JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> tuple[int, str]:
        """Code and kind of a refusal in JSON."""
        return self.code, self.json["error"]["kind"]


@pytest.fixture
def cli(capsys, monkeypatch):
    """``cli("verify", uri)`` in this process."""

    def call(*argv: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        capsys.readouterr()
        code = main([str(word) for word in argv])
        said = capsys.readouterr()
        return Result(code, said.out, said.err)

    return call


@pytest.fixture
def process():
    """``process("verify", uri)`` in a process of its own."""

    def call(*argv: object, stdin: bytes = b"", **environment: str) -> Result:
        done = subprocess.run(
            [sys.executable, "-m", "siltstone", *map(str, argv)],
            input=stdin,
            capture_output=True,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")} | environment,
            timeout=240,  # a busy machine starts Python slowly
            check=False,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    return call


class Server(NamedTuple):
    """A fault server and how to reach it from a command line."""

    server: FaultServer
    uri: str

    @property
    def options(self) -> dict[str, str]:
        return self.server.storage_options

    @property
    def words(self) -> list[str]:
        return [word for name, value in self.options.items() for word in ("--storage-option", f"{name}={value}")]


@pytest.fixture
def s3():
    with FaultServer(in_thread=True) as server:
        yield Server(server, "s3://bkt/log")


@pytest.fixture
def lying():
    with FaultServer(Faults(lie="always"), in_thread=True) as server:
        yield Server(server, "s3://bkt/log")


@pytest.fixture
def reviews(tmp_path):
    """A keyed table of three rows, at version 1."""
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("lang", pa.string()),
            pa.field("stars", pa.int32()),
            pa.field("at", pa.timestamp("us", "UTC")),
        ]
    )
    moment = datetime(2026, 11, 14, 9, 30, tzinfo=UTC)
    with create_table(tmp_path / "reviews", schema=schema, key="id") as table:
        table.append(
            [
                {"id": 1, "lang": "en", "stars": 5, "at": moment},
                {"id": 2, "lang": None, "stars": 3, "at": None},
                {"id": 3, "lang": "de", "stars": 1, "at": moment},
            ]
        )
    return tmp_path / "reviews"


EVENTS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


@pytest.fixture
def events(tmp_path):
    """A keyed table of two shards, at version 0."""
    create_table(tmp_path / "events", schema=EVENTS, key="id", shards=2).close()
    return tmp_path / "events"


@pytest.fixture
def lines(tmp_path):
    """A table without a key, of the same columns."""
    create_table(tmp_path / "lines", schema=EVENTS).close()
    return tmp_path / "lines"


@pytest.fixture
def process_bytes():
    """As ``process``, with what it printed as bytes."""

    def call(*argv: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "siltstone", *map(str, argv)],
            capture_output=True,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
            timeout=240,
            check=False,
        )

    return call
