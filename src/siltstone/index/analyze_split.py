"""A column of texts taken apart into candidates of words, by bytes.

What must hold: a candidate is a longest run of bytes that may be part of a word, inside one text. Bytes beyond ASCII
may always be, so that characters stay whole and what they are is decided once for each distinct candidate.

A candidate is cut with the gap behind it, each byte of the gap a space: so bytes need not be moved together. Those that
differ in their gaps only become one when the distinct ones of all pieces are put together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from siltstone.format.text import Tokenizer

PIECE_BYTES = 4 * 1024 * 1024  # of text worked on at a time: what is made of it stays in the processor's cache


class Split(NamedTuple):
    """The candidates of a column."""

    words: pa.Array  # distinct, large_binary
    pieces: list[Piece]
    present: NDArray[np.bool_]  # for each text: it is not null


class Piece(NamedTuple):
    """The candidates of some texts that follow each other: text k has ``word[bounds[k]:bounds[k + 1]]``."""

    word: NDArray[np.int32]  # for each candidate, its place in the piece's own distinct ones
    own: NDArray[np.int32]  # for each of those, its place in the column's
    bounds: NDArray[np.int64]


class _Texts(NamedTuple):
    """Texts that follow each other: text k is ``data[bounds[k]:bounds[k + 1]]``."""

    data: NDArray[np.uint8]
    bounds: NDArray[np.int64]


def split(texts: pa.ChunkedArray | pa.Array, tokenizer: Tokenizer, *, lower: bool) -> Split:
    """Take a column apart. ASCII letters are put into lower case on the way where that is asked for."""
    cut = _whole if tokenizer == "raw" else _Cutter(tokenizer, lower=lower)
    present, encoded, bounds = [np.empty(0, np.bool_)], [], []
    for chunk in _plain_chunks(texts):
        present.append(chunk.is_valid().to_numpy(zero_copy_only=False))
        # What is below a null may be anything.
        for piece in _pieces(pc.fill_null(chunk, "") if chunk.null_count else chunk):
            found, places = cut(piece)
            encoded.append(found.dictionary_encode())  # each by itself: its table stays small and near
            bounds.append(places)
    own = pa.chunked_array([found.dictionary for found in encoded], pa.large_binary()).combine_chunks()
    together = (own if tokenizer == "raw" else _without_gaps(own)).dictionary_encode()
    ends = np.cumsum([len(found.dictionary) for found in encoded], dtype=np.int64)
    numbers = np.split(together.indices.to_numpy(), ends)
    pieces = [Piece(found.indices.to_numpy(), numbers[at], bounds[at]) for at, found in enumerate(encoded)]
    return Split(together.dictionary, pieces, np.concatenate(present))


def _without_gaps(candidates: pa.Array) -> pa.Array:
    return pc.ascii_rtrim(candidates.view(pa.large_string()), characters=" ").view(pa.large_binary())


def _plain_chunks(texts: pa.ChunkedArray | pa.Array) -> Iterator[pa.Array]:
    """The chunks as large strings."""
    kind = texts.type
    of_dictionary = pa.types.is_dictionary(kind)
    kind = kind.value_type if of_dictionary else kind
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise InvalidInputError(
            f"a column of type {texts.type} has no texts", hint="index a column of type string", type=str(texts.type)
        )
    for part in texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]:
        yield (part.dictionary_decode() if of_dictionary else part).cast(pa.large_string())


def _pieces(chunk: pa.Array) -> Iterator[_Texts]:
    if not len(chunk):
        return
    _, places, data = chunk.buffers()
    bounds = np.frombuffer(places, np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
    held = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    first = 0
    while first < len(chunk):
        end = int(np.searchsorted(bounds, bounds[first] + PIECE_BYTES, "right")) - 1
        end = max(end, first + 1)
        here = bounds[first : end + 1]
        yield _Texts(held[here[0] : here[-1]], here - here[0])
        first = end


def _whole(piece: _Texts) -> tuple[pa.Array, NDArray[np.int64]]:
    """Each text as it is; the empty ones have no word."""
    filled = np.diff(piece.bounds) > 0
    places = piece.bounds[np.concatenate([[True], filled])]
    return _binary(places, piece.data), np.concatenate([[0], np.cumsum(filled)])


class _Cutter:
    """Cuts texts where words begin."""

    def __init__(self, tokenizer: Tokenizer, *, lower: bool) -> None:
        characters = [chr(byte) for byte in range(128)]
        inside = [not each.isspace() if tokenizer == "whitespace" else each.isalnum() for each in characters]
        spelled = [each.lower() if lower else each for each in characters]
        table = "".join(each if kept else " " for each, kept in zip(spelled, inside, strict=True))
        self._table = table.encode() + bytes(range(128, 256))

    def __call__(self, piece: _Texts) -> tuple[pa.Array, NDArray[np.int64]]:
        data = np.frombuffer(piece.data.tobytes().translate(self._table), np.uint8)
        inside = data != ord(" ")
        begins = inside.copy()
        np.greater(inside[1:], inside[:-1], out=begins[1:])
        # A word begins where its text does, though the text before may end with one.
        firsts = piece.bounds[piece.bounds < len(data)]
        begins[firsts] = inside[firsts]
        starts = np.flatnonzero(begins)
        return _binary(np.append(starts, len(data)), data), np.searchsorted(starts, piece.bounds)


def _binary(places: NDArray[np.int64], data: NDArray[np.uint8]) -> pa.Array:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(places)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(places) - 1, buffers)
