"""What looks by the clock for open topics that nobody uses any more."""

from abc import ABC, abstractmethod

from mledger.broker.periodic_check import PeriodicCheck
from mledger.broker.settings import BrokerSettings
from mledger.metastore.runtime.times import steady_ms


class UnusedTopics(ABC):
    """Looks at the interval that the settings name, as `check`, by a clock that nobody sets."""

    name: str

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self.check = PeriodicCheck(
            self.name, lambda: self._settings.idle_check_s, lambda slept_s: self.look(steady_ms(), slept_s)
        )

    @abstractmethod
    async def look(self, now_ms: int, slept_s: float) -> None:
        """Look through the topics at `now_ms` of `steady_ms`, `slept_s` seconds after the last look ended."""

    def configure(self, settings: BrokerSettings) -> None:
        """Take over changed settings; the next look is at the time that the old ones named."""
        self._settings = settings
