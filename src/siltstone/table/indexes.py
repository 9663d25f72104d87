"""Where the pages of a fragment are and what they may hold, read when first asked for and kept.

What must hold:
- All that one call needs and is not kept is fetched with one request.
- Threads may load the same thing twice, and then get the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from siltstone.format.parquet import parse_bounds, parse_offsets
from siltstone.format.seal import SUM_BYTES, Part, part_range
from siltstone.table.bloom import BLOOM_BYTES_MAX, Bloom
from siltstone.table.columns import FileType, Limits, Plan, chunk_limits, file_type, limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from siltstone.format.parquet import Chunk, Range
    from siltstone.format.table import Field
    from siltstone.table.fragment_bytes import FragmentBytes

PLANS_MAX = 64

_Place = tuple[int, int]  # row group and leaf
_ENTRY_BYTES = 512  # what an entry takes beside its lists
_PAGE_BYTES = 100  # what is kept of a page: two numbers and a checksum


class Layout(NamedTuple):
    """Which rows the pages of a chunk hold; chunks whose pages align share one."""

    first_rows: np.ndarray
    firsts: list[int]  # the same
    counts: list[int]


class Index(NamedTuple):
    """A chunk's pages: where they are, their rows, and their checksums, none where the file is not sealed."""

    starts: list[int]
    ends: list[int]
    layout: Layout
    sums: bytes


class Indexes:
    """The indexes of one fragment. ``grown`` is called with the bytes that were added to what is kept."""

    def __init__(self, source: FragmentBytes, grown: Callable[[int], None]) -> None:
        self._source = source
        self._grown = grown
        self.missed: set[int] = set()  # row groups whose pages were read for keys that they did not have
        self._pages: dict[_Place, Index] = {}
        self._layouts: dict[bytes, Layout] = {}
        self._limits: dict[tuple[int, int, str], Limits | None] = {}
        self._group_limits: dict[tuple[int, str], Limits | None] = {}
        self._types: dict[tuple[int, str], FileType] = {}
        self._blooms: dict[_Place, Bloom] = {}
        self._dictionaries: dict[_Place, bytes] = {}
        self._plans: dict[tuple[Field, ...], Plan] = {}

    def plan(self, fields: Sequence[Field]) -> Plan:
        """How these columns are read."""
        key = tuple(fields)
        found = self._plans.get(key)
        if found is None:
            found = Plan(self._source.footer, key, name=self._source.key)
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()
            self._plans[key] = found
            self._grown(_ENTRY_BYTES * (1 + len(key)))
        return found

    def type_of(self, plan: Plan) -> FileType:
        """The type of the only column of a plan."""
        field = plan.fields[0]
        key = (field.id, field.type)
        found = self._types.get(key)
        if found is None:
            found = self._types[key] = file_type(plan, self._source.footer)
        return found

    def group_limits(self, plan: Plan) -> Limits | None:
        """The bounds of the only column of a plan in each row group; None where one is not known."""
        field = plan.fields[0]
        key = (field.id, field.type)
        if key not in self._group_limits:
            groups = self._source.footer.groups
            found = chunk_limits([one.chunks[plan.leaves[0]] for one in groups], [one.rows for one in groups])
            wanted = plan.kinds[0]
            self._group_limits[key] = found and limits(*found, found=self.type_of(plan), wanted=wanted)
        return self._group_limits[key]

    def page_limits(self, group: int, plan: Plan) -> Limits | None:
        """The bounds of the only column of a plan in each page; None where they are not known."""
        field = plan.fields[0]
        key = (group, field.id, field.type)
        if key not in self._limits:
            self.load([group], plan.leaves, bounded=plan)
        return self._limits[key]

    def index(self, group: int, leaf: int) -> Index:
        """A chunk's pages; it has an offset index."""
        found = self._pages.get((group, leaf))
        if found is None:
            self.load([group], [leaf])
            found = self._pages[group, leaf]
        return found

    def load(self, groups: Iterable[int], leaves: Sequence[int], *, bounded: Plan | None = None) -> None:
        """Have the offset indexes of some chunks, and the page bounds of the only column of ``bounded``."""
        wanted: list[tuple[int, int, Part]] = []
        for group in groups:
            chunks = self._source.footer.groups[group].chunks
            if bounded is not None:
                field, leaf = bounded.fields[0], bounded.leaves[0]
                if (group, field.id, field.type) not in self._limits:
                    if chunks[leaf].bounds.end and chunks[leaf].offsets.end:
                        wanted.append((group, leaf, Part.BOUNDS))
                    else:
                        self._limits[group, field.id, field.type] = None
            parts = (Part.OFFSETS, Part.PAGES) if self._source.sums else (Part.OFFSETS,)
            wanted += [
                (group, leaf, part)
                for leaf in leaves
                if (group, leaf) not in self._pages and chunks[leaf].offsets.end
                for part in parts
            ]
        if wanted:
            self._load(wanted, bounded)

    def bloom(self, group: int, leaf: int, *, fetch: bool) -> Bloom | None:
        """A chunk's bloom filter; None where it has none, or is not kept and may not be fetched."""
        found = self._blooms.get((group, leaf))
        where = self._chunk(group, leaf).bloom
        if found is None and fetch and 0 < where.end - where.start <= BLOOM_BYTES_MAX:
            data = self._source.fetch([where])[0]
            self._source.sums.check(data, Part.BLOOM, group=group, leaf=leaf)
            found = self._blooms[group, leaf] = Bloom(data, name=self._source.key)
            self._grown(found.nbytes + _ENTRY_BYTES)
        return found

    def dictionary(self, group: int, leaf: int) -> bytes:
        """A chunk's dictionary page; empty where it is not kept."""
        return self._dictionaries.get((group, leaf), b"")

    def keep_dictionary(self, data: bytes, *, group: int, leaf: int) -> None:
        """Keep a chunk's dictionary page."""
        if (group, leaf) not in self._dictionaries:
            self._dictionaries[group, leaf] = data
            self._grown(len(data) + _ENTRY_BYTES)

    def _range(self, group: int, leaf: int, part: Part) -> Range:
        if part is Part.PAGES:
            return self._source.sums.page_sums(group, leaf)
        return part_range(self._chunk(group, leaf), part)

    def _chunk(self, group: int, leaf: int) -> Chunk:
        return self._source.footer.groups[group].chunks[leaf]

    def _load(self, wanted: Sequence[tuple[int, int, Part]], bounded: Plan | None) -> None:
        parts = self._source.fetch([self._range(*one) for one in wanted])
        found = dict(zip(wanted, parts, strict=True))
        for (group, leaf, part), data in found.items():
            self._source.sums.check(data, part, group=group, leaf=leaf)
            if part is Part.OFFSETS:
                self._add_pages(data, found.get((group, leaf, Part.PAGES), b""), group=group, leaf=leaf)
        for (group, leaf, part), data in found.items():
            if part is Part.BOUNDS and bounded is not None:
                self._add_limits(data, bounded, group=group, leaf=leaf)

    def _add_pages(self, data: bytes, sums: bytes, *, group: int, leaf: int) -> None:
        rows = self._source.footer.groups[group].rows
        chunk = self._chunk(group, leaf)
        pages = parse_offsets(data, chunk, rows=rows, name=self._source.key)
        counts = np.diff(pages.first_rows, append=rows)
        if self._source.sums and len(sums) != SUM_BYTES * (len(counts) + (chunk.data > chunk.range.start)):
            raise self._source.corrupt("it has checksums of other pages")
        made = Layout(pages.first_rows, pages.first_rows.tolist(), counts.tolist())
        layout = self._layouts.setdefault(counts.tobytes(), made)
        self._pages[group, leaf] = Index(pages.starts, pages.ends, layout, sums)
        self._grown(_PAGE_BYTES * len(counts) + _ENTRY_BYTES)

    def _add_limits(self, data: bytes, plan: Plan, *, group: int, leaf: int) -> None:
        field = plan.fields[0]
        bounds = parse_bounds(data, pages=len(self._pages[group, leaf].layout.counts), name=self._source.key)
        self._limits[group, field.id, field.type] = limits(
            bounds.lows, bounds.highs, ~bounds.empty, found=self.type_of(plan), wanted=plan.kinds[0]
        )
        self._grown(2 * len(data) + _ENTRY_BYTES)
