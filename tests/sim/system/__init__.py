"""The simulated parts of a system: event loop, network, disks, RocksDB and metadata servers."""
