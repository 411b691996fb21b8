"""What is done to a topic that exists: closed, ended, emptied; its properties, and its compaction."""

import asyncio
from collections.abc import Collection, Mapping

from msgspec.structs import replace

from mledger.admin.partitions import read_partitioned
from mledger.broker.admin_rest.body_checks import texts
from mledger.broker.admin_rest.fan_out import FanOut, plan_first_error
from mledger.broker.admin_rest.json_node import change_data
from mledger.broker.admin_rest.refusals import conflict, not_allowed, not_built
from mledger.broker.admin_rest.requests import NO_CONTENT, Access, AdminAnswer, AdminCall, json_answer
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.broker.admin_rest.topics.message_position import message_id
from mledger.broker.admin_rest.topics.ownership import NON_PERSISTENT_ONE, ONE, TopicOwnership, no_topic
from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.topics.compaction.topic_compaction import CompactionStatus
from mledger.ledgers.shadow_topics import SHADOW_SOURCE
from mledger.metastore.records.partitioned_topic import (
    PartitionedTopic,
    decode_partitioned_topic,
    encode_partitioned_topic,
)
from mledger.metastore.records.paths import TopicName


def plan_partitioned_properties(record: PartitionedTopic, added: Mapping[str, str], removed: Collection[str]) -> bytes:
    """The record of a partitioned topic with changed properties, as it is stored."""
    properties = {**dict(record.properties or ()), **added}
    wanted = tuple((name, value) for name, value in properties.items() if name not in removed)
    return encode_partitioned_topic(replace(record, properties=wanted))


class TopicActionResource:
    """Answers for stored topics; those that are not stored can be unloaded."""

    def __init__(self, broker: ServedBroker, ownership: TopicOwnership, fan_out: FanOut) -> None:
        self._broker, self._ownership, self._fan_out = broker, ownership, fan_out

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        admin = Access.TENANT_ADMIN
        return [
            AdminRoute("PUT", f"{ONE}/unload", admin, self.unload),
            AdminRoute("PUT", f"{NON_PERSISTENT_ONE}/unload", admin, self.unload),
            AdminRoute("POST", f"{ONE}/terminate", admin, self.terminate),
            AdminRoute("POST", f"{ONE}/terminate/partitions", admin, self.terminate_partitions),
            AdminRoute("POST", f"{ONE}/trim", admin, self.trim),
            AdminRoute("DELETE", f"{ONE}/truncate", admin, self.truncate),
            AdminRoute("GET", f"{ONE}/compaction", admin, self.compaction_status),
            AdminRoute("PUT", f"{ONE}/compaction", admin, self.compact),
            AdminRoute("GET", f"{ONE}/properties", Access.LOOKUP, self.properties),
            AdminRoute("PUT", f"{ONE}/properties", admin, self.set_properties),
            AdminRoute("DELETE", f"{ONE}/properties", admin, self.remove_property),
        ]

    async def unload(self, call: AdminCall) -> AdminAnswer:
        """Close a topic here: its clients look it up again, and it is opened again."""
        topic = call.topic
        if partitions := await self._ownership.partitions(topic):
            return await self._on_partitions(call, partitions)
        if topic.is_persistent and not await self._ownership.exists(topic):
            raise no_topic(topic)
        await self._ownership.check(call, topic)
        if not topic.is_persistent:
            self._ownership.opened(topic)  # only its owner knows whether it is there
        await self._broker.topics.give_up(lambda each: each == topic)
        return NO_CONTENT

    async def terminate(self, call: AdminCall) -> AdminAnswer:
        """Accept no more messages; the answer is the id of the last one."""
        if await self._ownership.partitions(call.topic):
            raise not_allowed("Termination of a partitioned topic is not allowed")
        topic = await self._ownership.open(call)
        position = await topic.managed_ledger.terminate()
        topic.producers.disconnect()
        topic.subscriptions.run()
        return json_answer(message_id(position))

    async def terminate_partitions(self, call: AdminCall) -> AdminAnswer:
        """Terminate each partition; the answer has the id of the last message of each."""
        topic = call.topic
        partitions = await self._ownership.partitions(topic)
        if not partitions:
            raise not_allowed(
                "Termination of a non-partitioned topic is not allowed using partitioned-terminate, please use "
                "terminate commands"
            )
        path = call.request.path.removesuffix("/partitions")
        answers = await self._fan_out.ask_partitions(call.at(path), topic, partitions)
        wrong = plan_first_error(answers)
        if wrong is not None:
            return wrong
        return json_answer({str(index): each.json() for index, each in enumerate(answers)})

    async def trim(self, call: AdminCall) -> AdminAnswer:
        """Delete the ledgers that every subscription has consumed and no retention keeps (R10)."""
        if partitions := await self._ownership.partitions(call.topic):
            return await self._on_partitions(call, partitions)
        await (await self._ownership.open(call)).managed_ledger.trim()
        return NO_CONTENT

    async def truncate(self, call: AdminCall) -> AdminAnswer:
        """Acknowledge everything on every subscription, and delete the ledgers that nothing holds."""
        if partitions := await self._ownership.partitions(call.topic):
            return await self._on_partitions(call, partitions)
        topic = await self._ownership.open(call)
        through = topic.managed_ledger.last_confirmed
        if topic.deduplication is not None:  # what it knows from these entries cannot be read again
            await asyncio.sleep(0)  # until it knows of all of them
            topic.deduplication.snapshot()
        try:
            await topic.managed_ledger.truncate(through=through)
        finally:  # cursors that cannot be written yet have passed it, too
            for subscription in topic.subscriptions:
                subscription.passed()
        return NO_CONTENT

    async def compaction_status(self, call: AdminCall) -> AdminAnswer:
        """How far the compaction is that this broker began last."""
        compaction = (await self._ownership.open(call)).compaction
        return json_answer({"status": compaction.status.value, "lastError": compaction.last_error})

    async def compact(self, call: AdminCall) -> AdminAnswer:
        """Begin to compact a topic, or each partition."""
        if partitions := await self._ownership.partitions(call.topic):
            return await self._on_partitions(call, partitions)
        topic = await self._ownership.open(call)
        if topic.compaction.status is CompactionStatus.RUNNING:
            raise conflict("Compaction already in progress")
        topic.compaction.start()
        return NO_CONTENT

    async def properties(self, call: AdminCall) -> AdminAnswer:
        """The properties of a topic; of a partitioned one without any there is no body, as in Pulsar."""
        found = await self._partitioned(call.topic)
        if found is not None:
            properties = found[0].properties
            return json_answer(None if properties is None else dict(properties))
        return json_answer((await self._ownership.open(call)).managed_ledger.properties)

    async def set_properties(self, call: AdminCall) -> AdminAnswer:
        """Set properties, beside those that a topic has."""
        wanted = texts(call.request.json(), "the properties")
        if SHADOW_SOURCE in wanted:  # the topic could not be opened again
            raise not_built("shadow topics")
        return await self._change_properties(call, wanted)

    async def remove_property(self, call: AdminCall) -> AdminAnswer:
        """Remove the property that `key` names."""
        return await self._change_properties(call, {}, [call.request.query.get("key", "")])

    async def _change_properties(
        self, call: AdminCall, added: Mapping[str, str], removed: Collection[str] = ()
    ) -> AdminAnswer:
        """Those of a partitioned topic are in its own record: its partitions keep theirs. AdminRefusal (404, 409)."""
        topic = call.topic
        if await self._partitioned(topic) is None:
            await (await self._ownership.open(call)).change_properties(added, removed)
            return NO_CONTENT
        path = topic.partitioned_topic_path

        def change(data: bytes | None) -> bytes:
            if data is None:  # deleted just now
                raise no_topic(topic)
            return plan_partitioned_properties(decode_partitioned_topic(data, path), added, removed)

        await change_data(self._ownership.store, path, change)
        return NO_CONTENT

    async def _partitioned(self, topic: TopicName) -> tuple[PartitionedTopic, int] | None:
        """The record of a partitioned topic with its version; None of one that is not."""
        return None if topic.partition_index is not None else await read_partitioned(self._ownership.store, topic)

    async def _on_partitions(self, call: AdminCall, partitions: int) -> AdminAnswer:
        wrong = plan_first_error(await self._fan_out.ask_partitions(call, call.topic, partitions))
        return NO_CONTENT if wrong is None else wrong
