"""The receiver: what clients send, whole, in pieces and hostile; its fast forms mean what protobuf's parser says."""

import itertools

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.protocol.answers import frame
from mledger.broker.protocol.commands import MOST_WITH_TEXT, Command
from mledger.broker.protocol.errors import ProtocolError
from mledger.broker.protocol.receiver import FRAME_PADDING, LARGEST_CONNECT, Receiver
from mledger.broker.protocol.requests import LONG_ACK, NO_SEQUENCE, CorruptSend, CumulativeAck, Flow, LongAck
from mledger.metastore.records.position import Position
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.brokers.broker_requests import ReceiverByProtobuf, meaning, outcome, send
from tests.support.recordings import golden

BASE = pb.BaseCommand
FRAMES = [one for file in golden.files("pulsar-frames/frames-*.json") for one in golden.load(file)["frames"]]
BY_NAME = {one["name"]: bytes.fromhex(one["hex"]) for one in FRAMES}
WORD = 2**64 - 1

numbers = st.one_of(st.integers(0, 300), st.integers(0, 2**40), st.integers(0, 2**64 - 1))
entries = st.binary(max_size=40).filter(lambda data: not data.startswith(b"\x0e\x01"))


def received(data, **options):
    """The requests in `data`, which has no error."""
    requests, error = Receiver(**options).receive(data)
    assert error is None
    return requests


def ack(consumer=1, ids=((3, 4),), kind=pb.CommandAck.Individual, **fields):
    message_ids = [pb.MessageIdData(ledgerId=one[0], entryId=one[1], ack_set=one[2:]) for one in ids]
    body = pb.CommandAck(consumer_id=consumer, ack_type=kind, message_id=message_ids, **fields)
    return frame(BASE(type=BASE.ACK, ack=body))


def flow(consumer=1, permits=10):
    return frame(BASE(type=BASE.FLOW, flow=pb.CommandFlow(consumer_id=consumer, messagePermits=permits)))


def reordered(data):
    """The same frame with its command's fields of one level in another order: never read fast."""
    size, length = int.from_bytes(data[:4], "big"), int.from_bytes(data[4:8], "big")
    command = data[8 : 8 + length]
    return data[:8] + command[2:] + command[:2] + data[8 + length : 4 + size]


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_what_java_sends_is_one_request(name):
    (request,) = received(BY_NAME[name])
    kind = next(one["commandType"] for one in FRAMES if one["name"] == name)
    if kind not in ("SEND", "ACK", "FLOW"):
        assert isinstance(request, Command)
        assert request.name == kind
    if kind not in ("SEND", "ACK", "FLOW", "MESSAGE", "CONNECT"):  # Java orders the fields of CONNECT in its own way
        again = BASE(type=request.type)
        getattr(again, BASE.DESCRIPTOR.fields_by_number[request.type].name).CopyFrom(request.body)
        assert frame(again) == BY_NAME[name]


@pytest.mark.parametrize("one", [one for one in FRAMES if one["commandType"] == "SEND"], ids=lambda one: one["name"])
def test_java_s_sends_give_their_entry_and_ids(one):
    (run,) = received(bytes.fromhex(one["hex"]))
    meant = one["meaning"]
    assert run.producer_id == meant["producerId"]
    assert run.sequence_ids == [meant["sequenceId"]]
    assert run.messages == [meant["numMessages"]]
    assert run.highest_ids == [NO_SEQUENCE]
    assert run.entries == [bytes.fromhex(meant["headersAndPayload_hex"])]


@pytest.mark.parametrize("one", [one for one in FRAMES if one["commandType"] == "ACK"], ids=lambda one: one["name"])
def test_java_s_acks_of_every_form(one):
    (request,) = received(bytes.fromhex(one["hex"]))
    meant = {"consumerId": request.consumer_id, "messageIds": [[12, 34]], **one["meaning"]}
    first, *others = [Position(*each) for each in meant["messageIds"]]
    asked = meant.get("requestId")
    assert request.consumer_id == meant["consumerId"]
    if meant.get("ackType") == "Cumulative":
        assert request == CumulativeAck(request.consumer_id, first, (), asked, {})
        return
    assert request.positions == ([] if "ackSet" in meant else [first])
    words = meant.get("ackSet") or meant.get("ackSetOfSecond")
    assert request.partial == ([([first, *others][-1], tuple(words))] if words else [])
    assert request.request_ids == ([asked] if asked is not None else [])


def test_sends_of_a_buffer_make_a_run_for_each_producer():
    runs = received(send(1, 5) + send(2, 9, b"other") + send(1, 6, num_messages=3, highest_sequence_id=8))
    assert meaning(runs) == [
        (1, ([b"entry", b"entry"], [5, 6], [NO_SEQUENCE, 8], [1, 3]), {}),
        (2, ([b"other"], [9], [NO_SEQUENCE], [1]), {}),
    ]


def test_acks_of_a_buffer_make_a_run_for_each_consumer():
    runs = received(ack(1) + ack(2, [(3, 9)]) + ack(1, [(3, 5, 7)], request_id=4))
    assert meaning(runs) == [(1, [(3, 4)], [((3, 5), (7,))], [4]), (2, [(3, 9)], [], [])]


def test_no_command_passes_another_but_sends_and_acks():
    ping = BY_NAME["pong"]
    requests = received(send(1, 1) + ack(1) + send(1, 2) + ping + send(1, 3) + ack(1) + flow() + ack(1))
    kinds = [type(request).__name__ for request in requests]
    assert kinds == ["SendRun", "AckRun", "Command", "SendRun", "AckRun", "Flow", "AckRun"]
    assert requests[0].sequence_ids == [1, 2]


def test_a_cumulative_ack_stands_between_individual_ones():
    requests = received(ack(1) + ack(1, kind=pb.CommandAck.Cumulative) + ack(1))
    assert [type(request).__name__ for request in requests] == ["AckRun", "CumulativeAck", "AckRun"]


def test_an_ack_of_very_many_ids_is_taken_apart_in_slices_that_mean_the_same():
    ids = [(3, entry) if entry % 3 else (2**64 - 1, entry, 7) for entry in range(2 * LONG_ACK + 1)]
    before, long, after = received(ack(1) + ack(1, ids, request_id=8) + ack(1))
    assert isinstance(long, LongAck)
    first, *others = slices = list(long.slices())
    assert max(len(each.positions) + len(each.partial) for each in slices) == LONG_ACK
    for each in others:
        first.positions += each.positions
        first.partial += each.partial
        first.request_ids += each.request_ids
    assert others[-1].request_ids == [8]
    (short,) = received(b"".join(ack(1, ids[at : at + 100]) for at in range(0, len(ids), 100)) + ack(1, request_id=8))
    short.positions.pop()
    assert meaning([first]) == meaning([short])
    assert meaning([before]) == meaning([after]) == [(1, [(3, 4)], [], [])]


def test_a_command_says_if_it_has_more_texts_than_are_checked():
    pairs = [pb.KeyValue(key="k", value="v")] * (MOST_WITH_TEXT + 1)
    for body, most in (
        (pb.CommandSubscribe(metadata=pairs), "10,001 metadata"),
        (pb.CommandSubscribe(metadata=pairs[1:]), ""),
        (pb.CommandSubscribe(schema=pb.Schema(name="", schema_data=b"", type=0, properties=pairs)), "properties"),
    ):
        body.topic, body.subscription, body.subType, body.consumer_id, body.request_id = "t", "s", 0, 1, 2
        (command,) = received(frame(BASE(type=BASE.SUBSCRIBE, subscribe=body)))
        assert most in command.excess
        assert bool(command.excess) == bool(most)


def test_an_ack_with_more_properties_than_are_checked_ends_the_connection():
    properties = [pb.KeyLongValue(key="k", value=1)] * (MOST_WITH_TEXT + 1)
    assert "10,001 properties" in str(Receiver().receive(ack(1, properties=properties)).error)


def test_properties_of_a_cumulative_ack_are_kept():
    properties = [pb.KeyLongValue(key="at", value=2**64 - 1)]
    (cumulative,) = received(ack(1, kind=pb.CommandAck.Cumulative, properties=properties))
    assert cumulative.properties == {"at": -1}


@pytest.mark.parametrize("kind", [pb.CommandAck.Individual, pb.CommandAck.Cumulative])
def test_an_ack_of_a_transaction_stays_a_command(kind):
    (command,) = received(ack(1, kind=kind, txnid_least_bits=1, txnid_most_bits=2))
    assert command.name == "ACK"


def test_sends_that_say_more_are_kept_whole():
    (run,) = received(send(1, 1) + send(1, 2, is_chunk=True) + send(1, 3, marker=True, num_messages=2))
    assert run.sequence_ids == [1, 2, 3]
    assert run.messages == [1, 1, 2]
    assert sorted(run.unusual) == [1, 2]
    assert run.unusual[1].is_chunk


def test_an_entry_without_its_checksum_is_told_apart_and_ends_its_producer_s_run():
    body = b"\x00\x00\x00\x02body"
    right = b"\x0e\x01" + google_crc32c.value(body).to_bytes(4, "big") + body
    wrong = right[:-1] + b"?"
    requests = received(send(1, 1, right) + send(1, 2, wrong) + send(1, 3, right) + send(1, 4, b"\x0e\x01\x00\x00"))
    assert [type(one).__name__ for one in requests] == ["SendRun", "CorruptSend", "SendRun", "CorruptSend"]
    assert requests[1] == CorruptSend(1, 2)
    assert requests[2].sequence_ids == [3]


@given(
    producer=numbers,
    sequence=numbers,
    entry=entries,
    messages=st.one_of(st.none(), st.integers(1, 2**31 - 1)),
    highest=st.one_of(st.none(), numbers),
)
def test_a_send_means_what_protobuf_says(producer, sequence, entry, messages, highest):
    fields = {"num_messages": messages, "highest_sequence_id": highest}
    data = send(producer, sequence, entry, **{name: value for name, value in fields.items() if value is not None})
    assert meaning(received(data)) == meaning(received(reordered(data)))
    (run,) = received(data)
    assert (run.producer_id, run.sequence_ids[0] & WORD, run.entries) == (producer, sequence, [entry])
    assert run.messages == [messages or 1]
    assert run.highest_ids[0] & WORD == (WORD if highest is None else highest)


@given(
    consumer=numbers,
    ids=st.lists(st.tuples(numbers, numbers, st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)), max_size=3),
    request=st.one_of(st.none(), numbers),
)
def test_an_ack_means_what_protobuf_says(consumer, ids, request):
    data = ack(consumer, [(*one[:2], *one[2]) for one in ids], **({} if request is None else {"request_id": request}))
    assert meaning(received(data)) == meaning(received(reordered(data)))
    (run,) = received(data)
    assert len(run.positions) + len(run.partial) == len(ids)
    assert run.request_ids == [] if request is None else [request]


@given(consumer=numbers, permits=st.integers(0, 2**32 - 1))
def test_a_flow_means_what_protobuf_says(consumer, permits):
    data = flow(consumer, permits)
    assert received(data) == received(reordered(data)) == [Flow(consumer, permits)]


@given(
    st.sampled_from(
        ["send-crc32c", "send-none", "send-batch-lz4", "flow", *(n for n in BY_NAME if n.startswith("ack-"))]
    ),
    st.dictionaries(st.integers(0, 40), st.integers(0, 255), max_size=3),
    st.binary(max_size=3),
    st.integers(0, 12),
)
def test_a_damaged_command_is_taken_or_refused_as_by_protobuf(name, changes, more, cut):
    """Bytes are changed, cut off and added in a command whose sizes stay right."""
    data = BY_NAME[name]
    length = int.from_bytes(data[4:8], "big")
    command, entry = bytearray(data[8 : 8 + length]), data[8 + length :]
    for at, byte in changes.items():
        command[at % length] = byte
    command = bytes(command[: length - cut % length]) + more
    damaged = (len(command) + 4 + len(entry)).to_bytes(4, "big") + len(command).to_bytes(4, "big") + command + entry
    whole = BY_NAME["ack-individual"] + damaged  # the run that the next ACK joins
    assert outcome(Receiver(), whole) == outcome(ReceiverByProtobuf(), whole)


def requests_by_pieces(data, cuts):
    receiver = Receiver()
    edges = [0, *sorted(cuts), len(data)]
    found = []
    for start, end in itertools.pairwise(edges):
        requests, error = receiver.receive(data[start:end])
        assert error is None
        found += requests
    return found


@given(st.lists(st.integers(0, 400), max_size=12))
def test_frames_in_pieces_are_taken_once_whole(cuts):
    data = b"".join([send(1, 5, b"x" * 60), BY_NAME["connect"], ack(1), BY_NAME["pong"], send(1, 300), flow(), ack(2)])
    pieces = requests_by_pieces(data, [cut for cut in cuts if cut < len(data)])
    assert meaning(pieces) == meaning(received(data))


def test_a_frame_of_the_greatest_size_is_taken_and_a_larger_one_ends_the_connection():
    small = {"max_message_size": 100}
    largest = 100 + FRAME_PADDING
    (run,) = received(send(1, 1, b"x" * (largest - len(send(1, 1, b"")))), **small)
    assert len(run) == 1
    too_large = send(1, 1, b"x" * (largest + 1 - len(send(1, 1, b""))))
    for data in (too_large, too_large[:4]):
        requests, error = Receiver(**small).receive(data)
        assert requests == []
        assert str(error) == f"a frame of {largest - 3} bytes: 4 to {largest - 4} are allowed"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("00000003 000000", "a frame of 3 bytes"),
        ("ffffffff", "a frame of 4294967295 bytes"),
        ("00000008 00000005 0812 9201", "a command of 5 bytes in a frame that has room for 4"),
        ("00000006 00000002 0864", "its type is missing or unknown"),
        ("00000004 00000000", "its type is missing or unknown"),
        ("00000006 00000002 0807", "a command SEND_RECEIPT cannot be read: it lacks send_receipt"),
        ("00000008 00000004 0806 3200", "a command SEND cannot be read: its send lacks a field"),
        ("0000000c 00000008 0806 3204 0801 10ff", "they are not a BaseCommand"),
        ("0000000a 00000006 0806 3202 0801", "a command SEND cannot be read: its send lacks a field"),
        ("00000014 00000010 0806 320c 08 ffffffffffffffffffffff", "longer than 10 bytes"),
    ],
)
def test_hostile_frames_end_the_connection_with_a_reason(data, why):
    _, error = Receiver().receive(bytes.fromhex(data))
    assert isinstance(error, ProtocolError)
    assert why in str(error)


def test_text_that_is_not_utf8_ends_the_connection():
    _, error = Receiver().receive(BY_NAME["lookup"].replace(b"topic", b"t\xff\xfeic"))
    assert "topic b'persistent://" in str(error)
    assert "is not UTF-8" in str(error)


def test_text_deep_in_a_command_that_is_not_utf8_ends_the_connection():
    command = pb.BaseCommand(type=pb.BaseCommand.PRODUCER)
    command.producer.CopyFrom(pb.CommandProducer(topic="topic", producer_id=1, request_id=1))
    command.producer.metadata.add(key="key", value="value")
    data = command.SerializeToString().replace(b"value", b"v\xff\xfeue")
    _, error = Receiver().receive((len(data) + 4).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data)
    assert "value b'v" in str(error)
    assert "is not UTF-8" in str(error)


def test_what_came_before_a_hostile_frame_is_served_and_nothing_after_it():
    receiver = Receiver()
    requests, error = receiver.receive(send(1, 1) + bytes.fromhex("00000006000000020864") + send(1, 2))
    assert [one.sequence_ids for one in requests] == [[1]]
    assert error is not None
    assert receiver.receive(send(1, 3)) == ([], error)


@pytest.mark.parametrize("messages", [0, -1])
def test_a_send_of_no_messages_ends_the_connection(messages):
    _, error = Receiver().receive(send(1, 1, num_messages=messages))
    assert str(error) == f"a SEND of {messages} messages"


@pytest.mark.parametrize("ids", [[], [(1, 2), (1, 3)]])
def test_a_cumulative_ack_has_one_id(ids):
    _, error = Receiver().receive(ack(1, ids, pb.CommandAck.Cumulative))
    assert str(error) == f"a cumulative ACK of {len(ids)} ids: it has one"


@given(st.binary(max_size=80))
def test_any_bytes_are_requests_or_a_protocol_error(data):
    Receiver().receive(data)
    framed = (len(data) + 4).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data
    Receiver().receive(framed)


@given(st.sampled_from(sorted(BY_NAME)), st.integers(0, 10**6), st.integers(0, 255))
def test_a_changed_byte_gives_requests_or_a_protocol_error(name, at, byte):
    data = bytearray(BY_NAME[name])
    data[at % len(data)] = byte
    Receiver().receive(bytes(data) + BY_NAME["send-crc32c"])


def test_a_client_that_is_not_connected_sends_no_large_frame():
    receiver = Receiver()
    receiver.expect_connect()
    assert outcome(receiver, (LARGEST_CONNECT + 1).to_bytes(4, "big")) == ([], True)
    receiver = Receiver()
    receiver.expect_connect()
    assert outcome(receiver, LARGEST_CONNECT.to_bytes(4, "big")) == ([], False)
    receiver = Receiver()
    receiver.expect_connect()
    receiver.connected()
    assert outcome(receiver, (LARGEST_CONNECT + 1).to_bytes(4, "big")) == ([], False)


def test_an_error_does_not_quote_credentials():
    """A string that is not UTF-8 ends the connection, and is not shown: it may be a token."""
    connect = pb.CommandConnect(client_version="raw", original_auth_data="secret-token")
    data = pb.BaseCommand(type=BASE.CONNECT, connect=connect).SerializeToString().replace(b"secret", b"s\xffcret")
    error = Receiver().receive((len(data) + 4).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data).error
    assert "original_auth_data is not UTF-8" in str(error)
    assert "cret" not in str(error)
