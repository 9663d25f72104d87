"""The bytes of a part of a text index: one object with the postings of some documents.

Layout, little endian::

    magic "SLTtext1"
    for each dictionary page: its blocks of documents, then its blocks of positions
    the lengths of documents
    the dictionary pages
    the facts (``PartFacts``, JSON), their length (4 bytes), their sum (8 bytes), magic

What must hold:
- The pieces lie one behind the other without a gap. Each is read by its range, and its sum (XXH3 with 64 bits, without
  the lowest) is known from elsewhere: that of a block from its page, that of a page and of the lengths from the facts.
- A sum is checked before anything else is believed; then sizes, before anything is allocated by them. What does not
  fit is a CorruptionError that names the object.
- The same postings give the same bytes: no choice is left to the writer. Compression is zstd, level 1.

Numbers: of each the lower of it and 255 as a byte; then what those of 255 and more are over 255, byte plane after byte
plane, the lowest first, in as many planes as the largest needs.

A block has at most ``BLOCK`` postings: some whole terms, or a slice of one. Documents are gaps; the first of each term
counts from the block's first document. Frequencies follow, each less one. The block of positions has those of the same
postings: gaps, the first of each posting as it is.

A dictionary page has at most ``PAGE_TERMS`` terms: its size before compression (4 bytes), then compressed: how many
terms and blocks (4 bytes each), where its first block is (8 bytes), the columns of terms and of blocks (those of four
bytes as planes), and the terms' bytes.

Lengths: how many planes (1 byte), then compressed the planes of: 0 for null, or the length and one more.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import xxhash

from siltstone.errors import CorruptionError, UnsupportedFormatError
from siltstone.format.records import decode_json, too_large
from siltstone.format.text import PartFacts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = bytes | memoryview

MAGIC = b"SLTtext1"
BLOCK = 4096  # postings that are read together
PAGE_TERMS = 2048
DOCUMENTS_MAX = 2**32 - 2  # of a part
TOKENS_MAX = 2**29

_ESCAPE = 255
_CODEC = pa.Codec("zstd", 1)
_PAGE_HEAD = struct.Struct("<IIQ")
_SIZE = struct.Struct("<I")
_END = struct.Struct(f"<IQ{len(MAGIC)}s")
_TERM_BYTES = 1 + 4 + 4 + 1
_BLOCK_COLUMNS = 9
_BLOCK_BYTES = 4 * _BLOCK_COLUMNS + 3 + 2 * 8
_BLOCK_RAW_MAX = 2 * 5 * BLOCK


def summed(data: Bytes) -> int:
    """The sum of a piece."""
    return xxhash.xxh3_64_intdigest(data) >> 1


def checked(data: Bytes, check: int, *, what: str, name: str) -> Bytes:
    """A piece that has its sum."""
    if summed(data) != check:
        raise damaged(f"{what} changed since it was written", name)
    return data


def damaged(reason: str, name: str) -> CorruptionError:
    """The error that says what is wrong with a part."""
    return CorruptionError(f"{name} is damaged: {reason}", hint="restore it from a copy, or index anew", object=name)


def check_version(data: Bytes, name: str) -> None:
    """A part of a newer format, which says so at both ends, is told apart from a damaged one."""
    found = bytes(data[: len(MAGIC)])
    version = found[len(MAGIC) - 1 :]
    if found[:-1] == MAGIC[:-1] and found != MAGIC and version.isdigit() and data[-len(MAGIC) :] == found:
        raise UnsupportedFormatError(
            f"{name} is a part of a text index of version {version.decode()}, this siltstone reads 1",
            hint="upgrade siltstone",
            object=name,
        )


def compress(raw: Bytes) -> bytes:
    """A piece, compressed."""
    return _CODEC.compress(raw, asbytes=True)


def decompress(data: Bytes, size: int, *, what: str, name: str) -> NDArray[np.uint8]:
    """A piece of a size that is known and bounded."""
    try:
        return np.frombuffer(_CODEC.decompress(data, decompressed_size=size), np.uint8, size)
    except (OSError, ValueError) as error:
        raise damaged(f"{what} can't be decompressed: {error}", name) from error
    except MemoryError as error:
        raise too_large(name) from error


# -- numbers ---------------------------------------------------------------------------------------


class Numbers:
    """Numbers of a page on their way to blocks."""

    def __init__(self, values: NDArray[np.uint32], edges: NDArray[np.int64]) -> None:
        """The values, and where blocks begin and end among them."""
        self._low = memoryview(np.minimum(values, _ESCAPE).astype(np.uint8))  # type: ignore[arg-type]
        places = np.flatnonzero(values >= _ESCAPE)
        self._over = values[places] - np.uint32(_ESCAPE)
        self._planes = self._over.astype("<u4", copy=False).view(np.uint8).reshape(-1, 4)
        self._edges = edges.tolist()
        self._over_edges = np.searchsorted(places, edges).tolist()

    def block(self, number: int) -> tuple[bytes, int]:
        """The bytes of a block's numbers, and how many planes they have."""
        low = self._low[self._edges[number] : self._edges[number + 1]]
        start, end = self._over_edges[number], self._over_edges[number + 1]
        if start == end:
            return bytes(low), 0
        width = planes_for(int(self._over[start:end].max()))
        return bytes(low) + self._planes[start:end, :width].T.tobytes(), width


def numbers(
    raw: NDArray[np.uint8], count: int, width: int, *, what: str, name: str
) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """So many numbers from the start of a piece, and the rest of it."""
    low = raw[:count]
    places = np.flatnonzero(low == _ESCAPE)
    over = len(places) * width
    if len(low) != count or len(raw) < count + over or width > 4 or (len(places) and not width):
        raise damaged(f"{what} is too short", name)
    values = low.astype(np.uint32)
    if over:
        values[places] += from_planes(raw[count : count + over], len(places))
    return values, raw[count + over :]


def planes_for(largest: int) -> int:
    """How many bytes a number needs; at least one."""
    return max(1, (largest.bit_length() + 7) // 8)


def to_planes(values: NDArray[np.uint32], width: int = 4) -> bytes:
    """The lowest bytes of all, then the next ones."""
    return values.astype("<u4", copy=False).view(np.uint8).reshape(-1, 4)[:, :width].T.tobytes()


def from_planes(raw: NDArray[np.uint8], count: int) -> NDArray[np.uint32]:
    """Numbers from all their planes."""
    values = raw[:count].astype(np.uint32)
    for number in range(1, len(raw) // count if count else 0):
        plane = raw[number * count : (number + 1) * count]
        if plane.any():
            values |= plane.astype(np.uint32) << np.uint32(8 * number)
    return values


# Lengths as bounds: one byte with four significant bits, rounded down.
_FLOORS = np.array([n if n < 16 else ((n & 7) | 8) << ((n >> 3) - 1) for n in range(240)], np.uint32)


def to_floor(lengths: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """A byte for each length, which stands for at most that length."""
    return (np.searchsorted(_FLOORS, lengths, "right") - 1).astype(np.uint8)


def from_floor(code: int) -> int:
    """What such a byte stands for."""
    return int(_FLOORS[min(code, len(_FLOORS) - 1)])


# -- pieces ----------------------------------------------------------------------------------------


class BlockTable(NamedTuple):
    """What a page knows of its blocks, one number each."""

    docs_bytes: NDArray[np.int64]
    docs_raw: NDArray[np.int64]  # before compression
    positions_bytes: NDArray[np.int64]
    positions_raw: NDArray[np.int64]
    postings: NDArray[np.int64]
    first_doc: NDArray[np.int64]
    last_doc: NDArray[np.int64]
    max_freq: NDArray[np.int64]
    min_length: NDArray[np.int64]
    widths: NDArray[np.uint8]  # three rows: planes of gaps, frequencies and positions
    sums: NDArray[np.uint64]  # two rows: of documents, of positions


class PageTable(NamedTuple):
    """A dictionary page, decoded."""

    offset: int  # of its first block
    term_offsets: NDArray[np.int64]
    term_bytes: bytes
    df: NDArray[np.uint32]
    max_freq: NDArray[np.uint32]
    min_length: NDArray[np.uint8]  # a floor
    blocks: BlockTable


def encode_page(page: PageTable) -> bytes:
    """A dictionary page's bytes."""
    blocks = page.blocks
    columns = b"".join(to_planes(one.astype(np.uint32)) for one in blocks[:_BLOCK_COLUMNS])
    raw = b"".join(
        (
            _PAGE_HEAD.pack(len(page.df), len(blocks.postings), page.offset),
            np.diff(page.term_offsets).astype(np.uint8).tobytes(),
            to_planes(page.df),
            to_planes(page.max_freq),
            page.min_length.tobytes(),
            columns,
            blocks.widths.tobytes(),
            blocks.sums.astype("<u8").tobytes(),
            page.term_bytes,
        )
    )
    return _SIZE.pack(len(raw)) + compress(raw)


def decode_page(data: Bytes, *, facts: PartFacts, name: str) -> PageTable:
    """A dictionary page from its bytes, whose sum was checked."""
    what = "a dictionary page"
    blocks_max = facts.postings // BLOCK + 2 * PAGE_TERMS
    most = _PAGE_HEAD.size + PAGE_TERMS * (_TERM_BYTES + 255) + blocks_max * _BLOCK_BYTES
    size = _SIZE.unpack_from(data)[0] if len(data) > _SIZE.size else 0
    if not _PAGE_HEAD.size <= size <= most:
        raise damaged(f"{what} says that it has {size} bytes", name)
    raw = decompress(data[_SIZE.size :], size, what=what, name=name)
    terms, blocks, offset = _PAGE_HEAD.unpack_from(raw.data)
    fixed = _PAGE_HEAD.size + terms * _TERM_BYTES + blocks * _BLOCK_BYTES
    if not 0 < terms <= PAGE_TERMS or not 0 < blocks <= blocks_max or size < fixed:
        raise damaged(f"{what} says that it has {terms} terms in {blocks} blocks", name)
    cut = _Cutter(raw, _PAGE_HEAD.size)
    offsets = np.zeros(terms + 1, np.int64)
    np.cumsum(cut.take(terms), out=offsets[1:])
    df, max_freq = from_planes(cut.take(4 * terms), terms), from_planes(cut.take(4 * terms), terms)
    min_length = cut.take(terms)
    columns = [from_planes(cut.take(4 * blocks), blocks).astype(np.int64) for _ in range(_BLOCK_COLUMNS)]
    widths = cut.take(3 * blocks).reshape(3, blocks)
    sums = cut.take(16 * blocks).view("<u8").reshape(2, blocks)
    table = PageTable(
        offset,
        offsets,
        raw[fixed:].tobytes(),
        df,
        max_freq,
        min_length,
        BlockTable(*columns, widths=widths, sums=sums),  # type: ignore[arg-type, misc]
    )
    _check_page(table, facts, name)
    return table


class _Cutter:
    """Takes one part of a piece after the other."""

    def __init__(self, raw: NDArray[np.uint8], at: int) -> None:
        self._raw = raw
        self._at = at

    def take(self, count: int) -> NDArray[np.uint8]:
        found = self._raw[self._at : self._at + count]
        self._at += count
        return found.copy()  # of its own: the piece is not kept for it, and numbers in it need not be aligned


def _check_page(page: PageTable, facts: PartFacts, name: str) -> None:
    blocks = page.blocks
    end = page.offset + int(blocks.docs_bytes.sum()) + int(blocks.positions_bytes.sum())
    fits = (
        page.term_offsets[-1] == len(page.term_bytes)
        and int(page.df.sum(dtype=np.int64)) == int(blocks.postings.sum())
        and page.df.min() > 0
        and len(MAGIC) <= page.offset <= end <= facts.lengths[0]
        and 0 < blocks.postings.min() <= blocks.postings.max() <= BLOCK
        and blocks.docs_raw.max() <= _BLOCK_RAW_MAX
        and blocks.positions_raw.max() <= 5 * facts.tokens
        and (blocks.first_doc <= blocks.last_doc).all()
        and blocks.last_doc.max() < facts.documents
    )
    if not fits:
        raise damaged("the numbers of a dictionary page don't fit together", name)


def decode_docs(
    data: Bytes, blocks: BlockTable, number: int, heads: NDArray[np.int64], *, name: str
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Documents and frequencies of a block; ``heads`` says where in it a term begins, the first at 0."""
    what = "a block of postings"
    checked(data, int(blocks.sums[0, number]), what=what, name=name)
    count, first = int(blocks.postings[number]), int(blocks.first_doc[number])
    raw = decompress(data, int(blocks.docs_raw[number]), what=what, name=name)
    gaps, raw = numbers(raw, count, int(blocks.widths[0, number]), what=what, name=name)
    freqs, raw = numbers(raw, count, int(blocks.widths[1, number]), what=what, name=name)
    if len(raw):
        raise damaged(f"{what} is too long", name)
    docs = _restarted(gaps, heads)
    docs += np.uint32(first)
    freqs += np.uint32(1)
    if docs.max() != blocks.last_doc[number]:
        raise damaged(f"{what} has other documents than its page says", name)
    return docs, freqs


def decode_positions(
    data: Bytes, blocks: BlockTable, number: int, ends: NDArray[np.int64], *, name: str
) -> NDArray[np.uint32]:
    """Positions of a block; ``ends`` says where those of each posting end."""
    what = "a block of positions"
    checked(data, int(blocks.sums[1, number]), what=what, name=name)
    raw = decompress(data, int(blocks.positions_raw[number]), what=what, name=name)
    gaps, raw = numbers(raw, int(ends[-1]), int(blocks.widths[2, number]), what=what, name=name)
    if len(raw):
        raise damaged(f"{what} is too long", name)
    heads = np.zeros_like(ends)
    heads[1:] = ends[:-1]
    return _restarted(gaps, heads)


def _restarted(gaps: NDArray[np.uint32], heads: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Sums of gaps that begin anew at each head, the first at 0; the gaps are used up."""
    total = np.cumsum(gaps, dtype=np.uint32, out=gaps)  # over 32 bits it begins anew, which the difference undoes
    if len(heads) > 1:
        before = np.zeros(len(heads), np.uint32)
        before[1:] = total[heads[1:] - 1]
        total -= np.repeat(before, np.diff(heads, append=len(gaps)))
    return total


def encode_lengths(lengths: NDArray[np.uint32], present: NDArray[np.bool_]) -> bytes:
    """The lengths of documents, null told from empty."""
    stored = np.where(present, lengths + np.uint32(1), np.uint32(0))
    width = planes_for(int(stored.max()) if len(stored) else 0)
    return bytes((width,)) + compress(to_planes(stored, width))


def decode_lengths(data: Bytes, *, facts: PartFacts, name: str) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Lengths, and which documents are not null."""
    what = "the lengths of documents"
    checked(data, facts.lengths[2], what=what, name=name)
    width = data[0] if len(data) else 0
    if not 1 <= width <= 4:
        raise damaged(f"{what} have {width} bytes each", name)
    raw = decompress(data[1:], facts.documents * width, what=what, name=name)
    stored = from_planes(raw, facts.documents)
    present = stored > 0
    lengths = stored - present
    if int(lengths.sum(dtype=np.int64)) != facts.tokens or np.count_nonzero(present) + facts.nulls != facts.documents:
        raise damaged(f"{what} don't fit to {facts.tokens} tokens and {facts.nulls} nulls", name)
    return lengths, present


def encode_end(facts: PartFacts) -> bytes:
    """What ends a part."""
    raw = msgspec.json.encode(facts)
    return raw + _END.pack(len(raw), summed(raw), MAGIC)


def end_bytes(tail: Bytes) -> int:
    """How many of a part's last bytes are its end, by its very last ones."""
    return int(_END.unpack_from(tail, len(tail) - _END.size)[0]) + _END.size if len(tail) >= _END.size else 0


def decode_end(data: Bytes, *, name: str) -> PartFacts:
    """The facts at the end of a whole part, or of its last bytes."""
    size, check, magic = _END.unpack_from(data, len(data) - _END.size) if len(data) >= _END.size else (0, 0, b"")
    if magic != MAGIC or size + _END.size > len(data):
        raise damaged("it does not end as a part of a text index", name)
    raw = data[len(data) - _END.size - size : len(data) - _END.size]
    return decode_json(bytes(checked(raw, check, what="its end", name=name)), PartFacts, name)
