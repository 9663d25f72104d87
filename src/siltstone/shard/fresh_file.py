"""Fragments of shards whose rows were decoded before, by this handle, and are read again.

Until they are merged, every fresh scan reads them all.

What must hold:
- Reading gives what the file itself gives. A column is kept by its whole record, so that one of another name, type or
  default is another column.
- What is kept is bounded in bytes, and a fragment that would take much of it is read from its file each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from siltstone.table.reading import chosen_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from siltstone.format.table import Bounds, Field, Fragment
    from siltstone.shard.kept import Kept
    from siltstone.table.files import FileLike, Group


class KeptFile:
    """A file whose decoded columns are kept, each as a table of its own. Safe to share between threads."""

    source = None  # whoever reads the file's own bytes would decode them again

    def __init__(self, file: FileLike, kept: Kept[pa.Table]) -> None:
        self._file = file
        self._kept = kept

    @property
    def fragment(self) -> Fragment:
        """Its record."""
        return self._file.fragment

    @property
    def groups(self) -> tuple[Group, ...]:
        """Its row groups, in order."""
        return self._file.groups

    @property
    def nbytes(self) -> int:
        """What is kept of the file itself, estimated."""
        return self._file.nbytes

    def read(self, group: int, fields: Sequence[Field], *, threads: bool = False) -> pa.Table:
        """Some columns of a whole row group; those that are not kept are decoded, and are from then on."""
        if not fields:
            return self._file.read(group, fields, threads=threads)
        name = self.fragment.name
        found = {one: self._kept.get((name, group, one)) for one in fields}
        missing = [one for one, column in found.items() if column is None]
        if missing:
            table = self._file.read(group, missing, threads=threads)
            for place, one in enumerate(missing):
                found[one] = column = table.select([place])
                self._kept.put((name, group, one), column, column.get_total_buffer_size())
        columns = [column.column(0) for column in found.values() if column is not None]
        return pa.Table.from_arrays(columns, schema=chosen_schema(fields))

    def take(self, rows: np.ndarray, fields: Sequence[Field]) -> pa.Table:
        """Some columns of some rows, whose numbers are distinct and in order."""
        return self._file.take(rows, fields)

    def find(self, keys: pa.Array, field: Field) -> tuple[np.ndarray, np.ndarray]:
        """The rows whose value is one of some distinct keys, in order, and the place of each one's key in ``keys``."""
        return self._file.find(keys, field)

    def lookup(self, keys: pa.Array, field: Field, fields: Sequence[Field]) -> tuple[np.ndarray, np.ndarray, pa.Table]:
        """What ``find`` gives, and some columns of these rows."""
        return self._file.lookup(keys, field, fields)

    def group_bounds(self, group: int, field: Field) -> Bounds | None:
        """The bounds of a column in a row group, as the file has them."""
        return self._file.group_bounds(group, field)

    def page_bounds(self, group: int, field: Field) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """The bounds of a column in the pages of a row group, as the file has them."""
        return self._file.page_bounds(group, field)

    def __repr__(self) -> str:
        return f"KeptFile({self.fragment.name}, {self.fragment.rows} rows)"
