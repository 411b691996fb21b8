"""Paths of nodes: their validity and their parents, by ZooKeeper's rules, in every store."""

import re
from collections.abc import Sequence

from mledger.metastore.errors import InvalidName, NodeTooLarge
from mledger.metastore.store import MAX_REQUEST_BYTES, Create, Delete, Operation

# ZooKeeper refuses control characters, surrogates, private-use characters, and all that do not fit in 16 bits.
_VALID = re.compile(r"/|(?:/(?!\.{1,2}(?:/|\Z))[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]+)+")

LONGEST_PATH = 300_000
"""In characters, of 3 bytes at most. ZooKeeper ends the connection that sends more than a request holds, a read too."""
_SHOWN = 60  # characters, of one that is too long

_UNPRINTABLE = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\ud800-\\uf8ff\\ufff0-\\uffff]")


def check_element(text: str, what: str) -> str:
    """`text` itself if it can be one element of a path; else InvalidName, which calls it `what`."""
    if not text or text in {".", ".."} or "/" in text or _UNPRINTABLE.search(text):
        raise InvalidName(
            f"{what} cannot be the name of a node: empty, . and .., slashes and control characters cannot"
        )
    return text


def check_path(path: str) -> str:
    """`path` itself if it is valid: absolute, without empty, `.` or `..` parts or a final slash; else InvalidName.

    It is of `LONGEST_PATH` at most.
    """
    if len(path) > LONGEST_PATH:
        begin = path[:_SHOWN]
        raise InvalidName(f"{begin!r}… is too long for a node's path: {len(path)} characters", begin)
    if _VALID.fullmatch(path) is None:
        raise InvalidName(f"{path!r} is not a node's path: write it as /part/part", path)
    return path


def check_operation(operation: Operation) -> None:
    """InvalidName if no store could carry out `operation`: bad path, or the root is created or deleted."""
    check_path(operation.path)
    if operation.path == "/" and isinstance(operation, Create | Delete):
        raise InvalidName("the root can neither be created nor deleted", "/")


def check_request(operations: Sequence[Operation]) -> None:
    """Apply `check_operation` to each; NodeTooLarge when paths and data exceed the limit of one request."""
    for operation in operations:
        check_operation(operation)
    size = sum(len(operation.path) + len(getattr(operation, "data", b"")) for operation in operations)
    if size > MAX_REQUEST_BYTES:
        path = operations[0].path
        raise NodeTooLarge(f"{path}: a write of {size} bytes exceeds the limit of {MAX_REQUEST_BYTES}", path)


def parent_of(path: str) -> str:
    """The parent's path; the root is its own parent."""
    return path[: path.rfind("/")] or "/"


def ancestors_of(path: str) -> list[str]:
    """The paths above `path`, from below the root down to its parent."""
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[: depth + 1]) for depth in range(len(parts))]
