"""Where Spark finds `format("mledger")` by itself: it imports top-level modules whose names begin with `pyspark_`."""

from mledger.snapshot.source.spark import MledgerDataSource as DefaultSource

__all__ = ["DefaultSource"]
