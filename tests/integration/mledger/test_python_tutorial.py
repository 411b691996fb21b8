"""The programs of docs/tutorials/python.md do what it says."""

import asyncio
import os
import re
import subprocess
import sys

from tests.support.aio import HANG_S, run
from tests.support.bookies.processes import ROOT
from tests.support.commands.documents import blocks_of

FIRST, SECOND = (block.text for block in blocks_of("tutorials/python.md", "python"))


def test_the_first_program_reads_two_of_three_and_leaves_one(topic_url):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MLEDGER_METADATA": topic_url}
    done = subprocess.run(
        [sys.executable, "-c", FIRST], env=environment, capture_output=True, text=True, timeout=HANG_S, check=True
    )
    assert re.fullmatch(r"\d+:0 b'first'\n\d+:1 b'second'\nleft: 1\n", done.stdout)


def test_the_second_program_reports_where_its_cursor_is(topic_url):
    async def main():
        source = SECOND.replace("rocksdb:metadata", topic_url)
        assert topic_url in source
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-", cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate(source.encode())
        assert process.returncode == 0
        last, holes, mark_delete, refused = out.decode().splitlines()
        assert last.startswith("last entry: ")
        assert last.endswith(":499 batch in 1 ledger")
        ledger = last.split()[2].partition(":")[0]
        assert holes == f"holes: [({ledger}:0..{ledger}:9]] backlog: 491"
        assert mark_delete == f"mark-delete: {ledger}:9 backlog: 490"
        assert refused.startswith("refused: ")

    run(main())
