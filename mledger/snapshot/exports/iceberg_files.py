"""The files of metadata that versions of our Iceberg tables have: their names, and those that belong to none any more.

An export that is killed before the catalog has its version, or after the catalog has forgotten one, leaves its files.
"""

import os
import re
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mledger.metastore.runtime.logs.loggers import get_logger

if TYPE_CHECKING:
    from pyiceberg.table import Table

log = get_logger(__name__)

LEFT_S = 3600.0
"""Seconds after which a file without a version is left over: an export writes them right before it commits them."""

_OURS = re.compile(r"(?P<entries>\d{1,19})-m0\.avro|snap-(?P<list>\d{1,19})\.avro", re.ASCII)
_SCHEME = "file://"


def entries_name(version: int) -> str:
    """The name of the file with a version's entries, one for each Parquet file."""
    return f"{version}-m0.avro"


def list_name(version: int) -> str:
    """The name of the file that lists the files with a version's entries."""
    return f"snap-{version}.avro"


def metadata_files(table: "Table", version: int) -> list[Path]:
    """The files of metadata that only this version has."""
    found: Any = table.metadata.snapshot_by_id(version)
    assert found is not None
    return [Path(each.removeprefix(_SCHEME)) for each in _named_by(table, found)]


def remove_leftovers(load: Callable[[], "Table"]) -> None:
    """Remove the files of metadata that exports wrote for versions which the table that `load` returns does not have.

    Files that another version names stay, whoever made it, and so do young ones. Where that cannot be told, all stay.
    """
    try:
        table = load()
        home = Path(table.location().removeprefix(_SCHEME), "metadata")
        suspects = plan_suspects(os.listdir(home), [each.snapshot_id for each in table.metadata.snapshots])
        left = {name for name in suspects if time.time() - (home / name).stat().st_mtime > LEFT_S}
        if left:
            left -= {uri.rpartition("/")[2] for each in table.metadata.snapshots for uri in _named_by(table, each)}
        for name in left:
            (home / name).unlink(missing_ok=True)
    except Exception as error:  # pyiceberg raises anything for damaged metadata, and no export fails for it
        log.warning("leftovers_not_removed", error=error)


def plan_suspects(names: Iterable[str], versions: Collection[int]) -> list[str]:
    """The names, of files of metadata, that exports give to files of versions other than these."""
    known, found = set(versions), []
    for name in names:
        ours = _OURS.fullmatch(name)
        if ours is not None and int(ours["entries"] or ours["list"]) not in known:
            found.append(name)
    return found


def _named_by(table: "Table", version: Any) -> list[str]:
    """The URIs of the files that a version names."""
    return [*(each.manifest_path for each in version.manifests(table.io)), version.manifest_list]
