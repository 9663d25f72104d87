"""What a worker makes of an item of a build: the parts, from texts or from older parts.

What must hold:
- What is made follows from the fragments and the analyzer alone: where texts are cut into parts and chunks depends on
  their bytes, never on time, threads or machine.
- Memory is bounded by a few chunks of ``CHUNK_BYTES`` of text and the postings of one part, not by the item.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from siltstone import paths
from siltstone.errors import ConflictError, CorruptionError, MissingObjectError, NotFoundError
from siltstone.format.frame import digest
from siltstone.format.text import Covered
from siltstone.index.analyze import tokenize
from siltstone.index.build import MadePart, read_marker
from siltstone.index.merge import merge
from siltstone.index.postings import postings_of
from siltstone.index.stored import decode_part, encode_part, part_file
from siltstone.store.base import OBJECT_BYTES_MAX
from siltstone.table.stream import processors

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from numpy.typing import NDArray

    from siltstone.format.table import Field, Fragment
    from siltstone.format.text import Analyzer, Item, PartFile, Plan, Source
    from siltstone.index.postings import Postings
    from siltstone.table.state import State
    from siltstone.table.tools import Tools

CHUNK_BYTES = 8 * 1024 * 1024
PART_BYTES = 128 * 1024 * 1024  # of texts
DOCUMENTS_MAX = 2**31 - 1  # of a part
NGRAM_SHARE = 4  # letters of a word


class _Chunk(NamedTuple):
    """Some rows of a fragment, and the number of the part that they go to."""

    part: int
    covered: Covered
    texts: pa.ChunkedArray


class Maker:
    """Makes the items of a plan, with what a table's handle has."""

    def __init__(
        self, tools: Tools, state: State, plan: Plan, *, threads: int = 0, part_bytes: int = PART_BYTES
    ) -> None:
        self._tools = tools
        self._state = state
        self._plan = plan
        self._threads = threads or (processors() if tools.store.traits.threads else 1)
        share = _tokens_share(plan.analyzer)
        self._part_bytes, self._chunk_bytes = max(1, part_bytes // share), max(1, CHUNK_BYTES // share)
        self._field = field_of(state, plan.field)

    def make(self, number: int, *, done: Callable[[int], None] | None = None) -> Iterator[MadePart]:
        """The parts of an item; ``done`` is told rows as they are indexed."""
        item = self._plan.items[number]
        if item.sources:
            yield self._merged(number, item)
            if done is not None:
                done(sum(one.rows for one in item.fragments))
            return
        waiting: list[Postings] = []
        covered: list[Covered] = []
        count, part = 0, 0
        with closing(self._indexed(item)) as chunks:
            for chunk, postings in chunks:
                if chunk.part != part and waiting:
                    yield _made(merge(waiting, [None] * len(waiting)), covered, paths.part(number, count))
                    waiting, covered, count = [], [], count + 1
                part = chunk.part
                waiting.append(postings)
                _extend(covered, chunk.covered)
                if done is not None:
                    done(chunk.covered.rows)
        if waiting:
            yield _made(merge(waiting, [None] * len(waiting)), covered, paths.part(number, count))

    # -- from texts --------------------------------------------------------------------------------

    def _indexed(self, item: Item) -> Generator[tuple[_Chunk, Postings], None, None]:
        """The postings of each chunk, in order; a few are made at the same time."""
        if self._threads == 1:
            for chunk in self._chunks(item):
                yield chunk, postings_of_texts(chunk.texts, self._plan.analyzer)
            return
        waiting: deque[tuple[_Chunk, Future[Postings]]] = deque()
        with ThreadPoolExecutor(self._threads, thread_name_prefix="siltstone-index") as pool:
            try:
                for chunk in self._chunks(item):
                    waiting.append((chunk, pool.submit(postings_of_texts, chunk.texts, self._plan.analyzer)))
                    if len(waiting) > self._threads:
                        first, future = waiting.popleft()
                        yield first, future.result()
                while waiting:
                    first, future = waiting.popleft()
                    yield first, future.result()
            finally:
                for _, future in waiting:
                    future.cancel()

    def _chunks(self, item: Item) -> Iterator[_Chunk]:
        """The texts of an item, cut by their bytes alone."""
        total, documents, part = 0, 0, 0
        for covered in item.fragments:
            for first, texts in self._texts(covered):
                ends = text_ends(texts)
                start = 0
                while start < len(ends):
                    before = int(ends[start - 1]) if start else 0
                    room = min(self._chunk_bytes, max(self._part_bytes - total, 1))
                    stop = int(np.searchsorted(ends, before + room, side="left")) + 1
                    stop = min(stop, len(ends), start + DOCUMENTS_MAX - documents)
                    rows = Covered(covered.name, stop - start, first + start)
                    yield _Chunk(part, rows, texts.slice(start, stop - start))
                    total, documents = total + int(ends[stop - 1]) - before, documents + stop - start
                    if total >= self._part_bytes or documents >= DOCUMENTS_MAX:
                        total, documents, part = 0, 0, part + 1
                    start = stop

    def _texts(self, covered: Covered) -> Iterator[tuple[int, pa.ChunkedArray]]:
        live = self._state.fragments.get(covered.name)
        if live is None:
            raise ConflictError(
                f"fragment {covered.name} of the plan is not in version {self._state.version}",
                hint="work on the version of the plan, or build the index anew",
            )
        return texts_of(self._tools, live.fragment, self._field, first=covered.first, rows=covered.rows)

    # -- from older parts --------------------------------------------------------------------------

    def _merged(self, number: int, item: Item) -> MadePart:
        parts: list[Postings] = []
        keeps: list[NDArray[np.bool_] | None] = []
        kept: list[Covered] = []
        wanted = set(item.fragments)
        for source in item.sources:
            facts, postings = self._source(source)
            keep = np.repeat(
                np.array([one in wanted for one in facts.fragments], np.bool_), [one.rows for one in facts.fragments]
            )
            kept += [one for one in facts.fragments if one in wanted]
            parts.append(postings)
            keeps.append(None if keep.all() else keep)
        if tuple(kept) != item.fragments:
            raise CorruptionError(f"the sources of item {number} of build {self._plan.build} have other fragments")
        covered: list[Covered] = []
        for one in kept:
            _extend(covered, one)
        return _made(merge(parts, keeps), covered, paths.part(number, 0))

    def _source(self, source: Source) -> tuple[PartFile, Postings]:
        store = self._tools.store
        marker = read_marker(store, source.segment)
        facts = next((one for one in marker.parts if one.name == source.part), None)
        if facts is None:
            raise CorruptionError(f"build {source.segment.build} has no part {source.part}")
        key = paths.index(source.segment.build, facts.name)
        return facts, decode_part(read_part(self._tools, key, facts), facts, name=key)


def read_part(tools: Tools, key: str, facts: PartFile) -> bytes:
    """The bytes of a part, checked."""
    try:
        data = tools.store.get(key, limit=max(facts.bytes, OBJECT_BYTES_MAX))
    except NotFoundError:
        raise MissingObjectError(
            f"a part of an index is gone: {key}", hint="drop the index and create it again", object=key
        ) from None
    if len(data) != facts.bytes or digest(data) != facts.sha256:
        raise CorruptionError(
            f"{key} has other bytes than its marker says", hint="drop the index and create it again", object=key
        )
    return data


def field_of(state: State, field: int) -> Field:
    """The column that an index is of."""
    found = next((one for one in state.schema.fields if one.id == field), None)
    if found is None:
        raise ConflictError(
            f"the column that is being indexed is not in version {state.version} any more", hint="nothing was changed"
        )
    return found


def texts_of(
    tools: Tools, fragment: Fragment, field: Field, *, first: int = 0, rows: int | None = None
) -> Iterator[tuple[int, pa.ChunkedArray]]:
    """(first row, texts) of the row groups of a fragment, or of some of its rows."""
    file = tools.files.open(fragment)
    stop = fragment.rows if rows is None else first + rows
    for number, group in enumerate(file.groups):
        start, end = max(group.start, first), min(group.start + group.rows, stop)
        if start < end:
            yield start, file.read(number, (field,)).column(0).slice(start - group.start, end - start)


def text_ends(texts: pa.ChunkedArray) -> NDArray[np.int64]:
    """For each text, the bytes up to its end."""
    sizes = pc.fill_null(pc.binary_length(texts), 0).to_numpy()
    return np.cumsum(sizes, dtype=np.int64)


def postings_in_chunks(tools: Tools, fragment: Fragment, field: Field, analyzer: Analyzer) -> Iterator[Postings]:
    """The postings of a fragment's texts, a chunk at a time."""
    room = max(1, CHUNK_BYTES // _tokens_share(analyzer))
    for _, texts in texts_of(tools, fragment, field):
        ends = text_ends(texts)
        start = 0
        while start < len(ends):
            before = int(ends[start - 1]) if start else 0
            stop = min(int(np.searchsorted(ends, before + room)) + 1, len(ends))
            yield postings_of_texts(texts.slice(start, stop - start), analyzer)
            start = stop


def _tokens_share(analyzer: Analyzer) -> int:
    """How many times as many tokens as words a text may have: n-grams begin at each letter, one of each size."""
    if analyzer.tokenizer != "ngram":
        return 1
    return NGRAM_SHARE * (analyzer.ngram_max - analyzer.ngram_min + 1)


def postings_of_texts(texts: pa.ChunkedArray, analyzer: Analyzer) -> Postings:
    """The postings of some texts."""
    return postings_of(tokenize(texts, analyzer, positions=analyzer.positions), positions=analyzer.positions)


def _extend(covered: list[Covered], more: Covered) -> None:
    """Add rows of a fragment; those that follow the last ones are one run with them."""
    if covered and covered[-1].name == more.name and covered[-1].first + covered[-1].rows == more.first:
        last = covered.pop()
        more = Covered(last.name, last.rows + more.rows, last.first)
    covered.append(more)


def _made(postings: Postings, covered: list[Covered], name: str) -> MadePart:
    data, facts = encode_part(postings)
    return MadePart(part_file(data, facts, name=name, fragments=covered), data)
