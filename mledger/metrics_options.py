"""Options of an owner's metrics server; a module of its own, so that importing it is cheap."""

from dataclasses import dataclass

LOOPBACK = "127.0.0.1"
CLUSTER_NAME = "standalone"


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """Where to serve metrics, and in which detail.

    `port` 0 picks a free port. `cluster_name` is the value of the label `cluster`, by which
    Pulsar's dashboards select. Without `topics` there are only sums per namespace
    (`exposeTopicLevelMetricsInPrometheus`).
    """

    host: str = LOOPBACK
    port: int = 0
    cluster_name: str = CLUSTER_NAME
    topics: bool = True
