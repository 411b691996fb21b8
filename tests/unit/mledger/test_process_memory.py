"""The memory of a process: the machine's, or what its control group allows."""

import os

import pytest

from mledger.process_memory import process_memory

MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20


@pytest.mark.parametrize(
    ("groups", "files", "memory"),
    [
        ("0::/\n", {"memory.max": 256 * MIB}, 256 * MIB),
        ("0::/system.slice/x.service\n", {"system.slice/memory.max": 64 * MIB}, 64 * MIB),
        ("0::/a/b\n", {"a/memory.max": 64 * MIB, "a/b/memory.max": 32 * MIB, "memory.max": "max"}, 32 * MIB),
        ("5:cpu:/\n4:memory:/docker/x\n0::/\n", {"memory/memory.limit_in_bytes": 128 * MIB}, 128 * MIB),
        ("4:cpu,memory:/x\n", {"memory/x/memory.limit_in_bytes": 128 * MIB}, 128 * MIB),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": 9223372036854771712}, MACHINE),
        ("0::/\n", {"memory.max": "max"}, MACHINE),
        ("0::/../other\n", {}, MACHINE),
        (None, {"memory.max": 1}, MACHINE),
    ],
)
def test_the_least_limit_of_the_groups_counts(tmp_path, groups, files, memory):
    if groups is not None:
        (tmp_path / "proc" / "self").mkdir(parents=True)
        (tmp_path / "proc" / "self" / "cgroup").write_text(groups)
    for name, text in files.items():
        path = tmp_path / "sys" / "fs" / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    assert process_memory(tmp_path) == memory
