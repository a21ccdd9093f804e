"""What a worker tells: its attempts by job, and what it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from redisjobs.monitoring.attempts import REASONS, Attempts
from redisjobs.monitoring.family import Family, Sample
from redisjobs.monitoring.webhook_figures import of_deliveries
from redisjobs.outcome import TOLD
from redisjobs.worker import Worker


def of_worker(worker: Worker, attempts: Attempts) -> Iterator[Family]:
    """Its metrics now; any thread may ask."""
    yield from _of_attempts(attempts)
    lanes = worker.lanes()
    slots = {each.queue: each.slots for each in lanes}
    yield Family.by_queue("redisjobs_slots", "Jobs and batches that may run at the same time.", slots)
    running = {each.queue: each.running for each in lanes}
    yield Family.by_queue("redisjobs_slots_in_use", "Jobs and batches that run.", running)
    unsent = {each.queue: each.unsent for each in lanes}
    yield Family.by_queue("redisjobs_unsent_outcomes", "Ended attempts of which Redis was not told yet.", unsent)
    beat = worker.last_heartbeat_s
    if beat is not None:
        yield Family.one("redisjobs_heartbeat_age_seconds", "Since all leases were last renewed.", beat)
    yield from of_deliveries(worker.app)


def _of_attempts(attempts: Attempts) -> Iterator[Family]:
    names = ("queue", "job_name")  # `job` is a label that Prometheus itself gives to all it reads
    series = sorted(attempts.series.items())
    started: list[Sample] = [(labels, each.started) for labels, each in series]
    yield Family("redisjobs_attempts_started", "counter", "Bodies that were started.", names, started)
    ended: list[Sample] = [
        ((*labels, outcome), each.ended[word]) for labels, each in series for word, outcome in TOLD.items()
    ]
    text = "Attempts by what became of them, once Redis has accepted it."
    yield Family("redisjobs_attempts_ended", "counter", text, (*names, "outcome"), ended)
    durations: list[Sample] = [(labels, each.durations) for labels, each in series]
    yield Family("redisjobs_process_duration_seconds", "histogram", "How long bodies ran.", names, durations)
    waits: list[Sample] = [(labels, each.waits) for labels, each in series]
    text = "From the moment at which a job could run to its first start."
    yield Family("redisjobs_queue_wait_seconds", "histogram", text, names, waits)
    limited: list[Sample] = [(labels, each.limited) for labels, each in series if each.limited is not None]
    if limited:
        text = "From the moment at which a job could run to a start that a limit or a rate had held back."
        yield Family("redisjobs_limited_wait_seconds", "histogram", text, names, limited)
    sizes: list[Sample] = [(labels, each.sizes) for labels, each in series if each.sizes is not None]
    if sizes:
        yield Family("redisjobs_batch_calls", "histogram", "Calls in each run of a batch.", names, sizes)
    lost, again = Counter[str](), Counter[tuple[str, str]]()
    for (queue, _), each in series:
        lost[queue] += each.ended["lost"]
        for reason in REASONS:
            again[queue, reason] += each.redelivered[reason]
    text = "Leases that were lost while a job ran: it may run twice."
    yield Family.by_queue("redisjobs_lease_lost", text, lost, "counter")
    redelivered: list[Sample] = list(again.items())
    text = "Starts that a fault explains; each may repeat an earlier one."
    yield Family("redisjobs_redeliveries", "counter", text, ("queue", "reason"), redelivered)
