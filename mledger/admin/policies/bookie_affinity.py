"""The groups of bookies that a topic's new ledgers are placed on: what its namespace's local policies name (Q1)."""

from mledger.admin.system_topics import is_system_topic
from mledger.metastore.errors import InvalidName, MetadataError
from mledger.metastore.records.bookie_affinity import ANY_BOOKIES, UNGROUPED, BookieAffinityGroup, decode_affinity
from mledger.metastore.records.paths import LOCAL_POLICIES, TopicName
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.store import MetadataReader

log = get_logger(__name__)

_SYSTEM_NAMESPACE = "pulsar/system"


def plan_affinity(topic: TopicName, named: BookieAffinityGroup | None, *, strict: bool) -> BookieAffinityGroup | None:
    """The groups for the topic's ledgers, whose namespace has `named`; None: those of the client's settings.

    With `strict` (`strictBookieAffinityEnabled`), a namespace that names none leaves all groups to those that do: its
    topics are on bookies in no group, system topics on any.
    """
    if named is not None or not strict:
        return named
    return ANY_BOOKIES if topic.namespace_name == _SYSTEM_NAMESPACE or is_system_topic(topic) else UNGROUPED


async def read_affinity(
    reader: MetadataReader, managed_ledger: str, *, strict: bool = False
) -> BookieAffinityGroup | None:
    """The groups for new ledgers of `managed_ledger`, as `plan_affinity`.

    Local policies that cannot be read are logged and name none.
    """
    try:
        topic = TopicName.of_managed_ledger(managed_ledger)
    except InvalidName:
        return None
    path, named = f"{LOCAL_POLICIES}/{topic.namespace_name}", None
    try:
        (node,) = await reader.get_many([path])
        named = None if node is None else decode_affinity(node.data, path)
    except MetadataError as error:
        log.warning(
            "bookie_affinity_unknown", topic=managed_ledger, error=error, hint="its ledgers are placed as without one"
        )
    return plan_affinity(topic, named, strict=strict)
