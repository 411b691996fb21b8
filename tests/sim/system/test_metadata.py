"""A simulated metadata server answers in the order of the leader's writes, as a server of ZooKeeper does."""

import pytest

from mledger.metastore.errors import BadVersion
from mledger.metastore.store import Check, Create, Put
from tests.sim.system.loop import SimLoop
from tests.sim.system.metadata import SimEnsemble


@pytest.mark.parametrize("seed", range(8))
def test_a_read_after_a_refused_write_sees_the_write_it_was_refused_for(seed):
    """Which of the sessions is with a server that lags, the seed decides."""
    loop = SimLoop(str(seed))
    ensemble = SimEnsemble(loop)
    seen = []

    async def write_and_read():
        first, second = [await ensemble.open(process, 10.0) for _ in range(2)]
        await first.multi([Create("/node", b"")])
        for server in ensemble.servers:
            server.lag_s = 0.5
        await first.multi([Put("/node", b"changed", 0)])
        with pytest.raises(BadVersion):
            await second.multi([Check("/node", 0)])
        seen.append((await second.get("/node")).version)

    process = loop.process("owner")
    loop.start(process, write_and_read)
    loop.run_until(lambda: bool(seen), 10.0)
    assert loop.errors == []
    assert seen == [1]
