"""Java's words of `ack_set` and their combinations (tests/golden/pulsar-frames), on our batch indexes."""

import pytest

from mledger.cursors.acks.ack_state import AckState
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo
from tests.support.recordings import golden

FILES = golden.files("pulsar-frames/ack-sets-*.json")
LEDGERS = LedgerList([LedgerInfo(7)], current=7, live_entries=2)
BATCH = Position(7, 1)


def words_without(size, acked):
    """The words of a batch with these indexes acknowledged: a 1 stands for one that is not."""
    bits = sum(1 << index for index in range(size) if index not in set(acked))
    count = (bits.bit_length() + 63) // 64
    data = bits.to_bytes(count * 8, "little")
    return tuple(int.from_bytes(data[at : at + 8], "little", signed=True) for at in range(0, len(data), 8))


def after(*acknowledgements):
    acks = AckState(Position(7, -1))
    for words in acknowledgements:
        acks.acknowledge_batch(BATCH, words, LEDGERS)
    return acks


@pytest.mark.parametrize("file", FILES)
def test_the_words_name_the_indexes_not_yet_acknowledged(file):
    for case in golden.load(file)["cases"]:
        words = words_without(case["batchSize"], case["ackedIndexes"])
        assert list(words) == case["words"] == case["bitSetRecyclableWords"]
        assert (
            b"".join(word.to_bytes(8, "little", signed=True) for word in words).rstrip(b"\0").hex() == case["bytes_hex"]
        )
        assert sum((word & (1 << 64) - 1).bit_count() for word in words) == case["unackedCount"]


@pytest.mark.parametrize("file", FILES)
def test_a_batch_keeps_the_words_of_its_first_acknowledgement(file):
    for case in golden.load(file)["cases"]:
        acks = after(case["words"])
        assert acks.is_deleted(BATCH) == case["empty"]
        assert list(acks.batch_words(BATCH) or ()) == case["words"]


@pytest.mark.parametrize("file", FILES)
def test_a_second_acknowledgement_leaves_what_neither_has_acknowledged(file):
    for case in golden.load(file)["cases"]:
        acks = after(case["words"], case["andWith"])
        assert acks.is_deleted(BATCH) == (not case["andResult"])
        assert list(acks.batch_words(BATCH) or ()) == case["andResult"]
