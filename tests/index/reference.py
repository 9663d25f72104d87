"""The rules of an analyzer, written down a second time: one character and one word after another, nothing shared.

Slow on purpose. ``analyzed`` says what the tokens of one text are, ``tokenized`` what those of a column are.
"""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import pyarrow as pa
import Stemmer

from siltstone.index.analyze import Tokens
from siltstone.index.stop_words import STOP_WORDS

LATIN = "ß=ss ẞ=SS æ=ae Æ=AE œ=oe Œ=OE ø=o Ø=O ð=d Ð=D đ=d Đ=D ħ=h Ħ=H \u0131=i ł=l Ł=L ŋ=n Ŋ=N þ=th Þ=TH ŧ=t Ŧ=T"
LETTERS = dict(pair.split("=") for pair in LATIN.split())


def is_mark(character):
    return unicodedata.category(character) in ("Mn", "Mc")


def words_of(text, tokenizer):
    """The words of a text as they stand in it."""
    if tokenizer == "raw":
        return [text] if text else []
    if tokenizer == "whitespace":
        return text.split()
    words = []
    inside = False
    for character in text:
        if character.isalnum():
            if not inside:
                words.append("")
            inside = True
        elif not is_mark(character):
            inside = False
        if inside:
            words[-1] += character
    return words


def folded(word):
    letters = []
    for character in word:
        parts = unicodedata.normalize("NFKD", character)
        if all(part.isalnum() or is_mark(part) for part in parts):
            for part in parts:
                letters.extend(LETTERS.get(part, part))
        else:
            letters.append(character)
    kept = []
    base = ""
    for letter in letters:
        if not is_mark(letter):
            base = letter
        elif base and base.isascii() and base.isalnum():
            continue
        kept.append(letter)
    if re.search(r"m{31}", "".join("m" if unicodedata.combining(letter) else "-" for letter in kept)):
        return "".join(kept)  # more marks on a letter than a language uses
    return unicodedata.normalize("NFC", "".join(kept))


def spelled(word, analyzer):
    if analyzer.fold:
        word = folded(word)
    if analyzer.lower:
        word = word.lower()
    return word


def term_of(word, analyzer):
    """The term of a word, or None where it is left out."""
    limited = analyzer.tokenizer != "ngram"
    word = spelled(word, analyzer)
    if limited and len(word.encode()) > analyzer.max_token_bytes:
        return None
    if analyzer.stop_words and word in {spelled(stop, analyzer) for stop in STOP_WORDS[analyzer.language].split()}:
        return None
    if analyzer.stem:
        stem = Stemmer.Stemmer(analyzer.language).stemWord(word)
        if stem and not (limited and len(stem.encode()) > analyzer.max_token_bytes):
            word = stem
    return word


def analyzed(text, analyzer):
    """``[(term, position)]`` of one text."""
    found = []
    position = 0
    for word in words_of(text, analyzer.tokenizer):
        term = term_of(word, analyzer)
        for token in pieces_of(term, analyzer):
            if token is not None:
                found.append((token.encode(), position))
            position += 1
    return found


def pieces_of(term, analyzer):
    if analyzer.tokenizer != "ngram" or term is None:
        return [term]
    grams = []
    for begin in range(len(term)):
        for size in range(analyzer.ngram_min, analyzer.ngram_max + 1):
            gram = term[begin : begin + size]
            if len(gram) == size:
                grams.append(gram if len(gram.encode()) <= analyzer.max_token_bytes else None)
    return grams


def tokenized(texts, analyzer):
    """What ``tokenize`` returns for a list of texts and Nones."""
    found = [[] if text is None else analyzed(text, analyzer) for text in texts]
    names = sorted({term for tokens in found for term, _ in tokens})
    number = {name: at for at, name in enumerate(names)}
    flat = [(number[term], doc, position) for doc, tokens in enumerate(found) for term, position in tokens]
    columns = np.array(flat, np.uint32).reshape(-1, 3)
    return Tokens(
        pa.array(names, pa.large_binary()),
        columns[:, 0].copy(),
        columns[:, 1].copy(),
        columns[:, 2].copy(),
        np.array([len(tokens) for tokens in found], np.uint32),
        np.array([text is not None for text in texts], np.bool_),
    )
