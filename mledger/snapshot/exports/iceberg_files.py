"""The files of metadata that our Iceberg tables and their versions have, and those that belong to none any more.

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
_STATE = re.compile(r"\d{5}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.metadata\.json", re.ASCII)
"""The name that pyiceberg gives a table's state after a commit; the catalog names the last one."""
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

    So are states that are not in its history. Files that another version names stay, whoever made it, and so do young
    ones. Where that cannot be told, all stay.
    """
    try:
        table = load()
        home = Path(table.location().removeprefix(_SCHEME), "metadata")
        states = [table.metadata_location, *(each.metadata_file for each in table.metadata.metadata_log)]
        versions = [each.snapshot_id for each in table.metadata.snapshots]
        suspects = plan_suspects(os.listdir(home), versions, {each.rpartition("/")[2] for each in states})
        left = {name for name in suspects if time.time() - (home / name).stat().st_mtime > LEFT_S}
        if left:
            left -= {uri.rpartition("/")[2] for each in table.metadata.snapshots for uri in _named_by(table, each)}
        for name in left:
            (home / name).unlink(missing_ok=True)
    except Exception as error:  # pyiceberg raises anything for damaged metadata, and no export fails for it
        log.warning("leftovers_not_removed", error=error)


def plan_suspects(names: Iterable[str], versions: Collection[int], states: Collection[str]) -> list[str]:
    """The names, of files of metadata, that exports give to files of other versions than these, and of other states."""
    known, found = set(versions), []
    for name in names:
        ours = _OURS.fullmatch(name)
        other_version = ours is not None and int(ours["entries"] or ours["list"]) not in known
        if other_version or (name not in states and _STATE.fullmatch(name)):
            found.append(name)
    return found


def _named_by(table: "Table", version: Any) -> list[str]:
    """The URIs of the files that a version names."""
    return [*(each.manifest_path for each in version.manifests(table.io)), version.manifest_list]
