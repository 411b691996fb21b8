"""Entries reach the loop in the order and as soon as they arrive, in batches of bounded count and size."""

import asyncio
import io
import os

import pytest

from mledger.cli.topics.messages.arrivals import BATCH_BYTES, BATCH_ENTRIES, MOST_AHEAD, Arrivals, arriving_lines
from mledger.messages.pulsar_producer import PublishedEntry
from mledger.metastore.errors import InvalidSetting


def entries(payloads):
    return (PublishedEntry(payload, 1) for payload in payloads)


def arrived(payloads):
    async def collect():
        return [batch async for batch in Arrivals(entries(payloads)).batches()]

    return asyncio.run(collect())


def test_no_entries_make_no_batch() -> None:
    assert arrived([]) == []


def test_batches_are_bounded_in_entries_and_keep_the_order() -> None:
    payloads = [b"%d" % number for number in range(3 * MOST_AHEAD)]
    batches = arrived(payloads)
    assert max(map(len, batches)) <= BATCH_ENTRIES
    assert [entry.payload for batch in batches for entry in batch] == payloads


def test_batches_are_bounded_in_bytes() -> None:
    assert {len(batch) for batch in arrived([bytes(BATCH_BYTES)] * 3)} == {1}


def test_an_error_is_raised_behind_the_entries_before_it() -> None:
    def damaged():
        yield PublishedEntry(b"a", 1)
        raise InvalidSetting("line 2 has no key")

    async def collect():
        batches = Arrivals(damaged()).batches()
        assert await anext(batches) == [PublishedEntry(b"a", 1)]
        with pytest.raises(InvalidSetting, match="line 2"):
            await anext(batches)

    asyncio.run(collect())


def test_a_line_arrives_while_the_stream_stays_open() -> None:
    reading, writing = os.pipe()

    async def collect():
        batches = Arrivals(entries(arriving_lines(stream))).batches()
        os.write(writing, b"a\nhalf a ")
        assert await anext(batches) == [PublishedEntry(b"a", 1)]
        os.write(writing, b"line\n\nlast")
        os.close(writing)
        return [entry.payload async for batch in batches for entry in batch]

    with open(reading, "rb") as stream:
        assert asyncio.run(collect()) == [b"half a line", b"", b"last"]


def test_a_stream_in_memory_has_lines_too() -> None:
    assert list(arriving_lines(io.BytesIO(b"a\nb"))) == [b"a", b"b"]
