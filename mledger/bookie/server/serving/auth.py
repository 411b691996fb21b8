"""Authentication of connections: pluggable, one provider per connection. Without a provider, all are accepted."""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

DISABLED_PLUGIN = "AuthDisabledPlugin"
"""The plugin name in a bookie's answers to auth messages when it has no provider."""


class AuthStep(Struct, frozen=True):
    """A provider's result for one message: the answer, or None to refuse; `authenticated` ends the handshake."""

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
