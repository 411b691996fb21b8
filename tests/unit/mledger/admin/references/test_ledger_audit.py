"""Which ledgers an audit takes for orphans."""

import itertools

import pytest

from mledger.admin.references.ledger_audit import APART, LedgerAuditor
from mledger.admin.references.unlisted_ledgers import LOST_FROM_LIST, TOPIC_IS_GONE
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.metastore.memory import tree
from mledger.metastore.records.codec import encode_managed_ledger_info
from mledger.metastore.records.ledger_codec import encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import kept_path, ledger_path, managed_ledger_path
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo
from mledger.metastore.url import open_store
from tests.support.aio import run

NAME = "public/default/persistent/topic"
NAMED, UNNAMED, TRIMMED = 5, 6, 4
_numbers = itertools.count()


def metadata(managed_ledger, entries):
    custom = (("component", b"managed-ledger"), ("pulsar/managed-ledger", managed_ledger.encode()))
    closed = {"state": LedgerState.CLOSED, "last_entry": entries - 1, "length": 10 * entries}
    return encode_ledger_metadata(
        LedgerMetadata(1, 1, 1, (Segment(0, ("bookie:1",)),), custom_metadata=custom, **closed)
    )


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A clock of the metadata store by which no two nodes are created at once."""
    monkeypatch.setattr(tree, "_now_ms", itertools.count(1).__next__)


def audited(url, entries=0, unnamed=UNNAMED, of=NAME, kept=(), anew=False):
    """The audit of a cluster whose topic names one of two ledgers; both have so many entries.

    `anew`: the topic's record was created after the ledger that it does not name.
    """

    async def main():
        async with await open_store(url) as store:
            nodes = [
                (managed_ledger_path(NAME), encode_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(NAMED),)))),
                (ledger_path(unnamed), metadata(of, entries)),
            ]
            for path, data in [*(reversed(nodes) if anew else nodes), (ledger_path(NAMED), metadata(NAME, entries))]:
                await store.create(path, data, parents=True)
            for ledger_id in kept:
                await store.create(kept_path(ledger_id), NAME.encode(), parents=True)
            bookkeeper = BookKeeperReader(store)
            found = await LedgerAuditor(store, bookkeeper).audit(1 << 50)
            await bookkeeper.close()
            return found

    return run(main())


def test_a_ledger_that_nothing_names_is_an_orphan():
    found = audited("memory:")
    assert [each.ledger_id for each in found.orphans] == [UNNAMED]
    assert found.undecided == found.unlisted == ()


def test_one_with_entries_that_the_topics_list_must_have_lost_is_no_orphan():
    found = audited("memory:", entries=3)
    assert [(each.origin.ledger_id, each.reason) for each in found.unlisted] == [(UNNAMED, LOST_FROM_LIST)]
    assert found.orphans == ()


@pytest.mark.parametrize(("entries", "unlisted"), [(3, True), (0, False)])
def test_one_that_is_kept_was_not_trimmed(entries, unlisted):
    found = audited("memory:", entries=entries, unnamed=TRIMMED, kept=(TRIMMED, NAMED))
    names = [each.origin.ledger_id for each in found.unlisted], [each.ledger_id for each in found.orphans]
    assert names == (([TRIMMED], []) if unlisted else ([], [TRIMMED]))


def test_one_with_entries_whose_topic_does_not_exist_is_no_orphan():
    found = audited("memory:", entries=3, of="public/default/persistent/gone")
    assert [(each.origin.ledger_id, each.reason) for each in found.unlisted] == [(UNNAMED, TOPIC_IS_GONE)]
    assert found.orphans == ()


def test_one_with_entries_below_the_first_of_the_list_was_trimmed():
    found = audited("memory:", entries=3, unnamed=TRIMMED)
    assert ([each.ledger_id for each in found.orphans], found.unlisted) == ([TRIMMED], ())


@pytest.mark.parametrize(("entries", "unlisted"), [(3, True), (0, False)])
def test_one_that_is_older_than_the_record_of_a_topic_that_was_created_anew_was_not_trimmed(entries, unlisted):
    found = audited("memory:", entries=entries, unnamed=TRIMMED, anew=True)
    names = [each.origin.ledger_id for each in found.unlisted], [each.ledger_id for each in found.orphans]
    assert names == (([TRIMMED], []) if unlisted else ([], [TRIMMED]))


@pytest.mark.parametrize("ledgers", ["memory:ledgers-{}", "memory:topics-{}"])
def test_where_ledgers_have_a_store_of_their_own_it_may_be_another_clusters(ledgers):
    number = f"audit-{next(_numbers)}"
    found = audited(f"memory:topics-{number}?ledgers={ledgers.format(number)}")
    assert found.orphans == ()
    assert [(each.origin.ledger_id, each.reason) for each in found.undecided] == [(UNNAMED, APART)]
