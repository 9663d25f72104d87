"""siltstone keeps tables on object storage: many writers, one history, no server, no lost row."""

from siltstone import errors
from siltstone._version import __version__
from siltstone.api import Table
from siltstone.api import create_table as create
from siltstone.api import open_table as open  # noqa: A004 - siltstone.open reads well, and nobody imports it bare
from siltstone.check import check_store
from siltstone.commit.connect import open_registry as open_commits
from siltstone.log import Entry, Log, Mark, open_log
from siltstone.store.connect import open_store
from siltstone.verify import repair, verify

__all__ = [
    "Entry",
    "Log",
    "Mark",
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
    "verify",
]
