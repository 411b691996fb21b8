"""Which consumer of a shared subscription has the chunks of a message (D2): the others go to the same one.

- A client can put a message together only if it receives all of its chunks, in order. Its first chunk goes to whoever
  has a turn, each later one to the consumer that has the one before it.
- Nothing is known of a message once its last chunk went out, its consumer is gone, or gave a chunk of it back.
- Producers that end within a message leave it unfinished. So no more than MOST messages are remembered.
"""

from collections.abc import Container, Sequence

from mledger.broker.dispatch.consumer import DispatchConsumer
from mledger.broker.facts import MessageChunk
from mledger.metastore.records.position import Position

MOST = 4_096


class _UnfinishedMessage:
    __slots__ = ("consumer", "next", "sent")

    def __init__(self, consumer: DispatchConsumer) -> None:
        self.consumer = consumer
        self.next = 0
        self.sent: list[Position] = []


class ChunkOwners:
    """The consumers of messages of which some chunks went out, and not the last one."""

    __slots__ = ("_unfinished",)

    def __init__(self) -> None:
        self._unfinished: dict[str, _UnfinishedMessage] = {}

    def __len__(self) -> int:
        return len(self._unfinished)

    def owner(self, chunk: MessageChunk) -> DispatchConsumer | None:
        """The consumer that has the chunk before this one; None if nobody has, or this is the first."""
        known = self._unfinished.get(chunk.uuid)
        return known.consumer if known is not None and 0 < chunk.number <= known.next else None

    def went(self, chunk: MessageChunk, position: Position, consumer: DispatchConsumer) -> None:
        """A chunk went to a consumer."""
        if chunk.is_last:
            self._unfinished.pop(chunk.uuid, None)
            return
        known = self._unfinished.get(chunk.uuid)
        if known is None or known.consumer is not consumer:
            if len(self._unfinished) >= MOST:
                del self._unfinished[next(iter(self._unfinished))]
            known = self._unfinished[chunk.uuid] = _UnfinishedMessage(consumer)
        known.next = max(known.next, chunk.number + 1)
        known.sent.append(position)

    def taken_back(self, consumer: DispatchConsumer, positions: Sequence[Position] | None) -> None:
        """A consumer has these entries no more, or none at all: its messages begin anew if they are among them."""
        if not self._unfinished:
            return
        gone: Container[Position] | None = None if positions is None else set(positions)
        self._unfinished = {
            uuid: known
            for uuid, known in self._unfinished.items()
            if known.consumer is not consumer
            or (gone is not None and not any(position in gone for position in known.sent))
        }

    def clear(self) -> None:
        """The cursor moved: nobody has anything."""
        self._unfinished.clear()
