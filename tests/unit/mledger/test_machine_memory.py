"""The memory that a process may use is the least of the machine's and of its control groups' limits."""

import os

import pytest

from mledger.config import default_cache_mb
from mledger.machine_memory import memory_bytes

MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20
V1, V2 = "sys/fs/cgroup/memory", "sys/fs/cgroup"


def machine(root, groups, **limits):
    """A machine's files below `root`: what it says of this process, and limits by path."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for path, text in limits.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@pytest.mark.parametrize(
    ("groups", "limits", "wanted"),
    [
        ("0::/\n", {f"{V2}/memory.max": "104857600\n"}, 100 * MIB),
        ("0::/a/b\n", {f"{V2}/a/b/memory.max": "max\n", f"{V2}/a/memory.max": "104857600\n"}, 100 * MIB),
        ("0::/a/b\n", {f"{V2}/a/b/memory.max": "52428800\n", f"{V2}/a/memory.max": "104857600\n"}, 50 * MIB),
        ("0::/a/b\n", {f"{V2}/memory.max": "104857600\n"}, 100 * MIB),
        ("0::/../outside\n", {f"{V2}/memory.max": "104857600\n"}, 100 * MIB),
        ("9:cpu:/\n4:memory:/docker/x\n", {f"{V1}/memory.limit_in_bytes": "104857600\n"}, 100 * MIB),
        ("4:cpu,memory:/x\n0::/\n", {f"{V1}/x/memory.limit_in_bytes": "104857600\n"}, 100 * MIB),
        ("4:memory:/\n", {f"{V1}/memory.limit_in_bytes": "9223372036854771712\n"}, MACHINE),
        ("0::/\n", {f"{V2}/memory.max": "max\n"}, MACHINE),
        ("0::/\n", {f"{V2}/memory.max": "nonsense\n"}, MACHINE),
        ("4:cpu:/\n", {f"{V1}/memory.limit_in_bytes": "104857600\n"}, MACHINE),
        ("", {}, MACHINE),
    ],
)
def test_the_least_limit_counts(tmp_path, groups, limits, wanted):
    assert memory_bytes(machine(tmp_path, groups, **limits)) == wanted


def test_without_control_groups_it_is_the_machine_s(tmp_path):
    assert memory_bytes(tmp_path) == MACHINE


@pytest.mark.parametrize(("limit", "cache_mb"), [(4000 * MIB, 200), (100 * MIB, 64)])
def test_the_cache_takes_a_twentieth_of_it(monkeypatch, limit, cache_mb):
    monkeypatch.setattr("mledger.config.memory_bytes", lambda: limit)
    assert default_cache_mb() == cache_mb
