"""A directory on a local or remote file system, and its files by name."""

import hashlib
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from mledger.metastore.runtime.durable_files import replace_file
from mledger.snapshot.exports.errors import DestinationNotReadable, ExportNotWritable
from mledger.snapshot.zookeeper_files.file_access.file_systems import (
    FAILURES,
    OBJECT_STORES,
    open_uri,
    said,
    scheme_of,
    without_credentials,
)

HADOOP_NAMES = {"s3": "s3a"}
COPIED_AT_ONCE = 8 << 20


@dataclass(frozen=True, slots=True)
class Destination:
    """The directory `path` of `system`; `text` is its path or URI for messages, `local` its path on this machine.

    `uri` is the URI with keys and endpoint of the directory that it was opened at.
    """

    system: Any
    path: str
    text: str
    scheme: str = "file"
    local: Path | None = None
    uri: str = field(default="", repr=False)

    def __str__(self) -> str:
        return self.text

    def below(self, *names: str) -> "Destination":
        """A directory below this one."""
        path, text = "/".join((self.path, *names)), "/".join((self.text.rstrip("/"), *names))
        return Destination(
            self.system, path, text, self.scheme, None if self.local is None else self.local.joinpath(*names)
        )

    def names(self) -> list[str]:
        """The names directly in it; empty if it does not exist. DestinationNotReadable."""
        with self._reading():
            return sorted(each.base_name for each in self._select(recursive=False))

    def sizes(self) -> dict[str, int]:
        """Bytes of every file in and below it, by relative path; empty if it does not exist. DestinationNotReadable."""
        with self._reading():
            found = [each for each in self._select(recursive=True) if each.type is fs.FileType.File]
        return {each.path.lstrip("/")[len(self.path.lstrip("/")) + 1 :]: each.size for each in found}

    def is_there(self) -> bool:
        """Whether it is a directory or, on an object store, the prefix of a name. DestinationNotReadable."""
        with self._reading():
            return self.system.get_file_info(self.path).type is fs.FileType.Directory

    def holds(self, name: str) -> bool:
        """Whether it has a file of that name. DestinationNotReadable."""
        with self._reading():
            return self.system.get_file_info(f"{self.path}/{name}").type is fs.FileType.File

    def open(self, name: str) -> BinaryIO:
        """A seekable stream of a file's bytes. Raises FAILURES."""
        return cast("BinaryIO", self.system.open_input_file(f"{self.path}/{name}"))

    def read(self, name: str) -> bytes:
        """The contents of a file. DestinationNotReadable."""
        with self._reading(name), self.open(name) as stream:
            return stream.read()

    @property
    def renames(self) -> bool:
        """Whether a rename is one atomic step; an object store has none."""
        return self.scheme not in OBJECT_STORES

    def above(self) -> "Destination":
        """The directory that this one is in."""
        if self.local is not None:
            return local_place(self.local.absolute().parent)
        path, text = self.path.rpartition("/")[0], self.text.rpartition("/")[0]
        return Destination(self.system, path, text, self.scheme, uri=self.uri)

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically. ExportNotWritable."""
        with self._writing(name):
            if self.local is not None:
                self.create_directory()
                replace_file(Path(self.path, name), data)
            elif not self.renames:
                self._put(name, data)
            else:
                self._put(f".{name}.tmp", data)
                self.remove_file(name)  # HDFS does not rename to an existing name
                self.system.move(f"{self.path}/.{name}.tmp", f"{self.path}/{name}")

    def create(self, name: str) -> "HashedFile":
        """A new file to write, with the directories above it. ExportNotWritable."""
        path = f"{self.path}/{name}"
        with self._writing(name):
            if self.renames:
                self.system.create_dir(path.rpartition("/")[0], recursive=True)
            if self.local is not None:
                return HashedFile(open(path, "wb"))
            return HashedFile(self.system.open_output_stream(path, compression=None))

    def create_directory(self) -> None:
        """Create it with the directories above it; an object store needs none. ExportNotWritable."""
        if self.renames:
            with self._writing():
                self.system.create_dir(self.path, recursive=True)

    def move(self, name: str, to: "Destination", new_name: str) -> None:
        """Rename a file or a directory in it to a name that does not exist, in a directory that does.

        ExportNotWritable.
        """
        with to._writing(new_name):
            self.system.move(f"{self.path}/{name}", f"{to.path}/{new_name}")

    def copy(self, name: str, to: "Destination", new_name: str) -> None:
        """Have an object store copy a file; the bytes do not come here. ExportNotWritable."""
        with to._writing(new_name):
            self.system.copy_file(f"{self.path}/{name}", f"{to.path}/{new_name}")

    def link(self, name: str, to: "Destination", new_name: str) -> None:
        """Give a file that never changes a second name, or copy it where there are no links. ExportNotWritable."""
        if not self.renames:
            self.copy(name, to, new_name)
            return
        with to._writing(new_name):
            if self.local is not None:
                self.system.create_dir(f"{to.path}/{new_name}".rpartition("/")[0], recursive=True)
                try:
                    os.link(f"{self.path}/{name}", f"{to.path}/{new_name}")
                    return
                except FileExistsError:  # perhaps a name of the same file, which must not be overwritten
                    raise
                except OSError:  # a file system without links
                    pass
            with self.open(name) as source, closing(to.create(new_name)) as target:
                shutil.copyfileobj(source, target, COPIED_AT_ONCE)

    def remove_file(self, name: str) -> None:
        """Remove a file if it exists; another export may do so meanwhile. ExportNotWritable."""
        with self._writing(name), suppress(FileNotFoundError):
            if self.system.get_file_info(f"{self.path}/{name}").type is fs.FileType.File:
                self.system.delete_file(f"{self.path}/{name}")

    def remove(self) -> None:
        """Remove the directory with everything in it, if it exists. ExportNotWritable."""
        with self._writing():
            if self.system.get_file_info(self.path).type is fs.FileType.Directory:
                self.system.delete_dir(self.path)

    def _select(self, *, recursive: bool) -> list[Any]:
        selector = fs.FileSelector(self.path, allow_not_found=True, recursive=recursive)
        return list(self.system.get_file_info(selector))

    def _put(self, name: str, data: bytes) -> None:
        path = f"{self.path}/{name}"
        if self.renames:
            self.system.create_dir(path.rpartition("/")[0], recursive=True)
        with self.system.open_output_stream(path, compression=None) as stream:
            stream.write(data)

    @contextmanager
    def _reading(self, name: str = "") -> Iterator[None]:
        try:
            yield
        except FAILURES as error:
            raise DestinationNotReadable(f"{self._named(name)} cannot be read: {said(error)}") from None

    @contextmanager
    def _writing(self, name: str = "") -> Iterator[None]:
        try:
            yield
        except FAILURES as error:
            raise ExportNotWritable(f"{self._named(name)} cannot be written: {said(error)}") from None

    def _named(self, name: str) -> str:
        return f"{self.text.rstrip('/')}/{name}" if name else self.text


class HashedFile:
    """A file that is being written, and the SHA-256 digest and number of its bytes. Raises FAILURES."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.bytes = 0

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return bool(self._stream.closed)

    @property
    def sha256(self) -> str:
        """The digest in hexadecimal."""
        return self._digest.hexdigest()

    def write(self, data: Any) -> int:
        """Write bytes, or what has the buffer protocol."""
        self._stream.write(data)
        self._digest.update(data)
        self.bytes += len(data)
        return len(data)

    def tell(self) -> int:
        """How many bytes there are."""
        return self.bytes

    def flush(self) -> None:
        """Nothing: `close` writes the rest."""

    def close(self) -> None:
        """Write the rest; a file on this machine is then on its disk."""
        if not self.closed:
            try:
                if isinstance(self._stream, io.BufferedWriter):
                    self._stream.flush()
                    os.fsync(self._stream.fileno())
            finally:
                self._stream.close()


def place_at(text: str) -> Destination:
    """The directory that a path or a URI names; DestinationNotReadable if its file system cannot be reached."""
    if (here := local_path(text)) is not None:
        return local_place(here)
    try:
        system, path = open_uri(text)
    except FAILURES as error:
        raise DestinationNotReadable(f"{without_credentials(text)} cannot be reached: {said(error)}") from None
    return Destination(system, path, without_credentials(text).rstrip("/"), scheme_of(text), uri=text)


def local_place(path: Path) -> Destination:
    """A directory on this machine."""
    return Destination(fs.LocalFileSystem(), os.path.abspath(path), str(path), local=path)


def local_path(text: str) -> Path | None:
    """The local path that a path or a `file:` URI names; None for another file system."""
    parts = urlsplit(text)
    if parts.scheme.lower() == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    return None if "://" in text else Path(text)


def hadoop_path(place: Destination, name: str) -> str:
    """A file's URI for Spark, which does not decode percent signs."""
    if place.local is not None:
        return f"file://{place.path}/{name}"
    return f"{HADOOP_NAMES.get(place.scheme, place.scheme)}://{place.text.partition('://')[2]}/{name}"
