"""Stores and commit stores by name, each test with a root of its own. What a name needs is started when asked for."""

from __future__ import annotations

import contextlib
import uuid
from typing import NamedTuple

from siltstone.commit.connect import open_registry
from siltstone.store.connect import open_store
from siltstone.testing.s3server import Faults, FaultServer

STORES = ("memory", "file", "faulty", "seaweedfs", "ministack", "azurite")
REGISTRIES = ("memory", "sqlite", "postgresql", "mysql", "redis", "etcd", "dynamodb")
SERVICE_OF = {"postgresql": "postgresql", "mysql": "mariadb", "redis": "redis", "etcd": "etcd", "dynamodb": "ministack"}


class StorePlace(NamedTuple):
    """Where a store is, in words that another process understands too."""

    uri: str
    options: dict[str, str]

    def open(self, **changes):
        return open_store(self.uri, {**self.options, **changes} or None)


class Places:
    """Finds or starts what a test names; the fault servers it starts live as long as it does."""

    def __init__(self, services, directory):
        self._services = services
        self._directory = directory
        self._stack = contextlib.ExitStack()
        self._honest = None

    def store(self, name: str) -> StorePlace:
        """A root that nobody used before."""
        fresh = uuid.uuid4().hex[:12]
        if name == "memory":
            return StorePlace(f"memory://{fresh}", {})
        if name == "file":
            return StorePlace(str(self._directory / fresh), {})
        if name == "file-nosync":
            return StorePlace(str(self._directory / fresh), {"sync": "false"})
        if name == "faulty":
            if self._honest is None:
                self._honest = self.fault_server()
            return StorePlace(f"s3://bkt/{fresh}", self._honest.storage_options)
        service = self._services(name)
        return StorePlace(f"{service.bucket_uri}/{fresh}", service.storage_options)

    def fault_server(self, faults: Faults | None = None) -> FaultServer:
        """A server of the test's own, in a process of its own."""
        return self._stack.enter_context(FaultServer(faults))

    @property
    def honest(self) -> FaultServer:
        """The fault server behind the store "faulty"."""
        assert self._honest is not None
        return self._honest

    def commits_uri(self, name: str) -> str:
        """The URI of a commit store, without credentials: those are in the environment."""
        if name == "memory":
            return f"memory://{uuid.uuid4().hex[:12]}"
        if name == "sqlite":
            return f"sqlite://{self._directory}/{uuid.uuid4().hex[:12]}.db"
        uri = self._services(SERVICE_OF[name]).commits_uri
        return f"{uri}&create=true" if name == "dynamodb" else uri

    def registry(self, name: str):
        return self._stack.enter_context(contextlib.closing(open_registry(self.commits_uri(name))))

    def close(self) -> None:
        self._stack.close()
