"""What a relay tells: what it carried, and what both stores hold of the queues that are its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from redisjobs.broker.depths import Depth
from redisjobs.monitoring.family import Family, Sample
from redisjobs.monitoring.stores import Rows, Stores
from redisjobs.monitoring.webhook_figures import of_endpoints
from redisjobs.relay import Relay

_COUNTERS = {
    "redisjobs_published": "Rows that left their queue's line: published, or ended as duplicate or cancelled.",
    "redisjobs_settled": "Outcomes taken to Postgres.",
    "redisjobs_publish_failures": "Passes that a failing row, or a store, cut short.",
    "redisjobs_relay_lease_lost": "Times that another relay took the queue away.",
    "redisjobs_recoveries": "Times that Redis had lost the queue's data, and they were put right.",
}


def of_relay(relay: Relay, stores: Stores) -> Iterator[Family]:
    """Its metrics now; any thread may ask."""
    carried = list(relay.carried.items())
    for name, text in _COUNTERS.items():
        values = {queue: getattr(each, name.removeprefix("redisjobs_")) for queue, each in carried}
        yield Family.by_queue(name, text, values, "counter")
    held = dict(relay.leases.held)
    yield Family.one("redisjobs_relay_queues", "Queues that this relay holds.", len(held))
    stuck = {queue: int(bool(hold.failing)) for queue, hold in held.items()}
    yield Family.by_queue("redisjobs_queue_stuck", "1 while a failing row stops the queue.", stuck, total=max)
    paused = {queue: int(hold.paused) for queue, hold in held.items()}
    yield Family.by_queue("redisjobs_queue_paused", "1 while an operator has paused the queue.", paused, total=max)
    yield Family.one("redisjobs_redis_full", "1 while Redis is too full to publish more.", relay.memory.full)
    yield Family.one("redisjobs_relay_listens", "1 while commits are heard of at once.", relay.ear.hears)
    rows, depths = stores.rows, stores.depths
    up: list[Sample] = [(("postgres",), rows is not None), (("redis",), depths is not None)]
    yield Family("redisjobs_store_up", "gauge", "1 while the store tells the figures below.", ("store",), up)
    if rows is not None:
        yield from _of_rows(rows)
    if depths is not None:
        yield from _of_depths(depths)


def _of_rows(rows: Rows) -> Iterator[Family]:
    names = ("queue", "state")
    number: list[Sample] = [(key, n) for key, (n, _) in sorted(rows.states.items())]
    yield Family("redisjobs_outbox_rows", "gauge", "Rows that are not published, or that rest.", names, number)
    # deferred rows wait for their time, however long ago they were staged
    ages: list[Sample] = [(key, age) for key, (_, age) in sorted(rows.states.items()) if key[1] != "deferred"]
    yield Family("redisjobs_outbox_oldest_seconds", "gauge", "Age of the oldest of these rows.", names, ages)
    dead = {queue: n for queue, (n, _) in rows.dead.items()}
    yield Family.by_queue("redisjobs_dead_letters", "Dead letters.", dead)
    oldest = {queue: age for queue, (_, age) in rows.dead.items()}
    yield Family.by_queue("redisjobs_dead_letters_oldest_seconds", "Age of the oldest dead letter.", oldest)
    yield from of_endpoints(rows.endpoints)


def _of_depths(depths: Mapping[str, Depth]) -> Iterator[Family]:
    names = ("queue", "state")
    number: list[Sample] = []
    ages: list[Sample] = []
    for queue, each in depths.items():
        number += [((queue, "ready"), each.ready), ((queue, "running"), each.running), ((queue, "due"), each.due),
                   ((queue, "limited"), each.limited), ((queue, "behind"), each.behind)]  # fmt: skip
        ages += [
            ((queue, "ready"), each.ready_s), ((queue, "running"), each.running_s), ((queue, "due"), each.overdue_s)
        ]  # fmt: skip
    yield Family("redisjobs_jobs", "gauge", "Jobs in Redis.", names, number)
    text = "How long the oldest waits; how long ago the oldest that runs could run; by how much the first due is late."
    yield Family("redisjobs_jobs_oldest_seconds", "gauge", text, names, ages)
    unsettled = {queue: each.unsettled_s for queue, each in depths.items()}
    text = "Age of the oldest outcome that is not in Postgres."
    yield Family.by_queue("redisjobs_unsettled_oldest_seconds", text, unsettled)
