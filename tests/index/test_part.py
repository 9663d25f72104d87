"""Parts in memory and in a store: what a search asks of them, and what it costs."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from part_worlds import large_postings, postings_for, random_documents, written_down
from siltstone.errors import CorruptionError, InvalidInputError, MissingObjectError, UnavailableError
from siltstone.format.text_part import BLOCK
from siltstone.index.cache import Cache
from siltstone.index.memory_part import MemoryPart
from siltstone.index.part import find_terms, read_terms
from siltstone.index.part_read import NEAR_BYTES, StoredPart, join_near
from siltstone.index.stored import encode_part
from siltstone.store.memory import MemoryStore
from siltstone.store.meter import MeteredStore
from siltstone.store.wrapper import StoreWrapper
from siltstone.testing.stores import Fault, FaultStore

KEY = "indexes/b/part_0_0.text"
LARGE = large_postings()
LARGE_BYTES = encode_part(LARGE)
DOCUMENTS = random_documents(21, 150)
SMALL = postings_for(DOCUMENTS)


def stored(postings, *, wrap=lambda store: store, cache=None, key=KEY):
    data, facts = LARGE_BYTES if postings is LARGE else encode_part(postings)
    inner = MemoryStore()
    inner.put(key, data)
    store = wrap(inner)
    return StoredPart(store, key, facts, Cache() if cache is None else cache), store


def both(postings):
    return {"memory": MemoryPart(postings), "stored": stored(postings)[0]}


@pytest.fixture(params=["memory", "stored"])
def small(request):
    return both(SMALL)[request.param]


@pytest.fixture(params=["memory", "stored"])
def large(request):
    return both(LARGE)[request.param]


def test_part__of_documents__says_how_many_and_how_long(small):
    assert small.documents == len(DOCUMENTS)
    assert small.tokens == sum(map(len, written_lengths()))
    assert small.lengths().tolist() == [len(one) for one in written_lengths()]
    assert small.present().tolist() == [one is not None for one in DOCUMENTS]


def written_lengths():
    return [[term for term in document or () if term is not None] for document in DOCUMENTS]


def test_present__no_nulls__is_none(large):
    assert large.present() is None


def test_find__every_term__has_what_is_written_down(small):
    expected = written_down(DOCUMENTS)
    terms = [*expected, b"w", b"w00", b"\xff\xff", b"zzz"]
    lengths = small.lengths()
    for name, term in zip(terms, small.find(terms), strict=True):
        if name not in expected:
            assert term is None, name
            continue
        found = expected[name]
        docs, freqs = term.read()
        assert (docs.tolist(), freqs.tolist()) == ([*found], [len(places) for places in found.values()])
        assert term.read_positions().tolist() == [place for places in found.values() for place in places]
        assert (term.df, term.has_positions) == (len(found), True)
        assert term.max_freq == max(map(len, found.values()))
        assert term.min_length <= lengths[docs].min() <= term.min_length * 9 / 8 + 1


def test_blocks__of_any_term__hold_its_postings_and_true_bounds(large):
    lengths = large.lengths()
    for term in large.find([b"t%07d" % number for number in (0, 1, 2, 3, 4, 5, 2500, 5005, 5006)]):
        blocks = term.blocks
        assert blocks.count.sum() == term.df
        assert len(blocks.count) == -(-term.df // BLOCK)
        for number, count in enumerate(blocks.count):
            docs, freqs = term.read(np.array([number]))
            assert len(docs) == len(freqs) == count
            assert blocks.first_doc[number] <= docs[0] <= docs[-1] <= blocks.last_doc[number]
            assert freqs.max() <= blocks.max_freq[number] <= term.max_freq
            assert term.min_length <= blocks.min_length[number] <= lengths[docs].min()


def test_read__chosen_blocks__are_those_and_no_others(large):
    term = large.find([b"t0000000"])[0]
    docs, freqs = term.read()
    places = term.read_positions()
    ends = np.cumsum(freqs, dtype=np.int64)
    for chosen in ([0], [1, 3], [0, 1, 2, 3, 4], [4], []):
        wanted = np.concatenate([np.arange(n * BLOCK, min((n + 1) * BLOCK, term.df)) for n in chosen] or [[]])
        wanted = wanted.astype(np.intp)
        some, often, at = read_terms([(term, np.array(chosen, np.intp), True)])[0]
        np.testing.assert_array_equal(some, docs[wanted])
        np.testing.assert_array_equal(often, freqs[wanted])
        expected = [places[ends[one] - freqs[one] : ends[one]] for one in wanted]
        np.testing.assert_array_equal(at, np.concatenate(expected) if expected else [])


def test_read__every_term_of_both_kinds__is_the_same():
    parts = both(LARGE)
    terms = LARGE.terms.to_pylist()
    wanted = [[(term, None, True) for term in found] for found in find_terms([*parts.values()], terms)]
    for one, other in zip(*map(read_terms, wanted), strict=True):
        for found, expected in zip(one, other, strict=True):
            assert found.dtype == expected.dtype == np.uint32
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("prefix", [b"", b"w", b"w1", b"a", b"\xff", b"\xc3", b"zz", b"\x00", b"nothing", b"\xff\xff"])
def test_with_prefix__any__are_the_terms_that_begin_so(small, prefix):
    assert small.with_prefix(prefix) == [term for term in written_down(DOCUMENTS) if term.startswith(prefix)]


@pytest.mark.parametrize("prefix", [b"t000204", b"t0002047", b"t0002048", b"t00020", b"t", b"s", b"u"])
def test_with_prefix__across_dictionary_pages__are_the_terms_that_begin_so(large, prefix):
    assert large.with_prefix(prefix) == [term for term in LARGE.terms.to_pylist() if term.startswith(prefix)]


def test_all_terms__of_a_part__come_in_order(large):
    assert [term for some in large.all_terms() for term in some.to_pylist()] == LARGE.terms.to_pylist()


@pytest.mark.parametrize("kind", ["memory", "stored"])
def test_part__without_documents_or_terms__finds_nothing(kind):
    part = both(postings_for([None, []]))[kind]
    assert part.find([b"a", b""]) == [None, None]
    assert (part.with_prefix(b""), [*part.all_terms()], part.documents, part.tokens) == ([], [], 2, 0)
    assert part.lengths().tolist() == [0, 0]


@pytest.mark.parametrize("kind", ["memory", "stored"])
def test_read_positions__none_were_kept__is_refused_with_what_to_do(kind):
    part = both(postings_for(DOCUMENTS, positions=False))[kind]
    term = part.find([b"a"])[0]
    assert not term.has_positions
    assert term.read()[0].tolist() == [*written_down(DOCUMENTS)[b"a"]]
    with pytest.raises(InvalidInputError, match="positions=True"):
        term.read_positions()
    with pytest.raises(InvalidInputError, match="positions=True"):
        read_terms([(term, None, True)])


def test_read__of_a_stored_part__is_shared_and_not_for_writing():
    part, _ = stored(SMALL)
    docs, freqs = part.find([b"a"])[0].read()
    for one in (docs, freqs, part.lengths(), part.find([b"a"])[0].read_positions()):
        with pytest.raises(ValueError, match="read-only"):
            one[0] = 1


# -- what it costs ---------------------------------------------------------------------------------

FEW = [b"t0000000", b"t0002500", b"t0004999", b"t0005006", b"u"]


def test_find__several_terms__takes_one_round_and_then_none():
    part, store = stored(LARGE, wrap=FaultStore)
    assert [term is not None for term in part.find(FEW)] == [True, True, True, True, False]
    assert len(store.calls) == 1
    part.find(FEW)
    part.lengths()
    assert len(store.calls) == 1


def test_find__dictionary_and_lengths_near_each_other__is_one_request():
    part, store = stored(LARGE, wrap=MeteredStore)
    part.find(FEW)
    assert store.usage().requests == {"get": 1}


def test_find__without_lengths__reads_only_the_pages():
    part, store = stored(LARGE, wrap=MeteredStore)
    part.find([b"t0000001", b"t0000002"], lengths=False)
    assert store.usage().bytes_in == part.facts.pages[0].length
    part.find([b"t0000001"])
    assert store.usage().bytes_in == part.facts.pages[0].length + part.facts.lengths[1]


def test_find__term_before_all_others__reads_nothing():
    part, store = stored(LARGE, wrap=MeteredStore)
    assert part.find([b"a", b"s"], lengths=False) == [None, None]
    assert store.usage().total == 0


def test_present__no_nulls_by_the_record__reads_nothing():
    part, store = stored(LARGE, wrap=MeteredStore)
    assert part.present() is None
    assert store.usage().total == 0


def test_read_terms__several_with_positions__takes_one_round_and_then_none():
    part, store = stored(LARGE, wrap=FaultStore)
    terms = [term for term in part.find(FEW) if term is not None]
    first = read_terms([(term, None, True) for term in terms])
    assert len(store.calls) == 2
    again = read_terms([(term, None, True) for term in terms])
    assert len(store.calls) == 2
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.positions, other.positions)


def test_read__chosen_blocks__asks_for_no_others():
    part, store = stored(LARGE, wrap=MeteredStore)
    term = part.find([b"t0000000"])[0]
    sizes = term._page.table.blocks.docs_bytes
    store.reset()
    term.read(np.array([1]))
    assert (store.usage().requests, store.usage().bytes_in) == ({"get": 1}, sizes[1])
    term.read(np.array([1, 2]))
    assert store.usage().bytes_in == sizes[1] + sizes[2]


def test_join_near__ranges_in_any_order__are_one_where_little_is_between():
    far = 10 * NEAR_BYTES
    ranges = [(far, far + 5), (10, 20), (20 + NEAR_BYTES, 30 + NEAR_BYTES), (12, 14), (far + 2, far + 9)]
    assert join_near(ranges) == [(10, 30 + NEAR_BYTES), (far, far + 9)]
    assert join_near([(0, 5), (6 + NEAR_BYTES, 7 + NEAR_BYTES)]) == [(0, 5), (6 + NEAR_BYTES, 7 + NEAR_BYTES)]


class Meets(StoreWrapper):
    """A store far away, whose reads wait until so many are under way."""

    def __init__(self, inner, barrier):
        super().__init__(inner)
        self.traits = inner.traits._replace(cheap_probes=False)
        self._barrier = barrier

    def get_ranges(self, key, ranges):
        self._barrier.wait(30)
        return super().get_ranges(key, ranges)


def test_read_terms__of_several_objects__are_read_at_the_same_time():
    barrier = threading.Barrier(3)
    cache = Cache()
    parts = [
        stored(SMALL, wrap=lambda store: Meets(store, barrier), cache=cache, key=f"part_0_{n}")[0] for n in range(3)
    ]
    terms = [found[0] for found in find_terms(parts, [b"a"])]
    reads = read_terms([(term, None, True) for term in terms])
    assert [read.docs.tolist() for read in reads] == [[*written_down(DOCUMENTS)[b"a"]]] * 3


def test_part__cache_that_keeps_nothing__answers_all_the_same():
    part, _ = stored(LARGE, cache=Cache(0))
    memory = MemoryPart(LARGE)
    for term, expected in zip(part.find(FEW[:4]), memory.find(FEW[:4]), strict=True):
        np.testing.assert_array_equal(term.read()[0], expected.read()[0])
        np.testing.assert_array_equal(term.read_positions(), expected.read_positions())
    assert part.lengths().tolist() == memory.lengths().tolist()


def test_cache__more_than_it_may_hold__keeps_what_was_used_last():
    cache = Cache(10_000)
    for number in range(100):
        cache.put(number, number, 500)
        assert cache.get(0) == 0
        assert cache.nbytes <= 10_000
    assert cache.get(99) == 99
    assert cache.get(1) is None
    cache.put(0, "larger", 9_600)
    assert (cache.get(0), cache.get(99)) == (None, None)
    assert cache.nbytes == 0


def test_part__whole_of_it_read__keeps_no_more_than_the_cache_may():
    cache = Cache(200_000)
    part, _ = stored(LARGE, cache=cache)
    for term in part.find(LARGE.terms.to_pylist()[::50]):
        term.read_positions()
        assert cache.nbytes <= 200_000


# -- damage ----------------------------------------------------------------------------------------


def used(part):
    """All that a search would ask of a part."""
    for term in part.find(FEW):
        if term is not None:
            term.read_positions()
    return part.lengths()


def pieces(part):
    """A byte of each kind of piece."""
    page = part.find([b"t0000000"])[0]._page
    return [
        page.range_of(0, "docs")[0],
        page.range_of(1, "positions")[1] - 1,
        part.facts.lengths[0],
        part.facts.pages[0].offset + 10,
    ]


@pytest.mark.parametrize("number", range(4))
def test_read__a_byte_of_the_object_changed__is_corrupt_and_named(number):
    part, store = stored(LARGE)
    place = pieces(part)[number]
    data = bytearray(LARGE_BYTES[0])
    data[place] ^= 4
    store.put(KEY, bytes(data))
    with pytest.raises(CorruptionError, match=KEY) as caught:
        used(StoredPart(store, KEY, part.facts, Cache()))
    assert caught.value.facts["object"] == KEY


@pytest.mark.parametrize("number", range(4))
def test_read__object_cut__is_corrupt_and_named(number):
    part, store = stored(LARGE)
    store.put(KEY, LARGE_BYTES[0][: pieces(part)[number]])
    with pytest.raises(CorruptionError, match=f"{KEY} is damaged: it ends before byte"):
        used(StoredPart(store, KEY, part.facts, Cache()))


def test_find__object_gone__says_which():
    part, store = stored(SMALL)
    store.delete([KEY])
    with pytest.raises(MissingObjectError, match=KEY):
        part.find([b"a"])


def test_find__store_that_does_not_answer__says_so_and_can_be_asked_again():
    part, store = stored(SMALL, wrap=FaultStore)
    store.on("get_ranges", Fault.REFUSE)
    with pytest.raises(UnavailableError):
        part.find([b"a"])
    assert part.find([b"a"])[0].df == len(written_down(DOCUMENTS)[b"a"])


def test_find__store_refuses_a_range_behind_the_end__is_corrupt():
    part, store = stored(LARGE, wrap=FaultStore)
    store.inner.put(KEY, LARGE_BYTES[0][:1000])
    store.on("get_ranges", Fault.REFUSE)
    with pytest.raises(CorruptionError, match="only 1000 bytes"):
        part.find([b"t0000000"])
