"""The peers, and siltstone beside them, behind the few calls that the text benchmark compares.

What must hold: all index the same column with positions where they can have them, English stems and no stop words,
and are called the way their own users are told to. What each one indexes is on the disk before, in its own format.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import bm25s
import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import Stemmer
import tantivy
from lance.query import MatchQuery, PhraseQuery

import siltstone as ss

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COLUMN = "text"
LIMIT = 10
CORES = 2
FRAGMENTS = 8  # of a table, which executors can share among them
BATCH_ROWS = 4_096
HEAP_BYTES = 512 * 1024 * 1024  # of tantivy's writer: with less it writes more segments, and merges them
STEMMED = "english"


class Query(NamedTuple):
    """Words, any of which a text may have, or two that must stand side by side."""

    words: tuple[str, ...]
    phrase: bool = False

    @property
    def text(self) -> str:
        return " ".join(self.words)


def stored_bytes(directory: Path) -> int:
    """What the files below a directory take."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def each_rows(rows: pa.Table) -> int:
    """How many rows a fragment gets."""
    return max(-(-len(rows) // FRAGMENTS), 1)


def pieces(rows: pa.Table) -> list[pa.Table]:
    """The rows of each fragment."""
    return [rows.slice(start, each_rows(rows)) for start in range(0, len(rows), each_rows(rows))]


# -- siltstone -----------------------------------------------------------------------------------


class Siltstone:
    """A table with a text index. Nothing is synced: no peer does."""

    name = "siltstone"
    positions = True

    @staticmethod
    def write(directory: Path, rows: pa.Table) -> None:
        with ss.create(directory, schema=rows.schema, key="id", shards=1, sync=False) as table:
            for part in pieces(rows):
                table.append(part)

    @staticmethod
    def build(directory: Path) -> None:
        with ss.open(directory, sync=False) as table:
            table.create_text_index(COLUMN)

    @staticmethod
    def index_bytes(directory: Path) -> int:
        return stored_bytes(directory / "indexes")

    @staticmethod
    def finder(directory: Path) -> Callable[[Query], list[int]]:
        """A search with its rows, on a handle that stays at a version."""
        table = ss.open(directory, sync=False)
        return partial(siltstone_ids, table.at(version=table.version).search)


def siltstone_query(query: Query) -> str:
    return f'"{query.text}"' if query.phrase else query.text


def siltstone_ids(search: Callable[..., Any], query: Query) -> list[int]:
    """The keys of the rows that a search of siltstone's gives, all columns of which are read."""
    return search(COLUMN, siltstone_query(query), limit=LIMIT).to_arrow()["id"].to_pylist()  # type: ignore[no-any-return]


# -- Lance ---------------------------------------------------------------------------------------


class Lance:
    """A dataset with an inverted index."""

    name = "Lance"
    positions = True

    @staticmethod
    def write(directory: Path, rows: pa.Table) -> None:
        lance.write_dataset(rows, str(directory), max_rows_per_file=each_rows(rows))

    @staticmethod
    def build(directory: Path) -> None:
        lance.dataset(str(directory)).create_scalar_index(
            COLUMN,
            "INVERTED",
            name=COLUMN,
            language="English",
            stem=True,
            remove_stop_words=True,
            ascii_folding=True,
            with_position=True,
        )

    @staticmethod
    def index_bytes(directory: Path) -> int:
        return stored_bytes(directory / "_indices")

    @staticmethod
    def finder(directory: Path) -> Callable[[Query], list[int]]:
        """A search with its rows; all of the index is in memory before."""
        dataset = lance.dataset(str(directory))
        dataset.prewarm_index(COLUMN, with_position=True)
        return partial(lance_ids, dataset)


def lance_ids(dataset: Any, query: Query, columns: list[str] | None = None) -> list[int]:
    """The keys of the rows that a search of Lance's gives."""
    kind = PhraseQuery if query.phrase else MatchQuery
    chosen = ["id", "path", COLUMN] if columns is None else columns
    asked = [*chosen, "_score"]
    found = dataset.scanner(columns=asked, full_text_query=kind(query.text, COLUMN), limit=LIMIT).to_table()
    return found["id"].to_pylist()  # type: ignore[no-any-return]


# -- tantivy -------------------------------------------------------------------------------------


class Tantivy:
    """An index of tantivy's, which keeps keys and no texts: searches give keys alone."""

    name = "tantivy"
    positions = True

    @staticmethod
    def write(directory: Path, rows: pa.Table) -> None:
        directory.mkdir(parents=True)
        pq.write_table(rows, directory / "rows.parquet", compression="zstd")

    @staticmethod
    def build(directory: Path) -> None:
        index = Tantivy._index(directory, create=True)
        writer = index.writer(heap_size=HEAP_BYTES, num_threads=CORES)
        for batch in pq.ParquetFile(directory / "rows.parquet").iter_batches(BATCH_ROWS, columns=["id", COLUMN]):
            for key, text in zip(batch["id"].to_pylist(), batch[COLUMN].to_pylist(), strict=True):
                writer.add_document(tantivy.Document(id=key, text=text))
        writer.commit()
        writer.wait_merging_threads()

    @staticmethod
    def index_bytes(directory: Path) -> int:
        return stored_bytes(directory / "index")

    @staticmethod
    def finder(directory: Path) -> Callable[[Query], list[int]]:
        index = Tantivy._index(directory, create=False)
        return partial(_tantivy_ids, index, index.searcher(), tantivy_analyzer())

    @staticmethod
    def _index(directory: Path, *, create: bool) -> Any:
        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("id", fast=True)
        builder.add_text_field(COLUMN, tokenizer_name=STEMMED, index_option="position")
        schema = builder.build()
        (directory / "index").mkdir(exist_ok=True)
        index = tantivy.Index(schema, path=str(directory / "index"), reuse=not create)
        index.register_tokenizer(STEMMED, tantivy_analyzer())
        return index


def tantivy_analyzer() -> Any:
    """Tokens as the others make them."""
    filters = tantivy.Filter
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for one in (filters.remove_long(255), filters.lowercase(), filters.ascii_fold(), filters.stopword("english")):
        builder = builder.filter(one)
    return builder.filter(filters.stemmer("english")).build()


def _tantivy_ids(index: Any, searcher: Any, analyzer: Any, query: Query) -> list[int]:
    terms = analyzer.analyze(query.text)
    if query.phrase and len(terms) > 1:
        asked = tantivy.Query.phrase_query(index.schema, COLUMN, list(terms))
    else:
        should = [(tantivy.Occur.Should, tantivy.Query.term_query(index.schema, COLUMN, term)) for term in terms]
        asked = tantivy.Query.boolean_query(should)
    hits = searcher.search(asked, limit=LIMIT, count=False).hits
    return searcher.fast_field_values("id", [address for _, address in hits]) if hits else []  # type: ignore[no-any-return]


# -- bm25s ---------------------------------------------------------------------------------------


class Bm25s:
    """An index of bm25s, which knows no positions and keeps no rows: searches give row numbers alone."""

    name = "bm25s"
    positions = False
    write = staticmethod(Tantivy.write)

    @staticmethod
    def build(directory: Path) -> None:
        texts = pq.read_table(directory / "rows.parquet", columns=[COLUMN])[COLUMN].to_pylist()
        tokens = bm25s.tokenize(texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)
        retriever = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
        retriever.index(tokens, show_progress=False)
        retriever.save(directory / "index")

    @staticmethod
    def index_bytes(directory: Path) -> int:
        return stored_bytes(directory / "index")

    @staticmethod
    def finder(directory: Path) -> Callable[[Query], list[int]]:
        return partial(_bm25s_ids, bm25s.BM25.load(directory / "index"), Stemmer.Stemmer("english"))


def _bm25s_ids(retriever: Any, stemmer: Any, query: Query) -> list[int]:
    tokens = bm25s.tokenize(query.text, stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False)
    rows, scores = retriever.retrieve(tokens, k=LIMIT, show_progress=False)
    return np.asarray(rows[0])[np.asarray(scores[0]) > 0].tolist()  # type: ignore[no-any-return]


PEERS: dict[str, Any] = {one.name: one for one in (Siltstone, Lance, Tantivy, Bm25s)}
