"""Writes metrics in the form of Prometheus; needs prometheus-client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from redisjobs.monitoring.family import Family, Histogram


class Exposition(Collector):
    """What a process tells at a scrape: its own families, then what its program counts by prometheus-client itself.

    Args:
        families: asked anew each time.
    """

    def __init__(self, families: Callable[[], Iterable[Family]]) -> None:
        self._families = families
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def page(self, accept: str) -> tuple[bytes, str]:
        """The body and its content type: text, or OpenMetrics where that is asked for."""
        encode, kind = choose_encoder(accept)
        return encode(self._registry), kind

    def collect(self) -> Iterator[Metric]:
        """All of it."""
        yield from map(_metric, self._families())
        yield from REGISTRY.collect()

    def describe(self) -> list[Metric]:
        """Nothing, so that being registered costs no look."""
        return []


def _metric(family: Family) -> Metric:
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(family.name, family.text, labels=family.labels)
        for labels, value in family.samples:
            if isinstance(value, Histogram):
                histogram.add_metric(labels, *_buckets(value))
        return histogram
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = kind(family.name, family.text, labels=family.labels)
    for labels, value in family.samples:
        if not isinstance(value, Histogram):
            metric.add_metric(labels, value)
    return metric


def _buckets(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    bounds = [*map(str, histogram.bounds), "+Inf"]
    return list(zip(bounds, accumulate(histogram.counts), strict=True)), histogram.total
