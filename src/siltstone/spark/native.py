"""Fragments that Spark's own Parquet reader reads, and the conditions under which it does so rightly.

What must hold:
- A row, a value and a type are what the table's own reader gives. Where that is not sure, for a fragment or for all,
  they are left to it.
- Spark finds columns by name, tables by id: each fragment is read by the names and types of its own file.
- Every file is there and has the size that the log says, when a read is planned. That size tells the files apart in
  which rows are gone, and a file of another size would bring them back.
"""

from __future__ import annotations

import re
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds
from pyspark.sql import functions as F  # noqa: N812 - everyone calls it so
from pyspark.sql import types as st

from siltstone import paths
from siltstone.errors import CorruptionError, InternalError, MissingObjectError
from siltstone.locks import ForkLock
from siltstone.spark.sparksql import quoted
from siltstone.spark.types import spark_type
from siltstone.store.origins import resolve
from siltstone.table import pages
from siltstone.table.columns import Plan
from siltstone.table.fragment_bytes import FragmentBytes
from siltstone.table.overlay import store_of
from siltstone.table.schema import arrow_type
from siltstone.table.types import LIST, MAP, STRUCT, is_list, list_size, widens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from siltstone.format.parquet import Node
    from siltstone.format.rollup import Live
    from siltstone.format.table import Field, Fragment
    from siltstone.store.base import Store
    from siltstone.table.tools import Tools

MASKED_ROWS_MAX = 400_000_000  # rows of fragments of which some are gone: a bit for each is sent to all executors
SCANS_MAX = 16  # of files of different columns, or the same size; Spark plans each by itself
FOOTERS_MAX = 20_000  # whose shapes are kept

_SCHEME = "file://"
_PATTERN = re.compile(r"[\[\]{}*?\\:\x00-\x1f]")  # what Spark takes for a pattern, or not at all
_FILE, _ROW, _SIZE, _WORDS = (f"_siltstone_{one}" for one in ("file", "row", "size", "words"))  # names no column has
_WORD_BITS = 64
_METADATA = "_metadata"
# Nothing that a session says may make rows vanish, or move times.
_OPTIONS = {
    "datetimeRebaseMode": "CORRECTED",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
}


class Kept(NamedTuple):
    """A column as the files of one shape have it."""

    name: str
    type: st.DataType


Shape = tuple[Kept | None, ...]  # None: a column that these files lack
Signature = tuple[object, ...]


@dataclass
class Choice:
    """Which fragments Spark reads itself, by the shape of their files, and which it does not."""

    native: dict[Shape, list[Live]] = field(default_factory=lambda: defaultdict(list))
    rest: list[Live] = field(default_factory=list)
    why: str = ""  # the rest is not read by Spark


def choose(tools: Tools, lives: Sequence[Live], fields: Sequence[Field]) -> Choice:
    """Tell which fragments Spark can read some columns of.

    Raises:
        MissingObjectError: a file is gone.
        CorruptionError: a file is not the one that the log describes.
    """
    store = tools.store  # what is laid over a table lies below its root too
    if store.traits.kind != "file" or not store.uri.startswith(_SCHEME):
        return Choice(rest=list(lives), why="Spark reads files of a disk alone by itself")
    if _PATTERN.search(store.uri.removeprefix(_SCHEME)):
        return Choice(rest=list(lives), why="Spark takes the name of the table's directory for a pattern")
    choice = Choice()
    shapes: dict[Signature, Shape | None] = {}
    for live in lives:
        own = _store_of(tools, live.fragment)
        signature = _signature(own, live.fragment)
        if signature not in shapes:
            shapes[signature] = _shape(own, live.fragment, tuple(fields))
        shape = shapes[signature]
        if shape is None:
            choice.rest.append(live)
            choice.why = "some files hold columns in a form that Spark reads in another way"
        else:
            choice.native[shape].append(live)
    _limit(choice)
    return choice


def _limit(choice: Choice) -> None:
    """Leave to the table's own reader what would be too much for Spark's planner, or for the memory of a driver."""
    for shape in sorted(choice.native, key=lambda one: -len(choice.native[one]))[SCANS_MAX:]:
        choice.rest += choice.native.pop(shape)
        choice.why = "the files have too many different columns"
    for shape, lives in choice.native.items():
        masked = [live for live in lives if live.vector is not None]
        same = _rounds(masked)
        late = [live for some in same[SCANS_MAX:] for live in some]
        if any(one is not None and one.name.casefold() == _METADATA for one in shape):
            late = masked
            choice.why = f"a column has the name {_METADATA}"
        elif sum(live.fragment.rows for live in masked) > MASKED_ROWS_MAX:
            late = masked
            choice.why = f"the files in which rows are gone have more than {MASKED_ROWS_MAX} rows"
        elif late:
            choice.why = "too many files in which rows are gone have the same size"
        names = {live.fragment.name for live in late}
        choice.native[shape] = [live for live in lives if live.fragment.name not in names]
        choice.rest += late
    choice.native = {shape: lives for shape, lives in choice.native.items() if lives}


def read_native(
    spark: SparkSession, tools: Tools, choice: Choice, fields: Sequence[Field], schema: st.StructType
) -> list[DataFrame]:
    """What Spark reads itself, each with exactly the columns of ``schema``."""
    frames = []
    for shape, lives in choice.native.items():
        kept = st.StructType([st.StructField(one.name, one.type) for one in shape if one is not None])
        whole = [live for live in lives if live.vector is None]
        found = [_scan(spark, tools, whole, kept)] if whole else []
        masked = _rounds([live for live in lives if live.vector is not None])
        found += [_left(spark, tools, some, kept) for some in masked]
        if kept != schema:  # a select takes some calls of the JVM for each column
            columns = [_column(*one) for one in zip(shape, fields, schema.fields, strict=True)]
            found = [frame.select(*columns) for frame in found]
        frames += found
    return frames


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of frames of the same columns."""
    return reduce(lambda one, other: one.unionAll(other), frames)


def _scan(spark: SparkSession, tools: Tools, lives: Sequence[Live], schema: st.StructType) -> DataFrame:
    places = [resolve(_store_of(tools, live.fragment), paths.data(live.fragment.name)) for live in lives]
    return spark.read.options(**_OPTIONS).schema(schema).parquet(*(f"{store.uri}/{key}" for store, key in places))


def _left(spark: SparkSession, tools: Tools, lives: Sequence[Live], schema: st.StructType) -> DataFrame:
    """The rows of files, which differ in size, that are not gone.

    Each file's bits, as an array of words, are found by its size, and each row's bit by its number: that takes
    half the time of a join with the numbers of the rows that are gone.
    """
    gone = tools.vectors.read_many([(live.vector, live.fragment) for live in lives if live.vector is not None])
    words = [_words(gone[live.fragment.name].bits()) for live in lives]
    starts = np.cumsum([0, *(len(one) for one in words)], dtype=np.int32)
    bits = pa.table(
        {
            _SIZE: pa.array([live.fragment.bytes for live in lives], pa.int64()),
            _WORDS: pa.ListArray.from_arrays(pa.array(starts), pa.array(np.concatenate(words))),
        }
    )
    kept = [F.col(quoted(one.name)) for one in schema.fields]
    size, row = (F.col(f"{_METADATA}.{one}") for one in ("file_size", "row_index"))
    scan = _scan(spark, tools, lives, schema).select(*kept, size.alias(_FILE), row.alias(_ROW))
    word = F.get(F.col(_WORDS), F.shiftright(F.col(_ROW), 6).cast("int"))
    there = F.getbit(word, F.col(_ROW).bitwiseAND(F.lit(_WORD_BITS - 1)).cast("int")) == F.lit(0)
    bits_frame = F.broadcast(spark.createDataFrame(bits))
    return scan.join(bits_frame, (F.col(_FILE) == F.col(_SIZE)) & there, "left_semi").drop(_FILE, _ROW)


def _store_of(tools: Tools, fragment: Fragment) -> Store:
    store = store_of(tools, fragment)
    if store is None:
        raise InternalError(f"{fragment.name} is in memory, where Spark finds no file")
    return store


def _words(bits: bytes) -> np.ndarray:
    """Bits in whole words."""
    width = _WORD_BITS // 8
    return np.frombuffer(bits.ljust(-(-len(bits) // width) * width, b"\0"), "<i8")


def _rounds(lives: Sequence[Live]) -> list[list[Live]]:
    """Fragments in as few groups as have no two of the same size."""
    rounds: list[list[Live]] = []
    seen: dict[int, int] = defaultdict(int)
    for live in lives:
        number = seen[live.fragment.bytes]
        seen[live.fragment.bytes] += 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(live)
    return rounds


def _column(kept: Kept | None, field: Field, wanted: st.StructField) -> Column:
    """A column of the table, from the one that a file has."""
    if kept is None:
        # Written so that the column may be null: its type must not depend on which files a version has.
        found = F.when(F.lit(True), _literal(field.default).cast(wanted.dataType))
    else:
        found = F.col(quoted(kept.name))
        if kept.type != wanted.dataType:
            found = found.cast(wanted.dataType)
    return found.alias(wanted.name)


def _literal(value: float | str | bool | None) -> Column:  # noqa: FBT001 - any value that a default may have
    # A whole number above Java's longest is a decimal there.
    return F.lit(Decimal(value) if type(value) is int and value >= 2**63 else value)


# -- what files hold -------------------------------------------------------------------------------

_lock = ForkLock()
_signatures: OrderedDict[tuple[str, str, str], Signature] = OrderedDict()


def _signature(store: Store, fragment: Fragment) -> Signature:
    """What tells files of other columns apart. A file that was seen before is looked for, not into."""
    place = (store.location, fragment.name, fragment.sha256)
    with _lock:
        found = _signatures.get(place)
    if found is not None:
        _check_there(store, fragment)
        return found
    footer = FragmentBytes(store, fragment).footer
    found = tuple(_describe(node) for node in footer.columns)
    with _lock:
        _signatures[place] = found
        while len(_signatures) > FOOTERS_MAX:
            _signatures.popitem(last=False)
    return found


def _check_there(store: Store, fragment: Fragment) -> None:
    store, key = resolve(store, paths.data(fragment.name))
    info = store.head(key)
    if info is None:
        raise MissingObjectError(f"{key} is gone, with {fragment.rows} rows", object=key)
    if info.size != fragment.bytes:
        raise CorruptionError(f"{key} has {info.size} bytes, not the {fragment.bytes} of its record", object=key)


def _describe(node: Node) -> Signature:
    element = tuple(sorted((number, repr(value)) for number, value in node.element.items()))
    return (node.name, node.id, element, tuple(_describe(child) for child in node.children))


def _shape(store: Store, fragment: Fragment, fields: tuple[Field, ...]) -> Shape | None:
    """How Spark reads some columns of a file; None where it does not, or not in the same way."""
    _, key = resolve(store, paths.data(fragment.name))
    plan = Plan(FragmentBytes(store, fragment).footer, fields, name=key)
    try:
        found = pq.read_schema(pa.BufferReader(b"".join(pages.build(plan.head, []))))
    except (pa.ArrowException, OSError):  # the table's own reader says what is wrong
        return None
    if len(found) != sum(node is not None for node in plan.nodes) or not len(found):
        return None
    shape: list[Kept | None] = []
    for node, one, in_file in zip(plan.nodes, fields, _spread(plan.nodes, found), strict=True):
        if node is None or in_file is None:
            shape.append(None)
            continue
        kind = _spark_type_of(node, one, in_file.type)
        if kind is None:
            return None
        shape.append(Kept(node.name, kind))
    return tuple(shape)


def _spread(nodes: Sequence[Node | None], found: pa.Schema) -> Iterator[pa.Field | None]:
    fields = iter(found)
    for node in nodes:
        yield None if node is None else next(fields)


def _spark_type_of(node: Node, field: Field, found: pa.DataType) -> st.DataType | None:
    """The type that Spark reads a file's column as; None where what comes out is not the table's column."""
    wanted = arrow_type(field)
    if not _is_known(found):
        return None
    kind, goal = spark_type(found, column=field.name), spark_type(wanted, column=field.name)
    if not node.flat:
        return kind if kind == goal and _has_same_parts(node, field) else None
    return kind if kind == goal or widens(found, wanted) else None


def _is_known(kind: pa.DataType) -> bool:
    """Whether Spark reads a Parquet column of this type, all of its values and as they are."""
    if kinds.is_struct(kind):
        return all(_is_known(kind.field(number).type) for number in range(kind.num_fields))
    if kinds.is_map(kind):
        return _is_known(kind.key_type) and _is_known(kind.item_type)
    if is_list(kind):
        return _is_known(kind.value_type)
    if kinds.is_timestamp(kind):
        return bool(kind.unit in {"ms", "us"})
    if kinds.is_decimal(kind):
        return bool(kind.precision <= 38)
    return not (kinds.is_time(kind) or kinds.is_duration(kind) or kinds.is_null(kind))


def _has_same_parts(node: Node, field: Field) -> bool:
    """Whether a nested column has the same parts in a file, by their names as well as by their ids."""
    parts: Sequence[Node] = node.children
    if field.type in {LIST, MAP} or list_size(field.type):
        if len(node.children) != 1:
            return False
        parts = node.children[0].children
    elif field.type != STRUCT:
        return node.flat
    if len(parts) != len(field.children):
        return False
    named = field.type != STRUCT or all(
        part.name == child.name and part.id in {0, child.id} for part, child in zip(parts, field.children, strict=True)
    )
    return named and all(_has_same_parts(part, child) for part, child in zip(parts, field.children, strict=True))
