"""A reader made from docs/format.md alone searches the text indexes that siltstone writes.

Everything between the two lines below uses the standard library, pyarrow, xxhash, and nothing but what the page says.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

import siltstone as ss
from compat.test_format_page import read_log
from compat.test_table_format_page import deleted, read_body, read_state

# -- the reader ----------------------------------------------------------------------------------------------


def read_indexes(root):
    """Section "Versions": the indexes of the newest version."""
    indexes = {}
    for entry in read_log(root / "log")[2]:
        if entry.get("kind", "data") == "data" and not entry["dead"]:
            indexes |= read_body(entry["body"])["change"].get("indexes", {})
    return {name: index for name, index in indexes.items() if index is not None}


def read_marker(root, segment):
    """Sections "Builds" and "Searching": the marker, whose JSON has the digest that the log names."""
    marker = read_body((root / f"indexes/{segment['build']}/metadata").read_bytes())
    plain = json.dumps(marker, separators=(",", ":"), ensure_ascii=False).encode()
    assert hashlib.sha256(plain).hexdigest() == segment["digest"]
    return marker


def cut(data, offset, length, sum_):
    piece = data[offset : offset + length]
    assert xxhash.xxh3_64_intdigest(piece) // 2 == sum_
    return piece


def unzip(data, size):
    return pa.decompress(data, decompressed_size=size, codec="zstd", asbytes=True)


def planes(raw, count):
    return [sum(raw[at + k * count] << 8 * k for k in range(len(raw) // count)) for at in range(count)] if count else []


def packed(raw, count, width):
    """Numbers, and what is behind them."""
    low = list(raw[:count])
    places = [at for at, one in enumerate(low) if one == 255]
    end = count + width * len(places)
    for at, over in zip(places, planes(raw[count:end], len(places)), strict=True):
        low[at] += over
    return low, raw[end:]


def read_page(data, page, *, positions):
    """Section "Parts": term to {document: positions, or how often}."""
    piece = cut(data, *page[1:])
    raw = unzip(piece[4:], struct.unpack_from("<I", piece)[0])
    terms, blocks, offset = struct.unpack_from("<IIQ", raw)
    rest = iter(raw[16:])

    def take(count):
        return bytes(itertools.islice(rest, count))

    sizes, df, _, _ = take(terms), planes(take(4 * terms), terms), take(4 * terms), take(terms)
    columns = [planes(take(4 * blocks), blocks) for _ in range(9)]
    widths = [take(blocks) for _ in range(3)]
    sums = [struct.unpack(f"<{blocks}Q", take(8 * blocks)) for _ in range(2)]
    names = [take(size) for size in sizes]
    assert names[0] == base64.b64decode(page[0])
    owners = [name for name, count in zip(names, df, strict=True) for _ in range(count)]
    docs_at, places_at = offset, offset + sum(columns[0])
    found = {name: {} for name in names}
    for number in range(blocks):
        count, lowest = columns[4][number], columns[5][number]
        raw = unzip(cut(data, docs_at, columns[0][number], sums[0][number]), columns[1][number])
        gaps, raw = packed(raw, count, widths[0][number])
        freqs, raw = packed(raw, count, widths[1][number])
        assert raw == b""
        docs_at += columns[0][number]
        if positions:
            raw = unzip(cut(data, places_at, columns[2][number], sums[1][number]), columns[3][number])
            places, raw = packed(raw, sum(freqs) + count, widths[2][number])
            assert raw == b""
            places = iter(places)
            places_at += columns[2][number]
        mine, owners = owners[:count], owners[count:]
        for at, (name, gap, freq) in enumerate(zip(mine, gaps, freqs, strict=True)):
            doc = (lowest if at == 0 or mine[at - 1] != name else doc) + gap  # noqa: F821 - that of the posting before
            own = itertools.islice(places, freq + 1) if positions else ()
            found[name][doc] = list(itertools.accumulate(own)) if positions else freq + 1
    return found


def read_part(data, part):
    """Section "Parts": terms with their postings, and the lengths of documents, None for nulls."""
    assert data[:8] == data[-8:] == b"SLTtext1"
    size, sum_ = struct.unpack_from("<IQ", data, len(data) - 20)
    end = json.loads(cut(data, len(data) - 20 - size, size, sum_))
    assert {name: part[name] for name in end} == end
    raw = cut(data, *part["lengths"])
    stored = planes(unzip(raw[1:], raw[0] * part["documents"]), part["documents"])
    terms = {}
    for page in part.get("pages", []):
        terms |= read_page(data, page, positions=part["positions"])
    assert len(terms) == part["terms"]
    return terms, [one - 1 if one else None for one in stored]


def read_documents(root, index):
    """Section "Searching": by fragment and row the length, and by term the documents that have it."""
    _, fragments, vectors = read_state(root)
    lengths, terms = {}, {}
    for segment in index["segments"]:
        for part in read_marker(root, segment)["parts"]:
            data = (root / f"indexes/{segment['build']}/{part['name']}").read_bytes()
            assert hashlib.sha256(data).hexdigest() == part["sha256"]
            found, sizes = read_part(data, part)
            rows = [(name, (first or [0])[0] + n) for name, count, *first in part["fragments"] for n in range(count)]
            gone = {(name, row) for name in vectors for row in deleted(root, vectors[name])}
            alive = {doc: row for doc, row in enumerate(rows) if row[0] in fragments and row not in gone}
            lengths |= {row: sizes[doc] for doc, row in alive.items() if sizes[doc] is not None}
            for term, postings in found.items():
                here = {alive[doc]: places for doc, places in postings.items() if doc in alive}
                terms.setdefault(term, {}).update(here)
    return lengths, terms


def score(lengths, terms, words):
    """Section "Searching": the score of each row that has one of the terms."""
    mean = sum(lengths.values()) / len(lengths)
    scores = {}
    for word in words:
        postings = terms.get(word, {})
        idf = math.log(1 + (len(lengths) - len(postings) + 0.5) / (len(postings) + 0.5))
        for row, places in postings.items():
            f = len(places) if isinstance(places, list) else places
            scores[row] = scores.get(row, 0) + idf * f / (f + 1.2 * (0.25 + 0.75 * lengths[row] / mean))
    return scores


# -- the tests -----------------------------------------------------------------------------------------------


def text(number):
    if number % 17 == 0:
        return None
    words = [f"w{(number * k * k) % 700}" for k in range(1, 3 + number % 40)]
    return " ".join([*words, "common"] * (20 if number % 50 == 1 else 1))  # positions and lengths above a byte


@pytest.fixture(scope="module", params=[True, False], ids=["positions", "no positions"])
def table(tmp_path_factory, request):
    schema = pa.schema([("id", pa.int64()), ("body", pa.string())])
    root = tmp_path_factory.mktemp("text") / "t"
    with ss.create(root, schema=schema, key="id", sync=False) as table:
        table.append([{"id": n, "body": text(n)} for n in range(400)])
        table.append([{"id": n, "body": f"only{n} ends common"} for n in range(400, 5200)])  # a term of several blocks
        table.create_text_index("body", positions=request.param, stem=False)
        table.append([{"id": n, "body": text(n)} for n in range(6000, 6050)])
        table.optimize_index("body")
        table.delete("id % 10 = 3")
        yield table, root


def test_reader_of_the_page__words_of_an_index__gives_the_same_rows_and_scores(table):
    handle, root = table
    index = read_indexes(root)["body"]
    lengths, terms = read_documents(root, index)
    assert len(lengths) == handle.count("body is not null")
    fragments = list(read_state(root)[1])
    ids = dict(zip(fragments, ([row["id"] for row in rows] for rows in _files(root, fragments)), strict=True))
    for words in (["common"], ["w7", "w64"], ["only777", "ends"], ["w1", "common", "w699"], ["none"]):
        found = score(lengths, terms, [word.encode() for word in words])
        named = {ids[name][row]: value for (name, row), value in found.items()}
        expected = handle.search("body", " ".join(words), limit=None, columns=["id"]).to_arrow().to_pylist()
        assert set(named) == {row["id"] for row in expected}
        assert all(math.isclose(named[row["id"]], row["_score"], rel_tol=1e-6) for row in expected)


def test_reader_of_the_page__positions__are_those_of_the_texts(table):
    _, root = table
    index = read_indexes(root)["body"]
    _, terms = read_documents(root, index)
    fragments = list(read_state(root)[1])
    texts = {
        (name, at): (row["body"] or "").split()
        for name, rows in zip(fragments, _files(root, fragments), strict=True)
        for at, row in enumerate(rows)
    }
    for word, postings in terms.items():
        for row, places in postings.items():
            expected = [at for at, one in enumerate(texts[row]) if one.encode() == word]
            assert places == (expected if index.get("analyzer", {}).get("positions", True) else len(expected))


def _files(root, fragments):
    return [pq.read_table(root / f"data/{name}.parquet").to_pylist() for name in fragments]
