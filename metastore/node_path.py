"""Paths of nodes: which are valid, and their parents. ZooKeeper's rules, kept by every store."""

import re

from metastore.errors import InvalidName
from metastore.store import Create, Delete, Operation

# ZooKeeper refuses control characters, surrogates, private use and all it cannot hold in 16 bits.
_VALID = re.compile(r"/|(?:/(?!\.{1,2}(?:/|\Z))[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]+)+")


def check_path(path: str) -> str:
    """`path` itself if a node can have it: absolute, no empty, `.` or `..` part, no slash last; else InvalidName."""
    if _VALID.fullmatch(path) is None:
        raise InvalidName(f"{path!r} is not a node's path: write it as /part/part", path)
    return path


def check_operation(operation: Operation) -> None:
    """InvalidName if no store could carry out `operation`: its path, or the root created or deleted."""
    check_path(operation.path)
    if operation.path == "/" and isinstance(operation, Create | Delete):
        raise InvalidName("the root can neither be created nor deleted", "/")


def parent_of(path: str) -> str:
    """The parent's path; the root is its own parent."""
    return path[: path.rfind("/")] or "/"


def ancestors_of(path: str) -> list[str]:
    """The paths above `path`, from below the root down to its parent."""
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[: depth + 1]) for depth in range(len(parts))]
