"""Tables with texts whose index is being built by several handles, and what its objects are at any moment."""

from __future__ import annotations

import itertools

import pyarrow as pa

import siltstone as ss
from siltstone import paths
from siltstone.format.frame import digest
from siltstone.format.text import decode_marker
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.testing.manual import ManualClock, manual_env
from siltstone.testing.stores import FaultStore, Interleaves

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("body", pa.string()), ("stars", pa.int64())])
WORDS = ("slow", "late", "delivery", "refund", "colour", "fast", "kind", "broken", "box", "again")
QUERY = 'slow "late delivery" -refund colour^2 deliv*'
_seeds = itertools.count(1)


def text_of(number: int) -> str:
    """A short text that follows from a number."""
    return " ".join(WORDS[(number * step + step * step) % len(WORDS)] for step in range(1, 3 + number % 5))


def rows_of(numbers) -> list[dict]:
    return [{"id": number, "body": text_of(number), "stars": number % 5} for number in numbers]


class World:
    """Objects in memory, or a copy of those of another world, and handles on the table that they are."""

    def __init__(self, objects: dict[str, bytes] | None = None) -> None:
        self.bucket, self.clock = MemoryBucket(), ManualClock()
        for key, data in (objects or {}).items():
            self.plain().put(key, data)

    def plain(self) -> MemoryStore:
        return MemoryStore(bucket=self.bucket, clock=self.clock)

    def faulty(self) -> FaultStore:
        return FaultStore(self.plain())

    def interleaves(self) -> Interleaves:
        return Interleaves(self.plain())

    def env(self):
        return manual_env(next(_seeds), clock=self.clock, patience_s=5)

    def create(self, **options):
        return ss.create(self.plain(), schema=SCHEMA, key="id", probe=False, env=self.env(), **options)

    def open(self, store=None, **options):
        """A handle of its own."""
        return ss.open(store or self.plain(), probe=False, env=self.env(), **options)

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        store = self.plain()
        return {info.key: store.get(info.key) for info in store.list(prefix)}

    def builds(self) -> list[str]:
        """The builds that somebody began."""
        return sorted({paths.parse_index(key)[0] for key in self.objects("indexes")})

    def finals(self, build: str) -> dict[str, bytes]:
        """What a build has outside of its log and of staging."""
        found = {paths.parse_index(key)[1]: data for key, data in self.objects(f"indexes/{build}").items()}
        return {name: data for name, data in found.items() if not name.startswith((paths.LOG, paths.STAGING))}

    def staging(self, build: str) -> dict[str, bytes]:
        return self.objects(f"indexes/{build}/{paths.STAGING}")

    def modified(self, build: str) -> dict[str, int]:
        """When each final object was written last."""
        prefix = f"indexes/{build}"
        infos = {paths.parse_index(info.key)[1]: info.modified_ms for info in self.plain().list(prefix)}
        return {name: at for name, at in infos.items() if not name.startswith((paths.LOG, paths.STAGING))}


def seeded(fragments: int = 3, rows: int = 4) -> World:
    """A table with some fragments, no index, and a few rows deleted."""
    world = World()
    table = world.create()
    for number in range(fragments):
        table.append(rows_of(range(number * rows, (number + 1) * rows)))
    table.delete("id = 1")
    return world


def begun(world: World, *, items: int = 3, staged: bool = False, **options) -> str:
    """The name of a build of an index of ``body``; with ``staged`` all of its items are done."""
    build = world.open().begin_text_index("body", items=items, **options)
    if staged:
        for item in range(build.items):
            build.run(item, threads=1)
    return build.name


def found(table, query: str = QUERY, **options) -> list[tuple[int, float]]:
    """(id, score) of all rows that match, best first."""
    rows = table.search("body", query, limit=None, columns=["id"], **options).to_arrow()
    return list(zip(rows.column("id").to_pylist(), rows.column("_score").to_pylist(), strict=True))


def read_as_anyone(store, build: str) -> bool:
    """Whether a build has its end; what its marker names must be there whole then."""
    folder = f"indexes/{build}"
    names = {info.key for info in store.list(folder)}
    key = paths.index(build, paths.MARKER)
    if key not in names:
        return False
    for part in decode_marker(store.get(key), name=key).parts:
        assert not part.name.startswith(paths.STAGING)
        data = store.get(paths.index(build, part.name))
        assert (len(data), digest(data)) == (part.bytes, part.sha256), f"{part.name} was seen half written"
    return True


FEW = [
    {"id": 1, "body": "slow late delivery", "stars": 1},
    {"id": 2, "body": "fast delivery, refund", "stars": 2},
    {"id": 3, "body": "the quick brown fox", "stars": 3},
    {"id": 4, "body": None, "stars": 4},
    {"id": 5, "body": "", "stars": 5},
    {"id": 6, "body": "slow slow delivery", "stars": 1},
]
COVERAGES = ("no index", "indexed", "half", "two parts")


def covered_table(coverage: str):
    """A table of the rows of ``FEW``, all, some or none of which are indexed."""
    table = World().create()
    table.append(FEW[:3])
    if coverage in {"half", "two parts"}:
        table.create_text_index("body")
    table.append(FEW[3:])
    if coverage == "indexed":
        table.create_text_index("body")
    elif coverage == "two parts":
        table.optimize_index("body")
    return table


def ids(search) -> list[int]:
    return search.to_arrow().column("id").to_pylist()
