"""Protobuf's variable-length integers."""

from mledger.broker.protocol.errors import ProtocolError

_LOW = 1 << 14
_MASK = (1 << 64) - 1


def _made(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_SHORT = [_made(number) for number in range(_LOW)]
_LOW_BITS = [bytes((number & 0x7F | 0x80, number >> 7 | 0x80)) for number in range(_LOW)]


def varint(number: int) -> bytes:
    """`number` as a varint; one below 0 as protobuf writes it, in 10 bytes."""
    if 0 <= number < _LOW:
        return _SHORT[number]
    high = (number & _MASK) >> 14
    return _LOW_BITS[number & 0x3FFF] + (_SHORT[high] if high < _LOW else varint(high))


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at `at`, 0 to 2^64 - 1, and where it ends.

    Raises IndexError if it is cut off, ProtocolError if it is longer than 10 bytes.
    """
    value = data[at]
    if value < 0x80:
        return value, at + 1
    byte = data[at + 1]
    if byte < 0x80:
        return value + (byte - 1 << 7), at + 2
    value += byte - 1 << 7
    byte = data[at + 2]
    if byte < 0x80:
        return value + (byte - 1 << 14), at + 3
    value += byte - 1 << 14
    for shift in range(21, 64, 7):
        byte = data[at + shift // 7]
        if byte < 0x80:
            return value + (byte - 1 << shift) & _MASK, at + shift // 7 + 1
        value += byte - 1 << shift
    raise ProtocolError("a number in a command is longer than 10 bytes")


def signed(number: int) -> int:
    """The number below 0 that protobuf sends as one from 2^63 on; any other as it is."""
    return number - (1 << 64) if number >> 63 else number
