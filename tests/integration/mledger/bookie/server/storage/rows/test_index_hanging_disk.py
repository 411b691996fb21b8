"""An index whose disk hangs says so before a commit waits. RocksDB hangs for real: its next files are FIFOs."""

import subprocess
import sys
from pathlib import Path

from tests.support.aio import HANG_S

SCRIPT = """
import os, sys
from mledger.bookie.server.storage.rows.index import Index, Row
from mledger.bookie.server.storage.rows.index_options import IndexConfig

path, commits = sys.argv[1], 0
index = Index(path, IndexConfig(memtable_bytes=256 << 10))
for number in range(1000):
    os.mkfifo(os.path.join(path, f"{number:06d}.sst"))
while not index.crowded:
    for entry in range(100):
        index.put_run(Row(1, commits * 100 + entry, commits * 100 + entry, 1, 0, 1))
    commits += 1
    index.commit(commits, 1)
index.commit(commits + 1, 1)
assert index.last_run(1).last == commits * 100 - 1
print("crowded", flush=True)
os._exit(0)
"""


def test_an_index_is_crowded_before_a_commit_would_wait_for_its_disk(tmp_path):
    root = Path(__file__).parents[7]
    child = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "store")], cwd=root, capture_output=True, timeout=HANG_S
    )
    assert (child.stdout, child.stderr, child.returncode) == (b"crowded\n", b"", 0)
