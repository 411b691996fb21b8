"""Ranges are encoded as protobuf encodes them, whatever their numbers."""

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from mledger.cursors.acks.encoded_ranges import encoded_ranges
from mledger.cursors.acks.entry_bits import MAX_ENTRY, edges_of, ranges_of
from mledger.metastore.records.codec import encode_position_info
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import PositionInfo

_EDGES = [0, 1, 2**7 - 1, 2**7, 2**14, 2**21 - 1, 2**28, MAX_ENTRY - 1, MAX_ENTRY]
_ENTRIES = st.sets(st.sampled_from(_EDGES) | st.integers(0, 40), min_size=1)
_LEDGERS = st.integers(0, 200) | st.sampled_from([2**31 - 1, 2**35, 2**63 - 1])


@given(st.dictionaries(_LEDGERS, _ENTRIES, max_size=4))
def test_the_bytes_are_those_of_protobuf(found):
    edges = [edges_of(ledger_id, BitMap(found[ledger_id])) for ledger_id in sorted(found)]
    nothing = Position(0, 0)
    expected = encode_position_info(PositionInfo(nothing, ranges=tuple(ranges_of(edges))))
    assert encode_position_info(PositionInfo(nothing)) + encoded_ranges(edges) == expected
