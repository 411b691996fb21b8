"""What tells a topic from a later one of its name, as undo files record it: no record's version does."""

import contextlib
from collections.abc import Iterable

from mledger.admin.undo.undo_file import TopicIdentity
from mledger.metastore.errors import RecordError
from mledger.metastore.records.codec import decode_managed_ledger_info
from mledger.metastore.records.paths import is_possible_ledger, managed_ledger_path, topic_above
from mledger.metastore.store import MetadataReader, Node

MOST_LEDGERS = 100
"""Of the last ones, which trimming leaves longest: a topic may have a hundred thousand."""


def identity_of(path: str, node: Node) -> TopicIdentity:
    """The identity of the topic whose record is `node`; one that does not parse names no ledgers (M12)."""
    ledgers: list[int] = []
    with contextlib.suppress(RecordError):
        listed = decode_managed_ledger_info(node.data, path).value.ledgers
        ledgers = [ledger.ledger_id for ledger in listed if is_possible_ledger(ledger.ledger_id)]
    return TopicIdentity(path, node.stat.created_ms, tuple(ledgers[-MOST_LEDGERS:]))


async def read_identities(
    reader: MetadataReader, managed_ledgers: Iterable[str], paths: Iterable[str]
) -> tuple[TopicIdentity, ...]:
    """Those of the managed ledgers, and of the topics whose cursors have a record at `paths`, that exist."""
    above = filter(None, map(topic_above, paths))
    wanted = list(dict.fromkeys([*map(managed_ledger_path, managed_ledgers), *above]))
    nodes = await reader.get_many(wanted)
    found = zip(wanted, nodes, strict=True)
    return tuple(identity_of(path, node) for path, node in found if node is not None)
