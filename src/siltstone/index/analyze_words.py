"""The rules for one word: where it begins and ends, how it is spelled, and which term it becomes.

What must hold:
- A word's term depends on the word and the analyzer alone, never on the text around it: so a column is analyzed by its
  distinct words, and a query's word meets the same term.
- A character in ASCII and one beyond it follow the same rules; the shortcuts for ASCII change no term.
- A term is never empty, and never longer than the analyzer allows.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from siltstone.index.languages import stemmer_of, stop_words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.format.text import Analyzer

# What may be words: the letters and digits of ASCII, and everything beyond ASCII, which is looked at again.
_CANDIDATES = re.compile(r"[0-9A-Za-z\x80-\U0010ffff]+")
_NOT_SPACE = re.compile(r"\S+")
_MARKS = {"Mn", "Mc"}
_BETWEEN = "\ud800"  # stands between words that are worked on together: half a character, which is in no text
_FOLDED_MAX = 65_536  # characters that are kept; a text may have all there are
MARKS_MAX = 30  # on one letter; a word with more is taken as it is written
# Latin letters that Unicode does not take apart.
_LATIN = {
    "ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ð": "d", "Ð": "D",
    "đ": "d", "Đ": "D", "ħ": "h", "Ħ": "H", "\u0131": "i", "ł": "l", "Ł": "L", "ŋ": "n", "Ŋ": "N", "þ": "th", "Þ": "TH",
    "ŧ": "t", "Ŧ": "T",
}  # fmt: skip


def is_mark(character: str) -> bool:
    """Whether it belongs to the letter before it: an accent that is written apart, a vowel sign."""
    return unicodedata.category(character) in _MARKS


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where words begin and end: a letter or digit, then letters, digits and marks."""
    spans: list[tuple[int, int]] = []
    for found in _CANDIDATES.finditer(text):
        candidate = found.group()
        if candidate.isalnum():
            spans.append(found.span())
        else:
            start = found.start()
            spans.extend((start + begin, start + end) for begin, end in _spans_apart(candidate))
    return spans


def _spans_apart(candidate: str) -> Iterator[tuple[int, int]]:
    begin = -1
    for at, character in enumerate(candidate):
        if character.isalnum():
            begin = at if begin < 0 else begin
        elif begin >= 0 and not is_mark(character):
            yield begin, at
            begin = -1
    if begin >= 0:
        yield begin, len(candidate)


def space_spans(text: str) -> list[tuple[int, int]]:
    """Where runs of anything but white space begin and end."""
    return [found.span() for found in _NOT_SPACE.finditer(text)]


def spans(text: str, analyzer: Analyzer) -> list[tuple[int, int]]:
    """Where the words of a text are, in characters, by the analyzer's tokenizer."""
    if analyzer.tokenizer == "raw":
        return [(0, len(text))] if text else []
    return space_spans(text) if analyzer.tokenizer == "whitespace" else word_spans(text)


def split_apart(candidate: str, analyzer: Analyzer) -> list[str]:
    """The words of a candidate, which mostly is one."""
    whole = analyzer.tokenizer == "raw" or (analyzer.tokenizer != "whitespace" and candidate.isalnum())
    return [candidate] if whole else [candidate[begin:end] for begin, end in spans(candidate, analyzer)]


def spelled(words: list[str], analyzer: Analyzer) -> list[str]:
    """Words in the one spelling that their variants share: each as if it were alone, but all in one go."""
    if all(map(str.isascii, words)):
        return [word.lower() for word in words] if analyzer.lower else words
    text = _BETWEEN.join(words)
    if analyzer.fold:
        text = folded(text)
    return (text.lower() if analyzer.lower else text).split(_BETWEEN)


def folded(text: str) -> str:
    """A text with ASCII letters where it has Latin ones with accents, and one form of what can be written in several.

    Marks on other letters stay: in Cyrillic or Hindi they make another letter, not an accent.
    """
    words = text.translate(_FOLDED).split(_BETWEEN)
    unmarked = [word if word.isalnum() else _unmarked(word) for word in words]
    if max(map(len, unmarked), default=0) > MARKS_MAX and not all(map(_is_safe, unmarked)):
        unmarked = [unicodedata.normalize("NFC", word) if _is_safe(word) else word for word in unmarked]
        return _BETWEEN.join(unmarked)
    return unicodedata.normalize("NFC", _BETWEEN.join(unmarked))


def _is_safe(word: str) -> bool:
    """Whether no letter has more marks than a language uses: to sort them takes the square of their number."""
    run = 0
    for character in word if len(word) > MARKS_MAX and not word.isalnum() else "":
        run = run + 1 if unicodedata.combining(character) else 0
        if run > MARKS_MAX:
            return False
    return True


def _unmarked(word: str) -> str:
    """Without the marks on letters and digits of ASCII."""
    kept = []
    plain = False  # the last letter is of ASCII
    for character in word:
        if not (plain and is_mark(character)):
            plain = character.isascii() and character.isalnum()
            kept.append(character)
    return "".join(kept)


class _Folded(dict[int, str]):
    """What each character becomes by itself; filled as characters are met."""

    def __missing__(self, code: int) -> str:
        parts = unicodedata.normalize("NFKD", chr(code))
        if not all(part.isalnum() or is_mark(part) for part in parts):
            parts = chr(code)  # one half, a circled number: it would fall into pieces that are no word
        folded = unicodedata.normalize("NFC", _unmarked("".join(_LATIN.get(part, part) for part in parts)))
        if len(self) < _FOLDED_MAX:
            self[code] = folded
        return folded


_FOLDED = _Folded()


@lru_cache(maxsize=256)
def stopped(analyzer: Analyzer) -> frozenset[str]:
    """The stop words, as the analyzer spells them."""
    if not analyzer.stop_words:
        return frozenset()
    return frozenset(spelled(list(stop_words_of(analyzer.language)), analyzer))


def terms(words: list[str], analyzer: Analyzer) -> list[str]:
    """What spelled words become: terms, and ``""`` for those that are left out.

    Words of which n-grams are made may be of any length: what is limited there is the n-gram.
    """
    dropped = stopped(analyzer)
    longest = sys.maxsize if analyzer.tokenizer == "ngram" else analyzer.max_token_bytes
    short = longest // 4  # characters that can't be over
    kept = ["" if word in dropped or (len(word) > short and is_over(word, longest)) else word for word in words]
    if not analyzer.stem:
        return kept
    stems = stemmer_of(analyzer.language).stemWords(kept)
    # A stem is rarely longer than its word, and rarely empty; then the word stays as it is.
    return [
        stem if stem and (len(stem) <= short or not is_over(stem, longest)) else word
        for stem, word in zip(stems, kept, strict=True)
    ]


def is_over(word: str, limit_bytes: int) -> bool:
    """Whether it takes more bytes."""
    return len(word.encode()) > limit_bytes


def grams(term: str, analyzer: Analyzer) -> Iterator[str]:
    """The n-grams of a word's term, as ``gram_places`` has them; ``""`` stands for one that is left out.

    That is also all there is of a word that is left out.
    """
    if not term:
        return iter([""])
    found = (term[begin:end] for begin, end in gram_places(len(term), analyzer))
    longest = analyzer.max_token_bytes
    if analyzer.ngram_max * 4 <= longest:
        return found
    return ("" if is_over(gram, longest) else gram for gram in found)


def gram_places(length: int, analyzer: Analyzer) -> Iterator[tuple[int, int]]:
    """Where the n-grams of a word begin and end: by where they begin, and there from short to long."""
    shortest, longest = analyzer.ngram_min, analyzer.ngram_max
    return (
        (begin, end)
        for begin in range(length - shortest + 1)
        for end in range(begin + shortest, min(begin + longest, length) + 1)
    )
