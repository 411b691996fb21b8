"""The counters of ledger ids near their ends, and deletions without an answer.

Tests write the last numbers of the counters, because they cannot count up to them.
"""

import pytest

from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import RecordError, StoreUnavailable
from mledger.metastore.memory.store import MemoryStore
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment
from tests.support.aio import run

METADATA = LedgerMetadata(1, 1, 1, (Segment(0, ("127.0.0.1:3181",)),))


class CountedRequests(MemoryStore):
    """A store that counts the requests that write."""

    requests = 0

    async def create(self, *arguments, **options):
        self.requests += 1
        return await super().create(*arguments, **options)

    async def multi(self, operations):
        self.requests += 1
        return await super().multi(operations)


class CountedUp(MemoryStore):
    """A store whose counters in some directories return a chosen number."""

    def __init__(self, numbers):
        super().__init__()
        self.numbers = numbers

    async def create(self, path, data=b"", *, ephemeral=False, sequential=False, parents=False):
        directory = path.rpartition("/")[0]
        if sequential and directory in self.numbers:
            path, sequential = f"{path}{self.numbers[directory]}", False
        return await super().create(path, data, ephemeral=ephemeral, sequential=sequential, parents=parents)


def drawn(numbers, *high):
    async def main():
        async with CountedUp(numbers) as store:
            for name in high:
                await store.create(f"/ledgers/idgen-long/{name}", parents=True)
            ledgers = LedgerStore(store)
            ids = [await ledgers.next_id() for _ in range(2)]
            return ids, await store.children("/ledgers/idgen-long") if high or len(numbers) else []

    return run(main())


@pytest.mark.parametrize("number", ["2147483647", "-2147483648", "-2147483647"])
def test_after_31_bits_the_long_counter_begins(number):
    ids, directories = drawn({"/ledgers/idgen": number})
    assert ids == [1 << 32, (1 << 32) + 1]
    assert directories == ["HOB-0000000001"]


@pytest.mark.parametrize("number", ["2147483647", "-2147483648"])
def test_a_full_directory_of_the_long_counter_is_followed_by_the_next(number):
    ids, directories = drawn({"/ledgers/idgen-long/HOB-0000000001": number}, "HOB-0000000001")
    assert ids == [2 << 32, (2 << 32) + 1]
    assert directories == ["HOB-0000000001", "HOB-0000000002"]


def test_used_up_ids_are_an_error():
    with pytest.raises(RecordError, match="used up"):
        drawn({"/ledgers/idgen-long/HOB-2147483647": "2147483647"}, "HOB-2147483647")


class Unanswered(MemoryStore):
    """A store that deletes nothing and does not answer, on a server that has heard of no node before a sync."""

    def __init__(self):
        super().__init__()
        self.synced = False

    async def delete(self, path, version=-1):
        raise StoreUnavailable("the connection was lost", path)

    async def sync(self):
        self.synced = True

    async def exists(self, path):
        return await super().exists(path) if self.synced else None


def test_a_ledger_that_a_lagging_server_does_not_know_is_not_taken_for_deleted():
    async def main():
        async with Unanswered() as store:
            ledgers = LedgerStore(store)
            await ledgers.create(7, METADATA)
            with pytest.raises(StoreUnavailable):
                await ledgers.delete(7)

    run(main())


def test_a_counter_that_is_behind_is_moved_on_by_few_requests():
    async def main():
        async with CountedRequests() as store:
            drawn = await LedgerStore(store).next_id_above(5000)
            return drawn, store.requests, await LedgerStore(store).next_id()

    drawn, requests, following = run(main())
    assert (drawn, following) == (5001, 5002)
    assert requests < 100


@pytest.mark.parametrize("above", [200_000, (1 << 31) - 2, 1 << 40])
def test_a_counter_that_is_far_behind_stays(above):
    async def main():
        async with MemoryStore() as store:
            return await LedgerStore(store).next_id_above(above), await LedgerStore(store).next_id()

    assert run(main()) == (None, 1)
