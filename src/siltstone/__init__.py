"""siltstone keeps tables on object storage: many writers, one history, no server, no lost row."""

from __future__ import annotations

import importlib as _importlib
import sys as _sys
import types as _types
import typing as _typing

from siltstone import errors
from siltstone._version import __version__

if _typing.TYPE_CHECKING:
    from siltstone import query, spark
    from siltstone.api import Table
    from siltstone.api import create_table as create
    from siltstone.api import drop_table as drop
    from siltstone.api import open_table as open  # noqa: A004 - siltstone.open reads well, and nobody imports it bare
    from siltstone.check import check_store
    from siltstone.commit.connect import open_registry as open_commits
    from siltstone.log import Entry, Log, Mark, open_log
    from siltstone.retain.gc import Collected
    from siltstone.shard.config import ShardWriterConfig
    from siltstone.shard.writer import ShardWriter
    from siltstone.store.connect import open_store
    from siltstone.table.checkpoints import Checkpoint
    from siltstone.verify.inspect import verify
    from siltstone.verify.repair import repair

__all__ = [
    "Checkpoint",
    "Collected",
    "Entry",
    "Log",
    "Mark",
    "ShardWriter",
    "ShardWriterConfig",
    "Table",
    "__version__",
    "check_store",
    "create",
    "drop",
    "errors",
    "open",
    "open_commits",
    "open_log",
    "open_store",
    "query",
    "repair",
    "spark",
    "verify",
]

# Each comes with what it needs when it is first used: tables bring Arrow with them, which takes longer to load than all
# the rest, logs bring stores, and a command line that only says its help needs neither.
_PLACES = {
    "Checkpoint": ("siltstone.table.checkpoints", "Checkpoint"),
    "Collected": ("siltstone.retain.gc", "Collected"),
    "Entry": ("siltstone.log", "Entry"),
    "Log": ("siltstone.log", "Log"),
    "Mark": ("siltstone.log", "Mark"),
    "ShardWriter": ("siltstone.shard.writer", "ShardWriter"),
    "ShardWriterConfig": ("siltstone.shard.config", "ShardWriterConfig"),
    "Table": ("siltstone.api", "Table"),
    "check_store": ("siltstone.check", "check_store"),
    "create": ("siltstone.api", "create_table"),
    "drop": ("siltstone.api", "drop_table"),
    "open": ("siltstone.api", "open_table"),
    "open_commits": ("siltstone.commit.connect", "open_registry"),
    "open_log": ("siltstone.log", "open_log"),
    "open_store": ("siltstone.store.connect", "open_store"),
    "repair": ("siltstone.verify", "repair"),
    "verify": ("siltstone.verify", "verify"),
}


def __getattr__(name: str) -> _typing.Any:
    if name in {"query", "spark"}:
        return _importlib.import_module(f"siltstone.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'siltstone' has no attribute {name!r}")
    module, called = _PLACES[name]
    found = getattr(_importlib.import_module(module), called)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__


class _Package(_types.ModuleType):
    """A package whose functions are not covered by its own packages of the same names: ``verify`` is one."""

    def __setattr__(self, name: str, value: object) -> None:
        # The import system sets each module it loaded here.
        if name not in _PLACES or not isinstance(value, _types.ModuleType):
            super().__setattr__(name, value)


_sys.modules[__name__].__class__ = _Package
