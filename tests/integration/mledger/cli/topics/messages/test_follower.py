"""`mledger topics read --follow` as a process of its own, beside a writer; `--decode` for people."""

import re
import signal
import sys
from dataclasses import replace
from subprocess import PIPE

import pytest

import mledger as public
from tests.support.aio import HANG_S, run
from tests.support.cli import ROOT, mledger, ok
from tests.support.forked_python import ForkedPython
from tests.support.ledgers import client
from tests.support.ports import environment_of_commands
from tests.support.topics import KEEP, fill, payloads

ONE = {"ensemble_size": 1, "write_quorum_size": 1, "ack_quorum_size": 1}
SMALL = replace(KEEP, **ONE, max_entries_per_ledger=10)


@pytest.fixture
def follower(url, topic):
    """Starts a follower of the topic, and stops it at the end."""
    started = []

    def start(*arguments: object, at: str = url) -> ForkedPython:
        words = ["topics", "read", topic, "--follow", *map(str, arguments)]
        environment = environment_of_commands() | {"PYTHONPATH": str(ROOT), "MLEDGER_METADATA": at}
        process = ForkedPython(
            [sys.executable, "-m", "mledger.cli.main", *words], env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=HANG_S)


def lines(process, count: int) -> list[bytes]:
    """The next lines that it prints."""
    return [process.stdout.readline().removesuffix(b"\n") for _ in range(count)]


def test_a_follower_prints_each_entry_once_in_order_over_rollovers_until_interrupted(url, topic, follower) -> None:
    async def main() -> None:
        async with public.open_cluster(url, config=SMALL) as cluster:
            opened = await cluster.create_topic(topic)
            await fill(opened, 5)
            process = follower("--first", f"{opened.ledger_list.ids[0]}:0")
            assert lines(process, 5) == payloads(5)
            for first in range(5, 45, 8):
                await fill(opened, 8, first)
                assert lines(process, 8) == payloads(8, first)
            assert len(opened.ledger_list.ids) > 3
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=HANG_S)
            assert (process.returncode, out) == (130, b"")
            assert err.decode().count("unconfirmed") <= 1
            await fill(opened, 1, 45)  # nothing was fenced
            await opened.close()

    run(main())


def test_a_follower_begins_after_the_last_entry_and_ends_at_its_limit(url, topic, follower) -> None:
    async def main() -> None:
        async with public.open_cluster(url, config=SMALL) as cluster:
            opened = await cluster.create_topic(topic)
            await fill(opened, 5)
            process = follower("--limit", 3)
            number = 5
            while process.poll() is None:
                await fill(opened, 1, number)
                number += 1
            out, err = process.communicate(timeout=HANG_S)
            shown = out.splitlines()
            assert process.returncode == 0, err
            assert len(shown) == 3
            first = int(shown[0].removeprefix(b"entry-"))
            assert first >= 5
            assert shown == payloads(3, first)
            await opened.close()

    run(main())


@pytest.mark.parametrize("copies", [3, 1], ids=["others have its entries", "it alone has its entries"])
def test_a_follower_goes_on_while_a_bookie_goes_away_and_comes_back(bookies, topic, follower, copies) -> None:
    bookies.start(3)
    config = replace(KEEP, write_quorum_size=copies, ack_quorum_size=min(2, copies), max_entries_per_ledger=1000)

    async def main() -> None:
        async with (
            public.open_cluster(bookies.metadata_url, config=config) as cluster,
            client(bookies.metadata_url) as bookkeeper,
        ):
            opened = await cluster.create_topic(topic)
            await fill(opened, 6)
            (ledger,) = opened.ledger_list.ids
            process = follower("--first", f"{ledger}:0", at=bookies.metadata_url)
            assert lines(process, 6) == payloads(6)
            holder = (await bookkeeper.metadata(ledger)).ensemble[6 % 3]  # of the next entry
            (bookie,) = (each for each in bookies if each.bookie_id == holder)
            bookie.kill()
            if copies == 1:
                assert b"cannot be decided" in process.stderr.readline()
            else:
                await fill(opened, 8, 6)
                assert lines(process, 8) == payloads(8, 6)
            bookie.start()
            if copies == 1:
                assert process.stderr.readline().endswith(b"can be read again\n")
                await fill(opened, 8, 6)
                assert lines(process, 8) == payloads(8, 6)
            await fill(opened, 8, 14)
            assert lines(process, 8) == payloads(8, 14)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=HANG_S)
            assert (process.returncode, out) == (130, b"")
            assert b"retrying" not in err
            await opened.abandon()

    run(main(), timeout=120.0)


def test_decode_prints_one_line_per_message_with_its_fields(url, topic) -> None:
    ok("topics", "create", topic, url=url)
    ok("topics", "produce", topic, "--key", "alice", "--property", "team=red", url=url, stdin="a\tb\n")
    heading, line = ok("topics", "read", topic, "--decode", url=url).out.splitlines()
    assert heading.split()[0] == "position"
    assert re.search(r"^\d+:0 +\d{4}-\d\d-\d\dT[\d:.]+Z +\S+ +alice +team=red +\S+ +\S+ +a\\tb$", line), line
    as_json = ("topics", "read", topic, "--output", "json")
    assert ok(*as_json, "--decode", url=url).out == ok(*as_json, url=url).out


@pytest.mark.parametrize("arguments", [("--decode", "--raw"), ("--follow", "--last", "1:2")], ids=" ".join)
def test_contradictory_options_are_refused(url, topic, arguments) -> None:
    assert mledger("topics", "read", topic, *arguments, url=url).code == 2
