"""A server's files on another file system that Arrow reaches by URI, such as HDFS or an object store; read ahead."""

import os
from typing import Any, BinaryIO, cast
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from mledger.snapshot.zookeeper_files.errors import FileNotReadable, InvalidOption
from mledger.snapshot.zookeeper_files.file_access.file_systems import (
    FAILURES,
    arrow_uri,
    open_uri,
    said,
    without_credentials,
)
from mledger.snapshot.zookeeper_files.file_access.files import DataFiles, LocalFiles
from mledger.snapshot.zookeeper_files.file_access.read_ahead import FetchedFile

_INNER = "version-2"


class ArrowFiles:
    """Files below a URI (`hdfs://`, `s3://`, `gs://`, `abfs://`, …); laid out as for LocalFiles."""

    def __init__(self, uri: str, log_uri: str | None = None) -> None:
        self.uri = arrow_uri(uri)
        self.log_uri = arrow_uri(log_uri) if log_uri else None
        self._opened: dict[str, tuple[Any, str]] = {}

    def __getstate__(self) -> tuple[str, str | None]:
        return self.uri, self.log_uri

    def __setstate__(self, state: tuple[str, str | None]) -> None:
        self.uri, self.log_uri = state
        self._opened = {}

    @property
    def where(self) -> str:
        """The URI, without credentials."""
        return without_credentials(self.uri)

    def names(self) -> list[str]:
        """The names of all files; if there is a log directory, logs come only from it."""
        names = self._listing(self.uri)
        if self.log_uri:
            names = [name for name in names if not name.startswith("log.")]
            names += [name for name in self._listing(self.log_uri) if name.startswith("log.")]
        return names

    def open(self, name: str) -> BinaryIO:
        """The file's bytes; FileNotReadable."""
        uri = self.log_uri if self.log_uri and name.startswith("log.") else self.uri
        try:
            system, directory = self._directory(uri)
            file = system.open_input_file(f"{directory}/{name}")
        except FAILURES as error:
            raise FileNotReadable(f"{name} in {without_credentials(uri)} cannot be read: {said(error)}", name) from None
        return cast("BinaryIO", FetchedFile(file))

    def _listing(self, uri: str) -> list[str]:
        try:
            system, directory = self._directory(uri)
            found = system.get_file_info(fs.FileSelector(directory))
        except FAILURES as error:
            raise FileNotReadable(f"{without_credentials(uri)} cannot be read: {said(error)}") from None
        return sorted(one.base_name for one in found if one.type is fs.FileType.File)

    def _directory(self, uri: str) -> tuple[Any, str]:
        """The file system and the directory in it: `version-2` if it exists."""
        if uri not in self._opened:
            system, path = open_uri(uri)
            inner = f"{path}/{_INNER}"
            is_inner = system.get_file_info(inner).type is fs.FileType.Directory
            self._opened[uri] = system, inner if is_inner else path
        return self._opened[uri]


def data_files(metadata: str, logs: str | None) -> DataFiles:
    """The files that `metadata` names (a path or a URI), with the logs at `logs` if these are elsewhere; InvalidOption.

    Both must be local, or both on another file system.
    """
    here, logs_here = local_path(metadata), local_path(logs) if logs else None
    if here is not None and (logs is None or logs_here is not None):
        return LocalFiles(here, logs_here)
    if (here is None) == (logs_here is None) or logs is None:
        return ArrowFiles(metadata, logs)
    raise InvalidOption(
        f"metadata {_shown(metadata)} and logs {_shown(logs)}: both must be local, or both on another file system"
    )


def _shown(place: str) -> str:
    return without_credentials(place) if "://" in place else place


def local_path(text: str) -> str | None:
    """The local path that a path or a `file:` URI names; None for another file system."""
    parts = urlsplit(text)
    if parts.scheme.lower() == "file":
        if parts.netloc not in ("", "localhost"):
            raise InvalidOption(f"{text}: a file: URI must not name a host; write it as file:///path")
        return os.path.abspath(unquote(parts.path))
    return None if "://" in text else os.path.abspath(text)
