"""The metadata store in RocksDB: one process keeps a directory and serves it on a socket (metadata-rocksdb.md)."""
