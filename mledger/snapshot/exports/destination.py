"""A directory on a local or remote file system, and its files by name."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from mledger.snapshot.exports.errors import DestinationNotReadable, ExportNotWritable
from mledger.snapshot.zookeeper_files.file_systems import (
    FAILURES,
    OBJECT_STORES,
    open_uri,
    said,
    scheme_of,
    without_credentials,
)

CHUNK = 8 << 20
HADOOP_NAMES = {"s3": "s3a"}


@dataclass(frozen=True, slots=True)
class Destination:
    """The directory `path` of `system`; `text` is its path or URI for messages, `local` its path on this machine."""

    system: Any
    path: str
    text: str
    scheme: str = "file"
    local: Path | None = None

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

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically. ExportNotWritable."""
        with self._writing(name):
            if self.scheme in OBJECT_STORES:
                self._put(name, [data])
            else:
                self._put(f".{name}.tmp", [data])
                self.remove_file(name)  # HDFS does not rename to an existing name
                self.system.move(f"{self.path}/.{name}.tmp", f"{self.path}/{name}")

    def copy_in(self, source: Path, name: str) -> None:
        """Copy a file from this machine; while the copy runs, part of it may be visible. ExportNotWritable."""
        with self._writing(name), open(source, "rb") as stream:
            self._put(name, iter(lambda: stream.read(CHUNK), b""))

    def remove_file(self, name: str) -> None:
        """Remove a file if it exists. ExportNotWritable."""
        with self._writing(name):
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

    def _put(self, name: str, pieces: Any) -> None:
        path = f"{self.path}/{name}"
        if self.scheme not in OBJECT_STORES:
            self.system.create_dir(path.rpartition("/")[0], recursive=True)
        with self.system.open_output_stream(path, compression=None) as stream:
            for piece in pieces:
                stream.write(piece)

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


def place_at(text: str) -> Destination:
    """The directory that a path or a URI names; DestinationNotReadable if its file system cannot be reached."""
    if (here := local_path(text)) is not None:
        return local_place(here)
    try:
        system, path = open_uri(text)
    except FAILURES as error:
        raise DestinationNotReadable(f"{without_credentials(text)} cannot be reached: {said(error)}") from None
    return Destination(system, path, without_credentials(text).rstrip("/"), scheme_of(text))


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
