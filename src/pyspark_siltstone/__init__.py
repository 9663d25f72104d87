"""Where Spark finds the format "siltstone": it looks for modules whose names begin with ``pyspark_``."""

from siltstone.spark.source import SiltstoneSource as DefaultSource

__all__ = ["DefaultSource"]
