"""What the record of a topic says of a ledger's copy in tiered storage."""

from mledger.metastore.records.pb.MLDataFormats_pb2 import OffloadContext as OffloadMessage
from mledger.metastore.records.protobuf import parse_binary
from mledger.metastore.records.values import LedgerInfo


def is_offloaded(ledger: LedgerInfo, path: str = "") -> bool:
    """Whether the ledger, of the record at `path`, has a complete copy in tiered storage."""
    if ledger.offload is None:
        return False
    return parse_binary(OffloadMessage, ledger.offload.encoded, "offload context", path).complete


def deleted_after_offload(ledger: LedgerInfo, path: str = "") -> bool:
    """Whether the ledger, of the record at `path`, is offloaded and was deleted from the bookies on purpose."""
    if ledger.offload is None:
        return False
    context = parse_binary(OffloadMessage, ledger.offload.encoded, "offload context", path)
    return context.complete and context.bookkeeperDeleted
