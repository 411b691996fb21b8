"""What a driver does without I/O: it reads scattered positions as few spans."""

from mledger.broker.topics.driver import spans
from mledger.metastore.records.position import Position


def test_consecutive_positions_of_a_ledger_are_one_span():
    positions = [Position(1, 3), Position(1, 4), Position(2, 5), Position(2, 7), Position(2, 8)]
    assert spans(positions) == [
        (Position(1, 3), Position(1, 4)),
        (Position(2, 5), Position(2, 5)),
        (Position(2, 7), Position(2, 8)),
    ]
