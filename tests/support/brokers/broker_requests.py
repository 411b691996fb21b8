"""SENDs, requests that a broker's receiver gives, as values that compare, and a receiver that reads all by protobuf."""

from mledger.broker.protocol.receiver import Receiver
from mledger.broker.protocol.requests import AckRun, SendRun
from mledger.pb import PulsarApi_pb2 as pb


def send_frame(command, entry):
    """The frame of a SEND."""
    data = command.SerializeToString()
    return (len(data) + 4 + len(entry)).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data + entry


def send(producer=1, sequence=0, entry=b"entry", **fields):
    """A SEND as clients write it."""
    body = pb.CommandSend(producer_id=producer, sequence_id=sequence, **fields)
    return send_frame(pb.BaseCommand(type=pb.BaseCommand.SEND, send=body), entry)


class ReceiverByProtobuf(Receiver):
    """Reads every command with protobuf."""

    def _send(self, *_):
        return False

    _ack = _flow = _send


def meaning(requests):
    """Requests as values."""
    found = []
    for request in requests:
        if isinstance(request, SendRun):
            unusual = {at: one.SerializeToString() for at, one in request.unusual.items()}
            columns = (request.entries, request.sequence_ids, request.highest_ids, request.messages)
            found.append((request.producer_id, columns, unusual))
        elif isinstance(request, AckRun):
            found.append((request.consumer_id, request.positions, request.partial, request.request_ids))
        else:
            found.append(request)
    return found


def outcome(receiver, data):
    """What `receiver` makes of `data`: requests, and whether the connection ends."""
    requests, error = receiver.receive(data)
    return meaning(requests), error is not None
