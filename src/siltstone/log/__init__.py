"""The log: the one mechanism that table versions, shard manifests and WALs share."""

from siltstone.log.log import Log
from siltstone.log.marks import Entry, Mark
from siltstone.log.open import open_beside, open_log
from siltstone.log.truncate import Truncation

__all__ = ["Entry", "Log", "Mark", "Truncation", "open_beside", "open_log"]
