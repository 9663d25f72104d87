"""Terms that look like a word: those that begin with it, and those that a few edits make of it.

What must hold:
- Every term of every part that fits is found; none is left out because there are many.
- An edit puts in, takes out or changes one character, of whatever script (Levenshtein's distance).
- Terms that have nothing in common with the word are not like it, however few edits that takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from siltstone.index.part import Part


def like(part: Part, word: str, *, edits: int, prefix_length: int = 0) -> list[tuple[bytes, float]]:
    """The terms that few enough edits make of a word, in order, and how much each is like it (1: the word itself)."""
    found: list[tuple[bytes, float]] = []
    for terms in _in_chunks(part.all_terms()):
        for term, distance, length in near(terms, word, edits=edits, prefix_length=prefix_length):
            likeness = 1.0 - distance / max(length, len(word))
            if likeness > 0:
                found.append((term, likeness))
    return sorted(found)


def near(terms: pa.Array, word: str, *, edits: int, prefix_length: int = 0) -> list[tuple[bytes, int, int]]:
    """Those of some terms within the edits: each with its distance and its length in characters."""
    starts, sizes, data = _raw(terms)
    if not len(data):
        return []
    lengths = pc.utf8_length(_as_strings(terms)).to_numpy().astype(np.int64)
    chosen = np.flatnonzero(abs(lengths - len(word)) <= edits)
    plain = sizes[chosen] == lengths[chosen]  # of ASCII
    width = len(word) + edits
    spelled: list[tuple[NDArray[np.intp], NDArray[Any]]] = [
        (chosen[plain], _letters(starts[chosen[plain]], lengths[chosen[plain]], data, width)),
        (chosen[~plain], _characters(terms, chosen[~plain], width)),
    ]
    found: list[tuple[bytes, int, int]] = []
    for numbers, letters in spelled:
        hopeful = np.flatnonzero(_may_be(letters, word, edits))
        if not len(hopeful):
            continue
        numbers, letters = numbers[hopeful], letters[:, hopeful]  # noqa: PLW2901  # fewer of them
        distances = _distances(letters, lengths[numbers], word, edits)
        fits = distances <= (edits if prefix_length <= len(word) else 0)  # a longer beginning is the whole word
        for at in range(min(prefix_length, len(word))):
            fits &= letters[at] == ord(word[at])
        fitting = numbers[fits]
        names = terms.take(pa.array(fitting)).to_pylist()
        found.extend(zip(names, distances[fits].tolist(), lengths[fitting].tolist(), strict=True))
    return found


def _in_chunks(pages: Iterable[pa.Array], least: int = 65_536) -> Iterable[pa.Array]:
    """Small arrays joined to larger ones."""
    waiting: list[pa.Array] = []
    count = 0
    for page in pages:
        waiting.append(page)
        count += len(page)
        if count >= least:
            yield pa.concat_arrays(waiting)
            waiting, count = [], 0
    if waiting:
        yield pa.concat_arrays(waiting)


def _raw(terms: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Where terms begin, how many bytes each has, and the bytes."""
    _, offsets, data = terms.buffers()
    if not len(terms) or data is None:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int64)[terms.offset : terms.offset + len(terms) + 1]
    return bounds[:-1], np.diff(bounds), np.frombuffer(data, np.uint8)


def _as_strings(terms: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(pa.large_string(), len(terms), terms.buffers(), offset=terms.offset)


def _letters(
    starts: NDArray[np.int64], lengths: NDArray[np.int64], data: NDArray[np.uint8], width: int
) -> NDArray[np.uint8]:
    """The n-th character of each term, for each n; 0 behind its end."""
    letters = np.empty((width, len(starts)), np.uint8)
    for at in range(width):
        np.take(data, starts + at, mode="clip", out=letters[at])
        letters[at] *= lengths > at
    return letters


def _may_be(letters: NDArray[Any], word: str, edits: int) -> NDArray[np.bool_]:
    """Which terms have few enough characters that the word has not, and miss few enough of its own.

    Each of them takes an edit. It is asked by their last bits, which some share: that only lets more terms pass.
    """
    bits = np.zeros(letters.shape[1], np.uint64)
    for row in letters:
        bits |= np.left_shift(np.uint64(1), (row & 63).astype(np.uint64)) * (row > 0)
    # What is 0 is behind a term's end, or NUL: it is not asked for.
    own = np.bitwise_or.reduce(
        [np.uint64(1 << (ord(character) & 63)) for character in word if ord(character)] or [np.uint64(0)]
    )
    missed, added = np.bitwise_count(own & ~bits), np.bitwise_count(bits & ~own)
    hopeful: NDArray[np.bool_] = (missed <= edits) & (added <= edits)
    return hopeful


def _characters(terms: pa.Array, numbers: NDArray[np.intp], width: int) -> NDArray[np.uint32]:
    """The same for terms beyond ASCII."""
    names = [name.decode() for name in terms.take(pa.array(numbers)).to_pylist()]
    return np.ascontiguousarray(
        np.array(names, f"<U{max(width, 1)}").view(np.uint32).reshape(len(names), max(width, 1)).T
    )


def _distances(letters: NDArray[Any], lengths: NDArray[np.int64], word: str, edits: int) -> NDArray[np.int64]:
    """How many edits make each term of the word; what is over ``edits`` is only known to be over."""
    width, count = letters.shape
    over = np.int16(edits + 1)
    # One row of the table of distances, for all terms at once; only places within the edits of the diagonal matter.
    row = np.full((width + 1, count), over, np.int16)
    for at in range(min(edits, width) + 1):
        row[at] = at
    for number, character in enumerate(word, 1):
        before = row
        row = np.full_like(before, over)
        if number <= edits:
            row[0] = number
        for at in range(max(1, number - edits), min(width, number + edits) + 1):
            changed = before[at - 1] + (letters[at - 1] != ord(character))
            np.minimum(changed, before[at] + 1, out=changed)
            np.minimum(changed, row[at - 1] + 1, out=row[at])
            np.minimum(row[at], over, out=row[at])
    return row[lengths, np.arange(count)].astype(np.int64)
