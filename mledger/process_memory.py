"""How much memory this process may have: the machine's, or less where its control group (a container's) has a limit."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_GROUPS = Path("proc", "self", "cgroup")
_MOUNTED = Path("sys", "fs", "cgroup")
_LIMITS = {"": "memory.max", "memory": "memory.limit_in_bytes"}
"""The file of a limit, by the hierarchy: cgroup 2 has only one, without a name."""


def process_memory(root: Path = Path("/")) -> int:
    """The bytes; `root` is where `/proc` and `/sys` are."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *_limits(root)])


def _limits(root: Path) -> Iterator[int]:
    """The limits of the process's group and of those above it, as far as they can be seen."""
    for line in _text(root / _GROUPS).splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            if controller in _LIMITS:
                yield from _limits_below(root / _MOUNTED / controller, PurePosixPath(path), _LIMITS[controller])


def _limits_below(hierarchy: Path, group: PurePosixPath, name: str) -> Iterator[int]:
    """In a container the group's path may be that of the host, and its limit at the top."""
    for each in (group, *group.parents):
        limit = _text(hierarchy / str(each).lstrip("/") / name).strip()
        if limit.isdecimal():
            yield int(limit)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
