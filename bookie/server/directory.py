"""A bookie's directory: whose it is, in which format, and that one process alone uses it (docs/bookie-storage.md)."""

import fcntl
import logging
import os
import secrets
from dataclasses import dataclass, replace

from bookie.errors import InvalidBookieDirectory

log = logging.getLogger(__name__)

FORMAT_VERSION = 2
"""The layout this program writes. It reads version 1 too, and makes it version 2."""

_NAME = "FORMAT"
_TITLE = "mledger bookie directory"
_FIELDS = {1: ("bookie", "instance", "salt"), 2: ("bookie", "instance", "salt", "journal")}
_SALT_BYTES = 16
_JOURNAL = "journal"


@dataclass(frozen=True, slots=True)
class DirectoryFormat:
    """What the file FORMAT says: layout version, bookie id, the cluster's instance id, the journal's salt and place.

    `journal` is a path, below the directory unless it is absolute. Version 1 has it at `journal`.
    """

    version: int
    bookie_id: str
    instance_id: str
    salt: bytes
    journal: str = _JOURNAL


def new_format(bookie_id: str, instance_id: str, journal: str = _JOURNAL) -> DirectoryFormat:
    """The format of a directory that is begun now."""
    return DirectoryFormat(FORMAT_VERSION, bookie_id, instance_id, secrets.token_bytes(_SALT_BYTES), journal)


def encode_format(value: DirectoryFormat) -> str:
    """As the file FORMAT holds it: a title and one line a field."""
    fields = {
        "bookie": value.bookie_id,
        "instance": value.instance_id,
        "salt": value.salt.hex(),
        "journal": value.journal,
    }
    lines = [f"{name} {fields[name]}" for name in _FIELDS[value.version]]
    return "\n".join([_TITLE, f"version {value.version}", *lines, ""])


def decode_format(text: str, path: str) -> DirectoryFormat:
    """What a file FORMAT says. InvalidBookieDirectory for an unknown version or a damaged file."""
    title, *lines = text.splitlines() or [""]
    fields = dict(line.split(" ", 1) for line in lines if " " in line)
    number = fields.get("version", "")
    if title != _TITLE or not number.isdecimal() or len(number) > 9:
        raise InvalidBookieDirectory(f"{path}: no bookie's format file; name another directory, or restore this one")
    version = int(number)
    if version not in _FIELDS:
        raise InvalidBookieDirectory(
            f"{path}: format version {version}, this program knows {min(_FIELDS)} to {max(_FIELDS)}: start the version "
            "of mledger that wrote it, or have its ledgers re-replicated and begin an empty directory"
        )
    try:
        bookie_id, instance, salt, *journal = (fields[name] for name in _FIELDS[version])
        return DirectoryFormat(version, bookie_id, instance, bytes.fromhex(salt), *journal)
    except (KeyError, ValueError) as error:
        raise InvalidBookieDirectory(f"{path}: damaged format file ({error!r}); restore it") from None


def plan_upgrade(found: DirectoryFormat) -> DirectoryFormat | None:
    """What the file FORMAT is to say so that the directory is of the version written here; None if it is.

    Version 1 to 2: the file says where the journal is. All else is the same.
    """
    return None if found.version == FORMAT_VERSION else replace(found, version=FORMAT_VERSION)


class Directory:
    """A directory, locked for this process. Nothing in it is changed before `begin`."""

    def __init__(self, path: str, journal: str = "") -> None:
        """Lock the directory, made if it is missing. InvalidBookieDirectory when it is in use or not a bookie's.

        `journal` is the journal's own directory; without it the journal is where it was, at first in this directory.
        """
        self.path = os.path.abspath(path)
        self._locks: list[int] = []
        try:
            self._file = self._lock(self.path)
            self.format = self._read()
            self.journal = self._find_journal(journal)
            """Where the journal files are."""
            if not self.journal.startswith(self.path + os.sep):
                self._lock(self.journal)
        except InvalidBookieDirectory:
            self.unlock()
            raise

    def _lock(self, path: str) -> int:
        os.makedirs(path, mode=0o700, exist_ok=True)
        file = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self._locks.append(file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidBookieDirectory(f"{path}: another bookie process uses this directory; stop it") from None
        return file

    def _find_journal(self, wanted: str) -> str:
        """Where the journal is or is to be; a wanted one must not be another's, nor another than it was."""
        journal = os.path.abspath(wanted) if wanted else os.path.join(self.path, _JOURNAL)
        if self.format is not None:
            known = os.path.join(self.path, self.format.journal)
            if wanted and journal != known:
                raise InvalidBookieDirectory(
                    f"{self.path}: its journal is in {known}, not in {journal}: start it with that one"
                )
            return known
        if "\n" in journal:
            raise InvalidBookieDirectory(f"{journal!r} has a line end in its name: name another directory")
        if os.path.isdir(journal) and os.listdir(journal):
            raise InvalidBookieDirectory(f"{journal} is not empty, and this bookie is new: name an empty directory")
        return journal

    @property
    def journal_entry(self) -> str:
        """Where the journal is, as the file FORMAT says it."""
        return _JOURNAL if self.journal == os.path.join(self.path, _JOURNAL) else self.journal

    @property
    def index(self) -> str:
        """Where RocksDB is."""
        return os.path.join(self.path, "store")

    @property
    def begun(self) -> bool:
        """Whether the directory may hold entries."""
        return os.path.exists(self.index)

    def begin(self, value: DirectoryFormat) -> None:
        """Make this the directory of one bookie, durably."""
        temporary = os.path.join(self.path, _NAME + ".new")
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(encode_format(value))
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, os.path.join(self.path, _NAME))
        os.fsync(self._file)
        self.format = value

    def upgrade(self) -> None:
        """Make a directory of an older version one of this program's, durably; nothing for one that is."""
        assert self.format is not None, "a directory that is not begun is of no version"
        planned = plan_upgrade(self.format)
        if planned is not None:
            log.info("event=directory_upgraded path=%s from=%d to=%d", self.path, self.format.version, planned.version)
            self.begin(planned)

    def make_journal(self) -> None:
        """Have the directory of journal files."""
        os.makedirs(self.journal, mode=0o700, exist_ok=True)
        os.fsync(self._file)

    def unlock(self) -> None:
        """Let another process use the directory."""
        while self._locks:
            os.close(self._locks.pop())

    def _read(self) -> DirectoryFormat | None:
        path = os.path.join(self.path, _NAME)
        try:
            with open(path, encoding="utf-8") as file:
                return decode_format(file.read(), path)
        except FileNotFoundError:
            pass
        except UnicodeDecodeError:
            raise InvalidBookieDirectory(f"{path}: damaged format file; restore it") from None
        foreign = sorted(name for name in os.listdir(self.path) if name != _NAME + ".new")
        if foreign:
            raise InvalidBookieDirectory(
                f"{self.path}: holds {foreign[0]!r} and no file {_NAME}: not a bookie's directory; name an empty one"
            )
        return None
