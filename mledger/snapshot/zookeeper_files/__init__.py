"""Readers of ZooKeeper's own files, snapshots and transaction logs, on this machine or on other file systems."""
