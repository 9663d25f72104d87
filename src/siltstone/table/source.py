"""A version of a table, as SQL reads it.

What must hold: the parts together give each row of the version once, but for rows that the query rules out by
statistics; each part may be read at the same time as the others, and again.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from siltstone.table.output import in_batches
from siltstone.table.reading import Reading
from siltstone.table.scan import chosen_fields
from siltstone.table.schema import arrow_schema
from siltstone.table.stream import Pace, in_order, pace_for
from siltstone.table.tasks import tasks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from siltstone.format.rollup import Live
    from siltstone.table.lanes import Part
    from siltstone.table.prune import Prune
    from siltstone.table.state import State
    from siltstone.table.tools import Tools


@dataclass(frozen=True)
class TableSource:
    """Rows for SQL."""

    tools: Tools
    state: State

    @property
    def schema(self) -> pa.Schema:
        """The columns there are."""
        return arrow_schema(self.state.schema)

    def parts(self, where: Prune | None) -> Sequence[Part]:
        """What reads the rows: as many parts as are read at once, each with its share of the threads and memory."""
        lives = Reading(self.tools, self.state.schema, (), hint=where).choose(self.state.fragments)
        pace = pace_for(self.tools.store)
        count = max(1, min(len(lives), pace.threads))
        share = Pace(max(1, pace.threads // count), pace.bytes_max // count)
        # Neighbours stay together: small ones are read by the same task.
        cuts = [len(lives) * number // count for number in range(count + 1)]
        return [
            partial(self._read, lives=lives[start:end], where=where, pace=share)
            for start, end in pairwise(cuts)
            if start < end
        ]

    def _read(
        self, columns: Sequence[str], *, lives: Sequence[Live], where: Prune | None, pace: Pace
    ) -> Iterator[pa.RecordBatch]:
        schema = self.state.schema
        reading = Reading(self.tools, schema, chosen_fields(schema, columns), hint=where)
        with closing(in_order(tasks(reading, lives), pace)) as tables:
            yield from in_batches(tables)
