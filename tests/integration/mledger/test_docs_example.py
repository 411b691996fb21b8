"""The example of docs/how-to/python.md does what it says."""

import asyncio
import sys

from tests.support.aio import run
from tests.support.bookies import ROOT
from tests.support.documents import blocks_of


def example() -> str:
    (found,) = blocks_of("how-to/python.md", "python")
    return found.text


def test_the_example_runs(topic_url):
    async def main():
        source = example().replace("zk://127.0.0.1:2181", topic_url)
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
