"""A bookie process over real sockets: what it answers."""

from bookie import wire
from bookie.digest import master_key
from tests.support.aio import run
from tests.support.raw_bookie import RawClient, entry

KEY = master_key(b"")


def test_entry_added_is_read_back(bookies):
    (bookie,) = bookies.start(1)

    async def main():
        async with RawClient(bookie) as client:
            added = await client.ask(wire.encode_add(KEY, entry(1, 0, b"payload")))
            read = await client.ask(wire.encode_read(1, 0))
            return added, read

    added, read = run(main())
    assert (added.error, added.ledger, added.entry) == (0, 1, 0)
    assert read.body == entry(1, 0, b"payload")
