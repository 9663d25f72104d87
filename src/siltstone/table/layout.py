"""How rows are laid out in a fragment's file, and its bytes.

What must hold:
- A file is plain Parquet with what readers skip by: field ids, a page index, page checksums, the order of the key
  and a bloom filter of it.
- A file stays below ``FILE_BYTES_MAX``, so that it is one object, written by one request and read by one.
- Encodings are those that Spark's vectorised reader knows too; BYTE_STREAM_SPLIT is not one of them.
- Nothing is encoded twice, unless one row group alone passed the limit.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as kinds

from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.format.seal import seal
from siltstone.store.base import OBJECT_BYTES_MAX
from siltstone.table.keys import as_integers
from siltstone.table.schema import arrow_schema, key_fields
from siltstone.table.types import shown, shown_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.format.table import Field, Schema

FILE_BYTES = 48 * 1024 * 1024  # what a file aims to stay below
FILE_BYTES_MAX = OBJECT_BYTES_MAX  # what it must stay below
SEALED_ABOVE_BYTES = 64 * 1024  # smaller files are read whole, and compared with the sum in the log
GROUP_ROWS = 131_072
GROUP_BYTES = 32 * 1024 * 1024  # of Arrow memory
PAGE_ROWS = 1024  # pages of all columns begin at the same rows, unless one is too wide: a lookup is one request then
PAGE_BYTES = 64 * 1024  # whoever takes a few rows of long texts decodes a page for each
LEVEL = 1
BLOOM_FPP = 0.01
SMALL_ROWS = 2_000  # below it, a bloom filter or a dictionary costs more than it saves
_BATCH_ROWS = 1024
_SAMPLE_PARTS = 4
_SAMPLE_ROWS = 4096  # of each part
_SAMPLE_BYTES = 1024 * 1024  # of each part
_SPREAD = 256  # integers are smaller as differences, unless few values lie this far apart on average


class File(NamedTuple):
    """A file of some of the rows, in their order."""

    rows: int
    data: bytes


class Layout:
    """What all files of one schema have in common."""

    def __init__(self, schema: Schema) -> None:
        self.record = schema
        self.schema: pa.Schema = arrow_schema(schema, ids=True)
        self.key = tuple(field.name for field in key_fields(schema))
        starts: dict[str, int] = {}
        leaves = 0
        for field in schema.fields:
            starts[field.name] = leaves
            leaves += _leaves(field)
        self.order = [pq.SortingColumn(starts[name]) for name in self.key]
        parts = [part for field in self.schema for part in _leaf_arrays(field.name, pa.array([], field.type))]
        # A column "a.b" and the part "b" of a column "a" have one path: options for it would reach both.
        uses = Counter(path for path, _ in parts)
        self.paths = {path for path in uses if uses[path] == 1}
        self.whole = [path for path, leaf in parts if path in self.paths and _is_whole(leaf.type)]

    @staticmethod
    @lru_cache(maxsize=16)
    def of(schema: Schema) -> Layout:
        """The layout of a schema; tables are few and appends to them many."""
        return Layout(schema)

    def conform(self, table: pa.Table) -> pa.Table:
        """The table's columns in the schema's order, with its field ids.

        Raises:
            InvalidInputError: a column is missing, of another type, or null where it must not be.
        """
        columns = []
        for field in self.schema:
            place = table.schema.get_field_index(field.name)
            if place < 0:
                raise InvalidInputError(
                    f"the rows have no column {shown(field.name)}",
                    hint="give it, with nulls at least",
                    column=field.name,
                )
            column = table.column(place)
            if column.type != field.type:
                raise InvalidInputError(
                    f"column {shown(field.name)} is {shown_type(column.type)}, the table's is {shown_type(field.type)}",
                    hint="cast it first",
                    column=field.name,
                )
            if not field.nullable and column.null_count:
                raise InvalidInputError(
                    f"column {shown(field.name)} has {column.null_count} nulls and must have none",
                    hint="fill them in, or leave such rows out",
                    column=field.name,
                )
            columns.append(column)
        return pa.Table.from_arrays(columns, schema=self.schema)


def encode(table: pa.Table, layout: Layout, *, ordered: bool) -> Iterator[File]:
    """The files of a table's rows, about equal in size; ``ordered``: the rows are sorted by the key."""
    start, most = 0, table.num_rows
    while start < table.num_rows:
        rest = table.slice(start)
        file, most = _encode_file(rest, layout, most=most, ordered=ordered)
        if len(file.data) <= FILE_BYTES_MAX:
            start += file.rows
            yield file
        elif file.rows > 1:
            most = file.rows // 2
        else:
            raise LimitExceededError(
                f"one row takes {len(file.data)} bytes, over the limit of {FILE_BYTES_MAX}",
                hint="keep large values in objects of their own, and their names in the table",
            )


def _encode_file(table: pa.Table, layout: Layout, *, most: int, ordered: bool) -> tuple[File, int]:
    """A file of at most so many of the first rows, and how many rows the next ones should have."""
    rows = table.num_rows
    row_bytes = max(1, table.nbytes // rows)
    group_rows = max(1, min(GROUP_ROWS, GROUP_BYTES // row_bytes))
    options = _options(table, layout, row_bytes=row_bytes, group_rows=min(group_rows, most), ordered=ordered)
    out = pa.BufferOutputStream()
    done = 0
    try:
        with pq.ParquetWriter(out, layout.schema, **options) as writer:
            while done < most:
                group = _group(table, done, min(group_rows, most - done))
                likely = out.tell() * (done + group.num_rows) // done if done else 0
                if likely > FILE_BYTES:
                    break
                writer.write_table(group, row_group_size=group.num_rows)
                if not done:  # the first group tells how many files there will be
                    files = 1 + out.tell() * rows // (group.num_rows * FILE_BYTES)
                    most = min(most, -(-rows // files))
                done += group.num_rows
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowCapacityError, OSError) as error:
        raise _not_storable(table, layout, error) from error
    return File(done, _sealed(out.getvalue())), most


def _sealed(file: pa.Buffer) -> bytes:
    """The file with sums of its parts, where it is not read whole and checked whole."""
    return file.to_pybytes() if file.size <= SEALED_ABOVE_BYTES else seal(memoryview(file), name="a new fragment")


def _group(table: pa.Table, start: int, rows: int) -> pa.Table:
    group = table.slice(start, rows)
    while group.num_rows > 1 and group.nbytes > 2 * GROUP_BYTES:  # its rows are far wider than most
        group = table.slice(start, group.num_rows // 2)
    return group


def _options(table: pa.Table, layout: Layout, *, row_bytes: int, group_rows: int, ordered: bool) -> dict[str, object]:
    dictionaries, differences = _encodings(table, layout, row_bytes=row_bytes)
    options: dict[str, object] = {
        "compression": "zstd",
        "compression_level": LEVEL,
        "write_page_index": True,
        "write_page_checksum": True,
        "max_rows_per_page": PAGE_ROWS,
        "data_page_size": PAGE_BYTES,
        "use_dictionary": dictionaries or False,
        "column_encoding": dict.fromkeys(differences, "DELTA_BINARY_PACKED") or None,
    }
    if row_bytes * _BATCH_ROWS > PAGE_BYTES:
        # A page ends between two batches only.
        widest = max(column.nbytes for column in table.columns) // table.num_rows
        options["write_batch_size"] = max(1, min(_BATCH_ROWS, PAGE_BYTES // max(1, widest)))
    if ordered and layout.order:
        options["sorting_columns"] = layout.order
    if layout.key and table.num_rows >= SMALL_ROWS:
        options["bloom_filter_options"] = {
            name: {"ndv": min(group_rows, _distinct_most(table.column(name), parts=len(layout.key))), "fpp": BLOOM_FPP}
            for name in layout.key
            if name in layout.paths
        }
    return options


def _distinct_most(column: pa.ChunkedArray, *, parts: int) -> int:
    """No fewer than the values a key column has; the parts of a composite key may have few."""
    return len(column) if parts == 1 else max(1, pc.count_distinct(column).as_py())


def _encodings(table: pa.Table, layout: Layout, *, row_bytes: int) -> tuple[list[str], list[str]]:
    """The paths of the columns that get a dictionary, and of those that are kept as differences."""
    if table.num_rows < SMALL_ROWS:
        return [], layout.whole
    sample = _sample(table, row_bytes=row_bytes).combine_chunks()
    dictionaries = [
        path
        for name, column in zip(sample.column_names, sample.itercolumns(), strict=True)
        if name not in layout.key
        for path, leaf in _leaf_arrays(name, column.chunk(0))
        if path in layout.paths and _repeats(leaf)
    ]
    return dictionaries, [path for path in layout.whole if path not in dictionaries]


def _sample(table: pa.Table, *, row_bytes: int) -> pa.Table:
    """Some rows from several places: neighbours may be alike where all rows together are not."""
    rows = max(1, min(_SAMPLE_ROWS, _SAMPLE_BYTES // row_bytes, table.num_rows // _SAMPLE_PARTS))
    return pa.concat_tables(
        [table.slice(part * table.num_rows // _SAMPLE_PARTS, rows) for part in range(_SAMPLE_PARTS)]
    )


def _leaf_arrays(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """The columns that a column is stored as, by their path in the file."""
    kind = values.type
    if kinds.is_struct(kind):
        for index, part in enumerate(values.flatten()):
            yield from _leaf_arrays(f"{path}.{kind.field(index).name}", part)
    elif kinds.is_map(kind):
        yield from _leaf_arrays(f"{path}.key_value.key", values.keys)
        yield from _leaf_arrays(f"{path}.key_value.value", values.items)
    elif kinds.is_list(kind) or kinds.is_fixed_size_list(kind):
        yield from _leaf_arrays(f"{path}.list.element", values.flatten())
    else:
        yield path, values


def _repeats(values: pa.Array) -> bool:
    """Whether a dictionary makes such values smaller."""
    if kinds.is_boolean(values.type):
        return False
    distinct = pc.count_distinct(values).as_py()
    if not 0 < 2 * distinct <= len(values) - values.null_count:
        return False
    plain = as_integers(values.drop_null())
    return plain is None or int(plain.max()) - int(plain.min()) > _SPREAD * distinct


def _is_whole(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_temporal(kind))


def _leaves(field: Field) -> int:
    return sum(map(_leaves, field.children)) if field.children else 1


def _not_storable(table: pa.Table, layout: Layout, error: Exception) -> InvalidInputError:
    """The error for rows that Parquet can't hold, naming the column where it is one alone."""
    culprit = ""
    for name in layout.schema.names:
        try:
            pq.write_table(table.select([name]), pa.BufferOutputStream(), compression="none")
        except (pa.ArrowException, OSError):
            culprit = name
            break
    where = f"column {shown(culprit)}" if culprit else "the rows"
    return InvalidInputError(
        f"{where} can't be written as Parquet: {shown(str(error))[1:-1]}",
        hint="a value is out of the range that Parquet holds",
        column=culprit,
    )
