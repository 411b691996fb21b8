"""The metadata store in RocksDB: one process owns a directory and serves it on a socket (metadata-rocksdb.md)."""
