"""`topics stats-internal` on a real cluster."""

from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer
from tests.support.metadata.tree import tree


def test_internal_stats_show_a_lost_cursor_ledger_as_unknown(url, topic, written) -> None:
    ledger = answer("cursors", "describe", topic, "one", url=url)["cursor_ledger"]
    path = next(each for each in tree(url) if each.startswith("/ledgers/") and each.endswith(f"L{ledger % 10**4:04d}"))

    async def lose():
        async with await open_store(url) as store:
            await store.delete(path)

    run(lose())
    found = answer("topics", "stats-internal", topic, url=url)["cursors"]["one"]
    assert (found["cursorLedger"], found["cursorLedgerLastEntry"]) == (ledger, None)
    assert found["markDeletePosition"] is not None
