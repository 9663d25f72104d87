"""What the operations of a table work with: its store, and readers that remember what they read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.table.files import Files
from siltstone.table.vectors import Vectors

if TYPE_CHECKING:
    from siltstone.env import Env
    from siltstone.store.base import Store
    from siltstone.table.files import OpensFiles
    from siltstone.table.vectors import ReadsVectors


@dataclass(frozen=True)
class Tools:
    """One per handle; threads may share it."""

    store: Store
    env: Env
    files: OpensFiles
    vectors: ReadsVectors


def make_tools(store: Store, env: Env) -> Tools:
    """Tools for the table at a store's root."""
    return Tools(store, env, Files(store), Vectors(store))
