"""Texts to tokens: the same ones as by the rules written down a second time, wherever a column is cut."""

from __future__ import annotations

import itertools
import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from index.reference import analyzed, tokenized
from siltstone.errors import InvalidInputError
from siltstone.format.text import Analyzer
from siltstone.index import analyze_split
from siltstone.index.analyze import spans_of, terms_of, tokenize

TOKENIZERS = ("simple", "whitespace", "raw", "ngram")
# Letters and marks that change their length, their case or their kind on the way, and what stands between words.
ODD = (
    "aZ09_ \t\n\x00\x1c\x7f'\u2019-—\u00a0\u00ad\u200b\u200d\u2028\u3000\ufeffßẞæØł\u0131İΣςéÉe\u0301\u0307ñÅ½²①"
    "㎏ﬁǅᴬⅣ™…"
    "йЙёабвгдеकिमी漢字がカﾊﾟ한글กำا\u064b٣\U0001d400\U0001d7d7😀👩\u200d👧\U000e0100\ud7ff\uffff\U0010ffff"
)
HOSTILE = [
    "",
    " ",
    "\x00",
    "the",
    "The The the",
    "a" * 300,
    "é" * 128,
    "é" * 127 + " " + "é" * 128,
    "x" * 255 + " " + "x" * 256,
    "don't don\u2019t rock'n'roll",
    "foo_bar-baz.qux/quux@example.org",
    "—————",
    "\u0301\u0301a\u0301\u0301 \u0301",
    "Café cafe\u0301 CAFÉ CAFE\u0301",
    "İstanbul ISTANBUL \u0131stanbul",
    "ΟΔΟΣ ὈΔΥΣΣΕΎΣ οδος",
    "strasse straße STRASSE ẞ",
    "½ cup, 2² = 4, ① ⑴ Ⅳ ﬁne",
    "한국어 텍스트 漢字かな交じり文",
    "новый новая российский",
    "हिन्दी में",
    "👩\u200d👧 family 😀",
    "run\x00ning running\x00",
    "1234 12.5 0x1F 1,000",
    "deliver delivery deliveries delivering",
    "a\u00a0b\u2003c\u3000d\x85e\x1cf\u200bg",
]
COMMON = ["the", "a", "Delivery", "was", "LATE", "über", "naïve", "x\u2019s", "für", "и", "новый", "d\u2019été"]
texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.sampled_from(ODD), max_size=30),
    st.text(max_size=20),
    st.lists(st.sampled_from(COMMON), max_size=8).map(" ".join),
)
columns = st.lists(st.none() | texts, max_size=12)
analyzers = st.builds(
    Analyzer,
    tokenizer=st.sampled_from(TOKENIZERS),
    language=st.sampled_from(["english", "german", "russian", "french"]),
    lower=st.booleans(),
    stem=st.booleans(),
    stop_words=st.booleans(),
    fold=st.booleans(),
    ngram_min=st.integers(1, 3),
    ngram_max=st.integers(3, 5),
    max_token_bytes=st.sampled_from([1, 3, 8, 255]),
)


def check_equal(found, expected):
    assert found.terms.type == pa.large_binary()
    assert found.terms.to_pylist() == expected.terms.to_pylist()
    for name in ("term", "doc", "position", "lengths", "present"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one.dtype == other.dtype, name
        np.testing.assert_array_equal(one, other, name)


@settings(deadline=None)
@given(column=columns, analyzer=analyzers)
@example(column=HOSTILE, analyzer=Analyzer())
@example(column=HOSTILE, analyzer=Analyzer(lower=False, fold=False))
@example(column=[*HOSTILE, None, *HOSTILE], analyzer=Analyzer(tokenizer="whitespace"))
@example(column=[*HOSTILE, None, *HOSTILE], analyzer=Analyzer(tokenizer="raw"))
@example(column=HOSTILE, analyzer=Analyzer(tokenizer="ngram", ngram_max=4, max_token_bytes=5))
def test_tokenize__any_texts__tokens_are_those_of_the_rules(column, analyzer):
    check_equal(tokenize(pa.array(column, pa.string()), analyzer), tokenized(column, analyzer))


@settings(deadline=None)
@given(column=columns, cuts=st.lists(st.integers(0, 12)), tokenizer=st.sampled_from(TOKENIZERS), data=st.data())
def test_tokenize__chunks_slices_and_pieces__change_nothing(column, cuts, tokenizer, data):
    kind = data.draw(st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]))
    # Around each chunk are texts that are not of the column.
    bounds = [0, *sorted(min(cut, len(column)) for cut in cuts), len(column)]
    chunks = [
        pa.array(["before", None, *column[low:high], "after"], kind).slice(2, high - low)
        for low, high in itertools.pairwise(bounds)
    ]
    analyzer = Analyzer(tokenizer=tokenizer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analyze_split, "PIECE_BYTES", data.draw(st.integers(1, 40)))
        check_equal(tokenize(pa.chunked_array(chunks, kind), analyzer), tokenized(column, analyzer))


@settings(deadline=None)
@given(text=texts, analyzer=analyzers)
def test_terms_of__any_text__are_those_of_the_rules(text, analyzer):
    assert terms_of(text, analyzer) == analyzed(text, analyzer)


@settings(deadline=None)
@given(text=texts, analyzer=analyzers)
def test_spans_of__any_text__each_holds_a_word_of_its_term(text, analyzer):
    spans = spans_of(text, analyzer)
    assert [term for term, _, _ in spans] == [term for term, _ in terms_of(text, analyzer)]
    assert all(0 <= begin < end <= len(text) for _, begin, end in spans)
    assert all(a[1] <= b[1] for a, b in itertools.pairwise(spans))
    if analyzer.tokenizer != "ngram":
        assert all(terms_of(text[begin:end], analyzer) == [(term, 0)] for term, begin, end in spans)


@pytest.mark.parametrize("index", ["int8", "int32", "uint16"])
@pytest.mark.parametrize("values", [pa.string(), pa.large_string()])
def test_tokenize__dictionary_column__is_read_as_its_texts(index, values):
    column = ["late", None, "the late delivery", "late", ""]
    kind = pa.dictionary(index, values)
    encoded = pa.array(column, values).dictionary_encode().cast(kind)
    check_equal(tokenize(encoded, Analyzer()), tokenized(column, Analyzer()))
    null_value = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], index), pa.array([None, "late"], values))
    check_equal(tokenize(null_value, Analyzer()), tokenized(["late", None, "late"], Analyzer()))


def test_tokenize__bytes_below_a_null__are_no_text():
    whole = pa.array(["first", "hidden", "last"])
    valid = pa.py_buffer(bytes([0b101]))
    masked = pa.Array.from_buffers(pa.string(), 3, [valid, *whole.buffers()[1:]])
    assert masked.to_pylist() == ["first", None, "last"]
    check_equal(tokenize(masked, Analyzer()), tokenized(["first", None, "last"], Analyzer()))


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_tokenize__nothing_in_it__gives_nothing(kind, tokenizer):
    analyzer = Analyzer(tokenizer=tokenizer)
    for column in ([], [None], [""], [None, "", None]):
        check_equal(tokenize(pa.array(column, kind), analyzer), tokenized(column, analyzer))
    check_equal(tokenize(pa.chunked_array([], kind), analyzer), tokenized([], analyzer))


def test_tokenize__without_positions__has_the_same_tokens():
    column = pa.array(["late the delivery", None, "was late"])
    found, full = tokenize(column, Analyzer(), positions=False), tokenize(column, Analyzer())
    assert len(found.position) == 0
    check_equal(found._replace(position=full.position), full)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize(
    "data", [b"ab\xffcd", b"\xc3", b"\x80abc", b"a \xed\xa0\x80 b", b"\xc0\xaf", b"\xf4\x90\x80\x80"]
)
def test_tokenize__bytes_that_are_not_utf8__are_refused(data, tokenizer):
    column = pa.array([b"fine", data]).view(pa.string())
    with pytest.raises(InvalidInputError, match="UTF-8"):
        tokenize(column, Analyzer(tokenizer=tokenizer))


def test_tokenize__character_cut_by_a_texts_end__is_refused():
    column = pa.array([b"caf\xc3", b"\xa9"]).view(pa.string())
    with pytest.raises(InvalidInputError, match="UTF-8"):
        tokenize(column, Analyzer())


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.int64(), pa.list_(pa.string()), pa.null(), pa.dictionary(pa.int8(), pa.int64())]
)
def test_tokenize__column_without_texts__is_refused(kind):
    with pytest.raises(InvalidInputError, match="no texts"):
        tokenize(pa.chunked_array([], kind), Analyzer())


@pytest.mark.parametrize("call", [terms_of, spans_of])
def test_terms_of__half_a_character__is_refused(call):
    with pytest.raises(InvalidInputError, match="half a character"):
        call("late \ud800 delivery", Analyzer())


@pytest.mark.parametrize("call", [terms_of, spans_of])
@pytest.mark.parametrize("text", [b"late", None, 7])
def test_terms_of__no_text__is_refused(call, text):
    with pytest.raises(InvalidInputError, match="must be a str"):
        call(text, Analyzer())


@settings(deadline=None)
@given(text=texts)
def test_terms_of__fold__composed_and_decomposed_are_one(text):
    analyzer = Analyzer(stem=False, stop_words=False, max_token_bytes=255)
    composed, apart = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert terms_of(composed, analyzer) == terms_of(apart, analyzer)
