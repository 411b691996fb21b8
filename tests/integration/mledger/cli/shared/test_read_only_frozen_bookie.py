"""Commands that look, with one of three bookies frozen: it costs each of them one short time-out at most (Q11)."""

import time

import pytest
from msgspec.structs import replace

import mledger as public
from mledger.cli.shared import read_only
from tests.support.aio import run
from tests.support.bookies.processes import BookieProcesses, initialize_cluster
from tests.support.cli import mledger
from tests.support.topics import KEEP, fill

TOPIC = "persistent://public/default/looked-at"
UNAVAILABLE = 5
QUICK = {"speculative_read_s": 0.1, "silence_timeout_s": 0.5, "connect_timeout_s": 0.5}
LIMIT_S = 5.0
"""Half of the time that a server would wait for the bookie, and ten times the time-out of the commands here."""


async def leave_open(url: str) -> tuple[int, int]:
    """A topic whose owner died: its open ledger with entries, and its cursor's."""
    async with public.open_cluster(url, config=KEEP) as cluster:
        topic = await cluster.create_topic(TOPIC)
        positions = await fill(topic, 25)
        cursor = await topic.open_cursor("one")
        await cursor.acknowledge(positions[1::2])
        ledgers = positions[-1].ledger_id, cursor.cursor_ledger
        await topic.abandon()
        return ledgers


@pytest.fixture(scope="module")
def frozen(shared_zookeeper, _new_chroot, tmp_path_factory):
    """A cluster of which every ledger has a copy on a frozen bookie; with the topic's open ledger and its cursor's."""
    url = shared_zookeeper.url + _new_chroot()
    initialize_cluster(url)
    processes = BookieProcesses(url, tmp_path_factory.mktemp("cluster"))
    try:
        processes.start(3)
        ledgers = run(leave_open(url))
        processes.freeze(0)
        yield processes, *ledgers
        processes.thaw(0)
    finally:
        processes.close()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("topics describe TOPIC", 0),
        ("topics stats-internal TOPIC", 0),
        ("topics read TOPIC", 0),
        ("topics repair TOPIC --dry-run", 0),
        ("topics trim TOPIC --dry-run", 0),
        ("topics truncate TOPIC --dry-run", 0),
        ("cursors list TOPIC", 0),
        ("cursors describe TOPIC one", 0),
        ("cursors recover TOPIC", 0),
        ("cursors clear TOPIC one --dry-run", 0),
        ("ledgers describe OPEN", 0),
        ("ledgers read OPEN --decode", 0),
        ("ledgers read CURSOR --decode", 0),
        ("ledgers recover OPEN --dry-run", 0),
        ("bookies describe BOOKIE", 0),
        ("ledgers check --topic TOPIC", UNAVAILABLE),
        ("bookies check", UNAVAILABLE),
    ],
)
def test_a_command_ends_soon(frozen, monkeypatch, command, code):
    monkeypatch.setattr(read_only, "PATIENCE", replace(read_only.PATIENCE, **QUICK))
    bookies, opened, cursor = frozen
    words = {"TOPIC": TOPIC, "OPEN": opened, "CURSOR": cursor, "BOOKIE": bookies[0].bookie_id}
    began = time.monotonic()
    done = mledger(*(words.get(word, word) for word in command.split()), url=bookies.metadata_url)
    assert done.code == code, done
    assert time.monotonic() - began < LIMIT_S
