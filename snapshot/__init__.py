"""Metadata at scale: first, a reader of ZooKeeper's own data directories and backups, without a server."""

from snapshot.data_directory import DataDirectory, ReadPlan
from snapshot.errors import (
    CorruptFile,
    FileNotReadable,
    LogDoesNotFit,
    MissingLog,
    NoSnapshotFile,
    SnapshotError,
    TruncatedFile,
    ZxidNotCovered,
)
from snapshot.exact_tree import ExactTree, Summary
from snapshot.files import DataFiles, LocalFiles
from snapshot.jute import Acl, Znode

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
