"""What tables of the console's tests are like."""

from __future__ import annotations

import pyarrow as pa

from siltstone.api import create_table

NOTES = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("body", pa.string())])


def make_notes(place):
    """A keyed table of texts, open; it is at version 1, with three rows."""
    table = create_table(place, schema=NOTES, key="id", sync=False)
    table.append(
        [
            {"id": 1, "body": "A slow, late delivery."},
            {"id": 2, "body": "Refund came at once."},
            {"id": 3, "body": "The colour is fine."},
        ]
    )
    return table
