"""Entries as a Pulsar broker stores them, with only the fields that a reader of times needs."""


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def pulsar_entry(publish_time_ms: int, payload: bytes = b"payload") -> bytes:
    """An entry whose MessageMetadata has producer name, sequence id and publish time; without a checksum."""
    metadata = b"\x0a\x01p" + b"\x10\x00" + b"\x18" + _varint(publish_time_ms)
    return len(metadata).to_bytes(4, "big") + metadata + payload
