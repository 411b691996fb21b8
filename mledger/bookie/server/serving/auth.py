"""Whether a connection may ask anything: pluggable, one provider a connection. Without one everybody may."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

DISABLED_PLUGIN = "AuthDisabledPlugin"
"""What a bookie without a provider calls itself in its answers to auth messages."""


@dataclass(frozen=True, slots=True)
class AuthStep:
    """What a provider makes of one message: the answer, None to refuse; `authenticated` ends the handshake."""

    answer: bytes | None
    authenticated: bool = False


class AuthProvider(Protocol):
    """One connection's handshake."""

    plugin: str
    """The name that both sides' messages carry."""

    def process(self, payload: bytes) -> AuthStep:
        """Take the client's next message."""


AuthFactory = Callable[[], AuthProvider]
"""Makes the provider of a new connection."""
