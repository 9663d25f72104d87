"""The handle a user holds, and how to get one."""

from siltstone.api.opening import create_table, open_table
from siltstone.api.table import Table

__all__ = ["Table", "create_table", "open_table"]
