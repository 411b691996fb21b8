"""Where and how an owner serves its metrics; apart from them, for who does not."""

from dataclasses import dataclass

LOOPBACK = "127.0.0.1"
CLUSTER_NAME = "standalone"


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """Where to serve metrics, and how much of them.

    `port` 0 is a free one. `cluster_name` is the label `cluster` that Pulsar's dashboards choose by. Without `topics`
    the sums of each namespace stand for its topics (`exposeTopicLevelMetricsInPrometheus`).
    """

    host: str = LOOPBACK
    port: int = 0
    cluster_name: str = CLUSTER_NAME
    topics: bool = True
