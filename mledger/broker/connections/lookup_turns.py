"""How many lookups are answered at once: those of a connection some at a time, and of all no more than may wait."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.refusals import BrokerRefusal
from mledger.pb import PulsarApi_pb2 as pb

AT_ONCE = 50
"""Of one connection: with all that a client can send at once each would take as long as all together."""


class LookupTurns:
    """The lookups of one connection; messages and acknowledgements of the connection do not wait for them."""

    def __init__(self, broker: ServedBroker) -> None:
        self._broker = broker
        self._turns = asyncio.Semaphore(AT_ONCE)

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn and have it. BrokerRefusal, on which clients try again later, if too many wait."""
        broker, most = self._broker, self._broker.settings.lookups_at_once
        if broker.pending_lookups >= most > 0:
            raise BrokerRefusal(
                pb.TooManyRequests,
                f"{broker.pending_lookups} lookups are being answered, the most that maxConcurrentLookupRequest allows",
            )
        broker.pending_lookups += 1
        try:
            async with self._turns:
                yield
        finally:
            broker.pending_lookups -= 1
