"""What the commands that stand for the originals' admin tools decide, over plain values."""

from uuid import UUID

from mledger.admin.internal_stats import Offload, offload_of
from mledger.cli.ledgers.bookie_replacement import why_left, with_bookie
from mledger.cli.topics.drop_ledgers import without_ledgers
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.pb.MLDataFormats_pb2 import OffloadContext as OffloadMessage
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo, OffloadContext

CLOSED = LedgerMetadata(2, 2, 2, (Segment(0, ("a", "b")), Segment(7, ("c", "a"))), state=LedgerState.CLOSED)


def test_a_bookie_is_replaced_in_every_ensemble_at_its_place():
    assert with_bookie(CLOSED, "a", "d").segments == (Segment(0, ("d", "b")), Segment(7, ("c", "d")))


def test_a_ledger_is_left_where_both_bookies_share_an_ensemble_or_it_is_not_closed():
    assert why_left(CLOSED, "a", "d") is None
    assert why_left(CLOSED, "a", "c") == "c is in the same ensemble already"
    assert why_left(LedgerMetadata(1, 1, 1, (Segment(0, ("a",)),)), "a", "d") == "it is OPEN"


def test_dropping_ledgers_keeps_all_else_of_the_record():
    info = ManagedLedgerInfo((LedgerInfo(1), LedgerInfo(2), LedgerInfo(3)), properties=(("a", "b"),), unknown=b"kept")
    assert without_ledgers(info, frozenset({2, 9})) == ManagedLedgerInfo(
        (LedgerInfo(1), LedgerInfo(3)), properties=(("a", "b"),), unknown=b"kept"
    )


def test_the_uuid_of_an_offloaded_ledger_is_made_of_both_halves():
    uuid = UUID("fedcba98-7654-4321-8765-43210fedcba9")
    halves = [int.from_bytes(part, "big", signed=True) for part in (uuid.bytes[:8], uuid.bytes[8:])]
    message = OffloadMessage(uidMsb=halves[0], uidLsb=halves[1], complete=True)
    ledger = LedgerInfo(1, offload=OffloadContext(message.SerializeToString()))
    assert offload_of(ledger) == Offload(True, uuid)
    assert offload_of(LedgerInfo(1)) == Offload()
