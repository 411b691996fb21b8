"""A bookie's directory: its owner, its format, and its lock (bookie-storage.md)."""

import fcntl
import hashlib
import os
import re
import secrets
import socket

from msgspec import Struct
from msgspec.structs import replace

from mledger.bookie.errors import BookieError, InvalidBookieDirectory
from mledger.bookie.server.storage.directories import directory_parts
from mledger.bookie.server.storage.directories.disk import damage_named
from mledger.bookie.server.storage.directories.journal_files import NUMBERED
from mledger.metastore.runtime.durable_files import sync_directory
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.fork_guard import close_held, hold

log = get_logger(__name__)

FORMAT_VERSION = 3
"""The layout this program writes. It also reads versions 1 and 2, and converts them to version 3."""

_NAME = "FORMAT"
_TITLE = "mledger bookie directory"
_FIELDS = {
    1: ("bookie", "instance", "salt"),
    2: ("bookie", "instance", "salt", "journal"),
    3: ("bookie", "instance", "salt", "journal", "complete"),
}
_COMPLETE = {"no": False, "yes": True}
_SALT_BYTES = 16
_BOOT = "/proc/sys/kernel/random/boot_id"
_MARK_DIGITS = 32
_JOURNAL = "journal"
_INDEX_FILES = re.compile(r"CURRENT")


class DirectoryFormat(Struct, frozen=True):
    """The file FORMAT: layout version, bookie id, the cluster's instance id, the journal's salt and place.

    `journal` is a path, relative to the directory unless absolute; in version 1 it is always `journal`. `complete`: the
    journal and the index have been created with their file BOOKIE; versions 1 and 2 do not record it.
    """

    version: int
    bookie_id: str
    instance_id: str
    salt: bytes
    journal: str = _JOURNAL
    complete: bool = False


def is_bookie_directory(path: str) -> bool:
    """Whether the directory `path` is a bookie's; it is neither changed nor created."""
    return os.path.exists(os.path.join(path, _NAME))


def new_format(bookie_id: str, instance_id: str, journal: str = _JOURNAL) -> DirectoryFormat:
    """The format of a directory that is initialised now."""
    return DirectoryFormat(FORMAT_VERSION, bookie_id, instance_id, secrets.token_bytes(_SALT_BYTES), journal)


def encode_format(value: DirectoryFormat) -> str:
    """Encode as the file FORMAT: a title, then one line per field."""
    fields = {
        "bookie": value.bookie_id,
        "instance": value.instance_id,
        "salt": value.salt.hex(),
        "journal": value.journal,
        "complete": "yes" if value.complete else "no",
    }
    lines = [f"{name} {fields[name]}" for name in _FIELDS[value.version]]
    return "\n".join([_TITLE, f"version {value.version}", *lines, ""])


def decode_format(text: str, path: str) -> DirectoryFormat:
    """Decode a file FORMAT. InvalidBookieDirectory for an unknown version or a damaged file."""
    title, *lines = text.splitlines() or [""]
    fields = dict(line.split(" ", 1) for line in lines if " " in line)
    number = fields.get("version", "")
    if title != _TITLE or not number.isdecimal() or len(number) > 9:
        raise InvalidBookieDirectory(f"{path}: not a bookie's format file; name another directory, or restore this one")
    version = int(number)
    if version not in _FIELDS:
        raise InvalidBookieDirectory(
            f"{path}: format version {version}, this program knows {min(_FIELDS)} to {max(_FIELDS)}: start the version "
            "of mledger that wrote it, or have its ledgers re-replicated and begin an empty directory"
        )
    try:
        bookie_id, instance, salt = (fields[name] for name in _FIELDS[1])
        journal = fields["journal"] if "journal" in _FIELDS[version] else _JOURNAL
        complete = "complete" in _FIELDS[version] and _COMPLETE[fields["complete"]]
        return DirectoryFormat(version, bookie_id, instance, bytes.fromhex(salt), journal, complete)
    except (KeyError, ValueError) as error:
        raise InvalidBookieDirectory(f"{path}: damaged format file ({error!r}); restore it") from None


def plan_completion(found: DirectoryFormat) -> DirectoryFormat | None:
    """The format to write once the journal and the index have their file BOOKIE; None if it is written already.

    Versions 1 and 2 become version 3: the file names the journal's place, as in version 2, and journal records say what
    they change. Everything else stays the same.
    """
    completed = replace(found, version=FORMAT_VERSION, complete=True)
    return None if found == completed else completed


class BookieDirectory:
    """A directory, locked for this process. Nothing in it is changed before `begin`."""

    def __init__(self, path: str, journal: str = "") -> None:
        """Lock the directory; create it if missing. InvalidBookieDirectory when it is in use or not a bookie's.

        `journal` is the journal's own directory. Without it, the journal stays where it was, at first here.
        """
        self.path = os.path.abspath(path)
        self._locks: list[int] = []
        try:
            with damage_named(self.path):
                self._file = self._lock(self.path)
                self.format = self._read()
                self.journal = self._find_journal(journal)
                """Where the journal files are."""
                if not self.journal.startswith(self.path + os.sep):
                    if self.begun and not os.path.isdir(self.journal):
                        raise InvalidBookieDirectory(
                            f"{self.journal}: the journal of {self.path} is missing: mount its disk and start again"
                        )
                    self._lock(self.journal)
        except BookieError:
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
        hold(file)
        return file

    def _find_journal(self, wanted: str) -> str:
        """Where the journal is or will be; `wanted` must not be another bookie's, nor differ from the known place."""
        journal = os.path.abspath(wanted) if wanted else os.path.join(self.path, _JOURNAL)
        if self.format is not None:
            known = os.path.join(self.path, self.format.journal)
            if wanted and journal != known:
                raise InvalidBookieDirectory(
                    f"{self.path}: its journal is in {known}, not in {journal}: start it with that one"
                )
            return known
        if journal.splitlines() != [journal]:  # FORMAT would be read as having other lines
            raise InvalidBookieDirectory(f"{journal!r} has a line end in its name: name another directory")
        if os.path.isdir(journal) and os.listdir(journal):
            raise InvalidBookieDirectory(f"{journal} is not empty, and this bookie is new: name an empty directory")
        return journal

    @property
    def journal_entry(self) -> str:
        """The journal's place as the file FORMAT records it."""
        return _JOURNAL if self.journal == os.path.join(self.path, _JOURNAL) else self.journal

    @property
    def index(self) -> str:
        """Where RocksDB is."""
        return os.path.join(self.path, "store")

    @property
    def begun(self) -> bool:
        """Whether the directory has been initialised, and so may hold entries."""
        return self.complete or os.path.exists(self.index)

    @property
    def complete(self) -> bool:
        """Whether the journal and the index have been created, with their file BOOKIE."""
        return self.format is not None and self.format.complete

    @property
    def unserved(self) -> bool:
        """Whether it is a bookie's and no bookie has served from it yet; versions 1 and 2 have been served."""
        return self.format is not None and self.format.version == FORMAT_VERSION and not self.format.complete

    @property
    def mark(self) -> str:
        """Names the locked directory among those of all machines; a copy of it has another, also at the same path.

        It holds until the machine is started anew: processes that lived before that are gone too.
        """
        found = os.fstat(self._file)
        return hashlib.sha256(f"{_machine()} {found.st_dev} {found.st_ino}".encode()).hexdigest()[:_MARK_DIGITS]

    def begin(self, value: DirectoryFormat) -> None:
        """Initialise this directory for one bookie, durably. InvalidBookieDirectory and DiskFull where that fails."""
        temporary = os.path.join(self.path, _NAME + ".new")
        with damage_named(self.path):
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(encode_format(value))
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, os.path.join(self.path, _NAME))
            os.fsync(self._file)
        self.format = value

    def check_parts(self) -> None:
        """Check that the journal and the index exist and belong to this directory. InvalidBookieDirectory."""
        found = {
            directory_parts.JOURNAL: directory_parts.find_part(self.journal, self._has(self.journal, NUMBERED)),
            directory_parts.INDEX: directory_parts.find_part(self.index, self._has(self.index, _INDEX_FILES)),
        }
        directory_parts.check_parts(self.path, self._identities(), found, complete=self.complete)

    @staticmethod
    def _has(path: str, names: re.Pattern[str]) -> bool:
        return os.path.isdir(path) and any(names.fullmatch(name) for name in os.listdir(path))

    def _identities(self) -> tuple[directory_parts.Identity, directory_parts.Identity]:
        own = self.format
        assert own is not None, "a directory must be initialised to have an owner"
        journal = directory_parts.Identity(directory_parts.JOURNAL, own.bookie_id, own.instance_id, own.salt)
        return journal, replace(journal, part=directory_parts.INDEX)

    def make_journal(self) -> None:
        """Create the journal's directory, unless it must exist already."""
        if not self.complete:
            os.makedirs(self.journal, mode=0o700, exist_ok=True)

    def keep_parts(self) -> None:
        """Make the names of a new journal and a new index durable.

        After a power loss, journal files without an index look like the rest of a bookie that has served.
        """
        if not self.complete:
            os.fsync(self._file)
            if not self.journal.startswith(self.path + os.sep):
                sync_directory(os.path.dirname(self.journal))

    def finish(self) -> None:
        """Record durably that the journal and the index exist in this program's version, unless that is recorded."""
        assert self.format is not None, "a directory must be initialised to have a version"
        planned = plan_completion(self.format)
        if planned is None:
            return
        for path, identity in zip((self.journal, self.index), self._identities(), strict=True):
            directory_parts.write_identity(path, identity)
        if self.format.version != planned.version:
            log.info("directory_upgraded", path=self.path, old=self.format.version, new=planned.version)
        self.begin(planned)

    def unlock(self) -> None:
        """Let another process use the directory."""
        while self._locks:
            close_held(self._locks.pop())

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


def _machine() -> str:
    """What tells this machine, since its start, from others; where the system does not say it, the machine's name."""
    try:
        with open(_BOOT, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return socket.gethostname()
