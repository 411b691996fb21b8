"""Metrics in the formats that Prometheus reads. Values are read on request; nothing is counted here.

A counter under a name of BookKeeper's or Pulsar's has no `_total` and is of unknown type: the formats require that
suffix for counters, but dashboards know the names without it. `rate()` accepts both.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
    UnknownMetricFamily,
)

from mledger.metastore.runtime.durations import Durations
from mledger.metastore.runtime.network.http import HttpRequest, HttpResponse

Labels = Mapping[str, str]
NO_LABELS: Labels = {}

_MS = 1000.0


class Families:
    """Metrics being gathered: each name once, with any number of labelled values."""

    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._families.values())

    def gauge(self, name: str, help_text: str, value: float, labels: Labels = NO_LABELS) -> None:
        """Add a value that goes up and down."""
        self._add(GaugeMetricFamily, name, help_text, labels).add_metric(list(labels.values()), value)

    def total(self, name: str, help_text: str, value: float, labels: Labels = NO_LABELS) -> None:
        """Add a count that only rises; its name gets the suffix `_total`."""
        self._add(CounterMetricFamily, name, help_text, labels).add_metric(list(labels.values()), value)

    def original(self, name: str, help_text: str, value: float, labels: Labels = NO_LABELS) -> None:
        """Add a count under the name that BookKeeper or Pulsar has for it."""
        self._add(UnknownMetricFamily, name, help_text, labels).add_metric(list(labels.values()), value)

    def milliseconds(self, name: str, help_text: str, times: Durations, labels: Labels = NO_LABELS) -> None:
        """Add times as BookKeeper has them: a summary in milliseconds."""
        family = self._add(SummaryMetricFamily, name, help_text, labels)
        family.add_metric(list(labels.values()), count_value=times.count, sum_value=times.seconds * _MS)

    def seconds(self, name: str, help_text: str, times: Durations, labels: Labels = NO_LABELS) -> None:
        """Add times as a histogram in seconds."""
        family = self._add(HistogramMetricFamily, name, help_text, labels)
        family.add_metric(list(labels.values()), buckets=times.cumulative(), sum_value=times.seconds)

    def sum_of(self, name: str, **having: str) -> float:
        """The sum of all values of a metric so far, or of those that have these labels; 0 if there are none."""
        family = self._families.get(name)
        samples = () if family is None else family.samples
        return sum((each.value for each in samples if having.items() <= each.labels.items()), start=0.0)

    def _add(self, kind: type, name: str, help_text: str, labels: Labels) -> Any:
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = kind(name, help_text, labels=list(labels))
        return family


class _Given:
    """A collector of the gathered metrics."""

    def __init__(self, families: Families) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """The gathered metrics."""
        return iter(self._families)


def expose(families: Families, asked: HttpRequest, *, process: bool = True) -> HttpResponse:
    """The answer to a request for metrics: `families`, and with `process` the system's metrics of this process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Given(families))
    if process:
        ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(asked.headers.get("accept", ""))
    return HttpResponse(encode(registry), content_type)
