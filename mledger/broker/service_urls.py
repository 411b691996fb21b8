"""The service URLs of a broker."""

from typing import NamedTuple


class ServiceUrls(NamedTuple):
    """Where clients reach a broker: unencrypted and by TLS, each empty if it does not serve so."""

    plain: str = ""
    tls: str = ""

    @property
    def any(self) -> str:
        """One of them, which tells the broker from others."""
        return self.plain or self.tls


NOWHERE = ServiceUrls()
"""The service URLs of no broker."""
