"""A simulated bucket, and each process's own connection to it.

What must hold: an honest bucket is linearizable, request by request. A listing is one request a page, so it may
show something between two states. A lying one breaks its word on ``create`` and on nothing else.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal

from siltstone import paths
from siltstone.errors import AlreadyExistsError, CorruptionError, NotFoundError
from siltstone.store.base import OBJECT_BYTES_MAX, ObjectInfo, Store, Traits
from siltstone.store.memory import MemoryBucket
from siltstone.testing.sim.world import EPOCH_MS, Later

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from siltstone.testing.sim.world import Process, World

Lie = Literal["", "always", "gateway"]
READ_AHEAD = 3
NAMES_KEPT = 1 << 15
BEHIND_SLASH = chr(ord("/") + 1)  # names in a folder end before this one in its place


class SimBucket:
    """What all processes share. From ``lie_from`` on, ``create`` lies in the way that ``lie`` says."""

    def __init__(
        self,
        world: World,
        *,
        lie: Lie = "",
        lie_from: float = 0.0,
        known_good: bool = True,
        cheap_probes: bool = True,
        page: int = 1000,
        delete_page: int = 1000,
    ) -> None:
        self.world = world
        self.lie = lie
        self.lie_from = lie_from
        self.traits = Traits(kind="sim", known_good=known_good, cheap_probes=cheap_probes, threads=False)
        self.page = page
        self.delete_page = delete_page
        self.objects = MemoryBucket()
        self.overwritten = 0

    def now_ms(self) -> int:
        """The store's own clock."""
        return EPOCH_MS + int(self.world.now * 1000)

    def write(self, key: str, data: bytes, *, replace: bool) -> bool:
        """Whether the object was written."""
        return self.objects.write(key, data, now_ms=self.now_ms(), replace=replace)

    def remove(self, key: str) -> None:
        """The object goes, if it is there."""
        self.objects.remove(key)

    def create(self, key: str, data: bytes) -> Later | None:
        """The effect of a create."""
        there = self.objects.read(key)
        lying = self.lie and self.world.now >= self.lie_from
        if there is not None and not (lying and self.lie == "always"):
            raise AlreadyExistsError(f"sim://bucket already has an object {key}", object=key)
        if lying and self.lie == "gateway":
            return Later(self.world.random.random() * 4 * self.world.latency, lambda: self._replace(key, data))
        self._replace(key, data)
        return None

    def _replace(self, key: str, data: bytes) -> None:
        there = self.objects.read(key)
        self.overwritten += there is not None and there[0] != data
        self.write(key, data, replace=True)


class SimStore(Store):
    """One process's connection."""

    uri = "sim://bucket"

    def __init__(self, process: Process, bucket: SimBucket) -> None:
        self._process = process
        self.bucket = bucket
        self.traits = bucket.traits

    def get(self, key: str, *, limit: int = OBJECT_BYTES_MAX) -> bytes:
        data = self._process.ask("read", f"get {_checked(key)}", partial(self._read, key))
        if len(data) > limit:
            raise CorruptionError(f"object {key} has {len(data)} bytes, over the limit of {limit}", object=key)
        return data

    def _read(self, key: str) -> bytes:
        found = self.bucket.objects.read(key)
        if found is None:
            raise NotFoundError(f"{self.uri} has no object {key}", object=key)
        return found[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        data = self.get(key)
        return [data[start:end] for start, end in ranges]

    def get_many(self, keys: Iterable[str], *, limit: int = OBJECT_BYTES_MAX) -> Iterator[bytes | None]:
        wanted = list(keys)
        for start in range(0, len(wanted), READ_AHEAD):
            batch = wanted[start : start + READ_AHEAD]
            order = list(batch)
            self._process.world.random.shuffle(order)
            found = {key: self._get_or_none(key, limit) for key in order}
            for key in batch:
                yield found[key]

    def _get_or_none(self, key: str, limit: int) -> bytes | None:
        try:
            return self.get(key, limit=limit)
        except NotFoundError:
            return None

    def head(self, key: str) -> ObjectInfo | None:
        found = self._process.ask("read", f"head {_checked(key)}", partial(self.bucket.objects.read, key))
        return None if found is None else ObjectInfo(key, len(found[0]), found[1])

    def create(self, key: str, data: bytes) -> None:
        self._process.ask("create", f"create {_checked(key)}", lambda: self.bucket.create(key, data))

    def put(self, key: str, data: bytes) -> None:
        self._write(f"put {_checked(key)}", lambda: self.bucket.write(key, data, replace=True))

    def copy(self, source: str, target: str) -> None:
        self.put(target, self.get(source))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        start = _folder(prefix)
        while True:
            page = self._process.ask("read", f"list {short(start)}", partial(self._page, start, after))
            for key, (data, modified_ms) in page:
                yield ObjectInfo(key, len(data), modified_ms)
            if len(page) < self.bucket.page:
                return
            after = page[-1][0]

    def _page(self, start: str, after: str) -> Sequence[tuple[str, tuple[bytes, int]]]:
        keys, objects = self.bucket.objects.keys, self.bucket.objects.objects
        place = max(bisect_left(keys, start), bisect_right(keys, after))
        end = bisect_left(keys, f"{start[:-1]}{BEHIND_SLASH}", place) if start else len(keys)
        return [(key, objects[key]) for key in keys[place : min(end, place + self.bucket.page)]]

    def delete(self, keys: Iterable[str]) -> None:
        doomed = [paths.check_key(key) for key in keys]
        for start in range(0, len(doomed), self.bucket.delete_page):
            page = doomed[start : start + self.bucket.delete_page]
            self._write(f"delete {len(page)} from {short(page[0])}", partial(self._remove, page))

    def _remove(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.bucket.remove(key)

    def _write(self, what: str, effect: Callable[[], object]) -> None:
        self._process.ask("write", what, effect)

    def __repr__(self) -> str:
        return f"SimStore({self._process.name})"


@lru_cache(maxsize=NAMES_KEPT)
def _checked(key: str) -> str:
    """As ``short``, of a key that any store would take."""
    return short(paths.check_key(key))


@lru_cache(maxsize=NAMES_KEPT)
def _folder(prefix: str) -> str:
    start = paths.check_prefix(prefix)
    return f"{start}/" if start else ""


@lru_cache(maxsize=NAMES_KEPT)
def short(key: str) -> str:
    """A key as the trace shows it: numbers without zeros, ids by their first digits."""
    return "/".join(_short_part(part) for part in key.split("/"))


def _short_part(part: str) -> str:
    number, dash, rest = part.partition("-")
    if number.isdigit():
        return f"{int(number)}{dash}{rest[:6]}"
    return part if len(part) < 32 else part[:6]
