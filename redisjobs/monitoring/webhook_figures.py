"""What is told of webhooks: by a worker what became of its attempts, by a relay how endpoints behave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from redisjobs.app import App
from redisjobs.monitoring.family import Family, Histogram, Sample
from redisjobs.webhooks import deliverer_of
from redisjobs.webhooks.tally import TOOK_S, WORDS, Tally

EndpointFigure = tuple[str, bool, float | None]
"""Name, whether it is enabled, and for how many seconds it has been failing."""


def of_deliveries(app: App) -> Iterator[Family]:
    """The attempts of this process, by endpoint; nothing where the app has no webhooks."""
    tallies = [found.tally for job in app.jobs.values() if (found := deliverer_of(job)) is not None]
    if not tallies:
        return
    ended: dict[tuple[str, str], int] = {}
    took: dict[str, Histogram] = {}
    for tally in tallies:
        _add(tally, ended, took)
    counted: list[Sample] = list(ended.items())
    text = "Attempts to deliver by what became of them."
    yield Family("redisjobs_webhook_attempts", "counter", text, ("endpoint", "outcome"), counted)
    seconds: list[Sample] = [((endpoint,), histogram) for endpoint, histogram in took.items()]
    text = "From a request to the end of its answer."
    yield Family("redisjobs_webhook_duration_seconds", "histogram", text, ("endpoint",), seconds)


def of_endpoints(endpoints: Sequence[EndpointFigure]) -> Iterator[Family]:
    """How endpoints behave, as Postgres has it."""
    if not endpoints:
        return
    enabled: list[Sample] = [((name,), is_enabled) for name, is_enabled, _ in endpoints]
    text = "0 while the endpoint is disabled: its deliveries become dead letters."
    yield Family("redisjobs_webhook_endpoint_enabled", "gauge", text, ("endpoint",), enabled)
    failing: list[Sample] = [((name,), failing_s or 0.0) for name, _, failing_s in endpoints]
    text = "Since the first attempt, after the last success, that was not accepted; 0 while all is well."
    yield Family("redisjobs_webhook_endpoint_failing_seconds", "gauge", text, ("endpoint",), failing)


def _add(tally: Tally, ended: dict[tuple[str, str], int], took: dict[str, Histogram]) -> None:
    for endpoint, words in list(tally.ended.items()):
        for word in WORDS:
            ended[endpoint, word] = ended.get((endpoint, word), 0) + words[word]
    for endpoint, (counts, total) in list(tally.took.items()):
        histogram = took.setdefault(endpoint, Histogram(TOOK_S))
        histogram.counts = [known + more for known, more in zip(histogram.counts, counts, strict=True)]
        histogram.total += total[0]
