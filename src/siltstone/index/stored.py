"""Postings to the bytes of a part, and back.

What must hold:
- The same postings give the same bytes, and reading them gives the same postings.
- Work goes page by page, with arrays of a page's size: what is needed besides the postings and the bytes is small.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from siltstone.errors import LimitExceededError
from siltstone.format.frame import digest
from siltstone.format.text import TOKEN_BYTES_MAX, Page, PartFacts, PartFile
from siltstone.format.text_part import (
    BLOCK,
    DOCUMENTS_MAX,
    MAGIC,
    PAGE_TERMS,
    TOKENS_MAX,
    BlockTable,
    Numbers,
    PageTable,
    check_version,
    checked,
    compress,
    damaged,
    decode_docs,
    decode_end,
    decode_lengths,
    decode_page,
    decode_positions,
    encode_end,
    encode_lengths,
    encode_page,
    summed,
    to_floor,
)
from siltstone.index.lexicon import Lexicon
from siltstone.index.postings import Postings, position_starts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from siltstone.format.text import Covered


def encode_part(postings: Postings) -> tuple[bytes, PartFacts]:
    """The bytes of a part, and what a reader needs of them beforehand. Positions are kept if they are there."""
    _check_limits(postings)
    pieces, at, tables = [MAGIC], len(MAGIC), []
    lexicon, places = Lexicon.of(postings.terms), position_starts(postings)
    for start in range(0, len(lexicon), PAGE_TERMS):
        terms = slice(start, min(start + PAGE_TERMS, len(lexicon)))
        blocks, table = _encode_blocks(postings, terms, places)
        pieces += blocks
        offsets = lexicon.offsets[terms.start : terms.stop + 1]
        tables.append(table._replace(offset=at, term_offsets=offsets, term_bytes=lexicon.bytes_of(terms)))
        at += sum(map(len, blocks))
    pieces.append(encode_lengths(postings.lengths, postings.present))
    lengths = (at, len(pieces[-1]), summed(pieces[-1]))
    at += len(pieces[-1])
    pages = []
    for number, table in enumerate(tables):
        pieces.append(encode_page(table))
        pages.append(Page(lexicon[number * PAGE_TERMS], at, len(pieces[-1]), summed(pieces[-1])))
        at += len(pieces[-1])
    facts = PartFacts(
        documents=len(postings.lengths),
        tokens=int(postings.lengths.sum(dtype=np.int64)),
        terms=len(lexicon),
        postings=len(postings.docs),
        positions=postings.positions is not None,
        lengths=lengths,
        nulls=len(postings.present) - int(np.count_nonzero(postings.present)),
        pages=tuple(pages),
    )
    pieces.append(encode_end(facts))
    return b"".join(pieces), facts


def part_file(data: bytes, facts: PartFacts, *, name: str, fragments: Sequence[Covered]) -> PartFile:
    """The record of a part's file."""
    fields = {field: getattr(facts, field) for field in PartFacts.__struct_fields__}
    return PartFile(name=name, bytes=len(data), sha256=digest(data), fragments=tuple(fragments), **fields)


def _check_limits(postings: Postings) -> None:
    tokens = int(postings.lengths.sum(dtype=np.int64))
    longest = int(np.diff(Lexicon.of(postings.terms).offsets).max(initial=0))
    for found, most, what in (
        (len(postings.lengths), DOCUMENTS_MAX, "documents in a part"),
        (tokens, TOKENS_MAX, "tokens in a part"),
        (longest, TOKEN_BYTES_MAX, "bytes in a term"),
    ):
        if found > most:
            raise LimitExceededError(f"{found} {what} are over the limit of {most}", hint="index less at a time")


def _encode_blocks(postings: Postings, terms: slice, places: NDArray[np.int64]) -> tuple[list[bytes], PageTable]:
    """The blocks of a page's terms, and what is known of terms and blocks then."""
    first, last = int(postings.starts[terms.start]), int(postings.starts[terms.stop])
    starts = postings.starts[terms.start : terms.stop + 1] - first
    docs, freqs = postings.docs[first:last], postings.freqs[first:last]
    lengths = postings.lengths[docs]
    edges = np.array(_cut(starts), np.int64)
    begins, low = edges[:-1], np.minimum.reduceat(docs, edges[:-1])
    gaps = Numbers(_doc_gaps(docs, starts, begins, low), edges)
    less = Numbers(freqs - np.uint32(1), edges)
    raw, widths = _joined(gaps, less, len(begins))
    blocks = [compress(one) for one in raw]
    raw_positions, position_widths = [b""] * len(begins), [0] * len(begins)
    if postings.positions is not None:
        ends = np.cumsum(freqs, dtype=np.int64)
        own = postings.positions[places[terms.start] : places[terms.stop]]
        packed = Numbers(_position_gaps(own, ends), np.concatenate((np.zeros(1, np.int64), ends[edges[1:] - 1])))
        raw_positions, position_widths = map(list, zip(*map(packed.block, range(len(begins))), strict=True))
    positions = [compress(one) if one else b"" for one in raw_positions]
    table = BlockTable(
        _sizes(blocks),
        _sizes(raw),
        _sizes(positions),
        _sizes(raw_positions),
        np.diff(edges),
        low.astype(np.int64),
        np.maximum.reduceat(docs, begins).astype(np.int64),
        np.maximum.reduceat(freqs, begins).astype(np.int64),
        np.minimum.reduceat(lengths, begins).astype(np.int64),
        np.array([*widths, position_widths], np.uint8),
        np.array([[*map(summed, blocks)], [summed(one) if one else 0 for one in positions]], np.uint64),
    )
    page = PageTable(
        0,
        starts,
        b"",
        np.diff(starts).astype(np.uint32),
        np.maximum.reduceat(freqs, starts[:-1]),
        to_floor(np.minimum.reduceat(lengths, starts[:-1])),
        table,
    )
    return blocks + positions, page


def _cut(starts: NDArray[np.int64]) -> list[int]:
    """Where the blocks of a page begin, and where the last ends: whole small terms, or slices of a large one."""
    at = starts.tolist()
    edges, term = [0], 0
    for large in [*np.flatnonzero(np.diff(starts) >= BLOCK).tolist(), len(at) - 1]:
        while term < large:
            term = bisect_right(at, at[term] + BLOCK, term + 1, large + 1) - 1
            edges.append(at[term])
        if term < len(at) - 1:
            edges.extend(range(at[term] + BLOCK, at[term + 1], BLOCK))
            edges.append(at[term + 1])
            term += 1
    return edges


def _doc_gaps(
    docs: NDArray[np.uint32], starts: NDArray[np.int64], begins: NDArray[np.int64], low: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    gaps = docs.copy()
    gaps[1:] -= docs[:-1]
    heads = np.union1d(starts[:-1], begins)
    gaps[heads] = docs[heads] - low[np.searchsorted(begins, heads, "right") - 1]
    return gaps


def _position_gaps(positions: NDArray[np.uint32], ends: NDArray[np.int64]) -> NDArray[np.uint32]:
    gaps = positions.copy()
    gaps[1:] -= positions[:-1]
    gaps[0] = positions[0]
    heads = ends[:-1]
    gaps[heads] = positions[heads]
    return gaps


def _joined(gaps: Numbers, freqs: Numbers, count: int) -> tuple[list[bytes], tuple[list[int], list[int]]]:
    raw, widths = [], ([0] * count, [0] * count)
    for number in range(count):
        one, widths[0][number] = gaps.block(number)
        other, widths[1][number] = freqs.block(number)
        raw.append(one + other)
    return raw, widths


def _sizes(pieces: Sequence[bytes]) -> NDArray[np.int64]:
    return np.fromiter(map(len, pieces), np.int64, len(pieces))


# -- and back --------------------------------------------------------------------------------------


def decode_part(data: bytes, facts: PartFacts, *, name: str) -> Postings:
    """The postings of a whole part; every byte of it is checked."""
    view = memoryview(data)
    check_version(view, name)
    if bytes(view[: len(MAGIC)]) != MAGIC or decode_end(view, name=name) != _only_facts(facts):
        raise damaged("it is not the part that its record says", name)
    length = facts.lengths
    lengths, present = decode_lengths(view[length[0] : length[0] + length[1]], facts=facts, name=name)
    _check_limits_of(facts, len(data), name)
    out = _Out(facts)
    at, next_page = len(MAGIC), length[0] + length[1]
    for page in facts.pages:
        piece = checked(view[page.offset : page.offset + page.length], page.check, what="a dictionary page", name=name)
        table = decode_page(piece, facts=facts, name=name)
        if table.offset != at or page.offset != next_page or table.term_bytes[: table.term_offsets[1]] != page.first:
            raise damaged("its pieces are not where they belong", name)
        at = out.add(view, table, name)
        next_page = page.offset + page.length
    if at != length[0] or next_page + len(encode_end(_only_facts(facts))) != len(data):
        raise damaged("its pieces are not all of it", name)
    return out.postings(lengths, present, name)


def _only_facts(facts: PartFacts) -> PartFacts:
    """Without what a subclass adds."""
    return PartFacts(**{field: getattr(facts, field) for field in PartFacts.__struct_fields__})


def _check_limits_of(facts: PartFacts, size: int, name: str) -> None:
    if not facts.postings <= facts.tokens <= TOKENS_MAX or facts.terms > PAGE_TERMS * len(facts.pages):
        raise damaged(f"its record names {facts.postings} postings in {size} bytes", name)


class _Out:
    """The postings of a part, page after page."""

    def __init__(self, facts: PartFacts) -> None:
        self._facts = facts
        self._docs = np.empty(facts.postings, np.uint32)
        self._freqs = np.empty(facts.postings, np.uint32)
        self._positions = np.empty(facts.tokens, np.uint32) if facts.positions else None
        self._counts: list[NDArray[np.uint32]] = []
        self._terms: list[pa.Array] = []
        self._at = self._places = 0

    def add(self, view: memoryview, table: PageTable, name: str) -> int:
        """A page's blocks; returns where they end."""
        blocks = table.blocks
        edges = np.concatenate((np.zeros(1, np.int64), np.cumsum(blocks.postings)))
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(table.df, dtype=np.int64)))
        if self._at + edges[-1] > len(self._docs):
            raise damaged("it has more postings than its record says", name)
        at, places_at = table.offset, table.offset + int(blocks.docs_bytes.sum())
        for number in range(len(blocks.postings)):
            end = at + int(blocks.docs_bytes[number])
            heads = block_heads(starts, int(edges[number]), int(edges[number + 1]))
            docs, freqs = decode_docs(view[at:end], blocks, number, heads, name=name)
            self._docs[self._at : self._at + len(docs)] = docs
            self._freqs[self._at : self._at + len(docs)] = freqs
            self._at += len(docs)
            at = end
            if self._positions is not None:
                end = places_at + int(blocks.positions_bytes[number])
                ends = np.cumsum(freqs, dtype=np.int64)
                if self._places + ends[-1] > len(self._positions):
                    raise damaged("it has more positions than its record says", name)
                found = decode_positions(view[places_at:end], blocks, number, ends, name=name)
                self._positions[self._places : self._places + len(found)] = found
                self._places += len(found)
                places_at = end
        self._counts.append(table.df)
        self._terms.append(Lexicon(table.term_offsets, table.term_bytes).array())
        return places_at

    def postings(self, lengths: NDArray[np.uint32], present: NDArray[np.bool_], name: str) -> Postings:
        """All of them."""
        terms = pa.chunked_array(self._terms, pa.large_binary()).combine_chunks()
        if self._at != len(self._docs) or len(terms) != self._facts.terms:
            raise damaged("it has fewer postings than its record says", name)
        if self._positions is not None and self._places != len(self._positions):
            raise damaged("it has fewer positions than its record says", name)
        starts = np.zeros(len(terms) + 1, np.int64)
        if self._counts:
            np.cumsum(np.concatenate(self._counts), dtype=np.int64, out=starts[1:])
        return Postings(terms, starts, self._docs, self._freqs, self._positions, lengths, present)


def block_heads(starts: NDArray[np.int64], begin: int, end: int) -> NDArray[np.int64]:
    """Where in a block a term begins, or goes on: at 0 first."""
    first, last = np.searchsorted(starts, (begin, end))
    heads = starts[first:last] - begin
    return heads if len(heads) and not heads[0] else np.concatenate((np.zeros(1, np.int64), heads))
