"""The rows that the table benchmarks write, and where a table's bytes are.

What must hold: rows are the same for everyone who is compared, and making them is never part of a figure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

NAME_BYTES = 20
PAYLOAD_BYTES = 100
GROUPS = 100
ROWS_AN_APPEND = 500_000  # where a large table is filled
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("payload", pa.string()), ("grp", pa.int64())])


def make_rows(ids: NDArray[np.int64], *, seed: int) -> pa.Table:
    """Rows of these keys with random text and a random group."""
    rng = np.random.default_rng(seed)
    columns = [
        pa.array(ids),
        _text(rng, len(ids), width=NAME_BYTES),
        _text(rng, len(ids), width=PAYLOAD_BYTES),
        pa.array(rng.integers(0, GROUPS, len(ids))),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def make_range(start: int, *, count: int, seed: int = 0) -> pa.Table:
    """Rows of consecutive keys."""
    return make_rows(np.arange(start, start + count), seed=seed)


def make_many(count: int) -> Iterator[pa.Table]:
    """Rows of the keys from 0 on, in the batches that a large table is filled with."""
    for start in range(0, count, ROWS_AN_APPEND):
        yield make_range(start, count=min(ROWS_AN_APPEND, count - start), seed=start)


def _text(rng: np.random.Generator, count: int, *, width: int) -> pa.Array:
    data = rng.bytes(count * width // 2).hex().encode()
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data))


def bytes_outside_data(directory: Path) -> int:
    """Bytes of all files of a table but its data files; Lance and siltstone both keep those in ``data``."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files if path.relative_to(directory).parts[0] != "data")


def data_files(directory: Path) -> list[str]:
    """The Parquet files of a table, in the order of their names."""
    return sorted(str(path) for path in (directory / "data").rglob("*.parquet"))
