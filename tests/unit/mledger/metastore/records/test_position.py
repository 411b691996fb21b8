"""The position of an entry (M2)."""

import pytest

from mledger.metastore.records.position import NO_ENTRY, Position, PositionRange


def test_positions_are_ordered_by_ledger_then_by_entry():
    ordered = [Position(-1, -1), Position(3, NO_ENTRY), Position(3, 0), Position(3, 10), Position(20, 2)]
    assert sorted([ordered[3], *ordered[:3], ordered[4]]) == ordered


def test_a_position_is_written_as_it_is_parsed():
    assert str(Position.parse("56:9")) == "56:9"
    assert Position.parse("56:-1") == Position(56, NO_ENTRY)


@pytest.mark.parametrize("text", ["", "56", "56:", ":9", "56:x", "56:9:0", "5_6:9"])
def test_what_is_no_position_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="write it as LEDGER:ENTRY"):
        Position.parse(text)


def test_an_id_that_no_record_can_hold_is_refused():
    with pytest.raises(ValueError, match=r"below 2\^63"):
        Position.parse(f"0:{1 << 63}")


def test_a_range_is_written_open_below_and_closed_above():
    assert str(PositionRange(Position(3, 4), Position(5, 6))) == "(3:4..5:6]"
