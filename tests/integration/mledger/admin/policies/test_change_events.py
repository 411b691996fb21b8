"""Every policy event that a topic holds is read, however its ledgers ended (M10)."""

from mledger.admin.policies.change_events import ChangeEvents
from mledger.admin.policies.policy_events import PolicyScope
from mledger.bookie.client import BookKeeper
from mledger.metastore.cluster.bookies import register
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.memory.store import MemoryStore
from mledger.metastore.records.codec import encode_managed_ledger_info
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving
from tests.support.recordings.policies import EVENTS, applied_retention, put_schema

NAMESPACE = "public/kept"
TOPIC = TopicName("public", "kept", "__change_events")


def test_the_last_event_of_a_ledger_that_its_owner_left_open_holds_on(tmp_path):
    async def main():
        async with MemoryStore() as store, serving(tmp_path / "bookie") as local:
            await initialize(store)
            await register(store, "bookie", *local.address)
            bookkeeper = BookKeeper(store)
            await put_schema(store, bookkeeper, NAMESPACE)
            left_open, current = [await bookkeeper.create_ledger(1, 1, 1, password=b"") for _ in range(2)]
            for event in EVENTS:
                await left_open.append([event])
            listed = (LedgerInfo(left_open.ledger_id, len(EVENTS), 1, 1), LedgerInfo(current.ledger_id))
            record = encode_managed_ledger_info(ManagedLedgerInfo(listed))
            await store.create(TOPIC.managed_ledger_path, record, parents=True)
            events = ChangeEvents(store, bookkeeper, TOPIC)
            tables = [await events.read() for _ in range(2)]
            await bookkeeper.close()
            return tables

    kept = TopicName("public", "kept", "after-compaction")
    for table in run(main()):
        assert table.of(kept, PolicyScope.LOCAL).retention == applied_retention("after-compaction")
