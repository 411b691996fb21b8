"""The two parts of a bookie's directory, journal and index: whose each is, and that none of it is missing.

Each part has a file BOOKIE. A disk that is not mounted, or another bookie's, is found by it before anything is
opened: an empty journal would forget what was acknowledged, and fences.
"""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from mledger.bookie.errors import InvalidBookieDirectory

NAME = "BOOKIE"
JOURNAL = "journal"
INDEX = "index"

_TITLE = "mledger bookie"


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose a part is: a bookie's of a cluster, and of one directory, which its salt tells from others."""

    part: str
    bookie_id: str
    instance_id: str
    salt: bytes

    def encode(self) -> str:
        """As the file BOOKIE says it."""
        lines = (f"bookie {self.bookie_id}", f"instance {self.instance_id}", f"salt {self.salt.hex()}")
        return "\n".join((f"{_TITLE} {self.part}", *lines, ""))


@dataclass(frozen=True, slots=True)
class FoundPart:
    """What is at a part's place. `identity` is the text of its file BOOKIE, None where there is none."""

    path: str
    identity: str | None
    begun: bool
    """Whether the part's own files are there: a journal file, a RocksDB."""


def check_parts(directory: str, own: Collection[Identity], found: Mapping[str, FoundPart], *, complete: bool) -> None:
    """Whether the parts that were found are those of the directory.

    Args:
        directory: the bookie's directory, for what is said.
        own: whose each part must be.
        found: what there is, by part.
        complete: whether both parts were there before, under their name.

    Raises:
        InvalidBookieDirectory: a part is missing or another's; says which and what to do.
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
            _lost(directory, index, found[INDEX].path, "it is missing, and the journal is not")
        )


def _lost(directory: str, identity: Identity, path: str, what: str) -> str:
    return (
        f"{path} is not the {identity.part} of bookie {identity.bookie_id}: {what}. What was acknowledged cannot be "
        f"served without it: mount its disk there and start again; if it is lost, remove {directory}, have the "
        f"bookie's ledgers re-replicated and its cookie deleted"
    )


def _owner(text: str) -> str:
    fields = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    return f"bookie {fields['bookie']}" if "bookie" in fields else "no bookie that can be told"


def plan_missing_files(
    numbers: Collection[int], live: Mapping[int, int], position: int, *, complete: bool
) -> list[int]:
    """The journal files that the index needs and that are not there, rising.

    Args:
        numbers: the files that are there.
        live: bytes that the index's rows name, by file.
        position: the file from which on the index has to be replayed; 0 where there is none.
        complete: whether this program kept the directory: others may have freed the file of the position, but not the
            one that they wrote last, which is never before it.
    """
    needed = {file for file, size in live.items() if size > 0}
    if position and (complete or max(numbers, default=0) < position):
        needed.add(position)
    return sorted(needed.difference(numbers))


def missing_files(directory: str, journal: str, files: Collection[int]) -> InvalidBookieDirectory:
    """The error for journal files that are missing."""
    names = ", ".join(f"{file:08d}.journal" for file in sorted(files)[:5])
    return InvalidBookieDirectory(
        f"{journal}: {len(files)} journal files are missing that {directory} needs: {names}. Restore them and start "
        f"again; if they are lost, remove {directory}, have the bookie's ledgers re-replicated and its cookie deleted"
    )


def find_part(path: str, begun: bool) -> FoundPart:
    """Look for the BOOKIE of a part."""
    try:
        with open(os.path.join(path, NAME), encoding="utf-8", errors="replace") as file:
            return FoundPart(path, file.read(), begun)
    except (FileNotFoundError, NotADirectoryError):
        return FoundPart(path, None, begun)


def write_identity(path: str, identity: Identity) -> None:
    """Have the file BOOKIE in a part, durably."""
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
