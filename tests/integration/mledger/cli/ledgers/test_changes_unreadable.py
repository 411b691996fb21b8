"""A ledger whose metadata cannot be read keeps no command from the others, and can be deleted (M12)."""

import pytest

from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.records.codec import encode_managed_ledger_info
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import bookie_path, cookie_path, ledger_path, managed_ledger_path
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.metadata.tree import tree

WHOLE, UNREADABLE, BOOKIE, OTHER = 3, 4, "gone:1", "other:1"
DAMAGED = b"BookieMetadataFormatVersion\t9\n" + 300 * b"x"


@pytest.fixture
def url(metadata_url):
    """A cluster with a cookie and two ledgers, of which one has metadata of a later version."""
    ok("metadata", "init", url=metadata_url)
    closed = LedgerMetadata(1, 1, 1, (Segment(0, (BOOKIE,)),), state=LedgerState.CLOSED, last_entry=-1)

    async def main():
        async with await open_store(metadata_url) as store:
            await LedgerStore(store).create(WHOLE, closed)
            await store.create(ledger_path(UNREADABLE), DAMAGED, parents=True)
            await store.create(cookie_path(BOOKIE), b"5\n", parents=True)
            await store.create(bookie_path(OTHER), parents=True)

    run(main())
    return metadata_url


def test_the_other_ledgers_are_listed_before_the_error(url):
    listed = mledger("ledgers", "list", "--output", "csv", url=url)
    assert (listed.code, listed.out.splitlines()[1].split(",")[0]) == (1, str(WHOLE))
    assert f"{ledger_path(UNREADABLE)} cannot be read" in listed.err


def test_the_ledgers_are_listed_and_checked_beside_a_node_that_is_no_ledger(url):
    strange = ledger_path(WHOLE) + "x"

    async def create():
        async with await open_store(url) as store:
            await store.create(strange)

    run(create())
    listed = mledger("ledgers", "list", "--output", "csv", url=url)
    assert (listed.code, listed.out.splitlines()[1].split(",")[0]) == (1, str(WHOLE))
    assert f"{strange} is among the ledgers but is not a ledger" in listed.err
    checked = mledger("ledgers", "check", "--all", "--references-only", "--output", "json", url=url)
    assert strange in checked.out


def test_a_bookie_is_replaced_in_the_other_ledgers(url, undo_file):
    replacing = ("ledgers", "replace-bookie", BOOKIE, OTHER, "--yes", "--undo-file", undo_file)
    done = answer(*replacing, url=url)
    assert (done["changed"], [each["ledger_id"] for each in done["left"]]) == ([WHOLE], [UNREADABLE])
    assert "it may name gone:1" in done["left"][0]["reason"]


def test_the_plan_to_delete_a_cookie_counts_it_apart(url):
    planned = answer("bookies", "cookie", "delete", BOOKIE, "--dry-run", url=url)
    assert [warning.partition(";")[0] for warning in planned["warnings"]] == [
        "ledgers that name it: 1",
        "ledgers that may name it, and whose metadata cannot be read: 1",
    ]


def test_it_is_deleted_with_force_and_a_copy(url, undo_file):
    delete = ("ledgers", "delete", UNREADABLE, "--yes", "--undo-file", undo_file)
    assert mledger(*delete, url=url).code == 1
    done = answer(*delete, "--force", url=url)
    assert (done["record_bytes"], "format version is 9" in done["unreadable"]) == (len(DAMAGED), True)
    assert ledger_path(UNREADABLE) not in tree(url)
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_suffix(".redo"), url=url)
    assert tree(url)[ledger_path(UNREADABLE)][1] == DAMAGED


def test_it_is_deleted_with_force_although_its_topic_lists_it(url):
    record = encode_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(UNREADABLE), LedgerInfo(UNREADABLE + 1))))

    async def list_it():
        async with await open_store(url) as store:
            await store.create(managed_ledger_path("public/default/persistent/listing"), record, parents=True)

    run(list_it())
    ok("ledgers", "delete", UNREADABLE, "--yes", "--force", url=url)
    assert ledger_path(UNREADABLE) not in tree(url)
