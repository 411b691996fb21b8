"""Packages that are installed only where they are needed."""

from importlib.util import find_spec

from mledger.metastore.errors import PackageNotInstalled


def check_rocksdb() -> None:
    """Raise PackageNotInstalled where RocksDB is missing: looking at a cluster needs none, running a part of it does.

    To be called before what stores in it is imported.
    """
    if find_spec("rocksdict") is None:
        raise PackageNotInstalled(
            "bookies, and metadata in RocksDB or in memory, need the package rocksdict: pip install 'mledger[local]'"
        )
