"""Changes of a namespace: a new topic."""

from collections.abc import Collection

from mledger.broker.admin_rest.refusals import conflict
from mledger.broker.admin_rest.topics.partition_resource import MOST_PARTITIONS
from mledger.broker.console.admin_client import PlannedRequest, at_namespace, at_topic
from mledger.broker.console.changes.change_plan import (
    NUMBER,
    ChangeAsked,
    ChangeEffect,
    ChangeField,
    ChangePlan,
    ChangeSubject,
    OfferedChange,
    counted,
)
from mledger.metastore.errors import InvalidName
from mledger.metastore.records.paths import TopicName


def plan_created(namespace: str, name: str, partitions: int, topics: Collection[str]) -> ChangePlan:
    """The plan to create a topic; 0 partitions: one that is not partitioned. InvalidName, AdminRefusal."""
    if not name:
        raise InvalidName("a topic needs a name")
    tenant, _, local = namespace.partition("/")
    topic = TopicName(tenant, local, name)
    if str(topic) in topics:
        raise conflict(f"there is a topic {topic} already")
    what = counted(partitions, "partition") if partitions else "not partitioned"
    path = at_topic(topic, "partitions") if partitions else at_topic(topic)
    return ChangePlan(
        f"Create {topic}",
        (ChangeEffect("topic", "none", f"{topic}, {what}"),),
        request=PlannedRequest("PUT", path, None, partitions or None),
        exact=(str(topic), str(partitions)),
    )


async def create_topic(asked: ChangeAsked) -> ChangePlan:
    """Create a topic."""
    namespace = asked.subject.namespace
    topics = await asked.client.get(at_namespace(namespace))
    whole = await asked.client.get(f"{at_namespace(namespace)}/partitioned")
    partitions = asked.number("partitions", 0, MOST_PARTITIONS)
    return plan_created(namespace, asked.values.get("name", "").strip(), partitions, {*topics, *whole})


def _right(subject: ChangeSubject) -> PlannedRequest:
    tenant, _, namespace = subject.namespace.partition("/")
    return PlannedRequest("PUT", at_topic(TopicName(tenant, namespace, "any")))


NAMESPACE_CHANGES = (
    OfferedChange(
        "create-topic",
        "Create a topic",
        "With 0 partitions it is not partitioned.",
        _right,
        create_topic,
        (ChangeField("name", "name"), ChangeField("partitions", "partitions", NUMBER, "0")),
    ),
)
