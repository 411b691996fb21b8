"""Marks and locks of auto-recovery, which are protobuf text (formats.md); their paths are in `records.paths`."""

import json

from google.protobuf import text_format
from msgspec import Struct

from mledger.metastore.records.pb.LedgerMetadata_pb2 import (
    AuditorVoteFormat,
    LockDataFormat,
    UnderreplicatedLedgerFormat,
)
from mledger.metastore.records.protobuf import parse_text, record_error

NOT_KEPT = -1
"""`ctime` of a mark without a time."""


class UnderreplicatedLedger(Struct, frozen=True):
    """A mark: since `ctime` (ms since 1970) the ledger lacks the replicas of these bookies."""

    replicas: tuple[str, ...]
    ctime: int = NOT_KEPT


def decode_underreplicated_ledger(data: bytes, path: str = "") -> UnderreplicatedLedger:
    """The mark in `data`; RecordError."""
    message = parse_text(UnderreplicatedLedgerFormat, data, "under-replication mark", path)
    return UnderreplicatedLedger(tuple(message.replica), message.ctime if message.HasField("ctime") else NOT_KEPT)


def encode_underreplicated_ledger(mark: UnderreplicatedLedger) -> bytes:
    """The bytes of a mark."""
    ctime = None if mark.ctime == NOT_KEPT else mark.ctime
    message = UnderreplicatedLedgerFormat(replica=mark.replicas, ctime=ctime)
    return text_format.MessageToString(message).encode()


def decode_lock(data: bytes, path: str = "") -> str:
    """The bookie that holds a ledger's lock; RecordError."""
    return parse_text(LockDataFormat, data, "under-replication lock", path).bookieId


def encode_lock(bookie_id: str) -> bytes:
    """The bytes of a lock that `bookie_id` holds."""
    return text_format.MessageToString(LockDataFormat(bookieId=bookie_id)).encode()


def decode_auditor_vote(data: bytes, path: str = "") -> str:
    """The bookie that stands for election as auditor, or is the auditor; RecordError."""
    return parse_text(AuditorVoteFormat, data, "auditor's vote", path).bookieId


def encode_auditor_vote(bookie_id: str) -> bytes:
    """The bytes of a vote for `bookie_id`."""
    return text_format.MessageToString(AuditorVoteFormat(bookieId=bookie_id)).encode()


def decode_auditor_leader(data: bytes, path: str = "") -> str:
    """The bookie that Pulsar's metadata driver elected as auditor: a JSON string. RecordError."""
    try:
        found = json.loads(data)
    except ValueError as error:
        raise record_error("auditor's election", path, str(error)) from None
    if not isinstance(found, str):
        raise record_error("auditor's election", path, f"{data[:40]!r} is not a bookie's id")
    return found
