"""The format "siltstone" of Spark's readers and writers.

What must hold:
- A DataFrame sees one version in every query: the newest when it was loaded or, where a schema was given, at its
  first query, since Spark asks nothing before. With ``fresh`` each query sees what is durable when it is planned.
- Spark keeps an instance for as long as a DataFrame, and sends it from process to process: it holds options and the
  number of a version, no handle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from siltstone.errors import InvalidInputError, NotFoundError
from siltstone.spark.changes import ChangesReader, stream_schema
from siltstone.spark.options import STREAMING, read_options
from siltstone.spark.plainly import plainly
from siltstone.spark.reader import TableReader
from siltstone.spark.types import spark_schema
from siltstone.spark.writer import BatchWriter, StreamWriter
from siltstone.table import arguments

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from siltstone.api import Table
    from siltstone.spark.options import Options

NAME = "siltstone"


class SiltstoneSource(DataSource):
    """Tables as a format of Spark: ``spark.read.format("siltstone").load(uri)``."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._version: int | None = None

    @classmethod
    def name(cls) -> str:
        return NAME

    @plainly
    def schema(self) -> StructType:
        if {name.lower() for name in self.options} & STREAMING:
            options = read_options(self.options, doing="readStream")
            return stream_schema(options.open(), changes=options.flag("changes"))
        return spark_schema(self._open(self._read_options()).schema)

    @plainly
    def reader(self, schema: StructType) -> TableReader:
        options = self._read_options()
        where = arguments.check_where(options.text("where"))
        return TableReader(self._open(options), schema, where=where, fresh=options.flag("fresh"))

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:  # noqa: FBT001 - Spark's signature
        return BatchWriter(self.options, schema, overwrite=overwrite)

    @plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802, FBT001 - Spark's too
        return StreamWriter(self.options, schema, overwrite=overwrite)

    @plainly
    def streamReader(self, schema: StructType) -> ChangesReader:  # noqa: N802 - Spark's too
        return ChangesReader(self.options, schema)

    def _read_options(self) -> Options:
        options = read_options(self.options, doing="read")
        if options.flag("fresh") and options.is_pinned:
            raise InvalidInputError("option fresh is given with version, tag or checkpoint", hint="give one of them")
        return options

    def _open(self, options: Options) -> Table:
        """The table at the version that this instance sees."""
        table = options.open()
        if options.flag("fresh"):
            return table
        if self._version is None:
            self._version = table.version
        if table.version == self._version:
            return table
        checkpoint = options.text("checkpoint")
        if checkpoint is not None:  # it may have been more than a version
            raise NotFoundError(
                f"checkpoint {checkpoint} was of version {self._version} when the DataFrame was made, and another one "
                f"has its name now",
                hint="load it again",
            )
        return table.at(version=self._version)
