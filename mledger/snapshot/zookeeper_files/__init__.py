"""Readers of ZooKeeper's own files: snapshots and transaction logs, here or on other file systems."""
