"""A cursor with very many holes is acknowledged, listed, written and recovered: `python -m bench.many_holes [HOLES]`.

Every other entry is acknowledged. Prints CPU time of this process, one JSON object per line. Needs no cluster.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from mledger.cursors.acks.ack_records import state_record
from mledger.cursors.acks.ack_state import AckState
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.codec import decode_position_info, encode_position_info
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo, PositionInfo

HOLES = 1_000_000
LEDGER_ENTRIES = 50_000
NO_LIMIT = 1 << 40

T = TypeVar("T")


def measured(what: str, work: Callable[[], T]) -> T:
    """Do it and print how long it took."""
    began = time.process_time()
    result = work()
    took = 1000 * (time.process_time() - began)
    print(json.dumps({"bench": "many_holes", "what": what, "value": round(took, 1), "unit": "ms"}), flush=True)
    return result


def recovered(data: bytes, ledgers: LedgerList) -> AckState:
    """The state in an entry of a cursor ledger."""
    read = decode_position_info(data).value
    state, _ = AckState.recover(read.position, ledgers, ranges=read.ranges, ledger_bits=read.ledger_bits)
    return state


def main() -> None:
    """Measure and print."""
    holes = int(sys.argv[1]) if len(sys.argv) > 1 else HOLES
    ledgers = LedgerList(
        [LedgerInfo(number, LEDGER_ENTRIES, 1, 1) for number in range(1, 2 * holes // LEDGER_ENTRIES + 2)]
    )
    places = [Position(1 + at // LEDGER_ENTRIES, at % LEDGER_ENTRIES) for at in range(1, 2 * holes, 2)]
    state = AckState(Position(1, -1))
    measured("acknowledged in one call", lambda: state.acknowledge(places, ledgers))
    ranges = measured("listed", state.ranges)
    words = measured("written by us", lambda: encode_position_info(state_record(state, limit=NO_LIMIT)))
    java = measured("written as ranges", lambda: encode_position_info(PositionInfo(Position(1, -1), tuple(ranges))))
    for what, data in (("recovered from ours", words), ("recovered from ranges", java)):
        if measured(what, lambda data=data: recovered(data, ledgers)) != state:  # type: ignore[misc]
            raise SystemExit(f"{what}: another state than was written")


if __name__ == "__main__":
    main()
