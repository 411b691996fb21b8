"""`/admin/v2/broker-stats`: what this broker has to do."""

from mledger.broker.admin_rest.requests import ADMIN, Access, AdminAnswer, AdminCall, json_answer
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.broker.lookup.roster import BrokerRoster

_ROOT = f"{ADMIN}/broker-stats"


class BrokerStatsResource:
    """Answers for the broker that `roster` registers."""

    def __init__(self, roster: BrokerRoster) -> None:
        self._roster = roster

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        return [AdminRoute("GET", f"{_ROOT}/load-report", Access.SUPER_USER, self.load_report)]

    async def load_report(self, _: AdminCall) -> AdminAnswer:
        """What this broker has to do now, as in its node."""
        return json_answer(self._roster.report())
