"""The topics of a namespace as clients ask for them: with a hash of the list. No I/O."""

import enum
from collections.abc import Iterable

import google_crc32c

from mledger.metastore.records.paths import TopicName, split_partition

SYSTEM_TOPICS = frozenset(
    (
        "__change_events",
        "__transaction_buffer_snapshot",
        "__transaction_buffer_snapshot_indexes",
        "__transaction_buffer_snapshot_segments",
        "transaction_coordinator_assign",
    )
)
_SYSTEM_SUFFIX = "__transaction_pending_ack"
_TRANSACTION_LOG = "__transaction_log_"


class TopicsMode(enum.IntEnum):
    """Which topics of a namespace a client asks for; the values are those of the protocol."""

    PERSISTENT = 0
    NON_PERSISTENT = 1
    ALL = 2


def is_system_topic(topic: TopicName) -> bool:
    """Whether Pulsar keeps something of its own in the topic, which pattern subscriptions do not receive."""
    name = split_partition(topic.local_name)[0]
    return name in SYSTEM_TOPICS or name.endswith(_SYSTEM_SUFFIX) or name.startswith(_TRANSACTION_LOG)


def topics_hash(topics: Iterable[str]) -> str:
    """Pulsar's hash of a list of topics, by which a client sees that nothing changed."""
    return int(google_crc32c.value(",".join(sorted(topics)).encode())).to_bytes(4, "little").hex()
