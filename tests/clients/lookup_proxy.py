"""A proxy before a broker that clients do not leave: it puts its own address into the broker's answers to lookups."""

import asyncio
import contextlib
import struct

from mledger.pb.PulsarApi_pb2 import BaseCommand
from tests.faults.soak.proxy import Address, LinkState, Proxies, Proxy

_CHUNK = 1 << 16
_SIZES = struct.Struct(">II")
_LOOKUP_RESPONSE = bytes((8, BaseCommand.LOOKUP_RESPONSE))


class BrokerProxies(Proxies):
    """Proxies of brokers."""

    def before(self, target: Address) -> "BrokerProxy":
        """A new proxy before the broker at `target`."""
        proxy = BrokerProxy(self, target)
        self.call(proxy.start())
        self._proxies.append(proxy)
        return proxy


class BrokerProxy(Proxy):
    """One broker's proxy."""

    @property
    def service_url(self) -> str:
        """For clients."""
        return "pulsar://{}:{}".format(*self.address)

    def cut(self) -> None:
        """Reset every connection, and accept new ones at once."""
        self.set(LinkState.CUT)
        self.set(LinkState.GOOD)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answers: bool) -> None:
        if not answers:
            await super()._pump(source, sink, answers=False)
            return
        rest = b""
        with contextlib.suppress(OSError):
            while data := await source.read(_CHUNK):
                whole, rest = rewritten(rest + data, self.service_url)
                sink.write(whole)
                await sink.drain()
        sink.close()


def rewritten(data: bytes, service_url: str) -> tuple[bytes, bytes]:
    """The whole frames of what a broker sent, with `service_url` in answers to lookups, and what is left over."""
    frames, at = [], 0
    while len(data) - at >= _SIZES.size:
        total, size = _SIZES.unpack_from(data, at)
        end = at + 4 + total
        if end > len(data):
            break
        frames.append(_frame(data[at:end], size, service_url))
        at = end
    return b"".join(frames), data[at:]


def _frame(frame: bytes, size: int, service_url: str) -> bytes:
    if not frame.startswith(_LOOKUP_RESPONSE, _SIZES.size):
        return frame
    command = BaseCommand.FromString(frame[_SIZES.size : _SIZES.size + size])
    if command.lookupTopicResponse.brokerServiceUrl:
        command.lookupTopicResponse.brokerServiceUrl = service_url
    text = command.SerializeToString()
    return _SIZES.pack(len(text) + 4, len(text)) + text
