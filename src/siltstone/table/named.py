"""Names of objects in the columns that fragments are: whose they are, and what another table calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from siltstone import paths
from siltstone.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Mapping

COLUMNS = ("name", "vector")


def own_names(columns: pa.Table) -> list[str]:
    """Of objects that are in the table's own store."""
    found: list[str] = []
    for column in COLUMNS:
        names = pc.drop_null(columns.column(column))
        found += names.filter(pc.equal(pc.binary_length(names), paths.NAME_LENGTH)).to_pylist()
    return found


def origins_in(columns: pa.Table) -> frozenset[int]:
    """The numbers of the tables whose objects are named; 0 is the table itself."""
    found: set[int] = set()
    for column in COLUMNS:
        names = columns.column(column)
        if _are_own(names):
            found |= {0} if len(names) > names.null_count else set()
        else:
            found |= {paths.origin_of(tail) for tail in pc.unique(_tails(names)).drop_null().to_pylist()}
    return frozenset(found)


def renumbered(columns: pa.Table, numbers: Mapping[int, int]) -> pa.Table:
    """The same objects, as a table calls them that has other numbers: ``numbers`` gives them, by those in here."""
    for at, field in enumerate(columns.schema):
        if field.name not in COLUMNS:
            continue
        names = columns.column(at)
        anew = _with_end(names, paths.foreign("", numbers[0])) if _are_own(names) else _with_ends(names, numbers)
        if anew.null_count != names.null_count:
            raise InternalError(f"objects are named of tables that have no number; there are {sorted(numbers)}")
        columns = columns.set_column(at, field, anew)
    return columns


def _with_ends(names: pa.ChunkedArray, numbers: Mapping[int, int]) -> pa.ChunkedArray:
    tails, ends = _tails(names), pa.scalar(None, pa.string())
    for old, new in numbers.items():
        ends = pc.if_else(pc.equal(tails, paths.foreign("", old) if old else ""), paths.foreign("", new), ends)
    return _with_end(pc.utf8_slice_codeunits(names, 0, paths.NAME_LENGTH), ends)


def _with_end(names: pa.ChunkedArray, end: str | pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(names, end, "")


def _are_own(names: pa.ChunkedArray) -> bool:
    """Whether all are of objects in the table's own store, which is seen by how long they are."""
    return pc.min_max(pc.binary_length(names))["max"].as_py() in {None, paths.NAME_LENGTH}


def _tails(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """What is behind the names that objects have in the table that they are in."""
    return pc.utf8_slice_codeunits(names, paths.NAME_LENGTH)
