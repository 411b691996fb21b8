"""Changes of topics by commands: a topic of four ledgers, the commands, their undo, and what they leave."""

from dataclasses import replace

import mledger as public
from mledger.metastore.url import open_reader, open_store
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.metadata.tree import read_tree
from tests.support.topics import KEEP, assert_nothing_orphaned, fill, managed_ledger_of

ONE = {"ensemble_size": 1, "write_quorum_size": 1, "ack_quorum_size": 1}
SMALL = replace(KEEP, **ONE, max_entries_per_ledger=10)
SINGLE = ("--ensemble-size", 1, "--write-quorum", 1, "--ack-quorum", 1)
ENTRIES = 35


async def filled(url: str, topic: str, acknowledged: int, *, crash: bool = False) -> list[public.Position]:
    """35 entries in four ledgers; cursor `ahead` has acknowledged so many, `holes` three less, and a later one."""
    async with public.open_cluster(url, config=SMALL) as cluster:
        opened = await cluster.open_topic(topic, create=True)
        ahead, holes = await opened.open_cursor("ahead"), await opened.open_cursor("holes")
        positions = await fill(opened, ENTRIES)
        await opened.set_properties({"team": "red"})
        if acknowledged:
            await ahead.acknowledge_cumulative(positions[acknowledged - 1])
            await holes.acknowledge_cumulative(positions[acknowledged - 4])
            await holes.acknowledge([positions[acknowledged - 1]])
        if crash:
            await opened.abandon()
        else:
            await opened.close()
        return positions


def change(url: str, undo_file, command: str, topic: str, *arguments: object):
    """Carry out a command, and return its answer."""
    settings = () if command == "set-properties" else SINGLE
    return answer("topics", command, topic, *arguments, *settings, "--yes", "--undo-file", undo_file, url=url)


def plan(url: str, command: str, topic: str, *arguments: object):
    """A command's plan."""
    return answer("topics", command, topic, *arguments, "--dry-run", url=url)


def undo(url: str, undo_file, *arguments: object):
    """Undo it."""
    redo = undo_file.with_name("redo.json")
    return mledger("undo", undo_file, "--yes", "--undo-file", redo, *arguments, *SINGLE, url=url)


def described(url: str, topic: str):
    """The topic's description."""
    return answer("topics", "describe", topic, url=url)


def entries(url: str, topic: str) -> list[str]:
    """The topic's payloads."""
    return ok("topics", "read", topic, url=url).out.splitlines()


def tree(url: str):
    """Every node with its version."""

    async def main():
        async with await open_reader(url) as reader:
            return await read_tree(reader)

    return run(main())


def write(url: str, path: str, data: bytes) -> None:
    """Create a node, as Pulsar would."""

    async def main() -> None:
        async with await open_store(url) as store:
            await store.create(path, data, parents=True)

    run(main())


def nothing_orphaned(url: str, topic: str) -> None:
    """No ledger of the topic is left that nothing names."""
    run(assert_nothing_orphaned(url, managed_ledger_of(topic)))
