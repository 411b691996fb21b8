"""SQL queries about snapshots, run by DuckDB or Spark."""
