"""Languages: what their words become is fixed, and what is not known is refused."""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pytest
import Stemmer

from siltstone.errors import InvalidInputError
from siltstone.format.text import Analyzer
from siltstone.index.analyze import terms_of, tokenize
from siltstone.index.languages import LANGUAGES, check_language, stemmer_of, stop_words_of
from siltstone.index.stop_words import STOP_WORDS

# What indexes hold already: a stemmer or a list that gives anything else would not find it any more.
TERMS = {
    "danish": ("Leveringerne af bøgerne var ikke til tiden", "levering bog tid"),
    "dutch": ("De leveringen van de boeken waren niet op tijd", "leveer boek tijd"),
    "english": ("The deliveries of the books were not on time", "deliveri book time"),
    "finnish": ("Kirjojen toimitukset eivät olleet ajoissa", "kirj toimituks ajo"),
    "french": ("Les livraisons des livres n'étaient pas à l'heure", "livraison livr heur"),
    "german": ("Die Lieferungen der Bücher waren nicht pünktlich", "liefer buch punktlich"),
    "italian": ("Le consegne dell'editore non erano puntuali", "consegn editor puntual"),
    "norwegian": ("Leveringene av bøkene var ikke i tide", "levering bok tid"),
    "portuguese": ("As entregas dos livros não foram pontuais", "entreg livr pontu"),
    "russian": ("Новые доставки книг не были вовремя", "нов доставк книг воврем"),
    "spanish": ("Las entregas de los libros no fueron puntuales", "entreg libr puntual"),
    "swedish": ("Leveranserna av böckerna var inte i tid", "leverans bock tid"),
}
LISTS = {
    "danish": "529ed3824fe51ea5",
    "dutch": "7e6eac9534b2602b",
    "english": "f41f6d0176d17769",
    "finnish": "d25051559621d574",
    "french": "8ac66dfe5ea9d93a",
    "german": "96816b38b0b0ffad",
    "italian": "d3f575163c26ec16",
    "norwegian": "4ae1f8ba2b2f1493",
    "portuguese": "fecbbbc506763dc6",
    "russian": "b0f9aef1c6854439",
    "spanish": "1f511470b05cccd4",
    "swedish": "59e141a4e1724c1f",
}


def test_stop_words__languages_that_have_some__are_all_tried():
    assert TERMS.keys() == STOP_WORDS.keys() == LISTS.keys()


@pytest.mark.parametrize("language", TERMS)
def test_terms_of__a_sentence__its_terms_stay_what_they_are(language):
    text, expected = TERMS[language]
    assert b" ".join(term for term, _ in terms_of(text, Analyzer(language=language))).decode() == expected


@pytest.mark.parametrize("language", LISTS)
def test_stop_words__a_list__stays_what_it_is(language):
    words = " ".join(sorted(stop_words_of(language)))
    assert hashlib.sha256(words.encode()).hexdigest()[:16] == LISTS[language]


@pytest.mark.parametrize("language", STOP_WORDS)
def test_stop_words__each__is_one_word_as_the_tokenizer_leaves_it(language):
    words = STOP_WORDS[language].split()
    assert len(words) == len(set(words))
    plain = Analyzer(stem=False, stop_words=False, fold=False)
    assert [terms_of(word, plain) for word in words] == [[(word.encode(), 0)] for word in words]
    # Also where accents are left out, none of them is a term.
    for fold in (True, False):
        assert terms_of(" ".join(words), Analyzer(language=language, fold=fold)) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_stemmer_of__each_language__has_one(language):
    assert language in Stemmer.algorithms()
    assert stemmer_of(language).stemWord("a") == "a"


@pytest.mark.parametrize("language", ["klingon", "English", "en", "", None, 7, "porter", "x" * 100_000])
def test_check_language__unknown__is_refused_with_the_known_ones(language):
    with pytest.raises(InvalidInputError, match="is not known") as refused:
        check_language(language)
    assert all(known in refused.value.hint for known in LANGUAGES)
    assert len(refused.value.message) < 200


@pytest.mark.parametrize("language", sorted(set(LANGUAGES) - STOP_WORDS.keys()))
def test_stop_words__language_without_a_list__is_refused(language):
    with pytest.raises(InvalidInputError, match=f"no stop words for {language}") as refused:
        stop_words_of(language)
    assert "stop_words=False" in refused.value.hint
    with pytest.raises(InvalidInputError, match="no stop words"):
        terms_of("word", Analyzer(language=language))
    assert terms_of("a", Analyzer(language=language, stop_words=False)) == [(b"a", 0)]


@pytest.mark.parametrize(("language", "word"), [("nepali", "का"), ("greek", "άγα")])
def test_terms_of__word_without_a_stem__stays_as_it_is(language, word):
    assert stemmer_of(language).stemWord(word) == ""
    assert terms_of(word, Analyzer(language=language, stop_words=False)) == [(word.encode(), 0)]
    assert tokenize(pa.array([word]), Analyzer(language=language, stop_words=False)).terms.to_pylist() == [
        word.encode()
    ]


def test_terms_of__stem_over_the_limit__word_stays_as_it_is():
    assert stemmer_of("turkish").stemWord("aac") == "aaç"
    turkish = Analyzer(language="turkish", stop_words=False, max_token_bytes=3)
    assert terms_of("aac", turkish) == [(b"aac", 0)]
    assert tokenize(pa.array(["aac"]), turkish).terms.to_pylist() == [b"aac"]
