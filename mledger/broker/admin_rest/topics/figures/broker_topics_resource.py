"""`/admin/v2/broker-stats/topics`: the figures of all topics that are open at this broker."""

from http import HTTPStatus

from mledger.broker.admin_rest.requests import ADMIN, Access, AdminAnswer, AdminCall
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.broker.admin_rest.topics.figures.broker_topics import encode_topics
from mledger.broker.connections.served_broker import ServedBroker


class BrokerTopicsResource:
    """Answers for `broker`."""

    def __init__(self, broker: ServedBroker) -> None:
        self._broker = broker

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        return [AdminRoute("GET", f"{ADMIN}/broker-stats/topics", Access.SUPER_USER, self.topics)]

    async def topics(self, _: AdminCall) -> AdminAnswer:
        """The figures by namespace and bundle."""
        owners, topics = self._broker.owners, {each.name: each for each in self._broker.topics.open}
        name, settings = owners.roster.address.name, self._broker.settings
        return AdminAnswer(HTTPStatus.OK, await encode_topics(topics, list(owners.owned), name, settings))
