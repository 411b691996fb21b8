"""Which messages of a topic are duplicates, by the sequence ids of their producers. No I/O.

A message is a duplicate if its producer has sent its sequence id, or a higher one, before. All
chunks of a message have one sequence id: the last chunk decides. Once that is stored, so are the
others; stored again without it they would be a message that never ends, which no consumer can
acknowledge.
"""

import enum
from collections.abc import Mapping


class Duplicate(enum.Enum):
    """Whether a message was sent before."""

    NO = "no"
    STORED = "stored"
    PENDING = "pending"  # it was sent, and whether it is stored is not known yet


class SequenceIds:
    """The highest sequence ids by producer: of what was sent to the ledger, and of what is stored."""

    def __init__(self, stored: Mapping[str, int] | None = None) -> None:
        self.stored = dict(stored or {})
        self._sent = dict(self.stored)

    def last(self, producer: str) -> int:
        """The highest sequence id stored of a producer, -1 for none."""
        return self.stored.get(producer, -1)

    def last_sent(self, producer: str) -> int:
        """The highest sequence id sent to the ledger of a producer, -1 for none."""
        return self._sent.get(producer, -1)

    def send(self, producer: str, sequence_id: int, highest_id: int) -> Duplicate:
        """Judge a message, or a batch of sequence ids up to `highest_id`; one that is new counts as sent."""
        if sequence_id <= self._sent.get(producer, -1):
            return Duplicate.STORED if sequence_id <= self.last(producer) else Duplicate.PENDING
        self._sent[producer] = max(sequence_id, highest_id)
        return Duplicate.NO

    def send_chunk(self, producer: str, sequence_id: int) -> Duplicate:
        """Judge a chunk that is not its message's last one; it counts as sent only with that."""
        return Duplicate.STORED if sequence_id <= self.last(producer) else Duplicate.NO

    def store(self, producer: str, highest_id: int) -> None:
        """A producer's messages up to `highest_id` are stored."""
        if highest_id > self.last(producer):
            self.stored[producer] = highest_id
        if highest_id > self._sent.get(producer, -1):
            self._sent[producer] = highest_id

    def take_back(self, producer: str, last_sent: int) -> None:
        """What a producer sent after `last_sent` did not go to the ledger; what it sent before is still pending."""
        if last_sent < 0:
            self._sent.pop(producer, None)
        else:
            self._sent[producer] = last_sent

    def fail(self, producer: str) -> None:
        """What a producer sent was not stored: it may send it again."""
        if producer in self.stored:
            self._sent[producer] = self.stored[producer]
        else:
            self._sent.pop(producer, None)

    def forget(self, producer: str) -> None:
        """A producer has been away for long: its sequence ids count no longer."""
        self.stored.pop(producer, None)
        self._sent.pop(producer, None)
