"""Answers: the bytes that Java's broker sends for the same, and fields that clients read."""

import pytest

from mledger.broker.protocol import answers
from mledger.broker.protocol.commands import decode_command
from mledger.broker.protocol.versions import ClientFeatures
from mledger.metastore.records.position import Position
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.recordings import golden

FRAMES = {
    one["name"]: one for file in golden.files("pulsar-frames/frames-*.json") for one in golden.load(file)["frames"]
}
BASE = pb.BaseCommand


def java(name):
    return bytes.fromhex(FRAMES[name]["hex"])


def sent(data):
    """The command in a frame that a broker sends."""
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    assert int.from_bytes(data[4:8], "big") == len(data) - 8
    return decode_command(data[8:]).body


def meaning(name):
    return FRAMES[name]["meaning"]


@pytest.mark.parametrize("name", sorted(name for name in FRAMES if name.startswith("error-")))
def test_errors_are_java_s_bytes(name):
    meant = meaning(name)
    code = pb.ServerError.Value(meant["error"])
    assert answers.error(meant["requestId"], code, meant["message"]) == java(name)


def test_answers_are_java_s_bytes():
    assert answers.success(meaning("success")["requestId"]) == java("success")
    assert java("pong") == answers.PONG
    meant = meaning("send-error")
    code = pb.ServerError.Value(meant["error"])
    error = answers.send_error(meant["producerId"], meant["sequenceId"], code, meant["message"])
    assert error == java("send-error")
    meant = meaning("producer-success")
    last = meant["lastSequenceId"]
    opened = answers.producer_success(meant["requestId"], meant["producerName"], last_sequence_id=last)
    assert opened == java("producer-success")
    meant = meaning("ack-response")
    assert answers.ack_response(meant["consumerId"], meant["requestId"]) == java("ack-response")
    meant = meaning("active-consumer-change")
    assert answers.active_consumer_change(meant["consumerId"], meant["isActive"]) == java("active-consumer-change")
    assert answers.reached_end_of_topic(meaning("reached-end-of-topic")["consumerId"]) == java("reached-end-of-topic")
    meant = meaning("partition-metadata-response")
    answer = answers.partitioned_metadata(meant["requestId"], meant["partitions"])
    assert answer == java("partition-metadata-response")


def test_a_lookup_is_answered_with_java_s_bytes():
    meant = meaning("lookup-response-connect")
    assert answers.lookup_connect(meant["requestId"], meant["brokerServiceUrl"]) == java("lookup-response-connect")
    meant = meaning("lookup-response-failed")
    code = pb.ServerError.Value(meant["error"])
    assert answers.lookup_failed(meant["requestId"], code, meant["message"]) == java("lookup-response-failed")


def test_a_redirect_names_the_broker_and_whether_it_is_to_own_the_topic():
    answer = sent(answers.lookup_redirect(4, "pulsar://b:6650", tls_url="pulsar+ssl://b:6651", authoritative=True))
    assert answer.response == pb.CommandLookupTopicResponse.Redirect
    assert (answer.brokerServiceUrl, answer.brokerServiceUrlTls) == ("pulsar://b:6650", "pulsar+ssl://b:6651")
    assert answer.authoritative


def test_the_last_message_id_has_java_s_bytes():
    meant = meaning("get-last-message-id-response")
    answer = answers.last_message_id(
        meant["requestId"],
        Position(*meant["lastMessageId"]),
        partition=meant["partition"],
        batch_index=meant["batchIndex"],
        mark_delete=Position(*meant["markDelete"]),
    )
    assert answer == java("get-last-message-id-response")


def test_entry_minus_one_goes_out_as_java_sends_it():
    answer = sent(answers.last_message_id(1, Position(7, -1), mark_delete=Position(7, -1)))
    assert answer.last_message_id.entryId == answer.consumer_mark_delete_position.entryId == 2**64 - 1


@pytest.mark.parametrize(("client", "spoken"), [(0, 0), (12, 12), (21, 21), (30, 21)])
def test_the_lower_protocol_version_is_spoken(client, spoken):
    answer = sent(answers.connected(ClientFeatures(version=client), 5_242_880))
    assert answer.protocol_version == spoken
    assert answer.max_message_size == 5_242_880
    assert answer.feature_flags.supports_topic_watchers


def test_closes_of_the_broker_have_no_request_and_may_say_where_to_go():
    close = sent(answers.close_consumer(3))
    assert (close.consumer_id, close.request_id, close.HasField("assignedBrokerServiceUrl")) == (3, 2**64 - 1, False)
    assert sent(answers.close_producer(4, url="pulsar://b:1")).assignedBrokerServiceUrl == "pulsar://b:1"


@pytest.mark.parametrize("asked", answers.TRANSACTION_COMMANDS, ids=BASE.Type.Name)
def test_every_command_of_transactions_is_refused_in_its_own_form(asked):
    data = answers.transaction_refused(asked, 9, pb.NotAllowedError, "no transactions here")
    command = decode_command(data[8:])
    assert BASE.Type.Name(command.type).startswith(BASE.Type.Name(asked).removesuffix("_REQUEST"))
    assert (command.body.request_id, command.body.error) == (9, pb.NotAllowedError)


def test_topics_watches_schemas_and_figures_say_what_they_are_given():
    topics = sent(answers.topics_of_namespace(1, ["a", "b"], topics_hash="h", filtered=True))
    assert (list(topics.topics), topics.topics_hash, topics.filtered, topics.changed) == (["a", "b"], "h", True, True)
    watch = sent(answers.watch_success(1, 2, ["a"], "h"))
    assert (watch.request_id, watch.watcher_id, list(watch.topic), watch.topics_hash) == (1, 2, ["a"], "h")
    update = sent(answers.watch_update(2, ["n"], ["d"], "h2"))
    assert (list(update.new_topics), list(update.deleted_topics), update.topics_hash) == (["n"], ["d"], "h2")
    schema = pb.Schema(name="s", schema_data=b"{}", type=pb.Schema.Json)
    found = sent(answers.schema_found(3, schema, b"\0" * 8))
    assert (found.schema, found.schema_version) == (schema, b"\0" * 8)
    assert sent(answers.schema_failed(3, pb.TopicNotFound, "none")).error_code == pb.TopicNotFound
    assert sent(answers.schema_stored(3, b"v")).schema_version == b"v"
    assert sent(answers.schema_not_stored(3, pb.IncompatibleSchema, "no")).error_message == "no"
    stats = pb.CommandConsumerStatsResponse(request_id=5, msgBacklog=7)
    assert sent(answers.consumer_stats(stats)) == stats
    assert sent(answers.consumer_stats_failed(5, pb.ConsumerNotFound, "gone")).error_code == pb.ConsumerNotFound
    assert sent(answers.success(6, schema)).schema == schema
    failed = sent(answers.partitioned_metadata_failed(7, pb.MetadataError, "down"))
    assert (failed.error, failed.message) == (pb.MetadataError, "down")
    assert sent(answers.ack_response(1, 2, pb.NotAllowedError, "no")).error == pb.NotAllowedError
