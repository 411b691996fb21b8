"""The records that store a cursor's state (C3, C5); no I/O.

A state is one entry that Pulsar 4.x reads: ranges or bit-set words, whichever is smaller. It is
always complete: if it does not fit, that is an error and the state stays in memory. The znode alone
stores a state of few ranges, without batch indexes, in a small record.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mledger.config import CURSOR_ZNODE_LIMIT, MAX_MESSAGE_SIZE
from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.acks.encoded_ranges import encoded_ranges
from mledger.cursors.acks.entry_bits import FEW, WordArrays
from mledger.errors import AckStateTooLarge
from mledger.metastore.records.codec import encode_managed_cursor_info, encode_position_info
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import NO_CURSOR_LEDGER, BatchDeletion, ManagedCursorInfo, PositionInfo

if TYPE_CHECKING:
    import numpy as np  # imported only for states with holes: read-only commands start sooner without it

Properties = tuple[tuple[str, int], ...]

LEAST_OF_WORD = 2
"""Encoded bytes that a word of a bit set takes at least: where runs are long, ranges are smaller for sure."""


def state_record(acks: AckState, properties: Properties = (), *, limit: int = MAX_MESSAGE_SIZE) -> PositionInfo:
    """The state as one entry of a cursor ledger, in the smaller of the two forms (C5).

    Raises AckStateTooLarge when neither form's encoding fits `limit` bytes.
    """
    batches = acks.batch_deletions()
    return _record(acks, properties, batches, as_ranges=_is_smaller_as_ranges(acks, properties, batches, limit))


def _record(
    acks: AckState, properties: Properties, batches: tuple[BatchDeletion, ...], *, as_ranges: bool
) -> PositionInfo:
    return PositionInfo(
        position=acks.mark_delete,
        ranges=tuple(acks.ranges()) if as_ranges else (),
        properties=properties,
        batch_deletions=batches,
        ledger_bits=() if as_ranges else acks.ledger_bits(),
    )


def encoded_state(acks: AckState, properties: Properties = (), *, limit: int = MAX_MESSAGE_SIZE) -> bytes:
    """The bytes of a `state_record`, made without an object for each range. Raises AckStateTooLarge."""
    batches = acks.batch_deletions()
    as_ranges = _is_smaller_as_ranges(acks, properties, batches, limit)
    if not as_ranges or acks.range_count <= FEW:
        return encode_position_info(_record(acks, properties, batches, as_ranges=as_ranges))
    place = encode_position_info(PositionInfo(acks.mark_delete))
    whole = encode_position_info(PositionInfo(acks.mark_delete, properties=properties, batch_deletions=batches))
    return place + encoded_ranges(list(acks.edge_arrays())) + whole[len(place) :]  # in the order of the fields


def _is_smaller_as_ranges(acks: AckState, properties: Properties, batches: Sequence[BatchDeletion], limit: int) -> bool:
    """Whether ranges take fewer bytes than words, or as many. Raises AckStateTooLarge."""
    ranges = ranges_size(acks)
    words = words_size(acks) if acks.word_count * LEAST_OF_WORD < ranges else ranges
    size = min(ranges, words) + _rest_size(acks, properties, batches)
    if size > limit:
        raise AckStateTooLarge(
            f"the state at {acks.mark_delete} with {acks.deleted_count:,} entries acknowledged above it takes {size:,} "
            f"bytes, and an entry holds {limit:,}: acknowledge the entries between them"
        )
    return ranges <= words


def znode_record(
    acks: AckState,
    properties: Properties,
    cursor_properties: tuple[tuple[str, str], ...],
    last_active_ms: int,
    *,
    max_ranges: int = 1000,
    limit: int = CURSOR_ZNODE_LIMIT,
) -> ManagedCursorInfo | None:
    """The state as the cursor's znode, without a cursor ledger; None if it needs a cursor ledger (C3).

    It needs one if it has more than `max_ranges` ranges, or batch indexes, or if its encoding
    reaches `limit` bytes.
    """
    if acks.has_batches or acks.range_count > max_ranges:
        return None
    record = ManagedCursorInfo(
        cursors_ledger_id=NO_CURSOR_LEDGER,
        mark_delete=acks.mark_delete,
        ranges=tuple(acks.ranges()),
        properties=properties,
        last_active=last_active_ms,
        cursor_properties=cursor_properties,
    )
    return record if len(encode_managed_cursor_info(record)) < limit else None


def ranges_size(acks: AckState) -> int:
    """Encoded bytes of all ranges of a state."""
    if acks.range_count <= FEW:
        return sum(
            _message_size(_message_size(_position_size(lower)) + _message_size(_position_size(upper)))
            for lower, upper in acks.ranges()
        )
    import numpy as np

    edges = list(acks.edge_arrays())
    firsts = np.concatenate([each.firsts for each in edges])  # of all ledgers: there may be thousands
    lower = np.where(firsts == 0, 10, _varint_sizes(np.maximum(firsts.astype(np.int64) - 1, 0)))
    upper = _varint_sizes(np.concatenate([each.lasts for each in edges]))
    return int(np.sum(lower + upper)) + sum(len(each.firsts) * _least_of_range(each.ledger_id) for each in edges)


def words_size(acks: AckState) -> int:
    """Encoded bytes of the bit-set words of a state."""
    return sum(_words_size(words) for words in acks.word_arrays())


def _least_of_range(ledger_id: int) -> int:
    """Encoded bytes of a range of the ledger without its entry ids: a range takes less than 128 bytes."""
    position = 2 + varint_size(ledger_id)  # both tags and the ledger id
    return 2 * (position + 2) + 2


def _words_size(words: WordArrays) -> int:
    used = len(words.values)
    values = sum(map(varint_size, words.values.tolist())) if used <= FEW else int(_varint_sizes(words.values).sum())
    return _message_size(1 + varint_size(words.ledger_id) + 2 * (words.length - used) + used + values)


def _rest_size(acks: AckState, properties: Properties, batches: Sequence[BatchDeletion]) -> int:
    size = _position_size(acks.mark_delete)
    for name, value in properties:
        text = len(name.encode())
        size += _message_size(1 + varint_size(text) + text + 1 + varint_size(value))
    for batch in batches:
        words = sum(1 + varint_size(word) for word in batch.words)
        size += _message_size(_message_size(_position_size(batch.position)) + words)
    return size


def _position_size(position: Position) -> int:
    return 2 + varint_size(position.ledger_id) + varint_size(position.entry_id)


def _message_size(body: int) -> int:
    return 1 + varint_size(body) + body


def varint_size(value: int) -> int:
    """Bytes of a protobuf varint; a negative one takes ten."""
    return 10 if value < 0 else max(1, -(-value.bit_length() // 7))


def _varint_sizes(values: "np.ndarray[Any, Any]") -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    import numpy as np

    numbers = values.astype(np.uint64)
    sizes = np.ones(len(numbers), dtype=np.int64)
    for bits in range(7, 64, 7):
        sizes += numbers >= np.uint64(1 << bits)
    return sizes
