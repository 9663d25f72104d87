"""The reader of the format "siltstone": parts of one version, read by tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from siltstone.errors import SchemaMismatchError
from siltstone.spark.parts import make_held, make_job, make_parts, read_pickled, split_held
from siltstone.spark.types import spark_type
from siltstone.table.predicate import parse_predicate
from siltstone.table.reading import Reading
from siltstone.table.scan import chosen_fields
from siltstone.table.schema import arrow_schema, near_names
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from siltstone.api import Table


class TableReader(DataSourceReader):
    """Reads some columns of a version; ``pushFilters`` is not there, since Spark mixes up those of two queries."""

    def __init__(self, table: Table, schema: StructType, *, where: str | None, fresh: bool = False) -> None:
        tools, state = table._seen_by(fresh=fresh)  # noqa: SLF001 - what the handle sees, for others to read
        columns = checked_columns(schema, arrow_schema(state.schema))
        predicate = None if where is None else parse_predicate(where, arrow_schema(state.schema))
        reading = Reading(tools, state.schema, chosen_fields(state.schema, columns), predicate)
        lives, held = split_held(reading, reading.choose(state.fragments))
        self._parts = make_parts(reading, lives) + make_held(held, schema)
        self._job = make_job(tools, state, columns=columns, where=where, schema=schema)

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(part) for part in self._parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes a partition of nothing where there are none.
        return iter(()) if partition.value is None else read_pickled(self._job, partition.value)

    def __getstate__(self) -> dict[str, object]:
        """Each part travels with its own partition."""
        return {"_parts": [], "_job": self._job}


def checked_columns(schema: StructType, table: pa.Schema) -> list[str]:
    """The names of the columns that a schema asks for; they must be the table's, and of its types.

    Raises:
        SchemaMismatchError: a column is not there, or of another type.
    """
    for field in schema.fields:
        if field.name not in table.names:
            raise SchemaMismatchError(
                f"the schema names column {shown(field.name)}, which the table has not",
                hint=near_names(table.names, field.name),
                column=field.name,
            )
        found = spark_type(table.field(field.name).type, column=field.name)
        if found.simpleString() != field.dataType.simpleString():
            raise SchemaMismatchError(
                f"the schema has column {shown(field.name)} as {shown(field.dataType.simpleString())[1:-1]}, the table "
                f"as {shown(found.simpleString())[1:-1]}",
                hint="cast it after reading, or leave the schema out",
                column=field.name,
            )
        if found != field.dataType or not field.nullable:
            raise SchemaMismatchError(
                f"the schema says that column {shown(field.name)}, or a part of it, is never null",
                hint="leave NOT NULL out: all columns that are read may be null",
                column=field.name,
            )
    return [field.name for field in schema.fields]
