"""What clients show to say who they are."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Credentials(NamedTuple):
    """What a client shows: the name of a method with its data, and a verified certificate."""

    method: str
    data: bytes = b""
    certificate: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.method!r})"
