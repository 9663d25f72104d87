"""The handle a user holds, and how to get one."""

from siltstone.api.clones import drop_table
from siltstone.api.opening import create_table, open_table
from siltstone.api.table import Table

__all__ = ["Table", "create_table", "drop_table", "open_table"]
