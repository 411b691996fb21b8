"""Where Spark finds `format("mledger")` by itself: it imports top-level modules whose names begin with `pyspark_`."""

from snapshot.spark import MledgerDataSource as DefaultSource

__all__ = ["DefaultSource"]
