"""Consumers of a subscription whose cursor another owner has taken over meanwhile."""

import pytest

from mledger.errors import ManagedLedgerFenced
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import served


@pytest.mark.parametrize("kind", ["Individual", "Cumulative"])
@pytest.mark.parametrize("ack_set", [(), (0b10,)], ids=["whole", "part"])
def test_an_acknowledgement_that_the_cursor_does_not_take_is_refused_and_the_connection_goes_on(
    broker_url, topic, kind, ack_set
):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            (sent,) = await client.publish_all(b"0")
            await client.subscribe(topic=topic)
            (managed_ledger,) = broker.cluster.opened.values()
            managed_ledger.open_cursors["sub"].fence(ManagedLedgerFenced("made to fail by the test"))
            acked = pb.MessageIdData(ledgerId=sent.ledger_id, entryId=sent.entry_id, ack_set=ack_set)
            request_id = client.next_request()
            client.send(
                pb.BaseCommand.ACK, "ack", consumer_id=0, ack_type=kind, message_id=[acked], request_id=request_id
            )
            answer = await client.expect("ackResponse")
            assert (answer.request_id, answer.error) == (request_id, pb.ServiceNotReady)
            await client.publish_all(b"1")

    run(main())
