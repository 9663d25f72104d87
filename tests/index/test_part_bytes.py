"""The bytes of a part: they give back the postings they were made of, or say that they are damaged."""

from __future__ import annotations

import random
import tracemalloc

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import figures
from part_worlds import assert_same, large_postings, postings_for, random_documents
from siltstone.errors import CorruptionError, LimitExceededError
from siltstone.format.text import PartFile
from siltstone.format.text_part import (
    BLOCK,
    PAGE_TERMS,
    Numbers,
    compress,
    decode_docs,
    decode_end,
    decode_lengths,
    decode_page,
    decode_positions,
    decompress,
    encode_page,
    from_floor,
    numbers,
    summed,
    to_floor,
)
from siltstone.index.merge import merge
from siltstone.index.postings import Postings
from siltstone.index.stored import block_heads, decode_part, encode_part, part_file

NAME = "indexes/b/part_0_0.text"
MUTATIONS = 2000
MEMORY_MAX = 4 * 1024 * 1024

SMALL = postings_for(random_documents(7, 60))
MANY_TERMS = postings_for([[b"term %05d" % (number * 7 % 9973) for number in range(9000)], [b"term 00000"] * 3])


def test_decode_part__small_and_large_terms__gives_back_the_postings():
    postings = large_postings()
    data, facts = encode_part(postings)
    assert_same(decode_part(data, facts, name=NAME), postings)
    assert (facts.documents, facts.terms, facts.postings) == (20_000, len(postings.terms), len(postings.docs))
    assert facts.tokens == len(postings.positions)


@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_decode_part__random_documents__gives_back_the_postings(seed, positions):
    postings = postings_for(random_documents(seed, 70), positions=positions)
    data, facts = encode_part(postings)
    assert_same(decode_part(data, facts, name=NAME), postings)
    assert facts.positions is positions
    assert facts.nulls == (~postings.present).sum()


@pytest.mark.parametrize("documents", [[], [None], [[]], [None, [], [b""]], [[b"a"] * 70_000]])
@pytest.mark.parametrize("positions", [True, False])
def test_decode_part__next_to_nothing__gives_back_the_postings(documents, positions):
    postings = postings_for(documents, positions=positions)
    data, facts = encode_part(postings)
    assert_same(decode_part(data, facts, name=NAME), postings)


def test_decode_part__several_dictionary_pages__gives_back_the_postings():
    data, facts = encode_part(MANY_TERMS)
    assert len(facts.pages) == -(-len(MANY_TERMS.terms) // PAGE_TERMS) == 5
    assert_same(decode_part(data, facts, name=NAME), MANY_TERMS)


def test_encode_part__same_postings_by_another_way__has_the_same_bytes():
    documents = random_documents(3, 90)
    parts = [postings_for(documents[:20]), postings_for(documents[20:21]), postings_for(documents[21:])]
    whole = encode_part(postings_for(documents))
    assert encode_part(merge(parts, [None] * 3)) == whole
    assert encode_part(decode_part(*whole, name=NAME)) == whole


def test_encode_part__terms_in_a_slice_of_a_longer_array__has_the_same_bytes():
    longer = pa.concat_arrays([pa.array([b"0"], pa.large_binary()), SMALL.terms, SMALL.terms])
    assert encode_part(SMALL._replace(terms=longer.slice(1, len(SMALL.terms)))) == encode_part(SMALL)


def test_encode_part__blocks_of_a_page__hold_whole_small_terms_or_slices_of_a_large_one():
    postings = large_postings()
    data, facts = encode_part(postings)
    for number, page in enumerate(facts.pages):
        table = decode_page(data[page.offset : page.offset + page.length], facts=facts, name=NAME)
        starts = {0, *np.cumsum(table.df).tolist()}
        edges = np.concatenate(([0], np.cumsum(table.blocks.postings)))
        large = np.repeat(table.df >= BLOCK, table.df)
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            assert end - begin <= BLOCK
            assert (begin in starts and end in starts) or large[begin:end].all(), (number, begin)
            assert large[begin:end].all() or not large[begin:end].any()


def test_encode_part__term_over_the_limit__is_refused():
    with pytest.raises(LimitExceededError, match="256 bytes in a term"):
        encode_part(postings_for([[b"x" * 256]]))


def test_encode_part__more_tokens_than_a_part_holds__is_refused():
    with pytest.raises(LimitExceededError, match="tokens in a part"):
        encode_part(SMALL._replace(lengths=SMALL.lengths + np.uint32(2**28)))


def test_decode_end__whole_part_or_its_end__has_the_facts():
    data, facts = encode_part(SMALL)
    assert decode_end(data, name=NAME) == facts
    assert decode_end(data[facts.pages[-1].offset :], name=NAME) == facts


def test_part_file__as_a_record__reads_the_part():
    data, facts = encode_part(SMALL)
    record = part_file(data, facts, name="part_0_0.text", fragments=())
    again = msgspec.json.decode(msgspec.json.encode(record), type=PartFile)
    assert again == record
    assert again.bytes == len(data)
    assert_same(decode_part(data, again, name=NAME), SMALL)


# -- damage ----------------------------------------------------------------------------------------


def outcome(data, facts):
    """What reading gives; anything but postings or a CorruptionError that names the object goes up."""
    try:
        return decode_part(data, facts, name=NAME)
    except CorruptionError as error:
        return check_named(error)


def check_named(error):
    assert NAME in error.message
    assert error.facts["object"] == NAME


@pytest.mark.parametrize("positions", [True, False])
def test_decode_part__cut_at_every_byte__is_corrupt(positions):
    data, facts = encode_part(postings_for(random_documents(7, 25), positions=positions))
    assert [end for end in range(len(data)) if outcome(data[:end], facts) is not None] == []
    figures.record("cut/index part", len(data))
    assert outcome(data + b"\x00", facts) is None


def test_decode_part__bytes_changed_at_random__is_corrupt():
    data, facts = encode_part(SMALL)
    dice = random.Random(11)
    tracemalloc.start()
    for _ in range(MUTATIONS):
        changed = bytearray(data)
        for _ in range(dice.choice([1, 1, 1, 2, 8])):
            place = dice.randrange(len(changed))
            changed[place] ^= dice.randrange(1, 256)
        if bytes(changed) != data:
            assert outcome(bytes(changed), facts) is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEMORY_MAX
    figures.record("mutated/index part", MUTATIONS)


def test_decode_part__pieces_moved_about__is_corrupt():
    data, facts = encode_part(SMALL)
    dice = random.Random(12)
    for _ in range(300):
        start, size = dice.randrange(len(data)), dice.randrange(1, 200)
        target = dice.randrange(len(data))
        piece = data[start : start + size]
        changed = (data[:target] + piece + data[target + len(piece) :])[: len(data)]
        if changed != data:
            assert outcome(changed, facts) is None


def test_decode_part__bytes_between_its_pieces__is_corrupt():
    data, facts = encode_part(SMALL)
    end = facts.pages[-1].offset + facts.pages[-1].length
    assert outcome(data[:end] + b"\x00" + data[end:], facts) is None


def test_decode_part__record_of_another_part__is_corrupt():
    data, _ = encode_part(SMALL)
    _, facts = encode_part(postings_for(random_documents(8, 60)))
    assert outcome(data, facts) is None


def test_decode_page__changed_before_it_was_summed__is_corrupt_or_another_page():
    data, facts = encode_part(SMALL)
    page = facts.pages[0]
    piece = data[page.offset : page.offset + page.length]
    size = int.from_bytes(piece[:4], "little")
    raw = bytes(decompress(piece[4:], size, what="", name=NAME))
    dice = random.Random(13)
    for _ in range(MUTATIONS):
        changed = bytearray(raw)
        changed[dice.choice([dice.randrange(16), dice.randrange(len(raw))])] = dice.choice([0, 1, 127, 255])
        cut = bytes(changed[: dice.choice([len(raw), len(raw), dice.randrange(len(raw))])])
        said = dice.choice([len(cut), len(cut), size, 2**32 - 1])
        try:
            table = decode_page(said.to_bytes(4, "little") + compress(cut), facts=facts, name=NAME)
        except CorruptionError as error:
            check_named(error)
        else:
            assert len(table.df) == len(table.term_offsets) - 1
    figures.record("mutated/index part", MUTATIONS)


def blocks_of(postings):
    """The first page of a part, and where its blocks are."""
    data, facts = encode_part(postings)
    page = facts.pages[0]
    table = decode_page(data[page.offset : page.offset + page.length], facts=facts, name=NAME)
    return data, table


@pytest.mark.parametrize("kind", ["docs", "positions"])
def test_decode_block__changed_before_it_was_summed__is_corrupt_or_numbers(kind):
    data, table = blocks_of(SMALL)
    blocks, ends = table.blocks, np.cumsum(SMALL.freqs[: table.blocks.postings[0]], dtype=np.int64)
    heads = block_heads(np.concatenate(([0], np.cumsum(table.df))).astype(np.int64), 0, int(blocks.postings[0]))
    row = 0 if kind == "docs" else 1
    start = table.offset + (0 if kind == "docs" else int(blocks.docs_bytes.sum()))
    size = int((blocks.docs_raw, blocks.positions_raw)[row][0])
    raw = bytes(decompress(data[start : start + int(blocks[2 * row][0])], size, what="", name=NAME))
    dice = random.Random(14)
    for _ in range(MUTATIONS):
        changed = bytearray(raw)
        changed[dice.randrange(len(raw))] = dice.choice([0, 1, 254, 255])
        piece = compress(bytes(changed[: dice.choice([len(raw), len(raw), dice.randrange(len(raw))])]))
        sums, widths = blocks.sums.copy(), blocks.widths.copy()
        sums[row, 0] = summed(piece)
        widths[dice.randrange(3), 0] = dice.choice([0, 1, 2, 4, 5, 255])
        forged = blocks._replace(sums=sums, widths=widths if dice.random() < 0.3 else blocks.widths)
        try:
            if kind == "docs":
                docs, freqs = decode_docs(piece, forged, 0, heads, name=NAME)
                assert len(docs) == len(freqs) == blocks.postings[0]
                assert docs.max() == blocks.last_doc[0]
            else:
                assert len(decode_positions(piece, forged, 0, ends, name=NAME)) == ends[-1]
        except CorruptionError as error:
            check_named(error)
    figures.record("mutated/index part", MUTATIONS)


def test_decode_page__terms_or_blocks_that_do_not_fit__is_corrupt():
    data, facts = encode_part(SMALL)
    page = facts.pages[0]
    table = decode_page(data[page.offset : page.offset + page.length], facts=facts, name=NAME)
    blocks = table.blocks
    for forged in (
        table._replace(offset=facts.lengths[0] + 1),
        table._replace(df=table.df + np.uint32(1)),
        table._replace(term_bytes=table.term_bytes + b"x"),
        table._replace(blocks=blocks._replace(docs_bytes=blocks.docs_bytes + 2**31)),
        table._replace(blocks=blocks._replace(docs_raw=blocks.docs_raw + 2**31)),
        table._replace(blocks=blocks._replace(positions_raw=blocks.positions_raw + 2**31)),
        table._replace(blocks=blocks._replace(last_doc=blocks.last_doc + 60)),
        table._replace(blocks=blocks._replace(first_doc=blocks.last_doc + 1)),
    ):
        with pytest.raises(CorruptionError, match="fit together"):
            decode_page(encode_page(forged), facts=facts, name=NAME)


@pytest.mark.parametrize("change", [{"tokens": 1}, {"nulls": 1}, {"documents": 59}])
def test_decode_lengths__record_that_says_otherwise__is_corrupt(change):
    data, facts = encode_part(SMALL)
    offset, size, _ = facts.lengths
    said = msgspec.structs.replace(facts, **{name: getattr(facts, name) + by for name, by in change.items()})
    with pytest.raises(CorruptionError, match="lengths"):
        decode_lengths(data[offset : offset + size], facts=said, name=NAME)


# -- numbers ---------------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.integers(0, 2**32 - 1) | st.integers(250, 260) | st.integers(0, 3), min_size=1), min_size=1)
)
def test_numbers__any_in_blocks__are_given_back(blocks):
    edges = np.cumsum([0, *map(len, blocks)])
    packed = Numbers(np.array([one for block in blocks for one in block], np.uint32), edges)
    for number, block in enumerate(blocks):
        data, width = packed.block(number)
        found, rest = numbers(np.frombuffer(data + b"rest", np.uint8), len(block), width, what="", name=NAME)
        assert (found.tolist(), bytes(rest)) == (block, b"rest")


@given(st.integers(0, 2**32 - 1))
def test_floor__of_any_length__is_at_most_an_eighth_below_it(length):
    found = from_floor(int(to_floor(np.array([length], np.uint32))[0]))
    assert found <= length
    assert length - found <= length / 8
    assert found == length or length >= 16


def test_part__arrays_of_any_origin__are_not_changed_by_encoding():
    parts = [np.array(one) if isinstance(one, np.ndarray) else one for one in SMALL]
    for one in parts:
        if isinstance(one, np.ndarray):
            one.flags.writeable = False
    assert encode_part(Postings(*parts)) == encode_part(SMALL)
