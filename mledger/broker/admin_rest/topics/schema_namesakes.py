"""Which topics that exist have the schema of one that does not: its partitions, and one that is not stored."""

from dataclasses import replace
from http import HTTPStatus

from mledger.admin.partitions import present_partitions, read_partitioned
from mledger.broker.admin_rest.fan_out import FanOut, plan_request_for
from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.requests import AdminRequest
from mledger.broker.admin_rest.topics.ownership import topic_path
from mledger.metastore.records.paths import NON_PERSISTENT, TopicName
from mledger.metastore.store import MetadataReader


async def has_namesakes(reader: MetadataReader, fan_out: FanOut, request: AdminRequest, topic: TopicName) -> bool:
    """Whether another topic has the schema of `topic`, a stored one that does not exist; True if that is not known.

    Partitions have it even without a record of the whole. Whether a topic that is not stored is in use, its owner
    tells. MetadataError, RecordError.
    """
    unstored = replace(topic, domain=NON_PERSISTENT)
    if await present_partitions(reader, topic) or await read_partitioned(reader, unstored) is not None:
        return True
    try:
        asked = await fan_out.ask(plan_request_for(request, "GET", topic_path(unstored, "stats")))
    except AdminRefusal:
        return True
    return asked.status is not HTTPStatus.NOT_FOUND
