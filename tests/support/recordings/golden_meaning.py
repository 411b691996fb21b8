"""Our values in the words of `decoded` in the golden files, for comparison."""

from typing import Any

from mledger.metastore.records.ledger_metadata import DigestType, LedgerMetadata
from mledger.metastore.records.pb.MLDataFormats_pb2 import OffloadContext as OffloadMessage
from mledger.metastore.records.position import PositionRange
from mledger.metastore.records.values import (
    BatchDeletion,
    LedgerInfo,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    OffloadContext,
    PositionInfo,
)

Json = dict[str, Any]


def managed_ledger_info(info: ManagedLedgerInfo) -> Json:
    meaning: Json = {
        "type": "ManagedLedgerInfo",
        "ledgerInfo": [_ledger_info(ledger) for ledger in info.ledgers],
        "properties": dict(info.properties),
    }
    if info.terminated is not None:
        meaning["terminatedPosition"] = list(info.terminated)
    return meaning


def managed_cursor_info(info: ManagedCursorInfo) -> Json:
    meaning: Json = {
        "type": "ManagedCursorInfo",
        "cursorsLedgerId": info.cursors_ledger_id,
        "individualDeletedMessages": [_range(each) for each in info.ranges],
        "properties": dict(info.properties),
        "batchedEntryDeletionIndexInfo": [_batch_deletion(each) for each in info.batch_deletions],
        "cursorProperties": dict(info.cursor_properties),
    }
    if info.mark_delete is not None:
        meaning["markDeleteLedgerId"], meaning["markDeleteEntryId"] = info.mark_delete
    if info.last_active:
        meaning["lastActive"] = info.last_active
    return meaning


def position_info(info: PositionInfo) -> Json:
    return {
        "type": "PositionInfo",
        "ledgerId": info.position.ledger_id,
        "entryId": info.position.entry_id,
        "individualDeletedMessages": [_range(each) for each in info.ranges],
        "properties": dict(info.properties),
        "batchedEntryDeletionIndexInfo": [_batch_deletion(each) for each in info.batch_deletions],
        "individualDeletedMessageRanges": [
            {"key": each.ledger_id, "values": list(each.words)} for each in info.ledger_bits
        ],
    }


def ledger_metadata(ledger_id: int, metadata: LedgerMetadata) -> Json:
    meaning: Json = {
        "type": "LedgerMetadata",
        "ledgerId": ledger_id,
        "metadataFormatVersion": metadata.format_version,
        "ensembleSize": metadata.ensemble_size,
        "writeQuorumSize": metadata.write_quorum,
        "ackQuorumSize": metadata.ack_quorum,
        "state": metadata.state.name,
        "lastEntryId": metadata.last_entry,
        "length": metadata.length,
        "hasPassword": metadata.password is not None,
        "ctime": metadata.ctime,
        "cToken": metadata.c_token,
        "customMetadata": {key: value.decode(errors="replace") for key, value in metadata.custom_metadata},
        "ensembles": [{"firstEntryId": each.first_entry, "members": list(each.bookies)} for each in metadata.segments],
    }
    if metadata.digest_type is not None:
        meaning["digestType"] = "MAC" if metadata.digest_type is DigestType.HMAC else metadata.digest_type.name
    if metadata.password is not None:
        meaning["password_hex"] = metadata.password.hex()
    return meaning


def _ledger_info(ledger: LedgerInfo) -> Json:
    meaning: Json = {"ledgerId": ledger.ledger_id, "properties": dict(ledger.properties)}
    for name, value in (("entries", ledger.entries), ("size", ledger.size), ("timestamp", ledger.timestamp)):
        if value or name in ledger.zeros:
            meaning[name] = value
    if ledger.offload is not None:
        meaning["offloadContext"] = _offload(ledger.offload)
    return meaning


def _offload(context: OffloadContext) -> Json:
    message = OffloadMessage.FromString(context.encoded)
    meaning: Json = {field.name: value for field, value in message.ListFields() if field.name != "driverMetadata"}
    if message.HasField("driverMetadata"):
        driver = message.driverMetadata
        meaning["driverMetadata"] = {
            "name": driver.name,
            "properties": {each.key: each.value for each in driver.properties},
        }
    return meaning


def _range(found: PositionRange) -> Json:
    return {"lowerEndpoint": list(found.lower), "upperEndpoint": list(found.upper)}


def _batch_deletion(deletion: BatchDeletion) -> Json:
    return {"position": list(deletion.position), "deleteSet": list(deletion.words)}
