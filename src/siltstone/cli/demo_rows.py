"""The reviews that the demo writes: made up, and the same in every process."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

ROWS_EACH = 1000
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("lang", pa.string()),
        pa.field("stars", pa.int32()),
        pa.field("text", pa.string()),
    ]
)
_LANGUAGES = ("de", "en", "fr", "ja")


def reviews(first: int, count: int, *, text: str = "as it was written") -> pa.Table:
    """Reviews with the ids from ``first`` on; stars go from 1 to 5 in turn."""
    ids = np.arange(first, first + count, dtype=np.int64)
    languages = pa.array(_LANGUAGES).take(pa.array(ids % len(_LANGUAGES)))
    texts = pa.array([text]).take(pa.array(np.zeros(count, np.int64)))
    return pa.table([pa.array(ids), languages, pa.array((ids % 5 + 1).astype(np.int32)), texts], schema=SCHEMA)
