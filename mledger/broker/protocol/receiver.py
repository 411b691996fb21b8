"""A connection's bytes, taken apart into requests.

Frames follow each other: a 4-byte size of what follows, a 4-byte size of the command, the command (BaseCommand) and,
of a SEND, the entry. A buffer is taken apart as a whole, and what comes by the thousand (SEND, ACK, FLOW) is read
without protobuf as long as its fields stand in the order in which clients write them. Anything else goes through
protobuf, with the same result.

SENDs of one producer make one request, and so do individual ACKs of one consumer. They may pass each other, but no
other command passes them or is passed by them.
"""

from collections.abc import Mapping, Sequence
from struct import Struct
from types import MappingProxyType

from mledger.broker.protocol.commands import Command, decode_command
from mledger.broker.protocol.errors import ProtocolError
from mledger.broker.protocol.following_sends import PRODUCER_AT, following_sends, is_corrupt
from mledger.broker.protocol.requests import (
    LONG_ACK,
    NO_SEQUENCE,
    AckRun,
    CorruptSend,
    CumulativeAck,
    Flow,
    LongAck,
    Received,
    Request,
    SendRun,
    position_of,
)
from mledger.broker.protocol.varints import read_varint, signed
from mledger.metastore.records.position import Position
from mledger.pb.PulsarApi_pb2 import CommandAck, CommandFlow, CommandSend

MAX_MESSAGE_SIZE = 5 * 1024 * 1024
FRAME_PADDING = 10 * 1024
"""What a frame may have beyond maxMessageSize, as in Java."""
LARGEST_CONNECT = 64 * 1024
"""Of a frame of a client that is not connected, in bytes: it has room for any token, and none for messages."""

_SIZE = Struct(">I")
_HEAD = Struct(">III")  # size, the command's size, its first 4 bytes
# The first 3 bytes of a command: its type, and the tag of the field that holds it. The field's length is the 4th.
_SEND = 0x080632
_ACK = 0x080A52
_FLOW = 0x080B5A
_MOST_INT = (1 << 31) - 1

_NONE: Mapping[str, int] = MappingProxyType({})

_position = tuple.__new__  # half the time of Position(…)


class Receiver:
    """Takes one connection's bytes. Keeps less than one frame and one read of the connection."""

    __slots__ = ("_acks", "_most", "_most_connected", "_needed", "_requests", "_rest", "_sends", "error")

    def __init__(self, max_message_size: int = MAX_MESSAGE_SIZE) -> None:
        self.error: ProtocolError | None = None
        self._most = self._most_connected = max_message_size + FRAME_PADDING - _SIZE.size
        self._rest = bytearray()
        self._needed = _SIZE.size
        self._requests: list[Request] = []
        self._sends: dict[int, SendRun] = {}
        self._acks: dict[int, AckRun] = {}

    def expect_connect(self) -> None:
        """Take no frames that are larger than a CONNECT until the client is connected."""
        self._most = LARGEST_CONNECT

    def connected(self) -> None:
        """Take messages: the client is known."""
        self._most = self._most_connected

    def receive(self, data: bytes) -> Received:
        """The requests that `data` completes. After an error nothing more is taken."""
        if self.error is not None:
            return Received([], self.error)
        rest = self._rest
        if rest:
            if len(rest) + len(data) < self._needed:
                rest += data
                return Received([])
            data = b"".join((rest, data))
            rest.clear()
        try:
            rest += data[self._take(data) :]
        except ProtocolError as error:
            self.error = error
        requests = self._requests
        self._requests = []
        self._end_runs()
        return Received(requests, self.error)

    def _end_runs(self) -> None:
        self._sends.clear()
        self._acks.clear()

    def _take(self, data: bytes) -> int:
        """Take the whole frames in `data`; returns where they end."""
        at, end = 0, len(data)
        unpack, most = _HEAD.unpack_from, self._most
        while end - at >= 12:
            size, length, head = unpack(data, at)
            stop = at + 4 + size
            if stop > end or size > most:
                break
            command_end = at + 8 + length
            taken = False
            if length == (head & 0xFF) + 4 and command_end <= stop:
                kind = head >> 8
                try:
                    if kind == _SEND:
                        taken = self._send(data, at + 12, command_end, stop)
                        if taken:
                            stop = self._sends_alike(data, at, command_end, stop)
                    elif kind == _ACK:
                        taken = self._ack(data, at + 12, command_end)
                    elif kind == _FLOW:
                        taken = self._flow(data, at + 12, command_end)
                except IndexError:  # the last field of the last command is cut off: protobuf says so
                    taken = False
            if not taken:
                self._take_any(data, at + 8, command_end, stop)
            at = stop
        return self._take_last(data, at, end)

    def _take_last(self, data: bytes, at: int, end: int) -> int:
        """Take the frames that are too short to be taken fast; returns where the whole ones end."""
        while end - at >= _SIZE.size:
            size: int = _SIZE.unpack_from(data, at)[0]
            if not _SIZE.size <= size <= self._most:
                raise ProtocolError(f"a frame of {size} bytes: {_SIZE.size} to {self._most} are allowed")
            stop = at + 4 + size
            if stop > end:
                self._needed = 4 + size
                return at
            self._take_any(data, at + 8, at + 8 + _SIZE.unpack_from(data, at + 4)[0], stop)
            at = stop
        self._needed = _SIZE.size
        return at

    # Each of these takes a command whose fields from `at` to `end` stand in the usual order; returns whether they do.

    def _flow(self, data: bytes, at: int, end: int) -> bool:
        """08 consumer, 10 permits."""
        if data[at] != 0x08:
            return False
        consumer, at = read_varint(data, at + 1)
        if data[at] != 0x10:
            return False
        permits, at = read_varint(data, at + 1)
        if at != end or permits >> 32:
            return False
        self._end_runs()
        self._requests.append(Flow(consumer, permits))
        return True

    def _send(self, data: bytes, at: int, end: int, stop: int) -> bool:
        """08 producer, 10 sequence id, 18 messages, 30 highest sequence id."""
        if data[at] != 0x08:
            return False
        producer = data[at + 1]
        at += 2
        if producer > 0x7F:
            producer, at = read_varint(data, at - 1)
        if data[at] != 0x10:
            return False
        sequence, at = read_varint(data, at + 1)
        messages, highest = 1, NO_SEQUENCE
        if at != end:
            if data[at] == 0x18:
                messages, at = read_varint(data, at + 1)
            if at < end and data[at] == 0x30:
                highest, at = read_varint(data, at + 1)
            if at != end or not 0 < messages <= _MOST_INT or highest >> 63 == 1:
                return False
        if sequence >> 63:
            return False
        self._add_send(producer, sequence, highest, messages, data[end:stop])
        return True

    def _sends_alike(self, data: bytes, at: int, command_end: int, stop: int) -> int:
        """Take the SENDs that go on with the one at `at`, which ends at `stop`; returns where they end."""
        producer = data[at + PRODUCER_AT]
        run = self._sends.get(producer)
        if producer > 0x7F or run is None or run.highest_ids[-1] != NO_SEQUENCE:
            return stop
        entries, stop = following_sends(data, at, command_end, stop, self._most)
        count, last = len(entries), run.sequence_ids[-1]
        run.entries += entries
        run.sequence_ids += range(last + 1, last + 1 + count)
        run.highest_ids += [NO_SEQUENCE] * count
        run.messages += [run.messages[-1]] * count
        return stop

    def _add_send(self, producer: int, sequence: int, highest: int, messages: int, entry: bytes) -> SendRun | None:
        """Add a SEND to its run; returns the run, or None if the entry does not have its checksum."""
        if is_corrupt(entry):
            self._sends.pop(producer, None)
            self._requests.append(CorruptSend(producer, sequence))
            return None
        run = self._sends.get(producer)
        if run is None:
            run = self._sends[producer] = SendRun(producer)
            self._requests.append(run)
        run.entries.append(entry)
        run.sequence_ids.append(sequence)
        run.highest_ids.append(highest)
        run.messages.append(messages)
        return run

    def _ack(self, data: bytes, at: int, end: int) -> bool:
        """08 consumer, 10 type, 1a id (08 ledger, 10 entry, 28 each word of the ack set), 40 request id."""
        if data[at] != 0x08:
            return False
        consumer, at = read_varint(data, at + 1)
        kind, id_end = data[at + 1], at + 4 + data[at + 3]
        if data[at] != 0x10 or kind > 1 or data[at + 2] != 0x1A or data[at + 3] > 0x7F or data[at + 4] != 0x08:
            return False
        ledger, at = read_varint(data, at + 5)
        if data[at] != 0x10:
            return False
        entry, at = read_varint(data, at + 1)
        if at == id_end == end and kind == CommandAck.Individual and not (ledger | entry) >> 63:
            run = self._acks.get(consumer)
            if run is not None:  # by far the most
                run.positions.append(_position(Position, (ledger, entry)))
                return True
        words: list[int] = []
        while at < id_end and data[at] == 0x28:
            word, at = read_varint(data, at + 1)
            words.append(signed(word))
        if at != id_end or ledger >> 63 or entry >> 63:
            return False
        request_id = None
        if at < end and data[at] == 0x40:
            request_id, at = read_varint(data, at + 1)
        if at != end:
            return False
        self._add_ack(kind, consumer, [(Position(ledger, entry), words)], request_id)
        return True

    def _add_ack(
        self,
        kind: int,
        consumer: int,
        ids: Sequence[tuple[Position, Sequence[int]]],
        request_id: int | None,
        properties: Mapping[str, int] = _NONE,
    ) -> None:
        if kind == CommandAck.Cumulative:
            self._acks.pop(consumer, None)
            position, words = ids[0]
            self._requests.append(CumulativeAck(consumer, position, tuple(words), request_id, properties))
            return
        run = self._acks.get(consumer)
        if run is None:
            run = self._acks[consumer] = AckRun(consumer)
            self._requests.append(run)
        for position, words in ids:
            run.add(position, words)
        if request_id is not None:
            run.request_ids.append(request_id)

    def _take_any(self, data: bytes, start: int, end: int, stop: int) -> None:
        """Take a command of any form by protobuf."""
        if end > stop:
            raise ProtocolError(f"a command of {end - start} bytes in a frame that has room for {stop - start}")
        command = decode_command(data[start:end])
        body = command.body
        if command.excess and isinstance(body, CommandSend | CommandAck):
            raise ProtocolError(command.excess)
        if isinstance(body, CommandSend):
            self._any_send(body, data[end:stop])
        elif isinstance(body, CommandAck):
            self._any_ack(command, body)
        else:
            self._end_runs()
            self._requests.append(
                Flow(body.consumer_id, body.messagePermits) if isinstance(body, CommandFlow) else command
            )

    def _any_send(self, send: CommandSend, entry: bytes) -> None:
        if send.num_messages < 1:
            raise ProtocolError(f"a SEND of {send.num_messages} messages")
        highest = signed(send.highest_sequence_id) if send.HasField("highest_sequence_id") else NO_SEQUENCE
        run = self._add_send(send.producer_id, signed(send.sequence_id), highest, send.num_messages, entry)
        if run is not None and any(field.number > 3 and field.number != 6 for field, _ in send.ListFields()):
            run.unusual[len(run) - 1] = send

    def _any_ack(self, command: Command, ack: CommandAck) -> None:
        """An ACK of a transaction stays a command."""
        if ack.ack_type == CommandAck.Cumulative and len(ack.message_id) != 1:
            raise ProtocolError(f"a cumulative ACK of {len(ack.message_id)} ids: it has one")
        if ack.HasField("txnid_least_bits") or ack.HasField("txnid_most_bits"):
            self._end_runs()
            self._requests.append(command)
            return
        request_id = ack.request_id if ack.HasField("request_id") else None
        if len(ack.message_id) > LONG_ACK:
            self._acks.pop(ack.consumer_id, None)
            self._requests.append(LongAck(ack.consumer_id, ack.message_id, request_id))
            return
        ids = [(position_of(one), one.ack_set) for one in ack.message_id]
        properties = {pair.key: signed(pair.value) for pair in ack.properties}
        self._add_ack(ack.ack_type, ack.consumer_id, ids, request_id, properties)
