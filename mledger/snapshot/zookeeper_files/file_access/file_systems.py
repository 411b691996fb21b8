"""File systems by URI, in the form of Arrow and Hadoop: `s3://`, `hdfs://`, `gs://`, `abfs://`, `file://`.

Credentials and endpoints come from the URI (`s3://key:secret@bucket/path?endpoint_override=host:port&scheme=http`) and
from the environment (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …). `hdfs://` uses the package hdfs-native if it is
installed, else Hadoop's own native client.
"""

import importlib.util
import re
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

FAILURES = (OSError, pa.ArrowException, ValueError, RuntimeError)
"""The exceptions of opening and using a file system; hdfs-native raises the last for errors of a name node."""

HADOOP = ("hdfs", "viewfs")
OBJECT_STORES = ("s3", "gs", "gcs", "abfs", "abfss")
"""File systems where a file appears only when it is completely written, and which cannot rename."""

ONE_NODE_ATTEMPTS = "1"

_SAME = {"s3a": "s3", "s3n": "s3"}  # Hadoop's names
_AWS = re.compile(r"AWS Error (?P<kind>\w+) during \w+ operation: (?P<what>.*?)(?: \(Request ID: .*\))?$")
_RPC = re.compile(r'RPCError\("[\w.$]+", "(.*?)(?:\\n.*)?"\)')
_JAVA_STACK = re.compile(r" at (?:org|java|javax|com|io)\.[\w.$]+\(.*")
_LIBHDFS = ("libjvm", "libhdfs")


def arrow_uri(uri: str) -> str:
    """The URI with the scheme that Arrow knows it by."""
    scheme, separator, rest = uri.partition("://")
    return f"{_SAME.get(scheme.lower(), scheme.lower())}{separator}{rest}"


def scheme_of(uri: str) -> str:
    """Arrow's name of the URI's scheme."""
    return arrow_uri(uri).partition("://")[0]


def open_uri(uri: str) -> tuple[Any, str]:
    """The file system that a URI names, and the path in it, without a slash at its end. Raises FAILURES."""
    parts = urlsplit(uri)
    if parts.scheme.lower() in HADOOP and importlib.util.find_spec("hdfs_native") is not None:
        return _hdfs_native(parts.scheme.lower(), parts.netloc), unquote(parts.path).rstrip("/")
    system, path = fs.FileSystem.from_uri(arrow_uri(uri))
    return system, path.rstrip("/")


def without_credentials(uri: str) -> str:
    """The URI without who logs in and without its query."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def said(error: BaseException) -> str:
    """The message of a file system's error, in one line for people."""
    text = " ".join(str(error).split()) or type(error).__name__
    if any(name in text for name in _LIBHDFS):
        return (
            "hdfs:// needs the package hdfs-native (pip install 'mledger[hdfs]'), or Hadoop's native client "
            "(JAVA_HOME, HADOOP_HOME, CLASSPATH)"
        )
    if found := _AWS.search(text):
        return f"{found['kind']}: {found['what']}"
    return _JAVA_STACK.sub("", _RPC.sub(r"\1", text))


def _hdfs_native(scheme: str, netloc: str) -> Any:
    from hdfs_native.fsspec import HdfsFileSystem, ViewfsFileSystem

    host, _, port = netloc.rpartition("@")[2].partition(":")
    kind = HdfsFileSystem if scheme == "hdfs" else ViewfsFileSystem
    # A single name node, given with its port, has no other to fail over to, so do not retry for minutes.
    once = {"dfs.client.failover.max.attempts": ONE_NODE_ATTEMPTS} if port else {}
    # A cached instance would hang in a forked process, where the client's threads do not exist.
    client = kind(host=host or None, port=int(port) if port else None, skip_instance_cache=True, **once)
    return fs.PyFileSystem(fs.FSSpecHandler(client))
