"""`ledgers replace-bookie` on a real cluster: what it asks the other bookie, what it leaves alone, and its undo."""

import itertools
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from mledger.bookie.client.client import BookKeeper
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.bookie.server.process.excess_ledgers import OverreplicatedLedgers
from mledger.bookie.server.serving.counters import GarbageCounters
from mledger.cli.ledgers import bookie_replacement
from mledger.metastore.cluster.bookies import list_bookies
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.cluster.underreplication import encode_lock
from mledger.metastore.records.ledger_metadata import DigestType, LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import LEDGERS, bookie_path, cookie_path, underreplication_lock_path
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok

ELSEWHERE, OTHER = "10.0.0.1:3181", "10.0.0.2:3181"
ENTRIES = 10


@asynccontextmanager
async def ledger_store(url):
    async with await open_store(url) as store:
        yield LedgerStore(store)


async def write_renamed(
    url: str, source: str, write_quorum: int = 2, *, on: str | None = None, **changed: object
) -> tuple[str, str, int]:
    """Write a ledger on three bookies whose metadata then names one of them, `on` if it is given, as `source`.

    Returns the real id of that bookie, that of the bookie without copies, and the ledger.
    """
    async with await open_store(url) as store:
        client = BookKeeper(store)
        ledgers = LedgerStore(store)
        real: tuple[str, ...] = ()
        while on not in (None, *real) or not real:  # bookies are chosen at random
            writer = await client.create_ledger(3, write_quorum, write_quorum)
            await writer.append([b"x" * 100] * ENTRIES)
            await writer.close()
            metadata, version = await ledgers.read(writer.ledger_id)
            real = metadata.segments[0].bookies
        await client.close()
        replaced = real[1] if on is None else on
        renamed = Segment(0, tuple(source if each == replaced else each for each in real))
        await ledgers.put(writer.ledger_id, replace(metadata, segments=(renamed,), **changed), version)
        without = next(each.bookie_id for each in await list_bookies(store) if each.bookie_id not in real)
        return replaced, without, writer.ledger_id


async def make_empty(url: str, ledger: int, bookies: tuple[str, ...], *custom: tuple[str, bytes]) -> None:
    """Create the metadata of a closed ledger without entries."""
    quorum = len(bookies)
    closed = LedgerMetadata(
        quorum, quorum, 1, (Segment(0, bookies),), state=LedgerState.CLOSED, last_entry=-1, custom_metadata=custom
    )
    async with ledger_store(url) as ledgers:
        await ledgers.create(ledger, closed)


async def bookie_ids(url: str) -> list[str]:
    async with await open_store(url) as store:
        return [each.bookie_id for each in await list_bookies(store)]


def ensemble(ledger: int, url: str) -> list[str]:
    return answer("ledgers", "describe", ledger, url=url)["ensembles"][0]["bookies"]


class OneLedger:
    """A bookie's only ledger, for the collection of over-replicated ones."""

    def __init__(self, ledger: int) -> None:
        self.ledger = ledger

    async def pages(self):
        yield [self.ledger]

    async def needed(self, ledger: int) -> dict[int, int]:
        return {}

    async def delete(self, ledger: int, expected: object) -> bool:
        return True


async def collect_overreplicated(url: str, bookie: str, ledger: int) -> list[int]:
    """The ledgers whose copies `bookie` would delete now, with only that ledger found a grace period ago."""
    async with await open_store(url) as store:
        clock = itertools.count(0, 10).__next__
        found = OverreplicatedLedgers(
            OneLedger(ledger), bookie, LEDGERS, GarbageCounters(), grace_s=1, every_s=1, clock=clock
        )
        return [*await found.collect(store), *await found.collect(store)]


async def put_lock(url: str, ledger: int) -> None:
    async with await open_store(url) as store:
        await store.create(underreplication_lock_path(ledger), encode_lock("10.0.0.3:3181"), parents=True)


async def remove_lock(url: str, ledger: int) -> None:
    async with await open_store(url) as store:
        await store.delete(underreplication_lock_path(ledger))


def planned(url: str, source: str, target: str, *options: object) -> tuple[list[int], dict[int, str]]:
    """The ledgers that would be changed, and the reasons of those left."""
    plan = answer("ledgers", "replace-bookie", source, target, *options, "--dry-run", url=url)
    return plan["ledgers"], {each["ledger_id"]: each["reason"] for each in plan["left"]}


def test_a_running_bookie_is_not_replaced_and_open_ledgers_are_left(url, topic, written) -> None:
    ensembles = [ensemble(each, url) for each in written]
    bookie = next(each for each in ensembles[2] if each in ensembles[0])  # three of four bookies each: some are in both
    other = next(each for each in run(bookie_ids(url)) if each not in ensembles[2])
    assert mledger("ledgers", "replace-bookie", bookie, OTHER, "--dry-run", url=url).code == 4
    plan = answer("ledgers", "replace-bookie", bookie, other, "--force", "--dry-run", url=url)
    left = {each["ledger_id"]: each["reason"] for each in plan["left"]}
    assert left[written[2]] == "it is OPEN"
    assert plan["warnings"] == [f"{bookie} is registered and serves its entries"]


@pytest.mark.parametrize("write_quorum", [2, 3])
def test_a_bookie_that_has_every_copy_takes_the_others_place(url, undo_file, write_quorum) -> None:
    source = f"renamed:{write_quorum}"
    target, _, ledger = run(write_renamed(url, source, write_quorum))
    replacing = ("ledgers", "replace-bookie", source, target)
    assert "lost" not in ok(*replacing, "--dry-run", url=url).out
    assert answer(*replacing, "--yes", "--undo-file", undo_file, url=url)["changed"] == [ledger]
    assert target in ensemble(ledger, url)
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_suffix(".redo"), url=url)
    assert source in ensemble(ledger, url)


@pytest.mark.parametrize("write_quorum", [2, 3])
def test_a_ledger_is_left_of_which_the_other_bookie_has_no_copies(url, write_quorum) -> None:
    source = f"lacking-all:{write_quorum}"
    _, without, ledger = run(write_renamed(url, source, write_quorum))
    changed, left = planned(url, source, without, "--force")
    copies, first = (10, 0) if write_quorum == 3 else (7, 0)
    assert changed == []
    assert left[ledger] == f"{without} has no good copy of {copies} entries from {first} to 9 (it is not there)"


def test_a_ledger_is_left_of_which_the_other_bookie_lacks_some_entries(url) -> None:
    source = "lacking-some:1"
    target, _, ledger = run(write_renamed(url, source, last_entry=ENTRIES))
    _, _, whole = run(write_renamed(url, source, on=target))
    changed, left = planned(url, source, target)
    assert (changed, left[ledger]) == ([whole], f"{target} has no good copy of entry {ENTRIES} (it is not there)")


def test_a_ledger_is_left_of_which_the_other_bookies_copies_fail_their_digest(url) -> None:
    source = "damaged:1"
    target, _, ledger = run(write_renamed(url, source, digest_type=DigestType.CRC32))
    assert "(it fails its digest)" in planned(url, source, target)[1][ledger]


def test_undo_says_that_copies_of_a_bookie_that_comes_back_are_lost(url) -> None:
    source = "known:1"

    async def make():
        async with await open_store(url) as store:
            await store.create(cookie_path(source), b"5\n", parents=True)
        return await write_renamed(url, source)

    target, _, _ = run(make())
    plan = answer("ledgers", "replace-bookie", source, target, "--dry-run", url=url)
    assert plan["lost"] == [
        f"the copies of {source}, if it runs again before undo: bookies delete ledgers that no longer name them"
    ]


def test_a_bookie_that_the_cluster_does_not_know_takes_no_place(url) -> None:
    done = mledger("ledgers", "replace-bookie", OTHER, ELSEWHERE, "--force", "--dry-run", url=url)
    assert (done.code, f"the cluster has no bookie {ELSEWHERE}" in done.err) == (3, True)


def test_a_bookie_that_is_not_registered_takes_no_place(url) -> None:
    target = "stopped:1"

    async def make():
        async with await open_store(url) as store:
            await store.create(cookie_path(target), b"5\n", parents=True)

    run(make())
    done = mledger("ledgers", "replace-bookie", OTHER, target, "--force", "--dry-run", url=url)
    assert (done.code, f"{target} is not registered" in done.err) == (5, True)


def test_a_registered_bookie_that_does_not_answer_takes_no_place(url) -> None:
    source, target = "answered:1", "127.0.0.1:1"

    async def make():
        await write_renamed(url, source)
        async with await open_store(url) as store:
            await store.create(bookie_path(target))

    async def end():
        async with await open_store(url) as store:
            await store.delete(bookie_path(target))

    run(make())
    done = mledger("ledgers", "replace-bookie", source, target, "--force", "--dry-run", url=url)
    run(end())
    assert (done.code, f"{target} does not answer for its copies" in done.err) == (5, True)


def test_a_bookie_that_lost_a_ledger_after_the_plan_takes_no_place(url, undo_file, monkeypatch) -> None:
    source = "collected:1"
    target, without, ledger = run(write_renamed(url, source))
    has_copy = BookKeeperReader.has_copy

    async def of_another(reader, ledger_id, entry, bookie):
        return await has_copy(reader, ledger_id, entry, without)

    monkeypatch.setattr(BookKeeperReader, "has_copy", of_another)
    replacing = ("ledgers", "replace-bookie", source, target, "--yes", "--undo-file", undo_file)
    done = mledger(*replacing, url=url)
    assert (done.code, f"{target} no longer has entry" in done.err) == (4, True)
    assert source in ensemble(ledger, url)


def test_the_other_bookie_deletes_no_copies_while_it_takes_the_others_place(url, undo_file, monkeypatch) -> None:
    """No ensemble names it before, so that its daily search for over-replicated ledgers finds those it is to take."""
    source = "raced:1"
    target, _, ledger = run(write_renamed(url, source))
    has_copy, deleted = BookKeeperReader.has_copy, []

    async def has_copy_and_collects(*arguments):
        there = await has_copy(*arguments)
        deleted.extend(await collect_overreplicated(url, target, ledger))
        return there

    monkeypatch.setattr(BookKeeperReader, "has_copy", has_copy_and_collects)
    replacing = ("ledgers", "replace-bookie", source, target, "--yes", "--undo-file", undo_file)
    assert answer(*replacing, url=url)["changed"] == [ledger]
    assert (target in ensemble(ledger, url), deleted) == (True, [])
    assert run(collect_overreplicated(url, target, ledger)) == []


def test_a_ledger_is_left_that_is_re_replicated(url) -> None:
    source, ledger = "locked:1", 4_000
    run(make_empty(url, ledger, (source,)))
    run(put_lock(url, ledger))
    changed, left = planned(url, source, run(bookie_ids(url))[0])
    run(remove_lock(url, ledger))
    assert changed == []
    assert left[ledger] == "10.0.0.3:3181 holds its lock: it is re-replicated, or a copy of it deleted"


def test_no_ledger_is_changed_whose_lock_is_taken_after_the_plan(url, undo_file, monkeypatch) -> None:
    source, ledger = "locked:2", 4_001
    run(make_empty(url, ledger, (source,)))
    target = run(bookie_ids(url))[0]
    find_locked = bookie_replacement._find_locked

    async def find_before_it_is_locked(*arguments):
        found = await find_locked(*arguments)
        await put_lock(url, ledger)
        return found

    monkeypatch.setattr(bookie_replacement, "_find_locked", find_before_it_is_locked)
    done = mledger("ledgers", "replace-bookie", source, target, "--yes", "--undo-file", undo_file, url=url)
    run(remove_lock(url, ledger))
    assert (done.code, f"no ledger from {ledger} on was changed" in done.err) == (4, True)
    assert (ensemble(ledger, url), undo_file.exists()) == ([source], False)


def test_a_limit_counts_ledgers_that_can_be_changed(url) -> None:
    source = "limited:1"
    target = run(bookie_ids(url))[0]
    for ledger in (900, 901, 902):
        run(make_empty(url, ledger, (source,)))
    changed, left = planned(url, source, target, "--limit", 2)
    assert (changed, [each for each, why in left.items() if why == "beyond the limit"]) == ([900, 901], [902])


def test_a_bookie_is_replaced_in_more_ledgers_than_fit_one_request(url, undo_file) -> None:
    source, ledgers = "gone:1", range(1_000, 1_012)
    for ledger in ledgers:
        run(make_empty(url, ledger, (source,), ("large", b"x" * 100_000)))
    target = run(bookie_ids(url))[0]
    replacing = ("ledgers", "replace-bookie", source, target, "--yes", "--undo-file", undo_file)
    assert answer(*replacing, url=url)["changed"] == [*ledgers]
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_suffix(".redo"), url=url)
    assert ensemble(ledgers[0], url) == [source]


def test_a_bookie_is_not_replaced_by_what_is_no_id(url) -> None:
    done = mledger("ledgers", "replace-bookie", ELSEWHERE, "10.0.0.2 3181", "--force", "--dry-run", url=url)
    assert (done.code, "'10.0.0.2 3181' is not a bookie id" in done.err) == (2, True)


def test_a_ledger_that_was_changed_while_others_were_listed_is_not_given_the_same_bookie_twice(
    url, undo_file, monkeypatch
) -> None:
    source, ledger = "gone:2", 2_000
    target = run(bookie_ids(url))[0]
    find = bookie_replacement._find

    async def find_and_replicate(*arguments):
        found = await find(*arguments)
        async with ledger_store(url) as ledgers:
            metadata, version = await ledgers.read(ledger)
            await ledgers.put(ledger, replace(metadata, segments=(Segment(0, (source, target)),)), version)
        return found

    run(make_empty(url, ledger, (source, ELSEWHERE)))
    monkeypatch.setattr(bookie_replacement, "_find", find_and_replicate)
    replacing = ("ledgers", "replace-bookie", source, target, "--yes", "--undo-file", undo_file)
    assert mledger(*replacing, url=url).code == 4
    assert ensemble(ledger, url) == [source, target]


def test_a_bookie_that_comes_back_after_the_plan_is_not_replaced(url, undo_file, monkeypatch) -> None:
    """The question may be open for long, and a running bookie deletes the ledgers that name it no more."""
    source, ledger = "gone:3", 3_000
    find = bookie_replacement._find

    async def find_before_it_comes_back(*arguments):
        found = await find(*arguments)
        async with await open_store(url) as store:
            await store.create(bookie_path(source))
        return found

    async def end():
        async with await open_store(url) as store:
            await store.delete(bookie_path(source))

    run(make_empty(url, ledger, (source,)))
    target = run(bookie_ids(url))[0]
    monkeypatch.setattr(bookie_replacement, "_find", find_before_it_comes_back)
    done = mledger("ledgers", "replace-bookie", source, target, "--yes", "--undo-file", undo_file, url=url)
    run(end())
    assert (done.code, f"nothing was changed: {source} is registered" in done.err) == (4, True)
    assert ensemble(ledger, url) == [source]
    assert not undo_file.exists()
