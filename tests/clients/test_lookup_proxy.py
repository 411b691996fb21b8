"""A proxy changes where a broker says it is, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from mledger.pb.PulsarApi_pb2 import BaseCommand, CommandLookupTopicResponse
from tests.clients.lookup_proxy import rewritten

URL = "pulsar://127.0.0.1:4"
PAYLOAD = b"\x0e\x01 whatever a message is"


def frame(command, payload=b""):
    text = command.SerializeToString()
    return (4 + len(text) + len(payload)).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text + payload


def lookup_answer(url):
    answer = BaseCommand(type=BaseCommand.LOOKUP_RESPONSE)
    answer.lookupTopicResponse.request_id = 7
    answer.lookupTopicResponse.response = CommandLookupTopicResponse.Connect
    if url:
        answer.lookupTopicResponse.brokerServiceUrl = url
    return frame(answer)


def pong():
    answer = BaseCommand(type=BaseCommand.PONG)
    answer.pong.SetInParent()
    return frame(answer)


def message():
    answer = BaseCommand(type=BaseCommand.MESSAGE)
    answer.message.consumer_id = 1
    answer.message.message_id.ledgerId, answer.message.message_id.entryId = 3, 4
    return frame(answer, PAYLOAD)


@given(
    st.lists(st.sampled_from([pong(), message(), lookup_answer("pulsar://elsewhere:6650"), lookup_answer("")])),
    st.data(),
)
def test_only_the_address_in_answers_to_lookups_changes(frames, data):
    sent, received, rest = b"".join(frames), b"", b""
    while sent:
        size = data.draw(st.integers(1, len(sent)))
        whole, rest = rewritten(rest + sent[:size], URL)
        received, sent = received + whole, sent[size:]
    moved = {lookup_answer("pulsar://elsewhere:6650"): lookup_answer(URL)}
    assert received == b"".join(moved.get(each, each) for each in frames)
    assert rest == b""
