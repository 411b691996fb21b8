"""Digests that protect an entry's bytes on a bookie, and a ledger's master key (formats.md, Bookie protocol).

The digest of an entry covers its 32 header bytes (ledger, entry, last-add-confirmed, length) and its payload; that of
an explicit-LAC packet covers the 16 bytes ledger, LAC. No I/O.
"""

import hashlib
import hmac
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence

import google_crc32c

from mledger.metastore.records.ledger_metadata import DigestType

MASTER_KEY_SIZE = 20
EXPLICIT_LAC_HEAD = struct.Struct(">qq")

_CRC32C = struct.Struct(">I")
_CRC32 = struct.Struct(">Q")

# Below this a copy of the payload costs less than a second call into the checksum.
_JOIN_BELOW = 512


def master_key(password: bytes) -> bytes:
    """The 20 bytes that a bookie stores of a ledger's password and checks on every add and fencing read."""
    return hashlib.sha1(b"ledger" + password, usedforsecurity=False).digest()


class Digest(ABC):
    """The digest of one ledger's entries. Headers and payloads are `bytes`."""

    digest_type: DigestType
    size: int
    """Bytes of the digest, which is between header and payload."""

    @abstractmethod
    def value(self, header: bytes, payload: bytes) -> bytes:
        """The digest of one entry, `size` bytes long."""

    @abstractmethod
    def values(self, headers: Sequence[bytes], payloads: Sequence[bytes]) -> list[bytes]:
        """The digests of a batch, in order; ValueError when the two differ in length."""

    def verify(self, header: bytes, payload: bytes, digest: bytes) -> bool:
        """Whether `digest` is the digest of `header` and `payload`."""
        return self.value(header, payload) == digest


class Crc32cDigest(Digest):
    """CRC32C, 4 bytes: Pulsar's default."""

    digest_type = DigestType.CRC32C
    size = 4

    def value(self, header: bytes, payload: bytes) -> bytes:
        """The CRC32C of header and payload, big-endian."""
        if len(payload) < _JOIN_BELOW:
            return _CRC32C.pack(google_crc32c.value(header + payload))
        return _CRC32C.pack(google_crc32c.extend(google_crc32c.value(header), payload))

    def values(self, headers: Sequence[bytes], payloads: Sequence[bytes]) -> list[bytes]:
        """The CRC32C of each entry."""
        pack, value, extend = _CRC32C.pack, google_crc32c.value, google_crc32c.extend
        return [
            pack(value(header + payload)) if len(payload) < _JOIN_BELOW else pack(extend(value(header), payload))
            for header, payload in zip(headers, payloads, strict=True)
        ]


class Crc32Digest(Digest):
    """CRC32 in 8 bytes, of which the upper four are 0."""

    digest_type = DigestType.CRC32
    size = 8

    def value(self, header: bytes, payload: bytes) -> bytes:
        """The CRC32 of header and payload, big-endian."""
        return _CRC32.pack(zlib.crc32(payload, zlib.crc32(header)))

    def values(self, headers: Sequence[bytes], payloads: Sequence[bytes]) -> list[bytes]:
        """The CRC32 of each entry."""
        pack, crc32 = _CRC32.pack, zlib.crc32
        return [pack(crc32(payload, crc32(header))) for header, payload in zip(headers, payloads, strict=True)]


class HmacDigest(Digest):
    """HMAC-SHA1, 20 bytes, keyed with the ledger's password: the only digest that cannot be forged."""

    digest_type = DigestType.HMAC
    size = 20

    def __init__(self, password: bytes) -> None:
        self._key = hashlib.sha1(b"mac" + password, usedforsecurity=False).digest()

    def value(self, header: bytes, payload: bytes) -> bytes:
        """The HMAC of header and payload."""
        return hmac.digest(self._key, header + payload, "sha1")

    def values(self, headers: Sequence[bytes], payloads: Sequence[bytes]) -> list[bytes]:
        """The HMAC of each entry."""
        key, digest = self._key, hmac.digest
        return [digest(key, header + payload, "sha1") for header, payload in zip(headers, payloads, strict=True)]

    def verify(self, header: bytes, payload: bytes, digest: bytes) -> bool:
        """Whether the digest matches, in a time that does not reveal where it differs."""
        return hmac.compare_digest(self.value(header, payload), digest)


class DummyDigest(Digest):
    """No digest at all: every entry verifies."""

    digest_type = DigestType.DUMMY
    size = 0

    def value(self, header: bytes, payload: bytes) -> bytes:
        """Nothing."""
        return b""

    def values(self, headers: Sequence[bytes], payloads: Sequence[bytes]) -> list[bytes]:
        """Nothing, for each entry."""
        return [b"" for _ in zip(headers, payloads, strict=True)]


def make_digest(digest_type: DigestType, password: bytes) -> Digest:
    """The digest of a ledger with this type and password (only HMAC depends on the password)."""
    match digest_type:
        case DigestType.CRC32C:
            return Crc32cDigest()
        case DigestType.CRC32:
            return Crc32Digest()
        case DigestType.HMAC:
            return HmacDigest(password)
        case DigestType.DUMMY:
            return DummyDigest()


def explicit_lac_packet(digest: Digest, ledger_id: int, last_add_confirmed: int) -> bytes:
    """The packet that carries a last-add-confirmed outside any entry."""
    head = EXPLICIT_LAC_HEAD.pack(ledger_id, last_add_confirmed)
    return head + digest.value(head, b"")
