"""Metadata as tables and snapshots; exports the reader of ZooKeeper's data directories, without a server."""

from mledger.snapshot.zookeeper_files.errors import (
    CorruptFile,
    FileNotReadable,
    LogDoesNotFit,
    MissingLog,
    NoSnapshotFile,
    SnapshotError,
    TruncatedFile,
    ZxidNotCovered,
)
from mledger.snapshot.zookeeper_files.file_access.files import DataFiles, LocalFiles
from mledger.snapshot.zookeeper_files.jute import Acl, Znode
from mledger.snapshot.zookeeper_files.trees.exact_tree import ExactTree, Summary
from mledger.snapshot.zookeeper_files.trees.file_selection import DataDirectory, ReadPlan

__all__ = [
    "Acl",
    "CorruptFile",
    "DataDirectory",
    "DataFiles",
    "ExactTree",
    "FileNotReadable",
    "LocalFiles",
    "LogDoesNotFit",
    "MissingLog",
    "NoSnapshotFile",
    "ReadPlan",
    "SnapshotError",
    "Summary",
    "TruncatedFile",
    "Znode",
    "ZxidNotCovered",
]
