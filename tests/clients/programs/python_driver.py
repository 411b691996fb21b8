"""The official Python client, driven by scenarios: JSON lines in, events as JSON lines out (see `scenario.py`)."""

import base64
import faulthandler
import json
import os
import random
import signal
import sys
import threading
import time
import traceback
import zlib
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pulsar
from pulsar.schema import AvroSchema, BytesSchema, Integer, JsonSchema, Record, String, StringSchema

TYPES = {
    "exclusive": pulsar.ConsumerType.Exclusive,
    "failover": pulsar.ConsumerType.Failover,
    "shared": pulsar.ConsumerType.Shared,
    "key_shared": pulsar.ConsumerType.KeyShared,
}
COMPRESSIONS = {
    "none": pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}
REDELIVER_AFTER = (8, 20, 33)
_POLL_MS = 200
_GROUPED_S = 0.5
"""More than the client keeps acknowledgements back, which cannot be set: one that follows a seek would count."""
_output = threading.Lock()
_events = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # the client's own words are no events


class Letter(Record):
    """What is sent with a schema of fields."""

    number = Integer(required=True)
    body = String(required=True)


def schema_of(name: str) -> Any:
    """The client's schema."""
    fields = {"json": JsonSchema, "avro": AvroSchema}
    return fields[name](Letter) if name in fields else {"bytes": BytesSchema, "string": StringSchema}[name]()


class _Taking:
    """What a consumer keeps in mind between two messages."""

    def __init__(self) -> None:
        self.count = self.held = 0
        self.since_ack: dict[int, int] = {}


class ScenarioRun:
    """One scenario's run."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = SimpleNamespace(**given)
        self.enough = threading.Event()
        self.produced = False
        self._changed = threading.Condition()
        self._answered: set[int] = set()
        self._first: dict[int, tuple[int, int, int]] = {}
        self._receipts: dict[int, int] = {}
        self._done: set[int] = set()
        self._wanted: set[int] = set()
        self._under_way = 0
        self._half_ms = 0
        self._halfway = 0
        self._phase = "first"
        self._failed = False

    def say(self, event: str, **fields: Any) -> None:
        """Write one event."""
        line = json.dumps({"scenario": self.given.name, "at": time.time(), "event": event, **fields})
        with _output:
            _events.write(line + "\n")
            _events.flush()

    def run(self) -> None:
        """All phases; an error ends it and is an event."""
        try:
            self._run()
        except Exception as error:
            self._failed = True
            self.say("failed", error=f"{type(error).__name__}: {error}\n{traceback.format_exc()[-1500:]}")
        self.say("ended")

    def _run(self) -> None:
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        client = pulsar.Client(self.given.url, operation_timeout_seconds=120, logger=quiet)
        consumers = [self._subscribe(client, number) for number in range(self.given.consumers)]
        producers = [self._producer(client) for _ in range(self.given.producers)]
        work = [threading.Thread(target=self._guarded, args=(self._consume, c, n)) for n, c in enumerate(consumers)]
        sending = [threading.Thread(target=self._guarded, args=(self._produce, p, n)) for n, p in enumerate(producers)]
        for thread in (*work, *sending):
            thread.start()
        for thread in sending:
            thread.join()
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way or self._failed)
            self._wanted = set(self._answered)
            self.produced = True
        self.say("produced")
        for thread in work:
            thread.join()
        if self._failed:
            return
        if self.given.seek != "none":
            self._seek(consumers)
        for number, consumer in enumerate(consumers):
            consumer.close()
            self.say("closed", consumer=number)
        self._resume(client)
        client.close()

    def _guarded(self, work: Any, *arguments: Any) -> None:
        try:
            work(*arguments)
        except Exception as error:
            self._failed = True
            self.say("failed", error=f"{type(error).__name__}: {error}\n{traceback.format_exc()[-1500:]}")
            with self._changed:
                self._changed.notify_all()

    def _subscribe(self, client: pulsar.Client, number: int) -> pulsar.Consumer:
        consumer = client.subscribe(
            self.given.topic,
            self.given.subscription,
            consumer_type=TYPES[self.given.type],
            schema=schema_of(self.given.schema),
            receiver_queue_size=self.given.queue,
            consumer_name=f"consumer-{number}",
            negative_ack_redelivery_delay_ms=300,
            initial_position=pulsar.InitialPosition.Earliest,
            batch_index_ack_enabled=self.given.ack == "batch_index",
        )
        self.say("subscribed", consumer=number, phase=self._phase)
        return consumer

    def _producer(self, client: pulsar.Client, topic: str = "") -> pulsar.Producer:
        keyed = self.given.type == "key_shared"
        return client.create_producer(
            topic or self.given.topic,
            schema=schema_of(self.given.schema),
            send_timeout_millis=0,
            compression_type=COMPRESSIONS[self.given.compression],
            block_if_queue_full=True,
            max_pending_messages=100,
            batching_enabled=self.given.batching,
            batching_max_messages=10,
            batching_max_publish_delay_ms=5,
            batching_type=pulsar.BatchingType.KeyBased if keyed else pulsar.BatchingType.Default,
            chunking_enabled=self.given.chunking,
        )

    def _produce(self, producer: pulsar.Producer, number: int) -> None:
        count = 0
        half = self.given.messages // 2
        while count < self.given.messages or (self.given.paced and not self.enough.is_set()):
            if self._failed:
                return
            if count == half and self.given.seek == "time":
                self._note_half()
            if self.given.paced and count >= half:
                self.enough.wait(0.05 if count < self.given.messages else 0.5)
            self._send(producer, number, count * self.given.producers + number)
            count += 1
        producer.flush()

    def _note_half(self) -> None:
        """Note a time after every producer's first half and before any one's second."""
        with self._changed:
            self._halfway += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._failed or self._half_ms or self._is_halfway())
            self._half_ms = self._half_ms or int(time.time() * 1000) + 2
            self._changed.notify_all()
        time.sleep(0.01)

    def _is_halfway(self) -> bool:
        return self._halfway == self.given.producers and not self._under_way

    def _send(self, producer: pulsar.Producer, who: int, number: int) -> None:
        place = 0 if who < 0 else number // self.given.producers
        size = self.given.large if self.given.chunking and place % 4 == 1 else 100
        body = base64.b64encode(random.Random(number).randbytes(size))
        delayed = bool(self.given.delay_ms) and place % 5 == 2
        key = f"k{place % 8}"
        with self._changed:
            self._under_way += 1
        self.say("send", producer=who, number=number, key=key, delay_ms=self.given.delay_ms if delayed else 0)

        def answered(result: Any, message_id: Any) -> None:
            good = result == pulsar.Result.Ok
            if good:
                where = position(message_id)
                self.say("sent", producer=who, number=number, id=where)
            else:
                self.say("send_failed", producer=who, number=number, error=str(result))
            with self._changed:
                self._under_way -= 1
                self._failed |= not good
                if good:
                    self._answered.add(number)
                    self._first[number] = (where[0], where[1], where[3])
                self._changed.notify_all()

        producer.send_async(
            self._content(number, body),
            answered,
            properties={"number": str(number), "producer": str(who), "sum": str(zlib.crc32(body))},
            partition_key=key,
            deliver_after=timedelta(milliseconds=self.given.delay_ms) if delayed else None,
        )

    def _content(self, number: int, body: bytes) -> Any:
        if self.given.schema == "bytes":
            return body
        return body.decode() if self.given.schema == "string" else Letter(number=number, body=body.decode())

    def _intact(self, message: pulsar.Message, number: int) -> bool:
        value = message.value()
        body = (value.body if value.number == number else "") if isinstance(value, Letter) else value
        body = body.encode() if isinstance(body, str) else body
        return message.properties()["sum"] == str(zlib.crc32(body))

    def _receive(self, consumer: pulsar.Consumer, who: int) -> "tuple[pulsar.Message, int, int] | None":
        """The next message, its number, and which receipt of this number in this phase it is."""
        try:
            message = consumer.receive(_POLL_MS)
        except pulsar.Timeout:
            return None
        number = int(message.properties()["number"])
        self.say(
            "received",
            consumer=who,
            phase=self._phase,
            number=number,
            producer=int(message.properties()["producer"]),
            key=message.partition_key(),
            id=position(message.message_id()),
            redelivery=message.redelivery_count(),
            intact=self._intact(message, number),
        )
        with self._changed:
            self._receipts[number] = self._receipts.get(number, 0) + 1
            return message, number, self._receipts[number]

    def _finished(self) -> bool:
        return self._failed or (self.produced and self._wanted <= self._done)

    def _consume(self, consumer: pulsar.Consumer, who: int) -> None:
        taking = _Taking()
        take = self._take_cumulative if self.given.ack == "cumulative" else self._take
        while not self._finished():
            got = self._receive(consumer, who)
            if got is not None:
                take(consumer, who, taking, *got)
            elif taking.held:
                taking.held = self._redeliver(consumer, who)

    def _take_cumulative(
        self, consumer: pulsar.Consumer, who: int, taking: "_Taking", message: pulsar.Message, number: int, _: int
    ) -> None:
        """Acknowledge at every fifth message of a partition, or begin anew."""
        partition = max(0, message.message_id().partition())
        taking.count += 1
        taking.since_ack[partition] = taking.since_ack.get(partition, 0) + 1
        if self.given.redelivery == "all" and taking.count in REDELIVER_AFTER:
            taking.since_ack.clear()
            self._redeliver(consumer, who)
        elif taking.since_ack[partition] % 5 == 0:
            self._acknowledge(consumer, who, message, number, cumulative=True)
        self._settle(number)

    def _take(
        self, consumer: pulsar.Consumer, who: int, taking: "_Taking", message: pulsar.Message, number: int, receipt: int
    ) -> None:
        """Ask for every fifth message again, leave every seventh if any, and acknowledge the others."""
        fifth = receipt == 1 and self._phase == "first" and number % 5 == 0
        if fifth and self.given.redelivery == "negative":
            self.say("negative", consumer=who, number=number, id=position(message.message_id()))
            consumer.negative_acknowledge(message)
        elif fifth and self.given.redelivery == "all":
            taking.held += 1
            if taking.held == 3:
                taking.held = self._redeliver(consumer, who)
        else:
            if self._phase != "first" or not self.given.leaves or number % 7 != 3:
                self._acknowledge(consumer, who, message, number)
            self._settle(number)

    def _settle(self, number: int) -> None:
        with self._changed:
            self._done.add(number)

    def _redeliver(self, consumer: pulsar.Consumer, who: int) -> int:
        self.say("redeliver", consumer=who)
        consumer.redeliver_unacknowledged_messages()
        return 0

    def _acknowledge(
        self, consumer: pulsar.Consumer, who: int, message: pulsar.Message, number: int, *, cumulative: bool = False
    ) -> None:
        fields = {"consumer": who, "number": number, "id": position(message.message_id()), "cumulative": cumulative}
        self.say("ack", **fields)
        try:
            (consumer.acknowledge_cumulative if cumulative else consumer.acknowledge)(message)
        except pulsar.PulsarException as error:
            self.say("ack_failed", error=str(error), **fields)

    def _seek(self, consumers: list[pulsar.Consumer]) -> None:
        if len(consumers) > 1:
            time.sleep(_GROUPED_S)
        self._phase = "sought"
        target: Any = pulsar.MessageId.earliest
        fields: dict[str, Any] = {}
        self._receipts.clear()
        if self.given.seek == "id":
            ordered = sorted(self._first, key=self._first.__getitem__)
            number = ordered[len(ordered) // 2]
            ledger, entry, index = self._first[number]
            target = pulsar.MessageId(-1, ledger, entry, index)
            fields = {"position": [ledger, entry]}
        elif self.given.seek == "time":
            target = self._half_ms
            fields = {"time_ms": self._half_ms}
        self.say("seek", kind=self.given.seek, **fields)
        consumers[0].seek(target)
        self.say("sought")
        self._done.clear()
        self._wanted = self._after(fields)
        work = [threading.Thread(target=self._guarded, args=(self._consume, c, n)) for n, c in enumerate(consumers)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()

    def _after(self, target: dict[str, Any]) -> set[int]:
        if "position" in target:
            return {number for number, where in self._first.items() if list(where[:2]) > target["position"]}
        if "time_ms" in target:
            half = self.given.messages // 2
            return {number for number in self._answered if number // self.given.producers >= half}
        return set(self._answered)

    def _resume(self, client: pulsar.Client) -> None:
        """Subscribe anew, and read up to a last message of each partition."""
        self._phase = "resumed"
        consumer = self._subscribe(client, 0)
        partitions = range(self.given.partitions)
        topics = [f"{self.given.topic}-partition-{number}" for number in partitions] or [self.given.topic]
        for place, topic in enumerate(topics):
            last = self._producer(client, topic)
            self._send(last, -1, -1 - place)
            last.flush()
            last.close()
        awaited = {-1 - place for place in range(len(topics))}
        while awaited and not self._failed:
            got = self._receive(consumer, 0)
            if got is not None:
                self._acknowledge(consumer, 0, got[0], got[1], cumulative=self.given.ack == "cumulative")
                awaited.discard(got[1])
        consumer.close()
        self.say("closed", consumer=0)


def position(message_id: Any) -> list[int]:
    """Ledger, entry, partition, index in the batch."""
    return [message_id.ledger_id(), message_id.entry_id(), max(0, message_id.partition()), message_id.batch_index()]


def main() -> None:
    """Begin the scenarios of each line that has some; others say which of them have produced enough."""
    faulthandler.register(signal.SIGQUIT)
    runs: dict[str, ScenarioRun] = {}
    for line in sys.stdin:
        order = json.loads(line)
        for given in order.get("scenarios", ()):
            runs[given["name"]] = ScenarioRun(given)
            threading.Thread(target=runs[given["name"]].run, daemon=True).start()
        if "enough" in order:
            runs[order["enough"]].enough.set()


if __name__ == "__main__":
    main()
