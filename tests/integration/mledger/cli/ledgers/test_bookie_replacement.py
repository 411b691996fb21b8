"""`ledgers replace-bookie` on a real cluster: what it leaves alone, and its undo."""

from msgspec.structs import replace

from mledger.cli.ledgers import bookie_replacement
from mledger.metastore.cluster.bookies import list_bookies
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import bookie_path
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok

ELSEWHERE, OTHER = "10.0.0.1:3181", "10.0.0.2:3181"


def test_a_running_bookie_is_not_replaced_and_open_ledgers_are_left(url, topic, written) -> None:
    ensembles = [answer("ledgers", "describe", each, url=url)["ensembles"][0]["bookies"] for each in written]
    bookie = next(each for each in ensembles[2] if each in ensembles[0])  # three of four bookies each: some are in both
    assert mledger("ledgers", "replace-bookie", bookie, OTHER, "--dry-run", url=url).code == 4
    assert mledger("ledgers", "replace-bookie", OTHER, ELSEWHERE, "--dry-run", url=url).code == 3
    plan = answer("ledgers", "replace-bookie", bookie, OTHER, "--force", "--limit", 1, "--dry-run", url=url)
    left = {each["ledger_id"]: each["reason"] for each in plan["left"]}
    assert left[written[2]] == "it is OPEN"
    assert plan["ledgers_to_change"] == 1
    assert f"{bookie} is registered: bookies delete ledgers that name them no more" in plan["warnings"][0]


def test_a_bookie_is_replaced_in_more_ledgers_than_fit_one_request(url, undo_file) -> None:
    source = "gone:1"
    closed = LedgerMetadata(
        1,
        1,
        1,
        (Segment(0, (source,)),),
        state=LedgerState.CLOSED,
        last_entry=9,
        length=9,
        custom_metadata=(("large", b"x" * 100_000),),
    )
    ledgers = range(1_000, 1_012)

    async def make():
        async with await open_store(url) as store:
            for ledger in ledgers:
                await LedgerStore(store).create(ledger, closed)

    run(make())
    replacing = ("ledgers", "replace-bookie", source, OTHER, "--force", "--yes", "--undo-file", undo_file)
    assert answer(*replacing, url=url)["changed"] == [*ledgers]
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_suffix(".redo"), url=url)
    assert answer("ledgers", "describe", ledgers[0], url=url)["ensembles"][0]["bookies"] == [source]


def test_a_bookie_is_not_replaced_by_what_is_no_id(url) -> None:
    done = mledger("ledgers", "replace-bookie", ELSEWHERE, "10.0.0.2 3181", "--force", "--dry-run", url=url)
    assert (done.code, "'10.0.0.2 3181' is not a bookie id" in done.err) == (2, True)


def test_a_ledger_that_was_changed_while_others_were_listed_is_not_given_the_same_bookie_twice(
    url, undo_file, monkeypatch
) -> None:
    source = "gone:2"
    ledger = 2_000
    segment = Segment(0, (source, ELSEWHERE))
    closed = LedgerMetadata(2, 2, 1, (segment,), state=LedgerState.CLOSED, last_entry=9, length=9)
    find = bookie_replacement._find

    async def find_and_replicate(*arguments):
        found = await find(*arguments)
        async with await open_store(url) as store:
            replicated = replace(closed, segments=(Segment(0, (source, OTHER)),))
            await LedgerStore(store).put(ledger, replicated, 0)
        return found

    async def make():
        async with await open_store(url) as store:
            await LedgerStore(store).create(ledger, closed)

    run(make())
    monkeypatch.setattr(bookie_replacement, "_find", find_and_replicate)
    replacing = ("ledgers", "replace-bookie", source, OTHER, "--force", "--yes", "--undo-file", undo_file)
    assert mledger(*replacing, url=url).code == 4
    assert answer("ledgers", "describe", ledger, url=url)["ensembles"][0]["bookies"] == [source, OTHER]


def test_a_bookie_that_comes_back_after_the_plan_is_not_replaced(url, undo_file, monkeypatch) -> None:
    """The question may be open for long, and a running bookie deletes the ledgers that name it no more."""
    source, ledger = "gone:3", 3_000
    closed = LedgerMetadata(1, 1, 1, (Segment(0, (source,)),), state=LedgerState.CLOSED, last_entry=9, length=9)
    find = bookie_replacement._find

    async def find_before_it_comes_back(*arguments):
        found = await find(*arguments)
        async with await open_store(url) as store:
            await store.create(bookie_path(source))
        return found

    async def make():
        async with await open_store(url) as store:
            await LedgerStore(store).create(ledger, closed)
            return (await list_bookies(store))[0].bookie_id

    async def end():
        async with await open_store(url) as store:
            await store.delete(bookie_path(source))

    target = run(make())
    monkeypatch.setattr(bookie_replacement, "_find", find_before_it_comes_back)
    done = mledger("ledgers", "replace-bookie", source, target, "--yes", "--undo-file", undo_file, url=url)
    run(end())
    assert (done.code, f"nothing was changed: {source} is registered" in done.err) == (4, True)
    assert answer("ledgers", "describe", ledger, url=url)["ensembles"][0]["bookies"] == [source]
    assert not undo_file.exists()
