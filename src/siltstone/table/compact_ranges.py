"""The key ranges of fragments, for a compaction: from the log where it has them exactly, else from the files.

What must hold:
- Ranges of one table compare with each other: a plain key is a value, a composite one a tuple; times are numbers
  and bytes are hex text, as the log has them.
- A range that is not known is not guessed: such a fragment overlaps nothing.
- A file is opened only where what the log says of its keys leaves open whether they overlap those of others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from siltstone.table.schema import key_fields
from siltstone.table.stream import in_order, pace_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.format.rollup import Live
    from siltstone.format.table import Field, Fragment
    from siltstone.table.state import State
    from siltstone.table.stream import Turn
    from siltstone.table.tools import Tools

_CUT = 16  # characters, or bytes, at which the log cuts bounds
_TASK_BYTES = 1024 * 1024


class Range(NamedTuple):
    """The first and the last key of a fragment."""

    low: Any
    high: Any


def exact_ranges(state: State) -> dict[str, Range]:
    """The ranges that the log has exactly, by the fragment's name."""
    if len(state.schema.key) != 1:
        return {}
    (field,) = key_fields(state.schema)
    exact = {}
    for live in state.fragments:
        found = _outer(live, field)
        if found is not None and not any(_is_cut(end, field) for end in found):
            exact[live.fragment.name] = found
    return exact


class KeyRanges:
    """The ranges of a keyed table's fragments, which are read once each: fragments never change."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._read: dict[str, Range | None] = {}

    def learn(self, fragment: Fragment, keys: pa.Table) -> None:
        """Note the range of a fragment that was just written."""
        self._read[fragment.name] = range_of(keys)

    def of(self, state: State) -> dict[str, Range]:
        """Those of a version's fragments, by name, without the ones whose rows are not in order."""
        lives = list(state.fragments)
        fields = key_fields(state.schema)
        found: dict[str, Range | None] = {**_apart(lives, fields), **exact_ranges(state)}
        tasks = [
            _Look(self._tools, live.fragment, fields)
            for live in lives
            if live.fragment.name not in found and live.fragment.name not in self._read
        ]
        self._read.update(in_order(iter(tasks), pace_for(self._tools.store)))
        for live in lives:
            name = live.fragment.name
            found[name] = self._read.get(name, found.get(name))
        return {name: one for name, one in found.items() if one is not None}


def range_of(keys: pa.Table) -> Range | None:
    """The range of some rows in order, of which there are the key columns; None where they are in none."""
    ends = [(_end(column[0]), _end(column[len(column) - 1])) for column in keys.columns]
    if any(None in pair for pair in ends):
        return None
    lows, highs = zip(*ends, strict=True)
    found = Range(lows, highs) if len(ends) > 1 else Range(*ends[0])
    return found if found.low <= found.high else None


def _end(value: pa.Scalar) -> Any:
    """A value as the log has it."""
    if kinds.is_temporal(value.type):
        return value.value
    plain = value.as_py()
    return plain.hex() if isinstance(plain, bytes) else plain


@dataclass(frozen=True)
class _Look:
    """A look at the first and the last row of a file, which is in the order of its keys."""

    tools: Tools
    fragment: Fragment
    fields: tuple[Field, ...]

    @property
    def nbytes(self) -> int:
        """What is read is little."""
        return _TASK_BYTES

    def run(self, turn: Turn) -> tuple[str, Range | None]:
        """Read them."""
        rows = np.unique([0, self.fragment.rows - 1])
        return self.fragment.name, range_of(self.tools.files.open(self.fragment).take(rows, self.fields))


def _apart(lives: Sequence[Live], fields: Sequence[Field]) -> dict[str, Range]:
    """Fragments whose keys are apart from those of all others already by what the log says of the first column."""
    outer = [(found, live.fragment.name) for live in lives if (found := _outer(live, fields[0])) is not None]
    if len(outer) < len(lives):
        return {}
    outer.sort()
    apart, reach = {}, None
    for place, (found, name) in enumerate(outer):
        before = reach is None or reach < found.low
        after = place + 1 == len(outer) or found.high < outer[place + 1][0].low
        if before and after:
            apart[name] = Range((found.low,), (found.high,)) if len(fields) > 1 else found
        reach = found.high if reach is None else max(reach, found.high)
    return apart


def _outer(live: Live, field: Field) -> Range | None:
    """What the log says of a column: no value is outside of it."""
    bounds = live.fragment.bounds.get(str(field.id))
    if bounds is None:
        return None
    kind = str if field.type == "string" or "binary" in field.type else int
    fits = isinstance(bounds.low, kind) and isinstance(bounds.high, kind)
    return Range(bounds.low, bounds.high) if fits else None


def _is_cut(end: object, field: Field) -> bool:
    return isinstance(end, str) and len(end) >= (_CUT if field.type == "string" else 2 * _CUT)
