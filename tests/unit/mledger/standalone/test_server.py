"""The parts of a standalone, and their ends."""

import asyncio
import gc

import pytest

from mledger.metastore.runtime.network.listening_port import PortUnavailable
from mledger.standalone.server import _Part, _stop_in_turn
from tests.support.aio import run


class PortlessProcess:
    """A process whose port is taken."""

    async def serve(self, *_):
        raise PortUnavailable("its port is in use")


def test_of_parts_that_cannot_start_the_first_is_named_and_no_other_is_left_for_the_loop_to_report():
    async def main():
        reported = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        parts = [_Part(name, PortlessProcess()) for name in ("bookie-1", "bookie-2")]
        with pytest.raises(PortUnavailable):
            await parts[0].wait_served()
        await asyncio.wait([part.task for part in parts])
        await _stop_in_turn(parts)
        del parts
        gc.collect()
        assert not reported

    run(main())
