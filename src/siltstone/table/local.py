"""Whole fragments on a local disk, read and filtered in one go by the engine that evaluates filters.

It skips the values of rows that do not match, which decoding a column and choosing from it can't, and spends less on
each page.

What must hold:
- The rows are those that the filter keeps, in the order of the file. The expression and its engine are the same as
  everywhere else; no statistics rule anything out, because those of floats leave NaN out.
- Only filters that fail for no row are tested here: in which order their parts are tested is the engine's choice.
- All bytes were read through the store and compared with their checksums before.
- A fragment that is not just as the table's schema says, or is in no file of a disk, is read as any other is.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from siltstone.errors import SiltstoneError
from siltstone.format.seal import Part
from siltstone.table import engine
from siltstone.table.masking import masked
from siltstone.table.schema import arrow_type

if TYPE_CHECKING:
    import numpy as np
    from datafusion import DataFrame, Expr, SessionContext
    from numpy.typing import NDArray

    from siltstone.format.table import Field
    from siltstone.store.base import Store
    from siltstone.table.files import FileLike
    from siltstone.table.fragment_bytes import FragmentBytes
    from siltstone.table.predicate import Predicate
    from siltstone.table.tools import Tools

BATCH_ROWS = 65_536

_SCHEME = "file://"
_PLAIN_PATH = re.compile(r"/[\w/.+=,@-]+", re.ASCII)  # neither a pattern nor anything that URLs write in another way
_SAFE_PARTS = frozenset({
    "Column", "Literal", "Not", "IsNull", "IsNotNull", "IsTrue", "IsNotTrue", "IsFalse", "IsNotFalse", "IsUnknown",
    "IsNotUnknown", "InList", "Like", "Between",
})  # fmt: skip
_SAFE_OPERATORS = frozenset({
    "=", "!=", "<", "<=", ">", ">=", "AND", "OR", "IS DISTINCT FROM", "IS NOT DISTINCT FROM",
})  # fmt: skip


def can_read(tools: Tools, predicate: Predicate | None) -> bool:
    """Whether files of a table's store are read here, and tested by a filter where there is one."""
    if _directory(tools.store) is None or engine.is_forked():
        return False
    return predicate is None or bool(predicate.columns and not predicate.lists_floats and _is_safe(predicate.expr))


def read_matching(
    file: FileLike,
    predicate: Predicate | None,
    *,
    fields: tuple[Field, ...],
    tested: tuple[Field, ...] = (),
    keep: NDArray[np.bool_] | None = None,
) -> pa.Table | None:
    """Some columns of the rows that match, or at which ``keep`` is true; of all where neither is given.

    None where the fragment must be read in another way.
    """
    frame = _filtered(file, predicate, (*fields, *(one for one in tested if one not in fields)))
    if frame is None:
        return None
    kinds = [arrow_type(one) for one in fields]
    schema = pa.schema(
        [pa.field(one.name, kind, nullable=one.nullable) for one, kind in zip(fields, kinds, strict=True)]
    )
    found: list[pa.Table] = []
    rows = 0
    try:
        # One by one: what is left out makes room for the next.
        for each in frame.select(*(_quoted(one.name) for one in fields)).execute_stream():
            batch = each.to_pyarrow()
            if batch.schema.types != kinds:
                return None
            table = pa.Table.from_arrays(batch.columns, schema=schema)
            found.append(table if keep is None else masked(table, keep[rows : rows + len(table)]))
            rows += batch.num_rows
    except Exception:  # whatever it is, the other way of reading tells it properly
        return None
    if keep is not None and rows != len(keep):
        return None
    return pa.concat_tables(found) if found else schema.empty_table()


def count_matching(file: FileLike, predicate: Predicate, *, tested: tuple[Field, ...]) -> int | None:
    """How many rows match; None where they must be counted in another way."""
    frame = _filtered(file, predicate, tested)
    try:
        return None if frame is None else frame.count()
    except Exception:  # as above
        return None


def _directory(store: Store) -> str | None:
    """Where the files of a store are; None where they are not read here."""
    root = store.uri.removeprefix(_SCHEME)
    local = store.traits.kind == "file" and store.uri.startswith(_SCHEME) and _PLAIN_PATH.fullmatch(root)
    return root if local else None


def _is_safe(expr: Expr) -> bool:
    stack = [expr]
    while stack:
        part = stack.pop()
        variant = part.variant_name()
        if variant not in _SAFE_PARTS and not (variant == "BinaryExpr" and part.rex_call_operator() in _SAFE_OPERATORS):
            return False
        stack += engine.parts_of(part)
    return True


def _filtered(file: FileLike, predicate: Predicate | None, fields: tuple[Field, ...]) -> DataFrame | None:
    """The rows that match, not yet read, of a fragment whose bytes are good."""
    source = file.source
    directory = None if source is None else _directory(source.store)
    if source is None or directory is None or not _vouched(source, fields):
        return None
    try:
        frame = _session().read_parquet(f"{directory}/{source.key}", parquet_pruning=False)
        found = frame.schema()
        if any(found.field(one.name).type != arrow_type(one) for one in fields):
            return None
        return frame if predicate is None else frame.filter(predicate.expr)
    except SiltstoneError:
        raise
    except Exception:  # as above
        return None


def _vouched(source: FragmentBytes, fields: tuple[Field, ...]) -> bool:
    """Check the bytes of some columns; false where the file has others, or no checksums."""
    nodes = {node.id: node for node in source.footer.columns if node.id}
    if not source.sums or any(one.id not in nodes or nodes[one.id].name != one.name for one in fields):
        return False
    source.check_kept()
    found = [nodes[one.id] for one in fields]
    leaves = [leaf for node in found for leaf in range(node.leaf, node.leaf + node.leaves)]
    for number, group in enumerate(source.footer.groups):
        for leaf in leaves:
            data = source.fetch_whole([group.chunks[leaf].range])[0]
            source.sums.check(data, Part.DATA, group=number, leaf=leaf)
    return True


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@cache
def _session() -> SessionContext:
    config = engine.config().with_target_partitions(1)  # more would change the order of rows
    for name, value in (
        ("execution.batch_size", str(BATCH_ROWS)),
        ("execution.collect_statistics", "false"),
        ("execution.parquet.pushdown_filters", "true"),
        ("execution.parquet.pruning", "false"),
        ("execution.parquet.enable_page_index", "false"),
        ("execution.parquet.bloom_filter_on_read", "false"),
        ("execution.parquet.schema_force_view_types", "false"),
    ):
        config = config.set(f"datafusion.{name}", value)
    session = engine.datafusion().SessionContext(config)
    for cache_name in ("metadata_cache_limit", "list_files_cache_limit"):
        session.sql(f"SET datafusion.runtime.{cache_name} = '0K'").collect()
    return session
