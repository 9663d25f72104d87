"""siltstone keeps tables on object storage: many writers, one history, no server, no lost row."""

from __future__ import annotations

import importlib as _importlib
import typing as _typing

from siltstone import errors
from siltstone._version import __version__
from siltstone.check import check_store
from siltstone.commit.connect import open_registry as open_commits
from siltstone.log import Entry, Log, Mark, open_log
from siltstone.store.connect import open_store
from siltstone.verify import repair, verify

if _typing.TYPE_CHECKING:
    from siltstone import spark
    from siltstone.api import Table
    from siltstone.api import create_table as create
    from siltstone.api import open_table as open  # noqa: A004 - siltstone.open reads well, and nobody imports it bare
    from siltstone.shard.config import ShardWriterConfig
    from siltstone.shard.writer import ShardWriter

__all__ = [
    "Entry",
    "Log",
    "Mark",
    "ShardWriter",
    "ShardWriterConfig",
    "Table",
    "__version__",
    "check_store",
    "create",
    "errors",
    "open",
    "open_commits",
    "open_log",
    "open_store",
    "repair",
    "spark",
    "verify",
]

# Tables bring Arrow with them, which takes longer to load than all the rest: whoever works with logs alone never waits.
_TABLES = {
    "ShardWriter": ("siltstone.shard.writer", "ShardWriter"),
    "ShardWriterConfig": ("siltstone.shard.config", "ShardWriterConfig"),
    "Table": ("siltstone.api", "Table"),
    "create": ("siltstone.api", "create_table"),
    "open": ("siltstone.api", "open_table"),
}


def __getattr__(name: str) -> _typing.Any:
    if name == "spark":
        return _importlib.import_module("siltstone.spark")
    if name not in _TABLES:
        raise AttributeError(f"module 'siltstone' has no attribute {name!r}")
    module, called = _TABLES[name]
    found = getattr(_importlib.import_module(module), called)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
