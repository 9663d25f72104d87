"""Giving columns new values: the rows are written anew, and the old ones masked.

What must hold:
- Run again on a newer version, an update writes only what was not written before: rows that were found before and
  are still there keep their copies, those that are gone lose them.
- now() and the like are one moment for all rows, whichever run or process writes them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from siltstone.errors import InvalidInputError
from siltstone.table.assignments import parse_assignments
from siltstone.table.inserts import Inserted, write_rows
from siltstone.table.keys import key_array, match
from siltstone.table.operations import Filtered, insert
from siltstone.table.row_set import RowSet, row_set
from siltstone.table.schema import arrow_schema, key_fields
from siltstone.table.vectors import Deleted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from siltstone.format.rollup import Live
    from siltstone.format.table import Fragment, Schema
    from siltstone.table.draft import Draft
    from siltstone.table.tools import Tools

UPDATED_TOGETHER = 131_072
WASTE_MAX = 0.5  # of the rows that were written: where more are gone, all is written anew


@dataclass(frozen=True)
class Copied:
    """Rows that were written with their new values, and the rows that they were, in the same order."""

    schema: Schema
    sources: tuple[tuple[Fragment, RowSet], ...]
    inserted: Inserted

    def covered(self, name: str, wanted: np.ndarray) -> np.ndarray:
        """Those of some rows of a fragment that are among them."""
        mine = [rows.numbers() for fragment, rows in self.sources if fragment.name == name]
        return np.intersect1d(mine[0], wanted, assume_unique=True) if mine else np.empty(0, np.int64)

    def left(self, tools: Tools, wanted: Mapping[str, np.ndarray]) -> Inserted:
        """What was inserted, without the rows that are not wanted any more."""
        lost: list[tuple[Fragment, np.ndarray]] = []
        places: list[np.ndarray] = []
        start = 0
        for fragment, copied in self.sources:
            rows = copied.numbers()
            gone = np.flatnonzero(~np.isin(rows, wanted.get(fragment.name, ()), assume_unique=True))
            if len(gone):
                lost.append((fragment, rows[gone]))
                places.append(start + gone)
            start += len(rows)
        if not lost:
            return self.inserted
        found = self._by_key(tools, lost) if self.schema.key else self._by_place(np.concatenate(places))
        replaced = {one.name: Deleted.from_numbers(rows, rows=one.rows) for one, rows in found if len(rows)}
        return replace(self.inserted, replaced=replaced)

    def _by_place(self, places: np.ndarray) -> Iterator[tuple[Fragment, np.ndarray]]:
        """Fragments keep the order of the rows where there is no key."""
        ends = np.cumsum([one.rows for one in self.inserted.fragments])
        edges = np.searchsorted(places, [0, *ends])
        for number, fragment in enumerate(self.inserted.fragments):
            yield fragment, places[edges[number] : edges[number + 1]] - (ends[number] - fragment.rows)

    def _by_key(
        self, tools: Tools, lost: Sequence[tuple[Fragment, np.ndarray]]
    ) -> Iterator[tuple[Fragment, np.ndarray]]:
        fields = key_fields(self.schema)
        names = [one.name for one in fields]
        keys = key_array(pa.concat_tables(tools.files.open(one).take(rows, fields) for one, rows in lost), names)
        for fragment, mine in zip(self.inserted.fragments, self.inserted.key_rows, strict=True):
            places = match(key_array(mine, names), keys)
            yield fragment, places[places >= 0]


def copy_rows(
    tools: Tools,
    schema: Schema,
    values: Mapping[str, str],
    found: Sequence[tuple[Fragment, np.ndarray]],
    *,
    base: int,
    moment: int,
) -> Copied:
    """Write some rows of fragments with new values; ``moment`` is when now() is, in nanoseconds since 1970."""
    assignments = parse_assignments(values, arrow_schema(schema), moment=moment)

    def rows() -> Iterator[pa.Table]:
        for fragment, numbers in found:
            file = tools.files.open(fragment)
            for start in range(0, len(numbers), UPDATED_TOGETHER):
                yield assignments.apply(file.take(numbers[start : start + UPDATED_TOGETHER], schema.fields))

    sources = tuple((fragment, row_set(numbers, rows=fragment.rows)) for fragment, numbers in found)
    return Copied(schema, sources, write_rows(tools, schema, rows(), base=base, twice="refuse"))


class Update(Filtered):
    """Columns of rows get new values. ``found`` and ``copied`` are what was done already, at ``moment``."""

    operation = "update"

    def __init__(
        self,
        values: Mapping[str, str],
        where: str | None,
        schema: Schema,
        *,
        base: int,
        moment: int | None = None,
        found: Mapping[str, RowSet] | None = None,
        copied: Sequence[Copied] = (),
    ) -> None:
        super().__init__(where, schema, found=found)
        self._values = dict(values)
        self._base = base
        self._moment = time.time_ns() if moment is None else moment
        self._copied = list(copied)
        parse_assignments(self._checked(schema), arrow_schema(schema))

    def _checked(self, schema: Schema) -> dict[str, str]:
        keys = {one.name for one in key_fields(schema)} & self._values.keys()
        if keys:
            raise InvalidInputError(
                f"column {min(keys)!a} is part of the key and can't be updated",
                hint="delete the rows and append them with their new keys",
            )
        return self._values

    def _follow(self, schema: Schema) -> None:
        parse_assignments(self._checked(schema), arrow_schema(schema))  # also where no row matches
        super()._follow(schema)

    def run(self, draft: Draft) -> None:
        """Writes the rows that match anew, and masks the old ones."""
        found = list(self.chosen(draft))
        wanted = {live.fragment.name: rows for live, rows in found}
        inserted = self._kept(draft, wanted)
        rest = list(self._not_copied(found))
        if rest:
            values = self._checked(draft.schema)
            done = copy_rows(draft.tools, draft.schema, values, rest, base=self._base, moment=self._moment)
            self._copied.append(done)
            inserted.append(done.inserted)
        for live, rows in found:
            draft.delete(live, rows)
        for one in inserted:
            insert(draft, one)
        draft.count(updated=sum(one.rows for one in inserted))

    def _kept(self, draft: Draft, wanted: Mapping[str, np.ndarray]) -> list[Inserted]:
        """What was written before and is still of use."""
        self._copied = [one for one in self._copied if one.schema == draft.schema]
        left = [one.left(draft.tools, wanted) for one in self._copied]
        written = sum(fragment.rows for one in left for fragment in one.fragments)
        if written and sum(one.rows for one in left) < (1 - WASTE_MAX) * written:
            self._copied, left = [], []
        return left

    def _not_copied(self, found: Sequence[tuple[Live, np.ndarray]]) -> Iterator[tuple[Fragment, np.ndarray]]:
        for live, rows in found:
            for one in self._copied:
                rows = np.setdiff1d(rows, one.covered(live.fragment.name, rows), assume_unique=True)  # noqa: PLW2901
            if len(rows):
                yield live.fragment, rows
