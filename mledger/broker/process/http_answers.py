"""What a broker answers over HTTP besides lookups: the admin API, the console and its metrics.

Their modules are imported as the first request needs them: for clients a broker is ready without.
"""

import asyncio
import importlib
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING

from mledger.broker.admin_rest.requests import AdminAnswer, AdminRequest
from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.process.http_guard import AdminGuard, guarded
from mledger.cluster import Cluster
from mledger.metastore.runtime.network.http import HttpRequest, HttpResponse, Route
from mledger.metrics_options import MetricsOptions

if TYPE_CHECKING:
    from mledger.broker.admin_rest.admin_api import AdminApi
    from mledger.broker.console.console_site import ConsoleSite

MODULES = ("mledger.broker.admin_rest.admin_api", "mledger.broker.process.metrics", "mledger.metrics")
"""What is imported then; on a thread beforehand, messages flow meanwhile."""
CONSOLE, _CONSOLE_MODULE = "/console", "mledger.broker.console.console_site"
_PATHS = ("/metrics", "/health", "/heartbeat")


class HttpAnswers:
    """Answers of `broker`, of `cluster`; metrics have one series for each topic if `topics`."""

    def __init__(self, broker: ServedBroker, cluster: Cluster, *, topics: bool) -> None:
        self._broker, self._cluster, self._topics = broker, cluster, topics

    @property
    def routes(self) -> dict[str, Route]:
        """The paths of metrics and health."""
        return guarded(self._broker.security, dict.fromkeys(_PATHS, self._of_metrics))

    async def answer(self, asked: AdminRequest) -> AdminAnswer:
        """The admin API's answer, or the console's."""
        if asked.path == CONSOLE or asked.path.startswith(f"{CONSOLE}/"):
            await asyncio.to_thread(importlib.import_module, _CONSOLE_MODULE)
            return await self._console.answer(asked)
        if asked.path == "/" and asked.method in ("GET", "HEAD"):
            return AdminAnswer(HTTPStatus.SEE_OTHER, headers={"Location": CONSOLE})
        return await self._admin.answer(asked)

    async def _of_metrics(self, asked: HttpRequest) -> HttpResponse:
        return await self._metrics[asked.path](asked)

    @cached_property
    def _admin(self) -> "AdminApi":
        from mledger.broker.admin_rest.admin_api import AdminApi

        return AdminApi(self._broker, self._cluster, AdminGuard(self._broker.security).authorize)

    @cached_property
    def _console(self) -> "ConsoleSite":
        from mledger.broker.console.console_site import ConsoleSite

        return ConsoleSite(self._broker, self._cluster, self._admin, AdminGuard(self._broker.security).check)

    @cached_property
    def _metrics(self) -> dict[str, Route]:
        from mledger.broker.process.metrics import BrokerMetrics
        from mledger.metrics import OwnerMetrics

        name = self._broker.settings.cluster_name
        more = BrokerMetrics(self._broker, name, topics=self._topics)
        options = MetricsOptions(cluster_name=name, topics=self._topics)
        return OwnerMetrics(self._cluster, options, more.read).routes()
