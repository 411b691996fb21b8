"""An entry as the answer to a request: its payload, and its metadata in Pulsar's headers. No I/O."""

import base64
import json
from http import HTTPStatus

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.requests import AdminAnswer
from mledger.messages.pulsar_message import MOST_UNPACKED, PulsarEntry, decode_entry
from mledger.metastore.records.compression import CompressionType, unpack_block
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.times import utc_text
from mledger.pb.PulsarApi_pb2 import CompressionType as WireCompression

_BYTES = "application/octet-stream"
_YEARS, _YEARS_MS = 400, 146_097 * 86_400_000
"""After which the calendar repeats itself."""


def plan_message(position: Position, data: bytes) -> AdminAnswer:
    """The answer that shows the entry. RecordError if it is no entry of Pulsar's; AdminRefusal for a too large one."""
    entry = decode_entry(data, str(position))
    return AdminAnswer(body=_payload(entry, str(position)), content_type=_BYTES, headers=_headers(position, entry))


def _payload(entry: PulsarEntry, where: str) -> bytes:
    """The payload without its compression; an encrypted one as it is stored."""
    kind = CompressionType(entry.metadata.compression)
    if entry.encrypted or kind is CompressionType.NONE:
        return entry.payload
    size = entry.metadata.uncompressed_size
    if size > MOST_UNPACKED:  # a few thousand bytes can unpack to a gigabyte, while all other clients wait
        why = f"the message at {where} unpacks to {size} bytes, more than {MOST_UNPACKED}: let a consumer receive it"
        raise AdminRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, why)
    return unpack_block(kind, entry.payload, size, "Pulsar entry", where)


def _headers(position: Position, entry: PulsarEntry) -> dict[str, str]:
    metadata = entry.metadata
    headers = {
        "Message-ID": str(position),
        "PROPERTY": _properties(entry),
        "publish-time": _time(metadata.publish_time),
        "Is-Encrypted": str(entry.encrypted).lower(),
        "producer-name": _text(metadata.producer_name),
        "sequence-id": str(metadata.sequence_id),
        "txn-uncommitted": "false",
    }
    if entry.batched:
        headers["num-batch-message"] = str(metadata.num_messages_in_batch)
        headers["batch-size"] = str(len(entry.payload))
    if metadata.compression:
        headers["compression"] = WireCompression.Name(metadata.compression)
        headers["uncompressed-size"] = str(metadata.uncompressed_size)
    for name, field in _TIMES:
        if value := getattr(metadata, field):
            headers[name] = _time(value)
    for name, field in _TEXTS:
        if metadata.HasField(field):  # type: ignore[arg-type]
            headers[name] = _text(getattr(metadata, field))
    for name, field in _FLAGS:
        if getattr(metadata, field):
            headers[name] = "true"
    headers |= _of_broker(entry) | _encoded(entry)
    return {f"X-Pulsar-{name}": value for name, value in headers.items()}


def _properties(entry: PulsarEntry) -> str:
    pairs = {_text(pair.key): _text(pair.value) for pair in entry.metadata.properties}
    return json.dumps(pairs, separators=(",", ":"))


def _text(value: object) -> str:
    """The field as text: protobuf gives the bytes of a string that is not UTF-8, as some clients send."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _time(ms: int) -> str:
    """A time as Java writes it: clients can give any number, and one of nanoseconds is in the year 53 million."""
    cycles, within_ms = divmod(ms - (1 << 64) if ms >> 63 else ms, _YEARS_MS)
    text = utc_text(within_ms)
    year = int(text[:4]) + _YEARS * cycles
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}{text[4:]}"


def _of_broker(entry: PulsarEntry) -> dict[str, str]:
    """The metadata that a broker put before the entry."""
    broker, headers = entry.broker, dict[str, str]()
    if broker is not None and broker.HasField("broker_timestamp"):
        headers["Broker-Entry-METADATA-timestamp"] = _time(broker.broker_timestamp)
    if broker is not None and broker.HasField("index"):
        headers["Broker-Entry-METADATA-index"] = str(broker.index)
    return headers


def _encoded(entry: PulsarEntry) -> dict[str, str]:
    """Fields of bytes, as base64."""
    metadata, headers = entry.metadata, dict[str, str]()
    if metadata.HasField("schema_version"):
        headers["Base64-schema-version-b64encoded"] = base64.b64encode(metadata.schema_version).decode()
    if metadata.HasField("ordering_key"):
        headers["Base64-ordering-key"] = base64.b64encode(metadata.ordering_key).decode()
    return headers


_TIMES = (("event-time", "event_time"), ("deliver-at-time", "deliver_at_time"))
_TEXTS = (
    ("partition-key", "partition_key"),
    ("replicated-from", "replicated_from"),
    ("uuid", "uuid"),
    ("PROPERTY-CHUNK-ID", "chunk_id"),
    ("PROPERTY-TOTAL-CHUNK-SIZE", "total_chunk_msg_size"),
    ("marker-type", "marker_type"),
)
_FLAGS = (
    ("partition-key-b64-encoded", "partition_key_b64_encoded"),
    ("null-value", "null_value"),
    ("null-partition-key", "null_partition_key"),
)
