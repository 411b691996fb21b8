"""The index: RocksDB, how it keeps its rows, and what they hold of runs of entries and of ledgers."""
