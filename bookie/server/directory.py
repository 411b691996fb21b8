"""A bookie's directory: whose it is, in which format, and that one process alone uses it (docs/bookie-storage.md)."""

import fcntl
import os
import secrets
from dataclasses import dataclass

from bookie.errors import InvalidBookieDirectory

FORMAT_VERSION = 1
"""The layout this program writes, and the only one it reads."""

_NAME = "FORMAT"
_TITLE = "mledger bookie directory"
_FIELDS = ("version", "bookie", "instance", "salt")
_SALT_BYTES = 16


@dataclass(frozen=True, slots=True)
class DirectoryFormat:
    """What the file FORMAT says: layout version, bookie id, the cluster's instance id, the journal's salt."""

    version: int
    bookie_id: str
    instance_id: str
    salt: bytes


def new_format(bookie_id: str, instance_id: str) -> DirectoryFormat:
    """The format of a directory that is begun now."""
    return DirectoryFormat(FORMAT_VERSION, bookie_id, instance_id, secrets.token_bytes(_SALT_BYTES))


def encode_format(value: DirectoryFormat) -> str:
    """As the file FORMAT holds it: a title and one line a field."""
    fields = (str(value.version), value.bookie_id, value.instance_id, value.salt.hex())
    return "\n".join([_TITLE, *(f"{name} {field}" for name, field in zip(_FIELDS, fields, strict=True)), ""])


def decode_format(text: str, path: str) -> DirectoryFormat:
    """What a file FORMAT says. InvalidBookieDirectory for another version or a damaged file."""
    title, *lines = text.splitlines() or [""]
    fields = dict(line.split(" ", 1) for line in lines if " " in line)
    if title != _TITLE or "version" not in fields:
        raise InvalidBookieDirectory(f"{path}: no bookie's format file; name another directory, or restore this one")
    if fields["version"] != str(FORMAT_VERSION):
        raise InvalidBookieDirectory(
            f"{path}: format version {fields['version']}, this program knows {FORMAT_VERSION}: "
            "start the version of mledger that wrote it"
        )
    try:
        return DirectoryFormat(FORMAT_VERSION, fields["bookie"], fields["instance"], bytes.fromhex(fields["salt"]))
    except (KeyError, ValueError) as error:
        raise InvalidBookieDirectory(f"{path}: damaged format file ({error!r}); restore it") from None


class Directory:
    """A directory, locked for this process. Nothing in it is changed before `begin`."""

    def __init__(self, path: str) -> None:
        """Lock the directory, made if it is missing. InvalidBookieDirectory when it is in use or not a bookie's."""
        self.path = os.path.abspath(path)
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        self._file = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise InvalidBookieDirectory(f"{self.path}: another bookie process uses this directory; stop it") from None
        try:
            self.format = self._read()
        except InvalidBookieDirectory:
            self.unlock()
            raise

    @property
    def journal(self) -> str:
        """Where the journal files are."""
        return os.path.join(self.path, "journal")

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

    def make_journal(self) -> None:
        """Have the directory of journal files."""
        os.makedirs(self.journal, mode=0o700, exist_ok=True)
        os.fsync(self._file)

    def unlock(self) -> None:
        """Let another process use the directory."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

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
