"""Tables on Spark: executors read and write, the driver commits once.

What must hold:
- Importing this package imports no pyspark; the first use of a name does.
- A name of this list is the function, also where a module has the same name and was imported first.
"""

from __future__ import annotations

import importlib as _importlib
import sys as _sys
import types as _types
import typing as _typing

from siltstone.errors import MissingDependencyError as _MissingDependencyError

if _typing.TYPE_CHECKING:
    from siltstone.spark.compact import compact
    from siltstone.spark.ingest import ingest
    from siltstone.spark.merge import merge_shards
    from siltstone.spark.read import read
    from siltstone.spark.rows import delete, update
    from siltstone.spark.session import session
    from siltstone.spark.text import build_text_index, optimize_text_index
    from siltstone.spark.text_search import register_search, search
    from siltstone.spark.upsert import upsert
    from siltstone.spark.write import append, overwrite

__all__ = [
    "append",
    "build_text_index",
    "compact",
    "delete",
    "ingest",
    "merge_shards",
    "optimize_text_index",
    "overwrite",
    "read",
    "register_search",
    "search",
    "session",
    "update",
    "upsert",
]

_PYSPARK_MIN = (4, 3)
_HINT = "pip install 'siltstone[spark]'"
_MODULES = {
    "append": "write",
    "build_text_index": "text",
    "compact": "compact",
    "delete": "rows",
    "ingest": "ingest",
    "merge_shards": "merge",
    "optimize_text_index": "text",
    "overwrite": "write",
    "read": "read",
    "register_search": "text_search",
    "search": "text_search",
    "session": "session",
    "update": "rows",
    "upsert": "upsert",
}


class _Package(_types.ModuleType):
    """A package whose functions are not covered by its own modules of the same names."""

    def __setattr__(self, name: str, value: object) -> None:
        # The import system sets each module it loaded here, `session` the module in place of `session` the function.
        if name not in _MODULES or not isinstance(value, _types.ModuleType):
            super().__setattr__(name, value)


_sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> _typing.Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'siltstone.spark' has no attribute {name!r}")
    _need_pyspark()
    found = getattr(_importlib.import_module(f"siltstone.spark.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__


def _need_pyspark() -> None:
    try:
        version = _importlib.import_module("pyspark").__version__
    except ImportError as error:
        raise _MissingDependencyError(
            f"pyspark can't be imported: {error}", hint="pip install 'siltstone[spark]'"
        ) from error
    if tuple(int(part) for part in version.split(".")[:2]) < _PYSPARK_MIN:
        raise _MissingDependencyError(
            f"pyspark {version} is installed, and siltstone needs {'.'.join(map(str, _PYSPARK_MIN))} or newer",
            hint=_HINT,
        )
