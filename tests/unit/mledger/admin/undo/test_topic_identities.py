"""The identities of topics in a metadata store in memory."""

from mledger.admin.undo.topic_identities import MOST_LEDGERS, read_identities
from mledger.metastore.records.codec import encode_managed_ledger_info
from mledger.metastore.records.paths import managed_ledger_path
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo
from mledger.metastore.url import open_store
from tests.support.aio import run

ONE, TWO, NONE = (f"public/default/persistent/{name}" for name in ("one", "two", "none"))


def test_the_topics_of_commands_and_those_of_cursors_records_are_known_by_their_last_ledgers():
    async def main():
        async with await open_store("memory:topic-identities") as store:
            ids = [*range(MOST_LEDGERS + 5), -3]  # a damaged list may name any number
            many = ManagedLedgerInfo(tuple(LedgerInfo(at, 1, 1, 1) for at in ids))
            await store.create(managed_ledger_path(ONE), encode_managed_ledger_info(many), parents=True)
            await store.create(managed_ledger_path(TWO), b"\xff", parents=True)
            cursors = [f"{managed_ledger_path(name)}/cursor" for name in (ONE, TWO, NONE)]
            found = await read_identities(store, [ONE], cursors)
            assert [(each.path, each.ledgers) for each in found] == [
                (managed_ledger_path(ONE), tuple(range(5, MOST_LEDGERS + 5))),
                (managed_ledger_path(TWO), ()),
            ]
            times = [(await store.get(each.path)).stat.created_ms for each in found]
            assert [each.created_ms for each in found] == times

    run(main())
