"""The two parts of a bookie's directory, journal and index: their owner, and whether any of their files is missing.

Each part has a file BOOKIE. It reveals a disk that is not mounted, or another bookie's disk, before anything is opened:
an empty journal would lose acknowledged entries and fences.
"""

import os
from collections.abc import Collection, Mapping

from msgspec import Struct

from mledger.bookie.errors import InvalidBookieDirectory

NAME = "BOOKIE"
JOURNAL = "journal"
INDEX = "index"

_TITLE = "mledger bookie"


class Identity(Struct, frozen=True):
    """The owner of a part: a bookie of a cluster, and one directory, identified by its salt."""

    part: str
    bookie_id: str
    instance_id: str
    salt: bytes

    def encode(self) -> str:
        """Encode as the file BOOKIE."""
        lines = (f"bookie {self.bookie_id}", f"instance {self.instance_id}", f"salt {self.salt.hex()}")
        return "\n".join((f"{_TITLE} {self.part}", *lines, ""))


class FoundPart(Struct, frozen=True):
    """What was found at a part's place. `identity` is the text of its file BOOKIE, None if there is none."""

    path: str
    identity: str | None
    begun: bool
    """Whether the part's own files exist: a journal file, or a RocksDB."""


def check_parts(directory: str, own: Collection[Identity], found: Mapping[str, FoundPart], *, complete: bool) -> None:
    """Check that the parts that were found are those of the directory.

    Args:
        directory: the bookie's directory, for messages.
        own: the identity that each part must have.
        found: what was found, by part.
        complete: whether both parts were created before, with their file BOOKIE.

    Raises:
        InvalidBookieDirectory: a part is missing or another's; the message says which and what to do.
    """
    for identity in own:
        part = found[identity.part]
        if part.identity is not None and part.identity != identity.encode():
            raise InvalidBookieDirectory(
                f"{part.path} is not the {identity.part} of bookie {identity.bookie_id} in {directory}, but of "
                f"{_owner(part.identity)}: mount the right disk there and start again"
            )
        if complete and (part.identity is None or not part.begun):
            what = f"its file {NAME} is missing" if part.identity is None else "its files are missing"
            raise InvalidBookieDirectory(_lost(directory, identity, part.path, what))
    if not found[INDEX].begun and found[JOURNAL].begun:
        index = next(identity for identity in own if identity.part == INDEX)
        raise InvalidBookieDirectory(
            _lost(directory, index, found[INDEX].path, "it is missing although the journal exists")
        )


def _lost(directory: str, identity: Identity, path: str, what: str) -> str:
    return (
        f"{path} is not the {identity.part} of bookie {identity.bookie_id}: {what}. What was acknowledged cannot be "
        f"served without it: mount its disk there and start again; if it is lost, remove {directory}, have the "
        f"bookie's ledgers re-replicated and its cookie deleted"
    )


def _owner(text: str) -> str:
    fields = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    return f"bookie {fields['bookie']}" if "bookie" in fields else "an unknown bookie"


def plan_missing_files(
    numbers: Collection[int], live: Mapping[int, int], position: int, *, complete: bool
) -> list[int]:
    """The journal files that the index needs and that are missing, in ascending order.

    Args:
        numbers: the files that exist.
        live: bytes that the index's rows name, by file.
        position: the file from which on the index has to be replayed; 0 where there is none.
        complete: whether this program wrote the directory: earlier versions may have freed the file of the position,
            but never the file that they wrote last, which is not before it.
    """
    needed = {file for file, size in live.items() if size > 0}
    if position and (complete or max(numbers, default=0) < position):
        needed.add(position)
    return sorted(needed.difference(numbers))


def plan_cut_files(sizes: Mapping[int, int], began: Mapping[int, int]) -> list[int]:
    """The journal files that are shorter than they were, ascending: `sizes` as found, `began` as noted, by file."""
    return sorted(number for number, size in sizes.items() if size < began.get(number, 0))


def cut_files(directory: str, journal: str, files: Collection[int]) -> InvalidBookieDirectory:
    """The error for journal files that were cut off: which records they held behind that is not known."""
    return _incomplete(directory, f"{journal}: {_names(files)}: cut off, and a restart has to replay what is missing")


def older_journal(directory: str, journal: str, file: int, record: int) -> InvalidBookieDirectory:
    """The error for a journal whose `file` lacks the last record that the index has entered from it."""
    what = f"{journal}: {_names([file])} ends before record {record}, which the index has: the journal is an older copy"
    return _incomplete(directory, what)


def _incomplete(directory: str, what: str) -> InvalidBookieDirectory:
    return InvalidBookieDirectory(
        f"{what}. Restore the journal and start again; if its rest is lost, write `complete no` instead of `complete "
        f"yes` into {directory}/FORMAT first: the bookie then notes the ledgers of which it may lack entries and fences"
    )


def missing_files(directory: str, journal: str, files: Collection[int]) -> InvalidBookieDirectory:
    """The error for journal files that are missing."""
    return InvalidBookieDirectory(
        f"{journal}: {len(files)} journal files are missing that {directory} needs: {_names(files)}. Restore them and "
        f"start again; if they are lost, remove {directory}, have the bookie's ledgers re-replicated and its cookie "
        "deleted"
    )


def _names(files: Collection[int]) -> str:
    return ", ".join(f"{file:08d}.journal" for file in sorted(files)[:5])


def find_part(path: str, begun: bool) -> FoundPart:
    """Read the BOOKIE of a part."""
    try:
        with open(os.path.join(path, NAME), encoding="utf-8", errors="replace") as file:
            return FoundPart(path, file.read(), begun)
    except (FileNotFoundError, NotADirectoryError):
        return FoundPart(path, None, begun)


def write_identity(path: str, identity: Identity) -> None:
    """Write a part's file BOOKIE, durably."""
    temporary = os.path.join(path, NAME + ".new")
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(identity.encode())
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, os.path.join(path, NAME))
    part = os.open(path, os.O_RDONLY)
    try:
        os.fsync(part)
    finally:
        os.close(part)
