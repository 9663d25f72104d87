"""The operations that change rows, each run on a draft, and again where others came first.

What must hold:
- Running an operation again on a newer version gives what running it there first would have given. What it read of
  a fragment is remembered, since fragments never change: only new fragments are read again.
- In a keyed table no key is in two rows: ``append`` refuses keys that are there, ``upsert`` replaces their rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np
import pyarrow as pa

from siltstone.errors import ConflictError, DuplicateKeyError, InvalidInputError
from siltstone.table.evolve import takes
from siltstone.table.inserts import Inserted, write_rows
from siltstone.table.keys import show_keys
from siltstone.table.lookup import candidates, match_keys
from siltstone.table.predicate import Predicate, parse_assignments, parse_predicate
from siltstone.table.reading import Reading
from siltstone.table.scan import matching
from siltstone.table.schema import arrow_schema, arrow_type, key_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from siltstone.format.rollup import Live
    from siltstone.format.table import Operation, Schema
    from siltstone.table.draft import Draft
    from siltstone.table.state import State
    from siltstone.table.tools import Tools


class Work(ABC):
    """One operation of a transaction."""

    operation: ClassVar[Operation]

    @abstractmethod
    def run(self, draft: Draft) -> None:
        """Do it on a draft; may be called again on another one."""


class _Keyed(Work):
    """Rows that come in, and which rows of the table have their keys."""

    def __init__(self, inserted: Inserted, *, columns_from: int = 2**31) -> None:
        self.inserted = inserted
        self._columns_from = columns_from  # field ids from here on were given in this very transaction
        self._matches: dict[tuple[str, int], tuple[np.ndarray, np.ndarray]] = {}

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
        mine = {one.name for one in self.inserted.fragments}
        for number in range(len(self.inserted.key_rows)):
            keys = self.keys(number, draft.schema)
            for live in candidates(draft.state, keys):
                name = live.fragment.name
                if name in mine:
                    continue
                if (name, number) not in self._matches:
                    self._matches[name, number] = match_keys(draft.tools, live, keys, draft.schema)
                rows, which = self._matches[name, number]
                deleted = draft.deleted(live)
                if deleted is not None and len(rows):
                    there = ~deleted.mask()[rows]
                    rows, which = rows[there], which[there]
                if len(rows):
                    yield live, rows, number, which

    def insert(self, draft: Draft) -> None:
        """Add the fragments, without the rows that a later one replaces."""
        draft.add(self.inserted.fragments)
        for name, gone in self.inserted.replaced.items():
            live = draft.state.fragments.get(name)
            if live is not None:
                draft.delete(live, gone.numbers())


class Append(_Keyed):
    """New rows."""

    operation = "append"

    def run(self, draft: Draft) -> None:
        """Refuses keys that are there."""
        self.check(draft)
        if self.inserted.key_rows:
            draft.depends(rows=True)
        for _, rows, number, which in self.matches(draft):
            shown = show_keys(self.inserted.key_rows[number], which)
            raise DuplicateKeyError(
                f"{len(rows)} keys are in the table already, such as {shown}",
                hint="use upsert() to replace rows",
                keys=shown,
            )
        self.insert(draft)
        draft.count(inserted=self.inserted.rows)


class Upsert(_Keyed):
    """New rows, in the place of those with the same keys."""

    operation = "upsert"

    def run(self, draft: Draft) -> None:
        """Deletes the rows that have one of the keys."""
        self.check(draft)
        draft.depends(rows=True)
        updated = sum(draft.delete(live, rows) for live, rows, _, _ in list(self.matches(draft)))
        self.insert(draft)
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
        self.insert(draft)


class _Insert(_Keyed):
    operation = "append"

    def run(self, draft: Draft) -> None:
        self.insert(draft)


class _Filtered(Work):
    """An operation on the rows that a filter chooses."""

    def __init__(self, where: str | None, schema: Schema) -> None:
        self.where = where
        self._rows: dict[str, np.ndarray] = {}
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
                    self._rows[name] = matching(draft.tools, live, self._predicate, draft.schema)
                rows = self._rows[name]
            rows = draft.left(live, rows)
            if len(rows):
                yield live, rows


class Delete(_Filtered):
    """Rows go."""

    operation = "delete"

    def run(self, draft: Draft) -> None:
        """Masks the rows that match."""
        draft.count(deleted=sum(draft.delete(live, rows) for live, rows in list(self.chosen(draft))))


class Update(_Filtered):
    """Columns of rows get new values."""

    operation = "update"

    def __init__(self, values: Mapping[str, str], where: str | None, schema: Schema, *, base: int) -> None:
        super().__init__(where, schema)
        self._values = dict(values)
        self._base = base
        self._done: tuple[object, Inserted] | None = None
        parse_assignments(self._checked(schema), arrow_schema(schema))

    def _checked(self, schema: Schema) -> dict[str, str]:
        keys = {one.name for one in key_fields(schema)} & self._values.keys()
        if keys:
            raise InvalidInputError(
                f"column {min(keys)!a} is part of the key and can't be updated",
                hint="delete the rows and append them with their new keys",
            )
        return self._values

    def run(self, draft: Draft) -> None:
        """Writes the rows that match anew, and masks the old ones."""
        found = [(live, rows) for live, rows in self.chosen(draft)]
        which = (draft.schema, tuple((live.fragment.name, rows.tobytes()) for live, rows in found))
        if self._done is None or self._done[0] != which:
            self._done = (which, self._write(draft.tools, draft.schema, found))
        for live, rows in found:
            draft.delete(live, rows)
        _Insert(self._done[1]).insert(draft)
        draft.count(updated=self._done[1].rows)

    def _write(self, tools: Tools, schema: Schema, found: list[tuple[Live, np.ndarray]]) -> Inserted:
        assignments = parse_assignments(self._checked(schema), arrow_schema(schema))

        def rows() -> Iterator[pa.Table]:
            for live, numbers in found:
                file = tools.files.open(live.fragment)
                for start in range(0, len(numbers), UPDATED_TOGETHER):
                    table = file.take(numbers[start : start + UPDATED_TOGETHER], schema.fields)
                    yield assignments.apply(table)

        return write_rows(tools, schema, rows(), base=self._base, twice="refuse") if found else Inserted(schema)


UPDATED_TOGETHER = 131_072


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
        """Sets them."""
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
        draft.revives = True
        draft.depends(whole=True, columns=True)
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
