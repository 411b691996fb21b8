"""A write is synced before it is answered and before it is seen: proven by a running server's system calls."""

import asyncio
import sys

import pytest

from mledger.metastore.records.pb import MetadataStore_pb2 as pb
from mledger.metastore.rocksdb.wire import Frames
from mledger.metastore.store import Create
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.strace_order import COMMAND, parse_trace, synced_before
from tests.support.metadata.rocksdb import MetadataProcess

pytestmark = pytest.mark.strace

HONEST = (sys.executable, "-m", "mledger.metastore.rocksdb.server")
WITHOUT_SYNC = """
import sys
from mledger.metastore.rocksdb.rows import Rows
from mledger.metastore.rocksdb.server import main

original = Rows.__init__

def without_sync(self, path):
    original(self, path)
    self._sync.sync = False

Rows.__init__ = without_sync
sys.exit(main(sys.argv[1:]))
"""
NODES = {f"/n{number}": b"the data of node %d." % number for number in range(60)}


async def write_and_read(url):
    """Create the nodes, some alone, some together, while another client reads them as they appear."""

    async def read():
        async with await open_store(url) as store:
            while None in await store.get_many(list(NODES)):
                pass

    async with await open_store(url) as store:
        reading = asyncio.create_task(read())
        paths = list(NODES)
        for path in paths[:10]:
            await store.create(path, NODES[path])
        await asyncio.gather(*(store.create(path, NODES[path]) for path in paths[10:40]))
        await store.multi([Create(path, NODES[path]) for path in paths[40:]])
        await reading


def violations(tmp_path, command):
    """The paths that a server answered, and the data that it showed, before the sync."""
    trace = tmp_path / "trace"
    process = MetadataProcess(tmp_path / "metadata", command=(*COMMAND, "-o", str(trace), *command)).start()
    run(write_and_read(process.url))
    assert process.stop() == 0
    with trace.open() as lines:
        calls = parse_trace(lines)
    answered, seen, wrong = set(), set(), set()
    for send in (call for call in calls if call.to_socket and call.result > 0):
        for answer in Frames(pb.Answer).feed(send.data):
            written = [result.path for result in answer.written.results]
            found = [node.data for node in answer.found.nodes if node.data]
            answered.update(written)
            seen.update(found)
            wrong |= {path for path in written if not synced_before(send, NODES[path], calls)}
            wrong |= {data for data in found if not synced_before(send, data, calls)}
    assert (answered, seen) == (set(NODES), set(NODES.values()))
    return wrong


def test_nothing_is_answered_or_seen_before_it_is_synced(tmp_path):
    assert violations(tmp_path, HONEST) == set()


def test_a_build_that_does_not_sync_is_detected(tmp_path):
    assert violations(tmp_path, (sys.executable, "-c", WITHOUT_SYNC)) == {*NODES, *NODES.values()}
