"""How much memory this process may use: the machine's, or less where its control group is limited, as in containers.

The limits of a group and of all groups above it count. A container may see its own group as the root, or see its path
on the host without the folders of that path: then what is at the root is its own.
"""

import os
from pathlib import Path, PurePosixPath

_ROOT = Path("/")
_V2, _V1 = ("sys/fs/cgroup", "memory.max"), ("sys/fs/cgroup/memory", "memory.limit_in_bytes")


def memory_bytes(root: Path = _ROOT) -> int:
    """The smallest limit, in bytes; `root` is where `proc` and `sys` are."""
    return min([os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), *_limits(root)])


def _limits(root: Path) -> list[int]:
    """The limits of this process's control groups, of either version of these; what is not limited has none."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    found = []
    for line in lines:
        number, _, rest = line.partition(":")
        kinds, _, group = rest.partition(":")
        if number == "0" or "memory" in kinds.split(","):
            mounted, name = _V2 if number == "0" else _V1
            groups = PurePosixPath("/", group)
            paths = [each.relative_to("/") for each in (groups, *groups.parents)]
            found += [limit for path in paths if (limit := _read(root / mounted / path / name)) is not None]
    return found


def _read(path: Path) -> int | None:
    """The limit in a file, None if there is none: version 2 writes `max` for that, version 1 a number beyond all."""
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isascii() and text.isdigit() else None
