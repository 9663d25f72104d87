"""What must hold of builds of text indexes, looked at with every object that is written or removed.

- Of each item the attempt counts that the build's log names first. The marker is what these entries say, comes when all
  items have one and all parts are there, and is never written with other bytes.
- What has a final name has the bytes that a build without faults of the same plan has there, whoever writes it, however
  late; where workers are of different releases, those of the attempt that counts.
- Nothing of a build goes while it may still be committed, but for what was staged, once the marker is there.
- A version names a build by the digest of its marker, once, and no fragment is in two segments of an index.
- A clone names builds of its parent; what it copies of them, when it is detached, has a marker and no log.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.api.opening import open_table
from siltstone.env import Env
from siltstone.format.frame import digest
from siltstone.format.records import decode_entry
from siltstone.format.text import Marker, Plan, Staged, decode_marker, decode_plan, decode_staged, plain
from siltstone.store.base import Traits
from siltstone.store.memory import MemoryBucket, MemoryStore
from siltstone.testing.manual import ManualClock
from siltstone.testing.sim.retain_book import RetainBook
from siltstone.testing.sim.shard_book import Edit
from siltstone.testing.sim.world import SimIds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from siltstone.testing.sim.retain_book import KeptBucket
    from siltstone.testing.sim.retain_truth import Kept, TableTruth
    from siltstone.testing.sim.world import World

COMMITTED = "index "  # what the id of a build's commit begins with


class StillStore(MemoryStore):
    """A bucket as it was, for someone who is alone with it."""

    traits = Traits(kind="memory", known_good=True, cheap_probes=True, threads=False)


@dataclass
class Building:
    """A build, as its log and its objects have it."""

    name: str
    plan: Plan | None = None
    objects: dict[str, tuple[bytes, int]] = field(default_factory=dict)  # of the table, when the plan was fixed
    counts: dict[int, Staged] = field(default_factory=dict)
    entries: int = 0
    finals: dict[str, bytes] = field(default_factory=dict)  # what was written under final names
    marked: bool = False

    @property
    def base(self) -> int:
        """The version that it was begun on."""
        return (paths.parse_name(self.name) or (0, ""))[0]

    def missing(self) -> set[int]:
        """Items that nobody has done."""
        return set() if self.plan is None else set(range(len(self.plan.items))) - self.counts.keys()

    def expected(self) -> Marker | None:
        """The marker that follows from the log; None where items are missing."""
        if self.plan is None or self.missing():
            return None
        parts = tuple(part for _, one in sorted(self.counts.items()) for part in one.parts)
        plan = self.plan
        return Marker(
            plan=digest(plain(plan)),
            build=plan.build,
            index=plan.index,
            field=plan.field,
            analyzer=plan.analyzer,
            parts=parts,
        )


class Builds:
    """All builds of one table. ``alike`` says whether all workers make the same bytes of the same rows."""

    def __init__(
        self,
        table: TableTruth,
        bucket: KeptBucket,
        *,
        other: Callable[[str], Builds],
        violation: Callable[[str], None],
    ) -> None:
        self.known: dict[str, Building] = {}
        self._other = other
        self.alike = True
        self._table = table
        self._bucket = bucket
        self._violation = violation
        self._named: set[str] = set()

    def is_over(self, build: Building) -> bool:
        """Whether it can't be committed any more: the version that it was begun on was collected."""
        return build.base < self._table.newest.floor

    # -- objects ---------------------------------------------------------------------------------

    def wrote(self, key: str, data: bytes) -> None:
        """An object of a build was written."""
        name, rest = paths.parse_index(key) or ("", "")
        if not name:
            self._violation(f"{key} of {self._table.uri} was written, and is of no build")
            return
        build = self.known.setdefault(name, Building(name))
        if rest.startswith(paths.LOG):
            self._note(build, key, data)
        elif not rest.startswith(f"{paths.STAGING}/"):
            had = build.finals.setdefault(rest, data)
            if had != data:
                self._violation(f"{key} of {self._table.uri} was written again, with other bytes")
            if rest == paths.MARKER and not build.marked:
                build.marked = True
                if not self.is_over(build):
                    self._check_marker(build, key, data)

    def _note(self, build: Building, key: str, data: bytes) -> None:
        """Take an entry of a build's log down; one that comes too late to be one changes nothing."""
        parsed = paths.parse_entry(paths.index_log(build.name), key)
        if parsed is None or parsed[0] != build.entries:
            return
        build.entries += 1
        header, body = decode_entry(data, name=key)
        if header.kind != "data":
            return
        if parsed[0] == 0:
            build.plan = decode_plan(body, name=key)
            build.objects = dict(self._bucket.objects.objects)
        else:
            staged = decode_staged(body, name=key)
            build.counts.setdefault(staged.item, staged)

    def _check_marker(self, build: Building, key: str, data: bytes) -> None:
        marker = decode_marker(data, name=key)
        if build.missing():
            self._violation(f"build {build.name} has a marker, and items {sorted(build.missing())} are missing")
        if build.plan is not None and marker != build.expected():
            self._violation(f"the marker of build {build.name} is not what its log says")
        for part in marker.parts:
            there = self._bucket.objects.read(paths.index(build.name, part.name))
            if there is None:
                self._violation(f"build {build.name} has a marker, and {part.name} is not there")
            elif digest(there[0]) != part.sha256:
                self._violation(f"{part.name} of build {build.name} has other bytes than its marker says")
        if self.alike and build.plan is not None:
            self._check_bytes(build)

    def _check_bytes(self, build: Building) -> None:
        """The final objects must be those of a build without faults."""
        expected = faultless(build.objects, build.name)
        for name in sorted(expected.keys() | build.finals.keys()):
            if expected.get(name) != build.finals.get(name):
                self._violation(f"{name} of build {build.name} is not what a build without faults has")

    def gone(self, key: str) -> None:
        """An object of a build was removed."""
        name, rest = paths.parse_index(key) or ("", "")
        build = self.known.get(name)
        if build is None or self.is_over(build) or rest.startswith(f"{paths.LOG}{paths.STAGED}/"):
            return  # a proposal may go once its place was decided
        if not (build.marked and rest.startswith(f"{paths.STAGING}/")):
            counts = {
                paths.staged_part(item, one.attempt, number)
                for item, one in build.counts.items()
                for number in range(len(one.parts))
            }
            if rest in counts or not rest.startswith(f"{paths.STAGING}/"):
                self._violation(f"{key} of {self._table.uri} was removed, and the build may still be committed")

    # -- versions --------------------------------------------------------------------------------

    def landed(self, version: Kept) -> None:
        """A version names builds."""
        names = [one.build for index in version.indexes.values() for one in index.segments]
        news = set(names) - self._named
        self._named |= news
        for name, times in Counter(names).items():
            if times > 1:
                self._violation(f"version {version.version} of {self._table.uri} names build {name} {times} times")
        for index in version.indexes.values():
            fragments: Counter[str] = Counter()
            for segment in index.segments:
                marker = self._marker_of(segment.build, version)
                if marker is None or digest(plain(marker)) != segment.digest:
                    self._violation(f"version {version.version} names build {segment.build} by another marker")
                else:
                    fragments.update({paths.bare(one.name) for part in marker.parts for one in part.fragments})
            twice = [name for name, times in fragments.items() if times > 1]
            if twice:
                self._violation(f"version {version.version} has fragment {twice[0]} in two segments of an index")

    def _marker_of(self, name: str, version: Kept) -> Marker | None:
        number = paths.origin_of(name)
        there = self._other(version.origins[str(number)].uri) if number else self
        build = there.known.get(paths.bare(name))
        data = None if build is None else build.finals.get(paths.MARKER)
        return None if data is None else decode_marker(data, name=name)

    def came_back(self, before: Kept, after: Kept) -> list[str]:
        """Builds of the table's own that a version names, the one before it did not, and an earlier one did."""
        had, has = (
            {one.build for index in it.indexes.values() for one in index.segments} & self._named
            for it in (before, after)
        )
        return sorted(name for name in has - had if not paths.origin_of(name))


def faultless(objects: Mapping[str, tuple[bytes, int]], name: str) -> dict[str, bytes]:
    """The final objects of a build, made by one process that nothing happens to, from a table as it was."""
    bucket = MemoryBucket()
    bucket.objects, bucket.keys = dict(objects), sorted(objects)
    clock = ManualClock()
    env = Env(clock, SimIds(random.Random(0)), 0.0)
    with open_table(StillStore(bucket=bucket, clock=clock), probe=False, env=env) as table:
        build = table.index_build(name)
        for item in range(build.items):
            build.run(item, threads=1)
        build.finalize()
    start = f"{paths.INDEXES}/{name}/"
    below = {key.removeprefix(start): data for key, (data, _) in bucket.objects.items() if key.startswith(start)}
    return {rest: data for rest, data in below.items() if "/" not in rest}


class IndexBook(RetainBook):
    """All that was said in a world of tables with indexes."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.builds: dict[str, Builds] = {}

    def _edit(self, label: str) -> Edit:
        if label.startswith(COMMITTED):  # the commit of a build, which changes no row
            self.operations.setdefault(label, Edit(label))
        return super()._edit(label)

    def watch(self, uri: str, bucket: KeptBucket) -> None:
        """Look at all that is written to a table's bucket, and removed from it."""
        self.retention.watch(uri, bucket)
        table = self.retention.tables[uri]
        builds = self.builds[uri] = Builds(table, bucket, other=self.builds.__getitem__, violation=self.violation)
        wrote, gone = bucket.watch, bucket.gone
        assert wrote is not None
        assert gone is not None

        def written(key: str, data: bytes) -> None:
            if key.startswith(f"{paths.INDEXES}/"):
                builds.wrote(key, data)
                return
            before = table.newest
            wrote(key, data)
            after = table.newest
            if after.version > before.version and after.indexes != before.indexes:
                self._check_once(builds, before, after)
                builds.landed(after)

        def removed(key: str) -> None:
            gone(key)
            if key.startswith(f"{paths.INDEXES}/"):
                builds.gone(key)

        bucket.watch, bucket.gone = written, removed

    def _check_once(self, builds: Builds, before: Kept, after: Kept) -> None:
        back = [] if after.operation == "restore" else builds.came_back(before, after)
        if back:
            self.violation(f"version {after.version} names build {back[0]}, which was part of the table before")
