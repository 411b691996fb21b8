"""Hashes of keys: D2."""

import pytest

from mledger.broker.dispatch.keys.key_hash import key_hash, murmur3_32


@pytest.mark.parametrize(
    ("data", "unsigned"),
    [
        (b"", 0),
        (b"\0", 0x514E28B7),
        (b"hello", 0x248BFA47),
        (b"hello, world", 0x149BBB7F),
        (b"The quick brown fox jumps over the lazy dog", 0x2E4FF723),
    ],
)
def test_murmur3_hashes_known_texts(data, unsigned):
    assert murmur3_32(data) == unsigned & 0x7FFFFFFF


def test_a_key_s_hash_is_never_0():
    assert key_hash(b"") == 1
    assert key_hash(b"hello") == 0x248BFA47 % 65536
