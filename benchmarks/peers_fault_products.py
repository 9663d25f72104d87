"""Tables on S3 to which many append, behind the calls that the fault cases need: make, append, read all.

What must hold:
- Each is set up as its own documentation says for an S3-compatible store, and nothing is turned off.
- ``append`` returns only where the product said that the rows are kept, and raises what the product raised.
"""

from __future__ import annotations

import importlib
from functools import cached_property
from importlib.metadata import version
from typing import Any, NamedTuple

import deltalake
import pyarrow as pa

import siltstone as ss
from siltstone.lance import commit_lock

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("payload", pa.string())])
ROWS = 100  # of an append


class Place(NamedTuple):
    """Where a table is: its name below a bucket, how the server is reached, and where a commit store would be."""

    name: str
    options: dict[str, str]
    commits: str

    @property
    def uri(self) -> str:
        return f"s3://bkt/{self.name}"


def ids_of(writer: int, number: int) -> range:
    """The ids of one append; no two appends share any."""
    start = (writer * 10_000 + number) * ROWS
    return range(start, start + ROWS)


def rows_of(ids: range) -> pa.Table:
    return pa.table([pa.array(ids, pa.int64()), pa.array([f"row {one:015d}" for one in ids])], schema=SCHEMA)


class Product:
    """A product by name; a handle of it belongs to one process."""

    package = "siltstone"
    decides = "entries/"  # in the keys of the objects whose creation decides that rows are kept

    def __init__(self, place: Place) -> None:
        self.place = place

    @classmethod
    def version(cls) -> str:
        return version(cls.package)

    def create(self) -> None:
        """Make an empty table."""
        raise NotImplementedError

    def append(self, ids: range) -> None:
        """Add rows."""
        raise NotImplementedError

    def ids(self) -> list[int]:
        """The ids of all rows, as often as they are there."""
        raise NotImplementedError

    def versions(self) -> int | None:
        """How many were committed behind the first; None where the product has none."""
        return None

    def close(self) -> None:
        """Let go of it."""


class Lance(Product):
    """Its default way to commit on S3: the manifest is created only if it is absent."""

    package, decides = "pylance", "_versions/"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        # Only in processes that need it: it brings pandas, which takes longer to import than all others together.
        self._lance = importlib.import_module("lance")

    def create(self) -> None:
        self._lance.write_dataset(SCHEMA.empty_table(), self.place.uri, storage_options=self.place.options)

    def append(self, ids: range) -> None:
        self._lance.write_dataset(rows_of(ids), self.place.uri, mode="append", storage_options=self.place.options)

    def ids(self) -> list[int]:
        return self._dataset().to_table(columns=["id"])["id"].to_pylist()  # type: ignore[no-any-return]

    def versions(self) -> int | None:
        return self._dataset().version - 1  # type: ignore[no-any-return]

    def _dataset(self) -> Any:
        return self._lance.dataset(self.place.uri, storage_options=self.place.options)


class LockedLance(Lance):
    """With a lock for its commits, which its own interface provides for: siltstone's."""

    def append(self, ids: range) -> None:
        lock = commit_lock(self.place.commits, dataset=self.place.uri)
        reach = {"storage_options": self.place.options, "commit_lock": lock}
        self._lance.write_dataset(rows_of(ids), self.place.uri, mode="append", **reach)


class Delta(Product):
    """With the option that its pages on S3-compatible stores ask for."""

    package, decides = "deltalake", "_delta_log/"

    @property
    def _options(self) -> dict[str, str]:
        return self.place.options | {"aws_conditional_put": "etag"}

    def create(self) -> None:
        deltalake.write_deltalake(self.place.uri, SCHEMA.empty_table(), storage_options=self._options)

    def append(self, ids: range) -> None:
        deltalake.write_deltalake(self.place.uri, rows_of(ids), mode="append", storage_options=self._options)

    def ids(self) -> list[int]:
        return self._table().to_pyarrow_table(columns=["id"])["id"].to_pylist()  # type: ignore[no-any-return]

    def versions(self) -> int | None:
        return self._table().version()

    def _table(self) -> deltalake.DeltaTable:
        return deltalake.DeltaTable(self.place.uri, storage_options=self._options)


class Siltstone(Product):
    """A table to which many append; the store decides."""

    knobs: dict[str, Any] = {}  # noqa: RUF012 - each kind replaces it as a whole

    def _reach(self) -> dict[str, Any]:
        return {"storage_options": self.place.options}

    def create(self) -> None:
        ss.create(self.place.uri, schema=SCHEMA, **self.knobs, **self._reach()).close()

    @cached_property
    def table(self) -> ss.Table:
        return ss.open(self.place.uri, **self._reach())

    def append(self, ids: range) -> None:
        self.table.append(rows_of(ids))

    def ids(self) -> list[int]:
        found = self.table.scan(columns=["id"], fresh="shards" in self.knobs).to_arrow()
        return found["id"].to_pylist()  # type: ignore[no-any-return]

    def versions(self) -> int | None:
        return self.table.version

    def named_lost(self) -> int:
        """How many operations ``verify`` says are lost."""
        reports = ss.verify(self.place.uri, **self._reach())
        return sum(problem.fault == "lost" for report in reports for problem in report.problems)

    def repair(self) -> None:
        """What its pages say to do once it refuses to go on."""
        ss.repair(self.place.uri, **self._reach())


class SiltstoneCommits(Siltstone):
    """The same, where a commit store decides: SQLite, as the writers share a machine."""

    def _reach(self) -> dict[str, Any]:
        return super()._reach() | {"commits": self.place.commits}
