"""What internal stats show of an offloaded ledger."""

from uuid import UUID

from mledger.admin.internal_stats import Offload, offload_of
from mledger.metastore.records.pb.MLDataFormats_pb2 import OffloadContext as OffloadMessage
from mledger.metastore.records.values import LedgerInfo, OffloadContext


def test_the_uuid_of_an_offloaded_ledger_is_made_of_both_halves():
    uuid = UUID("fedcba98-7654-4321-8765-43210fedcba9")
    halves = [int.from_bytes(part, "big", signed=True) for part in (uuid.bytes[:8], uuid.bytes[8:])]
    message = OffloadMessage(uidMsb=halves[0], uidLsb=halves[1], complete=True)
    ledger = LedgerInfo(1, offload=OffloadContext(message.SerializeToString()))
    assert offload_of(ledger) == Offload(True, uuid)
    assert offload_of(LedgerInfo(1)) == Offload()
