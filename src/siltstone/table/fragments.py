"""The fragments of one version, as a value: changing it gives another one.

What must hold:
- A version's fragments never change; two versions share what they have in common.
- Applying a change costs as much as the change is long, not as the table is.
- No Python object is made for a fragment that nobody asks for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.errors import CorruptionError
from siltstone.format.rollup import FRAGMENT_COLUMNS, HIGH, LOW, NULLS, Live, from_columns, join_columns, to_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from siltstone.format.table import Change, Vector

NULLS_UNKNOWN = 2**62
FEW = 1024
KEPT_TOGETHER = 16
KEPT_MAX = 4096
FOLD_AT = 128  # changes on top of the columns before they are folded in


class ColumnBounds(NamedTuple):
    """Statistics of one column over many fragments; ``known`` where both bounds are."""

    low: np.ndarray
    high: np.ndarray
    known: np.ndarray
    nulls: np.ndarray
    rows: np.ndarray


class _Bounded(ABC):
    """Something with statistics by column, which are put together once."""

    def bounds(self, field_id: int) -> ColumnBounds | None:
        """Statistics of a column over all fragments; None where there are none, or they are of two kinds."""
        if field_id not in self._bounds:
            self._bounds[field_id] = self._bounds_of(field_id)
        return self._bounds[field_id]

    @cached_property
    def _bounds(self) -> dict[int, ColumnBounds | None]:
        return {}

    @abstractmethod
    def _bounds_of(self, field_id: int) -> ColumnBounds | None: ...


class Columns(_Bounded):
    """Many fragments as columns; never changed."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._kept: dict[int, Live] = {}

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def index(self) -> dict[str, int]:
        """Row by name."""
        return {name: row for row, name in enumerate(self.table.column("name").to_pylist())}

    def has(self, name: str) -> bool:
        """Whether a fragment is here; asking for one is cheaper than making the index of all."""
        if "index" in self.__dict__ or len(self) < FEW:
            return name in self.index
        return bool(pc.any(pc.equal(self.table.column("name"), name)).as_py())

    @cached_property
    def rows_left(self) -> np.ndarray:
        """Rows of each fragment that are not gone."""
        gone = pc.fill_null(self.table.column("vector_rows"), 0)
        return pc.subtract(self.table.column("rows"), gone).to_numpy()

    def _bounds_of(self, field_id: int) -> ColumnBounds | None:
        if any(f"{part}.{field_id}" not in self.table.column_names for part in (LOW, HIGH, NULLS)):
            return None
        lows, highs, nulls = (self.table.column(f"{part}.{field_id}") for part in (LOW, HIGH, NULLS))
        if lows.type != highs.type:
            return None
        known = pc.and_(pc.is_valid(lows), pc.is_valid(highs)).to_numpy()
        rows = self.table.column("rows").to_numpy()
        return ColumnBounds(_numbers(lows), _numbers(highs), known, _numbers(pc.fill_null(nulls, NULLS_UNKNOWN)), rows)

    def at(self, rows: Sequence[int] | np.ndarray) -> list[Live]:
        """Records of some rows; those of a few are kept, for lookups."""
        if len(rows) > KEPT_TOGETHER:
            return self._made(rows)
        missing = [int(row) for row in rows if int(row) not in self._kept]
        if missing:
            if len(self._kept) > KEPT_MAX:
                self._kept = {}
            made = self._made(missing)
            self._kept = {**self._kept, **dict(zip(missing, made, strict=True))}  # threads see one or the other
        kept = self._kept
        return [kept[int(row)] for row in rows] if all(int(row) in kept for row in rows) else self._made(rows)

    def _made(self, rows: Sequence[int] | np.ndarray) -> list[Live]:
        return from_columns(self.table.take(pa.array(rows, pa.int64())))


_NONE = Columns(pa.Table.from_batches([], FRAGMENT_COLUMNS))


@dataclass(frozen=True)
class Fragments(_Bounded):
    """The fragments of a version: columns, minus some, with some vectors replaced, plus a few more."""

    base: Columns = _NONE
    gone: frozenset[int] = frozenset()  # rows of the columns
    masked: Mapping[str, Vector | None] = field(default_factory=dict)  # of the columns
    extra: Mapping[str, Live] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.base) - len(self.gone) + len(self.extra)

    def __iter__(self) -> Iterator[Live]:
        return iter(self.select(None))

    def __contains__(self, name: str) -> bool:
        row = self.base.index.get(name) if name not in self.extra and len(self.base) else None
        return name in self.extra or (row is not None and row not in self.gone)

    def get(self, name: str) -> Live | None:
        """The fragment of that name."""
        live = self.extra.get(name)
        if live is not None or not len(self.base):
            return live
        row = self.base.index.get(name)
        return None if row is None or row in self.gone else self._fresh(self.base.at([row])[0])

    @cached_property
    def rows(self) -> int:
        """How many rows there are."""
        count = sum(live.rows for live in self.extra.values())
        if not len(self.base):
            return count
        left = self.base.rows_left
        count += int(left.sum()) - int(left[list(self.gone)].sum() if self.gone else 0)
        for name in self.masked:
            row = self.base.index[name]
            live = self.get(name)
            count += (live.rows if live else 0) - (int(left[row]) if row not in self.gone else 0)
        return count

    # -- changing ----------------------------------------------------------------------------------

    def apply(self, change: Change, *, name: str, columns: pa.Table | None = None) -> Fragments:
        """The fragments after a change; ``name`` is what errors call the change's object."""
        if columns is None:
            return self._apply(change, name=name)
        before = self._apply(msgspec.structs.replace(change, mask={}, unmask=()), name=name)
        masks = msgspec.structs.replace(change, remove=(), add=())
        return before.with_columns(columns, name=name).apply(masks, name=name)

    def _apply(self, change: Change, *, name: str) -> Fragments:
        gone, masked, extra = set(self.gone), dict(self.masked), dict(self.extra)
        for removed in change.remove:
            if extra.pop(removed, None) is None:
                row = self.base.index.get(removed)
                if row is None or row in gone:
                    raise CorruptionError(f"{name} removes {removed}, which is not there", object=name)
                gone.add(row)
                masked.pop(removed, None)
        there = self._there(change)
        for fragment in change.add:
            if fragment.name in extra or (fragment.name in there and self.base.index[fragment.name] not in gone):
                raise CorruptionError(f"{name} adds {fragment.name}, which is there", object=name)
            extra[fragment.name] = Live(fragment, None)
        vectors: dict[str, Vector | None] = {**change.mask, **dict.fromkeys(change.unmask)}
        for masks, vector in vectors.items():
            if masks in extra:
                extra[masks] = Live(extra[masks].fragment, vector)
            elif (row := self.base.index.get(masks)) is not None and row not in gone:
                masked[masks] = vector
            else:
                raise CorruptionError(f"{name} masks {masks}, which is not there", object=name)
            if vector is not None and vector.rows >= self._rows_of(masks, extra):
                raise CorruptionError(f"{name} masks as many rows of {masks} as it has, or more", object=name)
        result = Fragments(self.base, frozenset(gone), masked, extra)
        return result.folded() if len(gone) - len(self.gone) + len(extra) + len(masked) > FOLD_AT else result

    def _there(self, change: Change) -> frozenset[str]:
        """Which of the fragments that a change adds are among the columns; mostly none."""
        if not change.add or not len(self.base):
            return frozenset()
        if len(change.add) < FEW:
            return frozenset(one.name for one in change.add if self.base.has(one.name))
        names = pa.array([one.name for one in change.add])
        known = pc.is_in(names, value_set=self.base.table.column("name").combine_chunks())
        return frozenset(names.filter(known).to_pylist())

    def _rows_of(self, name: str, extra: Mapping[str, Live]) -> int:
        if name in extra:
            return extra[name].fragment.rows
        return int(self.base.table.column("rows")[self.base.index[name]].as_py())

    def with_columns(self, columns: pa.Table, *, name: str) -> Fragments:
        """With fragments that a change has as columns, none of which is there twice."""
        if len(self) and pc.any(pc.is_in(columns.column("name"), value_set=self._names())).as_py():
            raise CorruptionError(f"{name} adds a fragment that is there", object=name)
        if pc.any(pc.greater_equal(columns.column("vector_rows"), columns.column("rows"))).as_py():
            raise CorruptionError(f"{name} masks as many rows of a fragment as it has, or more", object=name)
        return self.join(columns)

    def _names(self) -> pa.Array:
        return self.folded().base.table.column("name").combine_chunks()

    def join(self, columns: pa.Table) -> Fragments:
        """With the fragments of a rollup added."""
        folded = self.folded()
        if not columns.num_rows:
            return folded
        return Fragments(Columns(join_columns([folded.base.table, columns]) if len(folded.base) else columns))

    def folded(self) -> Fragments:
        """The same fragments, as columns alone."""
        if not (self.gone or self.masked or self.extra):
            return self
        parts = []
        touched = self.gone | {self.base.index[name] for name in self.masked}
        if len(self.base):
            keep = np.ones(len(self.base), dtype=bool)
            keep[list(touched)] = False
            parts.append(self.base.table.filter(pa.array(keep)) if touched else self.base.table)
        lives = [live for name in self.masked if (live := self.get(name)) is not None]
        lives += self.extra.values()
        if lives:
            parts.append(to_columns(lives))
        return Fragments(Columns(join_columns(parts) if parts else FRAGMENT_COLUMNS.empty_table()))

    def columns_since(self, old: Fragments) -> pa.Table:
        """The same as ``since``, as columns."""
        table = self.folded().base.table
        if not len(old):
            return table
        return table.filter(pc.invert(pc.is_in(table.column("name"), value_set=old._names())))

    def since(self, old: Fragments) -> list[Live]:
        """The fragments that ``old`` lacks."""
        if self.base is old.base:
            back = old.gone - self.gone
            news = [live for name, live in self.extra.items() if name not in old.extra]
            return [*self.base.at(sorted(back)), *news] if back else news
        return from_columns(self.columns_since(old))

    # -- choosing ----------------------------------------------------------------------------------

    def select(self, keep: np.ndarray | None) -> list[Live]:
        """Records of the fragments that ``keep`` says (in the order of ``bounds``), or of all."""
        chosen = np.ones(len(self.base), dtype=bool) if keep is None else keep[: len(self.base)].copy()
        if self.gone:
            chosen[list(self.gone)] = False
        lives = [self._fresh(live) for live in self.base.at(np.flatnonzero(chosen))] if chosen.any() else []
        few = keep[len(self.base) :] if keep is not None else np.ones(len(self.extra), dtype=bool)
        return lives + [live for live, kept in zip(self.extra.values(), few, strict=True) if kept]

    @property
    def slots(self) -> int:
        """How many places ``bounds`` has: those of removed fragments are still there."""
        return len(self.base) + len(self.extra)

    def _bounds_of(self, field_id: int) -> ColumnBounds | None:
        many = self.base.bounds(field_id)
        if not self.extra:
            return many
        few = _bounds_of_few(list(self.extra.values()), field_id, None if many is None else many.low.dtype)
        if not len(self.base):
            return few
        if many is None:
            many = _unknown(self.base.table.column("rows").to_numpy(), few.low.dtype)
        return ColumnBounds(*(np.concatenate(pair) for pair in zip(many, few, strict=True)))

    def _fresh(self, live: Live) -> Live:
        """A record of the columns with the vector it has now."""
        name = live.fragment.name
        return Live(live.fragment, self.masked[name]) if name in self.masked else live


def _unknown(rows: np.ndarray, kind: np.dtype) -> ColumnBounds:
    nothing = np.zeros(len(rows), dtype=kind)
    return ColumnBounds(nothing, nothing, np.zeros(len(rows), dtype=bool), np.full(len(rows), NULLS_UNKNOWN), rows)


def _bounds_of_few(lives: Sequence[Live], field_id: int, kind: np.dtype | None) -> ColumnBounds:
    """Statistics straight from records; ``kind`` is what those of the columns are."""
    found = [live.fragment.bounds.get(str(field_id)) for live in lives]
    pairs = [(one.low, one.high) if one is not None else (None, None) for one in found]
    if kind is None:
        sample = next((low for low, _ in pairs if low is not None), 0)
        kind = np.dtype(object if isinstance(sample, str) else np.float64 if isinstance(sample, float) else np.int64)
    known = np.array([_fits(low, kind) and _fits(high, kind) for low, high in pairs], dtype=bool)
    filler: object = "" if kind.kind == "O" else 0
    lows, highs = (
        np.array([pair[side] if sure else filler for pair, sure in zip(pairs, known, strict=True)], dtype=kind)
        for side in (0, 1)
    )
    nulls = np.array([one.nulls if one is not None else NULLS_UNKNOWN for one in found], dtype=np.int64)
    return ColumnBounds(lows, highs, known, nulls, np.array([live.fragment.rows for live in lives], dtype=np.int64))


def _fits(value: object, kind: np.dtype) -> bool:
    if kind.kind == "O":
        return isinstance(value, str)
    if kind.kind == "f":
        return isinstance(value, int | float)
    return isinstance(value, int) and -(2**63) <= value < 2**63


def _numbers(array: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_string(array.type):
        return np.array(pc.fill_null(array, "").to_pylist(), dtype=object)
    return pc.fill_null(array, 0).to_numpy()
