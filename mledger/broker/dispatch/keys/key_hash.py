"""Hashes of keys, as Pulsar makes them, and ranges of them (D2)."""

from struct import Struct
from typing import NamedTuple

from mledger.broker.facts import KEY_HASHES

_MASK = 0xFFFFFFFF
_BLOCK = Struct("<I")


class KeyRange(NamedTuple):
    """The key hashes `start` to `end`, both included."""

    start: int
    end: int


def murmur3_32(data: bytes) -> int:
    """MurmurHash3 (x86, 32 bits, seed 0) of `data`, without its sign bit: Pulsar's `Murmur3_32Hash`."""
    h = 0
    blocks = len(data) & ~3
    for (k,) in _BLOCK.iter_unpack(data[:blocks]):
        k = k * 0xCC9E2D51 & _MASK
        k = (k << 15 | k >> 17) * 0x1B873593 & _MASK
        h ^= k
        h = (h << 13 | h >> 19) & _MASK
        h = h * 5 + 0xE6546B64 & _MASK
    if tail := data[blocks:]:
        k = int.from_bytes(tail, "little") * 0xCC9E2D51 & _MASK
        h ^= (k << 15 | k >> 17) * 0x1B873593 & _MASK
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    return (h ^ h >> 16) & 0x7FFFFFFF


def key_hash(key: bytes) -> int:
    """The hash by which a key's messages are assigned to consumers: 1 to `KEY_HASHES` - 1, as in Pulsar 4."""
    return murmur3_32(key) % KEY_HASHES or 1
