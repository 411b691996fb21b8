"""The package as a zip archive, for Spark's Python workers that do not have it installed."""

import hashlib
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

PACKAGE = "mledger"
_NAME_DIGITS = 16


def write_archive(directory: str) -> str:
    """Write an archive of mledger's modules into a directory; returns its path.

    The same modules give the same bytes and the same name, because Spark Connect refuses a second archive of the same
    name with other contents.
    """
    modules = sorted(_modules(files(PACKAGE), PACKAGE))
    digest = hashlib.sha256()
    for name, code in modules:
        digest.update(b"%s\0%d\0%s" % (name.encode(), len(code), code))
    path = Path(directory, f"mledger-{digest.hexdigest()[:_NAME_DIGITS]}.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, code in modules:
            archive.writestr(zipfile.ZipInfo(name), code, zipfile.ZIP_DEFLATED)
    return str(path)


def _modules(there: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    """Each module below a package: its path in the archive, and its code."""
    for each in there.iterdir():
        path = f"{name}/{each.name}"
        if each.is_dir():
            yield from _modules(each, path)
        elif each.name.endswith(".py"):
            yield path, each.read_bytes()
