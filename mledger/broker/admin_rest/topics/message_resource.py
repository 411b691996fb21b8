"""Single messages of a topic: peeked on a subscription, by id, by place, by time, and the last one's id."""

from mledger.broker.admin_rest.body_checks import MAX_LONG, number_of
from mledger.broker.admin_rest.refusals import not_allowed, not_found, precondition
from mledger.broker.admin_rest.requests import Access, AdminAnswer, AdminCall, json_answer
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.broker.admin_rest.topics.message_answer import plan_message
from mledger.broker.admin_rest.topics.message_position import message_id
from mledger.broker.admin_rest.topics.ownership import ONE, TopicOwnership
from mledger.broker.protocol.broker_metadata import INDEXES
from mledger.broker.topics.broker_topic import BrokerTopic
from mledger.broker.topics.message_index import find_by_index, index_of
from mledger.cursors.entry_time import find_by_time, publish_time
from mledger.cursors.positions import EARLIEST, position_after_n_undeleted
from mledger.metastore.errors import RecordError
from mledger.metastore.records.position import Position

NOT_FOUND = "Message not found"


def plan_index(initial: str, place: int, total: int) -> int:
    """The index of the `place`-th entry from the beginning or the end. AdminRefusal if there is none."""
    if initial not in ("earliest", "latest"):
        raise precondition(f"Invalid initialPosition: {initial}: use earliest or latest")
    if not 0 < place <= total:
        raise not_found(NOT_FOUND)
    return place - 1 if initial == "earliest" else total - place


class MessageResource:
    """Answers for the messages of stored topics."""

    def __init__(self, ownership: TopicOwnership) -> None:
        self._ownership = ownership

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        consume = Access.CONSUME
        return [
            AdminRoute("GET", f"{ONE}/subscription/{{subscription}}/position/{{place}}", consume, self.peek),
            AdminRoute("GET", f"{ONE}/ledger/{{ledger}}/entry/{{entry}}", consume, self.by_id),
            AdminRoute("GET", f"{ONE}/examinemessage", consume, self.examine),
            AdminRoute("GET", f"{ONE}/lastMessageId", consume, self.last),
            AdminRoute("GET", f"{ONE}/messageid/{{time}}", consume, self.by_time),
            AdminRoute("GET", f"{ONE}/getMessageIdByIndex", consume, self.by_index),
        ]

    async def peek(self, call: AdminCall) -> AdminAnswer:
        """The n-th message that is not acknowledged; nothing is consumed."""
        place = number_of(call.values["place"], "the place of the message", low=1)
        if await self._ownership.partitions(call.topic):
            raise not_allowed("Peek messages on a partitioned topic is not allowed")
        subscription = await self._ownership.subscription(call)
        cursor, storage = subscription.cursor, subscription.topic.managed_ledger
        if place > cursor.backlog:
            raise not_found(NOT_FOUND)
        position = position_after_n_undeleted(storage.ledger_list, cursor.acks, place)
        return await _shown(subscription.topic, position)

    async def by_id(self, call: AdminCall) -> AdminAnswer:
        """The message of an entry."""
        place = [number_of(call.values[name], f"the {name}", low=0, most=MAX_LONG) for name in ("ledger", "entry")]
        return await _shown(await self._ownership.open(call), Position(*place))

    async def examine(self, call: AdminCall) -> AdminAnswer:
        """The n-th message from the beginning or the end."""
        query = call.request.query
        if await self._ownership.partitions(call.topic):
            raise not_allowed(
                "Examine messages on a partitioned topic is not allowed, please try examine message on specific"
            )
        topic = await self._ownership.open(call)
        place = number_of(query.get("messagePosition", "1"), "messagePosition", low=1)
        ledgers = topic.managed_ledger.ledger_list
        index = plan_index(query.get("initialPosition", "latest"), place, ledgers.total_entries)
        return await _shown(topic, ledgers.entry_at(index))

    async def last(self, call: AdminCall) -> AdminAnswer:
        """The id of the last message."""
        topic = await self._ownership.open(call)
        position, batch_index = await topic.last_message()
        return json_answer(message_id(position, topic.name.partition_number, batch_index))

    async def by_time(self, call: AdminCall) -> AdminAnswer:
        """The id after the last message that was published before a time, ms since 1970."""
        time_ms = number_of(call.values["time"], "the time", low=0, most=MAX_LONG)
        if await self._ownership.partitions(call.topic):
            raise not_allowed(
                "Get message ID by timestamp on a partitioned topic is not allowed, please try do it on specific topic"
                " partition"
            )
        topic = await self._ownership.open(call)
        storage = topic.managed_ledger
        before = await find_by_time(lambda: storage.ledger_list, storage.read_entry, time_ms, publish_time)
        last = before or storage.ledger_list.first_position
        found = Position(last.ledger_id, last.entry_id + 1)
        return json_answer(message_id(found, topic.name.partition_number))

    async def by_index(self, call: AdminCall) -> AdminAnswer:
        """The id of the entry with a message of that number, which the broker gave it; (-1, -1) before the first."""
        index = number_of(call.request.query.get("index") or "0", "the index", low=-MAX_LONG, most=MAX_LONG)
        if index < 0:
            raise not_found(f"Invalid message index: {index}")
        if await self._ownership.partitions(call.topic):
            raise not_allowed("GetMessageIDByIndex is not allowed on partitioned-topic")
        topic = await self._ownership.open(call)
        if INDEXES not in topic.settings.entry_metadata:
            raise precondition("GetMessageIDByIndex is not allowed when broker entry metadata is disabled")
        return json_answer(message_id(await _numbered(topic, index), topic.name.partition_number))


async def _numbered(topic: BrokerTopic, index: int) -> Position:
    """Where the message of that number is. AdminRefusal if it is not there, or the first one has no number."""
    storage = topic.managed_ledger
    if not storage.ledger_list.total_entries:
        raise not_found(f"No messages found in topic {topic.name}")
    try:
        first = await storage.read_entry(storage.ledger_list.entry_at(0))
        if index < index_of(first.payload):
            return EARLIEST
        found = await find_by_index(lambda: storage.ledger_list, storage.read_entry, index)
    except RecordError:
        raise precondition("Broker entry metadata is not present in the message") from None
    if not storage.ledger_list.exists(found):
        raise not_found(f"Message not found for index {index}")
    return found


async def _shown(topic: BrokerTopic, position: Position) -> AdminAnswer:
    if not topic.managed_ledger.ledger_list.exists(position):
        raise not_found(NOT_FOUND)
    entry = await topic.managed_ledger.read_entry(position)
    return plan_message(position, entry.payload)
