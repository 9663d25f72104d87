"""Seals: any change of a sealed file's parts is found, and other readers do not mind."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquet_files import encoded
from siltstone.errors import CorruptionError
from siltstone.format import seal
from siltstone.format.parquet import Range, footer_start, parse_footer
from siltstone.format.seal import Part, Sums

TABLE = pa.table({"id": range(2500), "word": [f"word {n % 50}" for n in range(2500)]})


@pytest.fixture(scope="module")
def plain():
    return encoded(TABLE, sealed=False, use_dictionary=["word"], bloom_filter_options={"id": True})[0]


@pytest.fixture(scope="module")
def sealed(plain):
    return seal.seal(plain, name="x")


def opened(data):
    start = footer_start(data[-8:], size=len(data), name="x")
    footer = parse_footer(data[start:], start=start, name="x")
    where = seal.table_range(footer, start=start, name="x")
    return start, footer, Sums(data[where.start : where.end], where, leaves=2, name="x")


def test_seal__of_a_file__moves_nothing_and_keeps_the_footer(plain, sealed):
    start = footer_start(plain[-8:], size=len(plain), name="x")
    assert sealed[:start] == plain[:start]
    assert sealed[len(sealed) - (len(plain) - start) :] == plain[start:]
    assert pq.read_table(io.BytesIO(sealed)).equals(pq.read_table(io.BytesIO(plain)))


def test_seal__from_a_view__is_the_same(plain, sealed):
    assert seal.seal(memoryview(pa.py_buffer(plain)), name="x") == sealed


def test_seal__of_no_parquet_file__is_corruption():
    with pytest.raises(CorruptionError):
        seal.seal(b"PAR1 is not enough to be a file", name="x")


def test_is_sealed__with_and_without__tells(plain, sealed):
    start, *_ = opened(sealed)
    assert seal.is_sealed(sealed[:start])
    assert not seal.is_sealed(plain[: footer_start(plain[-8:], size=len(plain), name="x")])


def test_check__every_part_of_every_column__passes_and_fails_when_changed(sealed):
    _, footer, sums = opened(sealed)
    for number, group in enumerate(footer.groups):
        for leaf, chunk in enumerate(group.chunks):
            for part in Part:
                where = sums.page_sums(number, leaf) if part is Part.PAGES else seal.part_range(chunk, part)
                data = sealed[where.start : where.end]
                sums.check(data, part, group=number, leaf=leaf)
                with pytest.raises(
                    CorruptionError, match=f"{part.name.lower()} of column {leaf} in row group {number}"
                ):
                    sums.check(data[:-1] + b"?", part, group=number, leaf=leaf)


def test_check_page__a_dictionary_and_its_pages__have_one_sum_each(sealed):
    _, footer, sums = opened(sealed)
    chunk = footer.groups[0].chunks[1]
    where = sums.page_sums(0, 1)
    found = sealed[where.start : where.end]
    assert len(found) == 8 * 11
    seal.check_page(sealed[chunk.range.start : chunk.data], found, 0, name="x")
    with pytest.raises(CorruptionError):
        seal.check_page(sealed[chunk.range.start : chunk.data], found, 1, name="x")


def test_check_footer__changed__is_corruption(sealed):
    start, *_ = opened(sealed)
    seal.check_footer(sealed[:start], sealed[start:], name="x")
    with pytest.raises(CorruptionError, match="footer"):
        seal.check_footer(sealed[:start], sealed[start:-20] + b"?" + sealed[-19:], name="x")


def test_sums__table_changed__is_corruption(sealed):
    start, footer, _ = opened(sealed)
    where = seal.table_range(footer, start=start, name="x")
    data = sealed[where.start : where.end]
    for place in range(0, len(data), 7):
        with pytest.raises(CorruptionError):
            Sums(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :], where, leaves=2, name="x")


def test_sums__of_a_file_without__believe_all():
    sums = Sums(b"", Range(0, 0), leaves=2, name="x")
    assert not sums
    sums.check(b"anything", Part.DATA, group=5, leaf=1)
    assert sums.page_sums(5, 1) == (0, 0)
