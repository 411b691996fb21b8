"""Credentials that expire while their client is connected: it is asked for new ones, else its connection ends."""

import asyncio
import enum
from collections.abc import Callable

from mledger.broker.security.principals import Principal
from mledger.metastore.runtime.times import wall_clock_ms


class Renewal(enum.Enum):
    """What happens to a client whose credentials are looked at."""

    NONE = "none"
    ASK = "ask"
    CLOSE = "close"


def plan_renewal_step(expires_s: float | None, now_s: float, *, asked: bool, renews: bool) -> Renewal:
    """What to do with a client at `now_s`: `asked` already for new credentials, which it can send (`renews`)."""
    if expires_s is None or now_s < expires_s:
        return Renewal.NONE
    return Renewal.CLOSE if asked or not renews else Renewal.ASK


class CredentialRenewal:
    """Looks at a client's credentials every `every_s` seconds; `ask` asks for new ones, `close` ends the connection."""

    def __init__(
        self, principal: Principal, every_s: float, *, renews: bool, ask: Callable[[], None], close: Callable[[], None]
    ) -> None:
        self._principal = principal
        self._every_s = every_s
        self._renews = renews
        self._ask = ask
        self._close = close
        self.asked = False
        """Whether new credentials are expected."""
        self._timer: asyncio.TimerHandle | None = None
        self._wait()

    def renewed(self, principal: Principal) -> None:
        """The client has sent credentials that are valid."""
        self.asked = False
        self._principal = principal

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._every_s, self._look)

    def _look(self) -> None:
        now_s = wall_clock_ms() / 1000
        step = plan_renewal_step(self._principal.expires_s, now_s, asked=self.asked, renews=self._renews)
        if step is Renewal.CLOSE:
            self._close()
            return
        if step is Renewal.ASK:
            self.asked = True
            self._ask()
        self._wait()
