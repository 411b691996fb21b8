"""Packages that are installed only where they are needed."""

from importlib.util import find_spec

from mledger.metastore.errors import PackageNotInstalled

PYARROW = "pyarrow"


def check_authentication() -> None:
    """Raise PackageNotInstalled where the libraries that check tokens and passwords are missing."""
    missing = [name for name in ("jwt", "cryptography", "passlib") if find_spec(name) is None]
    if missing:
        raise PackageNotInstalled(
            f"authentication needs packages that are missing ({', '.join(missing)}): pip install 'mledger[auth]'"
        )


def check_rocksdb() -> None:
    """Raise PackageNotInstalled where RocksDB is missing: looking at a cluster needs none, running a part of it does.

    To be called before what stores in it is imported.
    """
    if find_spec("rocksdict") is None:
        raise PackageNotInstalled(
            "bookies, and metadata in RocksDB or in memory, need the package rocksdict: pip install 'mledger[local]'"
        )


def missing_package(error: ModuleNotFoundError) -> Exception:
    """PackageNotInstalled where `error` is about a package that an extra brings; else `error`."""
    if error.name != PYARROW:
        return error
    return PackageNotInstalled(f"snapshots and reports need the package {PYARROW}: pip install 'mledger[report]'")
