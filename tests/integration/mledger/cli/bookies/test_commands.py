"""`mledger bookies describe` and `check`, on real bookies."""

import itertools
import time

import pytest

from mledger.bookie.client.connections.bookie_info import ask_info
from mledger.metastore.cluster.bookies import list_bookies
from mledger.metastore.cluster.cookies import delete_cookie, read_cookie
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok

_topics = itertools.count()


@pytest.fixture
def three(bookies):
    """Three bookies, the first with metrics, and a topic on them."""
    bookies.add("--metrics-port", "0")
    bookies.add()
    bookies.add("--read-only")
    for each in bookies:
        each.launch()
    for each in bookies:
        each.wait_serving()
    topic = f"persistent://public/default/checked-{next(_topics)}"
    ok("topics", "create", topic, url=bookies.metadata_url)
    ok("topics", "produce", topic, "--count", 5, url=bookies.metadata_url)
    return bookies


def test_a_bookie_is_described_with_its_contents(three):
    began = time.time()
    found = answer("bookies", "describe", three[0].bookie_id, url=three.metadata_url)
    took = time.time() - began
    assert (found["bookie_id"], found["state"], found["address"]) == (
        three[0].bookie_id,
        "writable",
        three[0].bookie_id,
    )
    assert found["metrics"] == f"127.0.0.1:{three[0].metrics_port}"
    assert found["journal_directory"] == str(three[0].directory / "journal")
    assert found["version"]
    assert 0 < found["free_bytes"] < found["disk_bytes"]
    assert found["ledgers"] >= 1
    assert abs(found["clock_off_seconds"]) <= 1 + took
    assert (found["problems"], found["load"]) == ([], 1.5)


def test_sound_bookies_pass_with_a_warning_for_a_read_only_one(three):
    done = mledger("bookies", "check", "--output", "json", url=three.metadata_url)
    problems = {each["bookie_id"]: each["problems"] for each in done.json}
    assert (done.code, problems[three[0].bookie_id], problems[three[1].bookie_id]) == (0, [], [])
    assert problems[three[2].bookie_id] == ["warning: it is read-only: see whether its disk is full"]


def test_a_down_bookie_is_unreachable_and_the_others_are_still_checked(three):
    three.stop(1)
    done = mledger("bookies", "check", "--output", "json", url=three.metadata_url)
    states = {each["bookie_id"]: each["state"] for each in done.json}
    assert (done.code, states[three[1].bookie_id], states[three[0].bookie_id]) == (5, "not registered", "writable")
    assert mledger("bookies", "check", three[0].bookie_id, url=three.metadata_url).code == 0


def test_a_bookie_without_cookie_or_without_its_entries_fails(three):
    async def spoil():
        async with await open_store(three.metadata_url) as store:
            _, version = await read_cookie(store, three[0].bookie_id)
            await delete_cookie(store, three[0].bookie_id, version)

    run(spoil())
    done = mledger("bookies", "check", three[0].bookie_id, url=three.metadata_url)
    assert done.code == 1
    assert "error: it has no cookie" in done.out


def test_an_unknown_bookie_is_not_found(three):
    done = mledger("bookies", "describe", "nobody:1", url=three.metadata_url)
    assert done.code == 3
    assert "there is no bookie nobody:1: the cluster knows" in done.err


def test_checking_changes_nothing(three):
    async def nodes():
        async with await open_store(three.metadata_url) as store:
            return await list_bookies(store), sorted(await store.children("/ledgers"))

    before = run(nodes())
    ok("bookies", "check", url=three.metadata_url)
    assert run(nodes()) == before


def test_a_bookie_reports_the_free_space_of_its_disk(three):
    info = run(ask_info(*three[0].address))
    assert info is not None
    assert 0 < info.free_bytes < info.total_bytes


def test_bookies_are_listed_with_their_state(url) -> None:
    listed = answer("bookies", "list", url=url)
    assert len(listed) == 4
    assert {each["state"] for each in listed} == {"writable"}
