"""Payloads to publish: lines of a file or stdin, or generated ones; and their messages."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from mledger.messages.pulsar_message import PulsarMessage
from mledger.metastore.errors import InvalidSetting


def lines(stream: BinaryIO) -> Iterator[bytes]:
    """The lines without their newlines, including empty ones."""
    for line in stream:
        yield line.removesuffix(b"\n")


def generated(count: int, size: int) -> Iterator[bytes]:
    """`count` payloads of `size` bytes: their numbers with leading zeros, or the last digits that fit."""
    for number in range(count):
        yield f"{number:0{size}d}"[-size:].encode()


@dataclass(frozen=True, slots=True)
class MessageShape:
    """The attributes of messages; with `separator` each payload is key, separator, value."""

    key: str | None
    separator: str | None
    properties: Mapping[str, str]
    first_sequence_id: int


def messages(payloads: Iterable[bytes], shape: MessageShape) -> Iterator[PulsarMessage]:
    """A message for each payload. Raises InvalidSetting for one without the required separator."""
    for number, payload in enumerate(payloads):
        key, is_base64 = shape.key, False
        if shape.separator is not None:
            before, found, payload = payload.partition(shape.separator.encode())
            if not found:
                raise InvalidSetting(
                    f"line {number + 1} has no {shape.separator!r} between key and value: fix it, check with `topics "
                    "read` which lines are published, and publish the rest"
                )
            try:
                key = before.decode()
            except UnicodeDecodeError:
                key, is_base64 = base64.b64encode(before).decode(), True
        yield PulsarMessage(
            payload,
            key=key,
            key_is_base64=is_base64,
            properties=shape.properties,
            sequence_id=shape.first_sequence_id + number,
        )
