"""How a client's connections to bookies are opened: plain or encrypted, as its settings say."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from mledger.bookie.client.tls_settings import BookieTls, bookie_tls_of_environment, client_context
from mledger.bookie.local_transport import connect_locally
from mledger.metastore.runtime.network.tls_listener import RenewedCertificates

P = TypeVar("P", bound=asyncio.Protocol)


class BookieConnector:
    """Opens the connections."""

    def __init__(self, tls: BookieTls | None = None) -> None:
        """Without `tls`, what the environment names counts. With either it needs a running loop. InvalidSetting."""
        tls = tls or bookie_tls_of_environment()
        self._certificates: RenewedCertificates | None = None
        if tls is not None:
            every_s = tls.refresh_s or float("inf")
            self._certificates = RenewedCertificates(partial(client_context, tls), tls.files, every_s)

    async def connect(self, make: Callable[[], P], host: str, port: int) -> P:
        """Connect what `make` returns. OSError, also for a host that is no name; EncryptionRefused."""
        try:
            return await self._connect(make, host, port)
        except UnicodeError as error:  # the resolver's: an empty label, or one over 63 bytes
            raise OSError(f"{host!r} is not a host's name: {error}") from error

    async def _connect(self, make: Callable[[], P], host: str, port: int) -> P:
        if self._certificates is None:
            local = connect_locally(make, (host, port))
            if local is not None:
                return local
            return (await asyncio.get_running_loop().create_connection(make, host, port))[1]
        from mledger.bookie.client.connections.encrypted_connection import connect_encrypted  # only with TLS

        return await connect_encrypted(make, host, port, self._certificates.current())
