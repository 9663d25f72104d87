"""siltstone keeps tables on object storage: many writers, one history, no server, no lost row."""

from siltstone import errors
from siltstone.commit.connect import open_registry as open_commits
from siltstone.log import Entry, Log, Mark, open_log
from siltstone.store.connect import open_store
from siltstone.store.probe import probe

__version__ = "0.1.0"

__all__ = ["Entry", "Log", "Mark", "__version__", "errors", "open_commits", "open_log", "open_store", "probe"]
