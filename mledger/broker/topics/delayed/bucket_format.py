"""How Pulsar stores a bucket of delayed messages (formats.md): names, custom metadata, entries; no I/O.

The properties of the cursor name the bucket's ledger: `#pulsar.internal.delayed.bucket_<first ledger>_<last ledger>` is
its number as text. The ledger is closed. Its entry 0 summarises the segments, each of which is an entry behind it.
"""

from collections.abc import Mapping, Sequence

from pyroaring import BitMap

from mledger.broker.dispatch.waiting.delayed_bucket import DelayedEntry, SegmentSummary
from mledger.ledgers.ledger_factory import CustomMetadata
from mledger.ledgers.orphans.pending_records import is_ledger_id
from mledger.ledgers.orphans.references import DELAYED_INDEX
from mledger.metastore.records.protobuf import parse_binary, record_error
from mledger.metastore.records.values import DELAYED_BUCKET
from mledger.pb.DelayedMessageIndex_pb2 import (
    DelayedIndex,
    SnapshotMetadata,
    SnapshotSegment,
    SnapshotSegmentMetadata,
)

_KEY = "pulsar/delayedIndexBucketKey"
_TOPIC = "pulsar/delayedIndexTopic"
_CURSOR = "pulsar/delayedIndexCursor"


def bucket_name(start: int, end: int) -> str:
    """The name of the bucket of ledgers `start` to `end`."""
    return f"{DELAYED_BUCKET}_{start}_{end}"


def parse_bucket_name(name: str) -> tuple[int, int] | None:
    """The first and last ledger of the bucket that a cursor's property names; None if it names none."""
    head, _, rest = name.partition("_")
    numbers = rest.split("_")
    if head != DELAYED_BUCKET or len(numbers) != 2 or not all(map(is_ledger_id, numbers)):
        return None
    return int(numbers[0]), int(numbers[1])


def custom_metadata(name: str, topic: str, cursor: str) -> CustomMetadata:
    """The custom metadata of a bucket's ledger."""
    return (
        ("application", b"pulsar"),
        ("component", DELAYED_INDEX.encode()),
        (_KEY, name.encode()),
        (_TOPIC, topic.encode()),
        (_CURSOR, cursor.encode()),
    )


def belongs(custom: Mapping[str, bytes], topic: str, cursor: str) -> bool:
    """Whether a ledger with this custom metadata is a bucket of the subscription; old ones do not name it."""
    wanted = {"component": DELAYED_INDEX, _TOPIC: topic, _CURSOR: cursor}
    found = {_TOPIC: topic.encode(), _CURSOR: cursor.encode(), **custom}
    return all(found.get(key) == value.encode() for key, value in wanted.items())


def encode_summaries(summaries: Sequence[SegmentSummary]) -> bytes:
    """Entry 0: what the bucket says of its segments."""
    segments = [
        SnapshotSegmentMetadata(
            delayed_index_bit_map=dict(each.entries),
            max_schedule_timestamp=each.last_ms,
            min_schedule_timestamp=each.first_ms,
        )
        for each in summaries
    ]
    return SnapshotMetadata(metadata_list=segments).SerializeToString(deterministic=True)


def decode_summaries(data: bytes, where: str) -> tuple[SegmentSummary, ...]:
    """What a bucket says of its segments. RecordError; `where` names the entry.

    Where the first time of a segment is not stored, it counts as that of the last one of the segment before.
    """
    found: list[SegmentSummary] = []
    for each in parse_binary(SnapshotMetadata, data, "bucket of delayed messages", where).metadata_list:
        before = found[-1].last_ms if found else 0
        first = each.min_schedule_timestamp if each.HasField("min_schedule_timestamp") else before
        bitmaps = sorted(each.delayed_index_bit_map.items())
        for _, bits in bitmaps:
            _check_bitmap(bits, where)
        found.append(SegmentSummary(first, each.max_schedule_timestamp, tuple(bitmaps)))
    return tuple(found)


def _check_bitmap(bits: bytes, where: str) -> None:
    try:
        BitMap.deserialize(bits)
    except (ValueError, TypeError) as error:
        raise record_error("bucket of delayed messages", where, f"a bitmap is damaged: {error}") from None


def encode_segment(entries: Sequence[DelayedEntry]) -> bytes:
    """The entry of one segment."""
    indexes = [DelayedIndex(timestamp=at, ledger_id=ledger, entry_id=entry) for at, ledger, entry in entries]
    return SnapshotSegment(indexes=indexes).SerializeToString()


def decode_segment(data: bytes, where: str) -> list[DelayedEntry]:
    """The entries of one segment. RecordError; `where` names the entry."""
    found = parse_binary(SnapshotSegment, data, "segment of delayed messages", where)
    return [DelayedEntry(each.timestamp, each.ledger_id, each.entry_id) for each in found.indexes]
