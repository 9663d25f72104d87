"""The operations that change rows, each run on a draft, and again where others came first.

What must hold:
- Running an operation again on a newer version gives what running it there first would have given. What it read of
  a fragment is remembered, since fragments never change: only new fragments are read again.
- In a keyed table no key is in two rows: ``append`` refuses keys that are there, ``upsert`` replaces their rows.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np
import pyarrow as pa

from siltstone.errors import ConflictError, DuplicateKeyError, TruncatedError
from siltstone.table.evolve import takes
from siltstone.table.keys import SHOWN_MOST, show_keys
from siltstone.table.lookup import candidates, match_keys
from siltstone.table.near import near_fragments
from siltstone.table.predicate import Predicate, parse_predicate
from siltstone.table.reading import Reading
from siltstone.table.row_set import RowSet, row_set
from siltstone.table.scan import matching
from siltstone.table.schema import arrow_schema, arrow_type, key_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from siltstone.format.rollup import Live
    from siltstone.format.table import Operation, Schema
    from siltstone.table.draft import Draft
    from siltstone.table.inserts import Inserted
    from siltstone.table.state import State


class Work(ABC):
    """One operation of a transaction."""

    operation: ClassVar[Operation]
    accompanies: bool = False  # done for the sake of the others; a version is not called by it

    @abstractmethod
    def run(self, draft: Draft) -> None:
        """Do it on a draft; may be called again on another one."""


def insert(draft: Draft, inserted: Inserted) -> None:
    """Add fragments, without the rows of them that others replace."""
    draft.add(inserted.fragments)
    for name, gone in inserted.replaced.items():
        live = draft.state.fragments.get(name)
        if live is not None:
            draft.delete(live, gone.numbers())


Matched = tuple[np.ndarray, np.ndarray]  # rows of a fragment, deleted ones too, and which row of mine each one is


class _Keyed(Work):
    """Rows that come in, and which rows of the table have their keys.

    ``matched`` is what was found out already, by the name of a fragment and the number of mine.
    """

    def __init__(
        self,
        inserted: Inserted,
        *,
        columns_from: int = 2**31,
        matched: Mapping[tuple[str, int], Matched] | None = None,
    ) -> None:
        self.inserted = inserted
        self._columns_from = columns_from  # field ids from here on were given in this very transaction
        self._matches: dict[tuple[str, int], Matched] = dict(matched or {})
        self.apart: frozenset[str] = frozenset()  # fragments that have none of my keys for sure, by name

    def check(self, draft: Draft) -> None:
        """Raise ConflictError where the rows were written for columns that are others by now."""
        draft.depends(columns=True)
        given = draft.begun.schema.next_id  # ids from here on are this transaction's own, others' are below
        own = draft.schema.next_id > max(given, self._columns_from) and given != self._columns_from
        if own or not takes(draft.schema, self.inserted.schema):
            raise ConflictError(
                "columns were changed by another in a way that the rows that were written don't fit",
                hint="nothing was changed; run it again",
            )

    def keys(self, number: int, schema: Schema) -> pa.Table:
        """The keys of one of my fragments, as the columns of a later version have them."""
        given = self.inserted.key_rows[number]
        fields = key_fields(schema)
        arrays = [column.cast(arrow_type(field)) for column, field in zip(given.columns, fields, strict=True)]
        return pa.table(arrays, names=[field.name for field in fields])

    def matches(self, draft: Draft) -> Iterator[tuple[Live, np.ndarray, int, np.ndarray]]:
        """(fragment, its rows that have one of my keys and are there, number of my fragment, its rows)."""
        mine = {one.name for one in self.inserted.fragments} | self.apart
        for number in range(len(self.inserted.key_rows)):
            near = near_fragments(draft.state, self.inserted.fragments[number])
            others = [live for live in near if live.fragment.name not in mine]
            if any((live.fragment.name, number) not in self._matches for live in others):
                others = self._look(draft, number, others)
            for live in others:
                rows, which = self._matches[live.fragment.name, number]
                deleted = draft.deleted(live)
                if deleted is not None and len(rows):
                    there = ~deleted.mask()[rows]
                    rows, which = rows[there], which[there]
                if len(rows):
                    yield live, rows, number, which

    def _look(self, draft: Draft, number: int, near: Sequence[Live]) -> list[Live]:
        """Look for the keys of one of my fragments where nobody did; those of some fragments that may hold some."""
        names = {live.fragment.name for live in near}
        keys = self.keys(number, draft.schema)
        found = [live for live in candidates(draft.state, keys) if live.fragment.name in names]
        for live in found:
            if (live.fragment.name, number) not in self._matches:
                self._matches[live.fragment.name, number] = match_keys(draft.tools, live, keys, draft.schema)
        return found


class Append(_Keyed):
    """New rows."""

    operation = "append"

    def run(self, draft: Draft) -> None:
        """Refuses keys that are there."""
        self.check(draft)
        if self.inserted.key_rows:
            draft.depends(rows=True)
        for number, found in itertools.groupby(self.matches(draft), key=lambda one: one[2]):
            raise self._taken(number, np.sort(np.concatenate([which for _, _, _, which in found])))
        insert(draft, self.inserted)
        draft.count(inserted=self.inserted.rows)

    def _taken(self, number: int, rows: np.ndarray) -> DuplicateKeyError:
        """Some rows of one of my fragments are there; those of later ones were not looked for."""
        keys = show_keys(self.inserted.key_rows[number], rows[:SHOWN_MOST])
        count = f"{len(rows):,} key{' is' if len(rows) == 1 else 's are'}"
        known = number == len(self.inserted.key_rows) - 1
        these = ":" if known and len(rows) <= SHOWN_MOST else ", such as"
        return DuplicateKeyError(
            f"{'' if known else 'at least '}{count} in the table already{these} {keys}",
            hint="use upsert() to replace rows",
            keys=keys,
        )


class Upsert(_Keyed):
    """New rows, in the place of those with the same keys."""

    operation = "upsert"

    def run(self, draft: Draft) -> None:
        """Deletes the rows that have one of the keys."""
        self.check(draft)
        draft.depends(rows=True)
        updated = sum(draft.delete(live, rows) for live, rows, _, _ in list(self.matches(draft)))
        insert(draft, self.inserted)
        draft.count(inserted=self.inserted.rows - updated, updated=updated)


class Overwrite(_Keyed):
    """New rows, in the place of all."""

    operation = "overwrite"

    def run(self, draft: Draft) -> None:
        """Removes every fragment."""
        self.check(draft)
        draft.depends(whole=True)
        draft.count(deleted=draft.state.fragments.rows, inserted=self.inserted.rows)
        draft.remove(live.fragment.name for live in draft.state.fragments)
        insert(draft, self.inserted)


class Filtered(Work):
    """An operation on the rows that a filter chooses.

    ``found`` is what was found out already: rows that match, deleted ones too, by the name of their fragment.
    """

    def __init__(self, where: str | None, schema: Schema, *, found: Mapping[str, RowSet] | None = None) -> None:
        self.where = where
        self._rows: dict[str, RowSet] = dict(found or {})
        self._schema = schema
        self._predicate = self._parse(schema)

    def _parse(self, schema: Schema) -> Predicate | None:
        return None if self.where is None else parse_predicate(self.where, arrow_schema(schema))

    def _follow(self, schema: Schema) -> None:
        """Take up other columns; what was found stays where the filter reads none of those that changed."""
        before = {one.name: one for one in self._schema.fields}
        now = {one.name: one for one in schema.fields}
        self._schema, self._predicate = schema, self._parse(schema)
        columns = self._predicate.columns if self._predicate else frozenset[str]()
        if any(before.get(name) != now.get(name) for name in columns):
            self._rows = {}

    def chosen(self, draft: Draft) -> Iterator[tuple[Live, np.ndarray]]:
        """Fragments and the rows in them that are there and match."""
        draft.depends(rows=True, columns=True)
        if draft.schema != self._schema:
            self._follow(draft.schema)
        reading = Reading(draft.tools, draft.schema, (), self._predicate)
        for live in reading.choose(draft.state.fragments):
            name = live.fragment.name
            if self._predicate is None:
                rows = np.arange(live.fragment.rows)
            else:
                if name not in self._rows:
                    match = matching(draft.tools, live, self._predicate, draft.schema)
                    self._rows[name] = row_set(match, rows=live.fragment.rows)
                rows = self._rows[name].numbers()
            rows = draft.left(live, rows)
            if len(rows):
                yield live, rows


class Delete(Filtered):
    """Rows go."""

    operation = "delete"

    def run(self, draft: Draft) -> None:
        """Masks the rows that match."""
        draft.count(deleted=sum(draft.delete(live, rows) for live, rows in list(self.chosen(draft))))


def check_kept(state: State, version: int) -> None:
    """Raise TruncatedError where a version was collected, or may be at any time."""
    if not state.keeps(version):
        raise TruncatedError(
            f"version {version} was collected: those below {state.floor} are gone, but for tagged ones and checkpoints",
            hint="history() lists the versions that are left",
            version=version,
            floor=state.floor,
        )


class Columns(Work):
    """Columns are added, dropped, renamed or widened."""

    operation = "schema"

    def __init__(self, evolve: Callable[[Schema], Schema]) -> None:
        self._evolve = evolve

    def run(self, draft: Draft) -> None:
        """Changes the columns; no fragment is written."""
        draft.depends(columns=True)
        draft.set_schema(self._evolve(draft.schema))


class Tags(Work):
    """Versions get names, or lose them."""

    operation = "tag"

    def __init__(self, tags: Mapping[str, int | None]) -> None:
        self._tags = tags

    def run(self, draft: Draft) -> None:
        """Sets them; a version that was collected can't be named."""
        draft.depends(kept=True)
        for version in self._tags.values():
            if version is not None:
                check_kept(draft.state, version)
        draft.set_labels(tags=self._tags)


class Settings(Work):
    """Settings get values, or lose them."""

    operation = "settings"

    def __init__(self, settings: Mapping[str, str | None]) -> None:
        self._settings = settings

    def run(self, draft: Draft) -> None:
        """Sets them."""
        draft.set_labels(settings=self._settings)


class Restore(Work):
    """The rows and columns of an earlier version come back."""

    operation = "restore"

    def __init__(self, target: State) -> None:
        self._target = target

    def run(self, draft: Draft) -> None:
        """Names the fragments of then; nothing is copied."""
        check_kept(draft.state, self._target.version)
        draft.revives = True
        draft.depends(whole=True, columns=True, kept=True)
        wanted = {live.fragment.name: live for live in self._target.fragments}
        here = {live.fragment.name: live for live in draft.state.fragments}
        draft.count(deleted=draft.state.fragments.rows, inserted=self._target.fragments.rows)
        draft.remove(name for name in here if name not in wanted)
        draft.add(live.fragment for name, live in wanted.items() if name not in here)
        for name, live in wanted.items():
            if live.vector != (here[name].vector if name in here else None):
                draft.replace_vector(name, live.vector)
        # Field ids are never used twice, also not those given since.
        draft.set_schema(
            msgspec.structs.replace(self._target.schema, next_id=max(self._target.schema.next_id, draft.schema.next_id))
        )
