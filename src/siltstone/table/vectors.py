"""Deletion vectors: which rows of a fragment are gone, where they are kept, and how they are read.

What must hold:
- A vector never changes; more deletes make another one, in another object.
- A vector is used for the fragment it was made for, or not at all.
- Reading many vectors takes one request for each object, however many are in it.
"""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

import numpy as np

from siltstone import paths
from siltstone.errors import CorruptionError, InternalError, MissingObjectError, NotFoundError
from siltstone.format.frame import digest
from siltstone.format.table import Vector
from siltstone.format.vectors import VectorHeader, bit_bytes, decode_vector, encode_vector, vector_bytes_max
from siltstone.locks import ForkLock
from siltstone.table.upload import upload

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from siltstone.env import Env
    from siltstone.format.table import Fragment
    from siltstone.store.base import Store

CACHE_BYTES = 32 * 1024 * 1024
OBJECT_BYTES = 32 * 1024 * 1024  # of one object; what is over goes into the next
IN_FLIGHT = 16
_ENTRY_BYTES = 256  # what a cached vector costs beside its bits


class Deleted:
    """The rows of one fragment that are gone: ``count`` of its ``rows``. It never changes."""

    __slots__ = ("_bits", "count", "rows")

    def __init__(self, bits: NDArray[np.uint8], *, rows: int) -> None:
        if len(bits) != bit_bytes(rows):
            raise InternalError(f"{len(bits)} bytes of bits can't be those of {rows} rows")
        self._bits = bits
        self._bits.flags.writeable = False
        self.rows = rows
        self.count = int(np.bitwise_count(bits).sum())

    @classmethod
    def none(cls, *, rows: int) -> Deleted:
        """No row is gone."""
        return cls(np.zeros(bit_bytes(rows), np.uint8), rows=rows)

    @classmethod
    def from_mask(cls, mask: NDArray[np.bool_]) -> Deleted:
        """The rows at which ``mask`` is true."""
        return cls(np.packbits(mask, bitorder="little"), rows=len(mask))

    @classmethod
    def from_numbers(cls, numbers: NDArray[np.int64], *, rows: int) -> Deleted:
        """The rows of these numbers, in any order; repeated ones count once."""
        if len(numbers) and not (int(numbers.min()) >= 0 and int(numbers.max()) < rows):
            raise InternalError(f"row {numbers.max()} or {numbers.min()} is none of {rows} rows")
        mask = np.zeros(rows, np.bool_)
        mask[numbers] = True
        return cls.from_mask(mask)

    @classmethod
    def from_bits(cls, bits: bytes, *, rows: int) -> Deleted:
        """The rows whose bits are set."""
        return cls(np.frombuffer(bits, np.uint8), rows=rows)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it holds."""
        return int(self._bits.nbytes) + _ENTRY_BYTES

    def bits(self) -> bytes:
        """A bit for each row, lowest first."""
        return self._bits.tobytes()

    def mask(self) -> NDArray[np.bool_]:
        """For each row, whether it is gone."""
        return np.unpackbits(self._bits, count=self.rows, bitorder="little").view(np.bool_)

    def slice(self, start: int, rows: int) -> NDArray[np.bool_]:
        """As ``mask``, for ``rows`` rows from ``start`` on."""
        if not 0 <= start <= start + rows <= self.rows:
            raise InternalError(f"rows {start} to {start + rows} are not all of {self.rows} rows")
        first = start // 8
        touched = self._bits[first : bit_bytes(start + rows)]
        found = np.unpackbits(touched, bitorder="little").view(np.bool_)
        return found[start - 8 * first : start - 8 * first + rows]

    def numbers(self) -> NDArray[np.int64]:
        """The numbers of the rows that are gone, ascending."""
        return np.flatnonzero(self.mask()).astype(np.int64, copy=False)

    def union(self, other: Deleted) -> Deleted:
        """What is gone in either."""
        self._check_same_rows(other)
        return Deleted(self._bits | other._bits, rows=self.rows)

    def minus(self, other: Deleted) -> Deleted:
        """What is gone here and not in ``other``."""
        self._check_same_rows(other)
        return Deleted(self._bits & ~other._bits, rows=self.rows)

    def overlaps(self, other: Deleted) -> bool:
        """Whether a row is gone in both."""
        self._check_same_rows(other)
        return bool((self._bits & other._bits).any())

    def _check_same_rows(self, other: Deleted) -> None:
        if self.rows != other.rows:
            raise InternalError(f"vectors of {self.rows} and {other.rows} rows are not of one fragment")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deleted) and self.rows == other.rows and np.array_equal(self._bits, other._bits)

    def __hash__(self) -> int:
        return hash((self.rows, self._bits.tobytes()))

    def __repr__(self) -> str:
        return f"Deleted({self.count} of {self.rows} rows)"


def write_vectors(store: Store, deleted: Mapping[str, Deleted], *, base: int, env: Env) -> dict[str, Vector]:
    """Write the vectors of a transaction, by the name of their fragment; few objects, mostly one."""
    written: dict[str, Vector] = {}
    waiting: list[tuple[str, Deleted, bytes]] = []
    size = 0
    for fragment, one in deleted.items():
        data = encode_vector(VectorHeader(fragment=paths.bare(fragment), rows=one.rows, deleted=one.count), one.bits())
        if waiting and size + len(data) > OBJECT_BYTES:
            written |= _write_object(store, waiting, base=base, env=env)
            waiting, size = [], 0
        waiting.append((fragment, one, data))
        size += len(data)
    if waiting:
        written |= _write_object(store, waiting, base=base, env=env)
    return written


def _write_object(store: Store, parts: list[tuple[str, Deleted, bytes]], *, base: int, env: Env) -> dict[str, Vector]:
    name = paths.name(base, env.ids.new())
    whole = b"".join(data for _, _, data in parts)
    upload(store, paths.vectors(name), whole, sha256=digest(whole), env=env)
    found: dict[str, Vector] = {}
    offset = 0
    for fragment, one, data in parts:
        found[fragment] = Vector(name=name, offset=offset, length=len(data), rows=one.count)
        offset += len(data)
    return found


class ReadsVectors(Protocol):
    """Whatever tells which rows of a table's fragments are gone."""

    def read(self, vector: Vector, fragment: Fragment) -> Deleted:
        """The rows of a fragment that are gone."""

    def read_many(self, pairs: Iterable[tuple[Vector, Fragment]]) -> dict[str, Deleted]:
        """Those of many fragments, by name."""


class Vectors:
    """Reads vectors and keeps those used last, up to ``cache_bytes``. Safe to share between threads."""

    def __init__(self, store: Store, *, cache_bytes: int = CACHE_BYTES) -> None:
        self._store = store
        self._most = cache_bytes
        self._size = 0
        self._cached: OrderedDict[tuple[str, Vector], Deleted] = OrderedDict()
        self._lock = ForkLock()

    def read(self, vector: Vector, fragment: Fragment) -> Deleted:
        """The rows of a fragment that are gone."""
        return self.read_many([(vector, fragment)])[fragment.name]

    def read_many(self, pairs: Iterable[tuple[Vector, Fragment]]) -> dict[str, Deleted]:
        """Those of many fragments, by name.

        Raises:
            MissingObjectError: an object is gone.
            CorruptionError: a vector is not the one that the log names.
        """
        found: dict[str, Deleted] = {}
        missing: dict[str, list[tuple[Vector, Fragment]]] = {}
        for vector, fragment in pairs:
            cached = self._look_up(vector, fragment)
            if cached is None:
                missing.setdefault(vector.name, []).append((vector, fragment))
            else:
                found[fragment.name] = cached
        for part in self._read_objects(missing):
            found |= part
        return found

    def _read_objects(self, missing: dict[str, list[tuple[Vector, Fragment]]]) -> Iterable[dict[str, Deleted]]:
        if len(missing) < 2 or not self._store.traits.overlaps:
            return [self._read_object(name, pairs) for name, pairs in missing.items()]
        with ThreadPoolExecutor(min(IN_FLIGHT, len(missing)), thread_name_prefix="siltstone-vectors") as pool:
            return list(pool.map(self._read_object, missing, missing.values()))

    def _read_object(self, name: str, pairs: list[tuple[Vector, Fragment]]) -> dict[str, Deleted]:
        key = paths.vectors(name)
        for vector, fragment in pairs:
            _check_place(vector, fragment, key)
        try:
            parts = self._store.get_ranges(key, [(one.offset, one.offset + one.length) for one, _ in pairs])
        except NotFoundError as error:
            raise MissingObjectError(
                f"{key} is gone, with deleted rows of the fragment {pairs[0][1].name}",
                hint="restore the object, or the table to a version before it; its deleted rows are not known",
                object=key,
            ) from error
        found: dict[str, Deleted] = {}
        for (vector, fragment), data in zip(pairs, parts, strict=True):
            if len(data) != vector.length:
                raise CorruptionError(
                    f"{key} ends after {len(data)} of the {vector.length} bytes from {vector.offset} on", object=key
                )
            expected = VectorHeader(fragment=paths.bare(fragment.name), rows=fragment.rows, deleted=vector.rows)
            one = Deleted.from_bits(decode_vector(data, expected=expected, name=key), rows=fragment.rows)
            found[fragment.name] = one
            self._keep(vector, fragment, one)
        return found

    def _look_up(self, vector: Vector, fragment: Fragment) -> Deleted | None:
        place = (fragment.name, vector)
        with self._lock:
            found = self._cached.get(place)
            if found is not None:
                self._cached.move_to_end(place)
        return found if found is not None and found.rows == fragment.rows else None

    def _keep(self, vector: Vector, fragment: Fragment, deleted: Deleted) -> None:
        place = (fragment.name, vector)
        with self._lock:
            before = self._cached.pop(place, None)
            self._size += deleted.nbytes - (before.nbytes if before else 0)
            self._cached[place] = deleted
            while self._size > self._most:
                _, dropped = self._cached.popitem(last=False)
                self._size -= dropped.nbytes


def _check_place(vector: Vector, fragment: Fragment, key: str) -> None:
    """A range is bounded by the fragment's rows before it is asked for."""
    most = vector_bytes_max(fragment.rows)
    if not 0 < vector.length <= most:
        raise CorruptionError(
            f"the log names {vector.length} bytes of {key} for {fragment.rows} rows, over the limit of {most}",
            object=key,
        )
