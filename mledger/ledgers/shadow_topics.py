"""Shadow topics: Pulsar's topics that read the entries of a source topic under their own cursors.

A broker copies the source's list of ledgers into the shadow's record each time it opens the shadow.
A trim, repair or deletion by that list would change the source's ledgers, so every command that
writes rejects a shadow.
"""

from collections.abc import Sequence

from mledger.errors import ShadowTopic
from mledger.metastore.errors import InvalidName, RecordError
from mledger.metastore.records.codec import decode_managed_ledger_info
from mledger.metastore.records.paths import TopicName, managed_ledger_path
from mledger.metastore.records.values import ManagedLedgerInfo
from mledger.metastore.store import MetadataReader, Node

SHADOW_SOURCE = "PULSAR.SHADOW_SOURCE"
"""The property of a shadow that names its source."""


def shadow_source(info: ManagedLedgerInfo) -> str | None:
    """The source of the shadow topic with the record `info`; None if the topic is not a shadow."""
    return dict(info.properties).get(SHADOW_SOURCE)


def refuse_shadow(managed_ledger: str, info: ManagedLedgerInfo) -> None:
    """Raise ShadowTopic if the topic is a shadow."""
    source = shadow_source(info)
    if source is not None:
        raise ShadowTopic(
            f"{managed_ledger} is a shadow of {source} and shares its ledgers: mledger does not change it; "
            "change the source, or change the shadow with pulsar-admin"
        )


async def refuse_shadows(reader: MetadataReader, managed_ledgers: Sequence[str]) -> None:
    """Raise ShadowTopic if one of them is a shadow; missing or unparsable records are skipped."""
    paths = [managed_ledger_path(name) for name in managed_ledgers]
    for name, path, node in zip(managed_ledgers, paths, await reader.get_many(paths), strict=True):
        if node is None:
            continue
        try:
            info = decode_managed_ledger_info(node.data, path).value
        except RecordError:
            continue
        refuse_shadow(name, info)


async def source_record(reader: MetadataReader, managed_ledger: str, source: str) -> tuple[str, Node] | None:
    """Path and node of the record of `source`, the source of the shadow `managed_ledger`, or None.

    A shadow of a partitioned topic has the same partitions, each a shadow of one of the source's.
    """
    try:
        shadow, named = TopicName.of_managed_ledger(managed_ledger), TopicName.parse(source)
    except InvalidName:
        return None
    wanted = [named]
    if shadow.partition_index is not None and named.partition_index is None:
        wanted.append(named.partition(shadow.partition_index))
    paths = [each.managed_ledger_path for each in wanted]
    for path, node in zip(paths, await reader.get_many(paths), strict=True):
        if node is not None:
            return path, node
    return None
