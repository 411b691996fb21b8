"""A bucket is encoded a segment at a time, so that the loop serves others meanwhile (D3)."""

import asyncio

from mledger.broker.dispatch.waiting.delayed_bucket import DelayedEntry
from mledger.broker.topics.delayed.bucket_format import decode_segment, decode_summaries
from mledger.broker.topics.delayed.bucket_store import encode_in_turns
from tests.support.aio import run

SEGMENTS = [[DelayedEntry(1_000 * number + each, 7, 10 * number + each) for each in range(10)] for number in range(5)]


def test_others_have_a_turn_after_each_segment():
    async def main():
        loop, turns = asyncio.get_running_loop(), []

        def turn():
            turns.append(True)
            loop.call_soon(turn)

        loop.call_soon(turn)
        summaries, (first, *encoded) = await encode_in_turns(SEGMENTS)
        assert len(turns) >= len(SEGMENTS)
        assert decode_summaries(first, "entry 0") == summaries
        assert [decode_segment(each, "an entry") for each in encoded] == SEGMENTS

    run(main())
