"""What a table is, and the files and indexes that it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from siltstone import paths
from siltstone.cli.indexes import index_document
from siltstone.console.cells import cut, time_text
from siltstone.format.rollup import HIGH, LOW
from siltstone.table.schema import arrow_type

if TYPE_CHECKING:
    from siltstone.console.root import Held
    from siltstone.format.table import Field, Sharding
    from siltstone.table.state import State

COLUMNS_MAX = 1000
NAMED_MAX = 200  # tags and settings
SORTS = ("name", "-name", "rows", "-rows", "bytes", "-bytes", "deleted", "-deleted")


def summarize(held: Held) -> dict[str, Any]:
    """A table in a line of the list."""
    state = held.state()
    rows, gone, size = _sums(state)
    return {
        "uri": held.table.uri,
        "version": state.version,
        "time": _newest_time(state),
        "rows": rows - gone,
        "deleted": gone,
        "fragments": len(state.fragments),
        "bytes": size,
        "shards": len(state.shards),
        "indexes": len(state.indexes),
        "clone": state.clone is not None,
    }


def describe_table(held: Held) -> dict[str, Any]:
    """A table with its columns, tags and settings."""
    state = held.state()
    fields = state.schema.fields
    return summarize(held) | {
        "name": held.table.name,
        "log": held.log.identity.log,
        "created": time_text(held.log.identity.created_ms),
        "columns": [_column(one, state) for one in fields[:COLUMNS_MAX]],
        "columns_total": len(fields),
        "tags": [{"name": name, "version": version} for name, version in _first(sorted(state.tags.items()))],
        "settings": [{"name": name, "value": cut(value)} for name, value in _first(sorted(state.settings.items()))],
        "sharding": _sharding(state.sharding),
        "checkpoints": len(state.checkpoints),
        "oldest": state.oldest if state.born == 0 else max(state.oldest, state.born + 1),
        "clone_of": None if state.clone is None else f"{state.clone.uri}@{state.clone.version}",
        "wal": None if state.wal is None else state.wal.uri,
        "indexed": sorted({one.name for one in fields for index in state.indexes.values() if index.field == one.id}),
    }


def _first(items: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return items[:NAMED_MAX]


def _sums(state: State) -> tuple[int, int, int]:
    """Rows of files, those of them that are gone, and bytes."""
    table = state.fragments.folded().base.table
    return tuple(pc.sum(table.column(name)).as_py() or 0 for name in ("rows", "vector_rows", "bytes"))  # type: ignore[return-value]


def _newest_time(state: State) -> str:
    return time_text(state.all_versions().column("time_ms")[-1].as_py())


def _column(field: Field, state: State) -> dict[str, Any]:
    return {
        "id": field.id,
        "name": field.name,
        "type": cut(str(arrow_type(field))),
        "nullable": field.nullable,
        "key": field.id in state.schema.key,
        "default": None if field.default is None else cut(str(field.default)),
        "indexes": sorted(name for name, index in state.indexes.items() if index.field == field.id),
    }


def _sharding(sharding: Sharding | None) -> dict[str, int] | None:
    return None if sharding is None else {"count": sharding.count, "map": sharding.map}


# -- fragments -------------------------------------------------------------------------------------


def list_fragments(held: Held, *, offset: int, limit: int, sort: str) -> dict[str, Any]:
    """Some of the fragments; no Python object is made for the others."""
    state = held.state()
    table = state.fragments.folded().base.table
    gone = pc.fill_null(table.column("vector_rows"), 0)
    table = table.append_column(
        "deleted", pc.divide(pc.cast(gone, pa.float64()), pc.cast(table.column("rows"), pa.float64()))
    )
    order = pc.sort_indices(
        table,
        [(sort.lstrip("-"), "descending" if sort[0] == "-" else "ascending"), ("name", "ascending")][
            : 1 if "name" in sort else 2
        ],
    )
    page = table.take(order.slice(offset, limit))
    key = state.schema.key[0] if state.schema.key else None
    bounds = [f"{part}.{key}" for part in (LOW, HIGH)]
    has_bounds = key is not None and all(name in page.column_names for name in bounds)
    return {
        "version": state.version,
        "total": table.num_rows,
        "rows": pc.sum(table.column("rows")).as_py() or 0,
        "bytes": pc.sum(table.column("bytes")).as_py() or 0,
        "deleted": pc.sum(gone).as_py() or 0,
        "key": next((one.name for one in state.schema.fields if one.id == key), None),
        "fragments": [_fragment(row, bounds if has_bounds else None, state) for row in page.to_pylist()],
    }


def _fragment(row: dict[str, Any], bounds: list[str] | None, state: State) -> dict[str, Any]:
    bare = paths.bare(row["name"])
    origin = state.origins.get(str(paths.origin_of(row["name"])))
    return {
        "name": row["name"],
        "since": int(bare.partition("-")[0]),  # its writer's view was this version
        "rows": row["rows"],
        "deleted": row["vector_rows"] or 0,
        "bytes": row["bytes"],
        "low": _bound(row, bounds, 0),
        "high": _bound(row, bounds, 1),
        "origin": None if origin is None else origin.uri,
    }


def _bound(row: dict[str, Any], bounds: list[str] | None, side: int) -> str | None:
    found = None if bounds is None else row[bounds[side]]
    return None if found is None else cut(str(found), 60)


# -- indexes ---------------------------------------------------------------------------------------


def list_indexes(held: Held) -> dict[str, Any]:
    """The text indexes, and how much of the table each one has."""
    state = held.state()
    return {
        "version": state.version,
        "indexes": [index_document(one) for one in held.table.indexes()],
    }
