"""The groups of bookies for a topic, by its namespace and by `strictBookieAffinityEnabled`."""

import pytest

from mledger.admin.policies.bookie_affinity import read_affinity
from mledger.metastore.memory.store import MemoryStore
from mledger.metastore.records.bookie_affinity import ANY_BOOKIES, UNGROUPED, BookieAffinityGroup
from tests.support.aio import run

NAMED = b'{"bookieAffinityGroup":{"bookkeeperAffinityGroupPrimary":"g"}}'
NO_TOPIC = "not-a-topic"


@pytest.mark.parametrize(
    ("managed_ledger", "data", "strict", "found"),
    [
        ("t/n/persistent/x", NAMED, False, BookieAffinityGroup("g")),
        ("t/n/persistent/__change_events", NAMED, True, BookieAffinityGroup("g")),
        ("t/n/persistent/x", b"{}", False, None),
        ("t/n/persistent/x", b"{", False, None),  # unreadable policies keep no topic closed
        ("t/n/persistent/x", None, False, None),
        ("t/n/persistent/x", None, True, UNGROUPED),
        ("t/n/persistent/__change_events-partition-0", None, True, ANY_BOOKIES),
        ("pulsar/system/persistent/x", None, True, ANY_BOOKIES),
        (NO_TOPIC, NAMED, True, None),
    ],
)
def test_the_groups_for_new_ledgers(managed_ledger, data, strict, found):
    async def main():
        store = MemoryStore()
        if data is not None:
            await store.create("/admin/local-policies/t/n", data, parents=True)
        assert await read_affinity(store, managed_ledger, strict=strict) == found

    run(main())
