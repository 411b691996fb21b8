"""LedgerMetadata as bytes, in all versions that BookKeeper has written (formats.md, ZooKeeper tree).

A header line names the version. 1: lines of tab-separated text. 2: the protobuf message as text. 3: a varint length
and the message. An update is written in the version that was read. Before a ledger is closed its last entry is -1
and its length 0, whatever the record says.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

from google.protobuf import text_format

from mledger.metastore.errors import InvalidName, RecordError
from mledger.metastore.records.ledger_metadata import (
    NO_ENTRY,
    NOT_KEPT,
    DigestType,
    LedgerMetadata,
    LedgerState,
    Segment,
)
from mledger.metastore.records.paths import check_bookie_id
from mledger.metastore.records.pb.LedgerMetadata_pb2 import LedgerMetadataFormat
from mledger.metastore.records.protobuf import (
    parse_binary,
    parse_text,
    record_error,
    text_of,
    unknown_fields,
    unknown_numbers,
)

HEADER_3 = b"BookieMetadataFormatVersion\t3\n"
"""How metadata of format version 3 begins."""

_WHAT = "ledger metadata"
_HEADER = re.compile(rb"BookieMetadataFormatVersion\t(\d{1,10})\n")
_NUMBER = re.compile(r"-?\d{1,19}", re.ASCII)
_DIGEST_TYPE = LedgerMetadataFormat.DIGESTTYPE_FIELD_NUMBER

_STATES = {state.value: state for state in LedgerState}
_DIGEST_TYPES = {digest.value: digest for digest in DigestType}
_CLOSED = "CLOSED"
_IN_RECOVERY_ENTRY = -102


def decode_ledger_metadata(data: bytes, path: str = "") -> LedgerMetadata:
    """Decode the metadata in `data`, read at `path`; RecordError if it is damaged or its version is unknown."""
    if data.startswith(HEADER_3):
        version, body = 3, data[len(HEADER_3) :]
    else:
        header = _HEADER.match(data)
        if header is None:
            raise record_error(_WHAT, path, "it does not begin with its format version")
        version, body = int(header[1]), data[header.end() :]
    if version == 3:
        metadata = _of_message(_parse_delimited(body, path), version, path)
    elif version == 2:
        metadata = _of_message(parse_text(LedgerMetadataFormat, body, _WHAT, path), version, path)
    elif version == 1:
        metadata = _decode_version_1(body, path)
    else:
        raise record_error(_WHAT, path, f"its format version is {version}, this program reads 1 to 3")
    wrong = contradiction(metadata)
    if wrong:
        raise record_error(_WHAT, path, wrong)
    return metadata


def encode_ledger_metadata(metadata: LedgerMetadata) -> bytes:
    """Encode `metadata` in its `format_version`; RecordError when it contradicts itself or does not fit."""
    wrong = contradiction(metadata)
    if wrong:
        raise RecordError(f"the ledger metadata cannot be written: {wrong}")
    _check_bookies(metadata)
    header = b"BookieMetadataFormatVersion\t%d\n" % metadata.format_version
    try:
        match metadata.format_version:
            case 3:
                body = _to_message(metadata).SerializeToString()
                return header + _varint(len(body)) + body
            case 2:
                return header + text_format.MessageToString(_to_message(metadata)).encode()
            case 1:
                return header + _encode_version_1(metadata)
    except (ValueError, TypeError) as error:
        raise RecordError(f"the ledger metadata cannot be written: {error}") from None
    raise RecordError(f"ledger metadata has no format version {metadata.format_version}: use 3")


def contradiction(metadata: LedgerMetadata) -> str:
    """What contradicts itself in `metadata`; empty if nothing does."""
    sizes = metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum
    if not sizes[0] >= sizes[1] >= sizes[2] >= 1:
        return f"ensemble size {sizes[0]}, write quorum {sizes[1]}, ack quorum {sizes[2]} must fall, and not below 1"
    segments = metadata.segments
    if not segments or segments[0].first_entry != 0:
        return "it has no ensemble for entry 0"
    for former, later in pairwise(segments):
        if former.first_entry >= later.first_entry:
            return "its ensembles are not in the order of their first entries"
    for segment in segments:
        if len(segment.bookies) != sizes[0]:
            return f"an ensemble does not have {sizes[0]} bookies"
    if metadata.last_entry < NO_ENTRY or metadata.length < 0:
        return f"last entry {metadata.last_entry} and length {metadata.length} cannot be"
    if metadata.state is not LedgerState.CLOSED and (metadata.last_entry != NO_ENTRY or metadata.length):
        return "it has a last entry or a length and is not closed"
    return ""


def _parse_delimited(body: bytes, path: str) -> LedgerMetadataFormat:
    size, shift, at = 0, 0, 0
    while True:
        if at == len(body) or shift > 28:
            raise record_error(_WHAT, path, "the length of its message is cut off or malformed")
        size |= (body[at] & 0x7F) << shift
        shift += 7
        at += 1
        if body[at - 1] < 0x80:
            break
    if len(body) - at != size:
        raise record_error(_WHAT, path, f"its message should have {size} bytes and has {len(body) - at}")
    message = parse_binary(LedgerMetadataFormat, body[at:], _WHAT, path)
    if _DIGEST_TYPE in unknown_numbers(message):
        raise record_error(_WHAT, path, "its digest type is not supported")
    return message


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _of_message(message: LedgerMetadataFormat, version: int, path: str) -> LedgerMetadata:
    state = _STATES[message.state]
    closed = state is LedgerState.CLOSED
    if closed and not message.HasField("lastEntryId"):
        raise record_error(_WHAT, path, "it is closed and lacks lastEntryId")
    write_quorum = message.quorumSize
    return LedgerMetadata(
        message.ensembleSize,
        write_quorum,
        message.ackQuorumSize if message.HasField("ackQuorumSize") else write_quorum,
        tuple([Segment(each.firstEntryId, _bookies(each.ensembleMember, path)) for each in message.segment]),
        state,
        message.lastEntryId if closed else NO_ENTRY,
        message.length if closed else 0,
        _DIGEST_TYPES[message.digestType] if message.HasField("digestType") else None,
        message.password if message.HasField("password") else None,
        message.ctime if message.HasField("ctime") else NOT_KEPT,
        tuple([(text_of(pair.key, _WHAT, path), pair.value) for pair in message.customMetadata]),
        message.cToken,
        version,
        unknown_fields(message),
    )


def _to_message(metadata: LedgerMetadata) -> LedgerMetadataFormat:
    message = LedgerMetadataFormat(
        quorumSize=metadata.write_quorum,
        ensembleSize=metadata.ensemble_size,
        length=metadata.length,
        lastEntryId=metadata.last_entry,
        state=LedgerMetadataFormat.State.ValueType(metadata.state.value),
        ackQuorumSize=metadata.ack_quorum,
        password=metadata.password,
    )
    for segment in metadata.segments:
        message.segment.add(firstEntryId=segment.first_entry, ensembleMember=segment.bookies)
    if metadata.digest_type is not None:
        message.digestType = LedgerMetadataFormat.DigestType.ValueType(metadata.digest_type.value)
    if metadata.ctime != NOT_KEPT:
        message.ctime = metadata.ctime
    for key, value in metadata.custom_metadata:
        message.customMetadata.add(key=key, value=value)
    if metadata.format_version == 3:
        message.cToken = metadata.c_token
        message.MergeFromString(metadata.unknown)
    return message


def _bookies(names: Iterable[object], path: str) -> tuple[str, ...]:
    try:
        return tuple([_bookie(text_of(name, _WHAT, path)) for name in names])
    except InvalidName as error:
        raise record_error(_WHAT, path, str(error)) from None


@lru_cache(maxsize=4096)
def _bookie(name: str) -> str:
    """One object for all ledgers of a bookie, checked once; InvalidName."""
    return check_bookie_id(name)


def _check_bookies(metadata: LedgerMetadata) -> None:
    """RecordError for metadata that names a bookie by what is no id: nobody could read it again."""
    try:
        for segment in metadata.segments:
            for name in segment.bookies:
                _bookie(name)
    except InvalidName as error:
        raise RecordError(f"the ledger metadata cannot be written: {error}") from None


def _number(text: str, path: str) -> int:
    if not _NUMBER.fullmatch(text) or not -(1 << 63) <= int(text) < 1 << 63:
        raise record_error(_WHAT, path, f"{text!r} is not a number")
    return int(text)


def _decode_version_1(body: bytes, path: str) -> LedgerMetadata:
    try:
        lines = body.decode().split("\n")
    except UnicodeDecodeError:
        raise record_error(_WHAT, path, "its text is not UTF-8") from None
    if len(lines) < 4:
        raise record_error(_WHAT, path, "its text is cut off before the first ensemble")
    write_quorum, ensemble_size, length = (_number(line, path) for line in lines[:3])
    state, last_entry, segments = LedgerState.OPEN, NO_ENTRY, []
    rest = lines[3:]
    last_fields = rest[-1].split("\t")
    if last_fields[1:] == [_CLOSED]:
        last_entry = _number(last_fields[0], path)
        state = LedgerState.IN_RECOVERY if last_entry == _IN_RECOVERY_ENTRY else LedgerState.CLOSED
    elif rest[-1]:
        raise record_error(_WHAT, path, "its text is cut off: its last line has no end")
    for line in rest[:-1]:
        first, *bookies = line.split("\t")
        segments.append(Segment(_number(first, path), _bookies(bookies, path)))
    closed = state is LedgerState.CLOSED
    return LedgerMetadata(
        ensemble_size=ensemble_size,
        write_quorum=write_quorum,
        ack_quorum=write_quorum,
        segments=tuple(segments),
        state=state,
        last_entry=last_entry if closed else NO_ENTRY,
        length=length if closed else 0,
        digest_type=None,
        password=None,
        format_version=1,
    )


def _encode_version_1(metadata: LedgerMetadata) -> bytes:
    if metadata.custom_metadata or metadata.digest_type or metadata.ack_quorum != metadata.write_quorum:
        raise ValueError("version 1 holds no custom metadata, no digest type and no ack quorum of its own")
    lines = [str(metadata.write_quorum), str(metadata.ensemble_size), str(metadata.length)]
    lines += ["\t".join([str(segment.first_entry), *segment.bookies]) for segment in metadata.segments]
    match metadata.state:
        case LedgerState.OPEN:
            end = ""
        case LedgerState.IN_RECOVERY:
            end = f"{_IN_RECOVERY_ENTRY}\t{_CLOSED}"
        case LedgerState.CLOSED:
            end = f"{metadata.last_entry}\t{_CLOSED}"
    return "\n".join([*lines, end]).encode()
