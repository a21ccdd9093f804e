"""The statements of leases, recovery and audit: who holds a queue, and what Redis turned out not to hold."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from redisjobs.testing.outbox.parameters import Parameters, Rows, Statement, changed, ids, is_held, numbers
from redisjobs.testing.outbox.tables import LONG_AGO, PLACED, QueueRow, Row, Tables

MS = 1000


def meet(tables: Tables, given: Parameters) -> Rows:
    """Queues that were never seen get their row."""
    strangers = [queue for queue in given["queues"] if queue not in tables.queues]
    tables.queues.update({queue: QueueRow(queue) for queue in strangers})
    return changed(strangers)


def take(tables: Tables, given: Parameters) -> Rows:
    """Renews what this relay holds and takes what nobody holds any more."""
    relay, wanted = given["relay"], given["queues"]
    taken = [
        queue
        for queue in tables.queues.values()
        if (queue.holder == relay or queue.lease_until < tables.now()) and (wanted is None or queue.queue in wanted)
    ]
    for queue in taken:
        queue.token += 0 if queue.holder == relay else 1
        queue.holder, queue.lease_until = relay, tables.in_seconds(given["lease"])
    return [
        (each.queue, each.token, each.epoch, each.paused, each.asleep, each.failing or "", each.share_by, each.shares)
        for each in taken
    ]


def keep(tables: Tables, given: Parameters) -> Rows:
    """Renews on the way what this relay holds; takes nothing."""
    kept = [
        each for each in tables.queues.values() if each.holder == given["relay"] and each.lease_until > tables.now()
    ]
    for queue in kept:
        queue.lease_until = tables.in_seconds(given["lease"])
    return [(queue.queue, queue.token) for queue in kept]


def fresh_token(tables: Tables, given: Parameters) -> Rows:
    """What may still be under way under the old token is refused from now on."""
    queue = tables.queues.get(given["queue"])
    if queue is None or (queue.holder, queue.token) != (given["relay"], given["token"]):
        return []
    queue.token, queue.lease_until = max(queue.token, given["above"]) + 1, tables.in_seconds(given["lease"])
    return [(queue.token,)]


def let_go(tables: Tables, given: Parameters) -> Rows:
    """A relay that stops leaves its queues to the next one."""
    held = [queue for queue in tables.queues.values() if queue.holder == given["relay"]]
    for queue in held:
        queue.holder, queue.lease_until, queue.asleep = None, LONG_AGO, True
    return changed(held)


def fall_asleep(tables: Tables, given: Parameters) -> Rows:
    """Answers the transaction behind which no producer can have missed it."""
    return [(tables.next_xact(),)] if _set_asleep(tables, given, asleep=True) else []


def wake_up(tables: Tables, given: Parameters) -> Rows:
    """The queue is polled."""
    return changed(_set_asleep(tables, given, asleep=False))


def oldest_running(tables: Tables, given: Parameters) -> Rows:
    """The oldest transaction that has not ended."""
    return [(tables.oldest_running(),)]


def with_staged(tables: Tables, given: Parameters) -> Rows:
    """The queues with staged rows."""
    return [(queue,) for queue in sorted({row.queue for row in tables.outbox.values() if row.state == "staged"})]


def with_side_work(tables: Tables, given: Parameters) -> Rows:
    """The queues with work beside the line, and of which kind it is."""
    until = tables.in_seconds(given["horizon"])
    rows = list(tables.outbox.values())
    cancelled = {row.queue for row in rows if row.cancel_requested and row.ending is None}
    later = {"deferred": until, "suspended": tables.now()}
    due = {row.queue for row in rows if row.state in later and row.run_at is not None and row.run_at < later[row.state]}
    moved = {row.queue for row in rows if row.moving and row.state in PLACED}
    kinds = {
        "cancel": cancelled,
        "move": moved,
        "due": due & {name for name, queue in tables.queues.items() if not queue.paused},
    }
    return [(queue, kind) for kind, queues in kinds.items() for queue in sorted(queues)]


def take_back(tables: Tables, given: Parameters) -> Rows:
    """A chunk of the rows that a lost life of Redis held joins the line again, in its old order."""
    held, after = _renewed(tables, given), UUID(given["after"])
    lost = sorted((row for row in tables.of_queue(given["queue"], *PLACED) if row.id > after), key=lambda row: row.id)
    chunk = lost[: given["limit"]]
    last = chunk[-1].id if chunk else None
    return [(held, _stage_again(chunk) if held else 0, last)]


def name_life(tables: Tables, given: Parameters) -> Rows:
    """The new life of Redis, stored together with the rows that were still published."""
    held = _renewed(tables, given)
    if held:
        tables.queues[given["queue"]].epoch = given["epoch"]
    lost = [] if given["first"] or not held else list(tables.of_queue(given["queue"], *PLACED))
    return [(held, _stage_again(lost))]


def open_windows(tables: Tables, given: Parameters) -> Rows:
    """Keys that are held without a job in Redis: key, job, ms left, or -1 until a run ends; its lane with -2."""
    now = tables.now()
    ended = [(each.idempotency_key, each.id, each.key_until, each.queue) for each in tables.finished]
    dead = [(each.row.idempotency_key, each.row.id, each.key_until, each.row.queue) for each in tables.dead.values()]
    windows = [
        (key, job_id.bytes, round((until - now).total_seconds() * MS))
        for key, job_id, until, queue in [*ended, *dead]
        if queue == given["queue"] and until is not None and until > now
    ]
    runs = [
        row for row in tables.outbox.values() if row.queue == given["queue"] and row.settled and row.idempotency_key
    ]
    held = [(row.idempotency_key, row.id.bytes, _left(row, now)) for row in runs if row.key_policy != "debounce"]
    lanes = [
        (row.lane, row.id.bytes, -2)
        for row in tables.outbox.values()
        if row.queue == given["queue"] and row.settled and row.lane is not None
    ]
    return [*windows, *[each for each in held if each[2]], *lanes]


def _left(row: Row, now: datetime) -> int:
    """Of a suspended run: ms of its throttle's period, or 0; else -1."""
    if row.key_policy != "throttle":
        return -1
    until = row.key_until(now)
    return 0 if until is None else max(0, round((until - now).total_seconds() * MS))


def published(tables: Tables, given: Parameters) -> Rows:
    """A slice of the rows that Redis should hold, of these queues."""
    after, before = UUID(given["after"]), tables.in_seconds(-given["age"])
    rows = [
        row
        for row in tables.outbox.values()
        if row.id > after
        and row.queue in given["queues"]
        and row.state in PLACED
        and (row.published_at is None or row.published_at < before)
    ]
    return [
        (row.id.bytes, row.redrives, row.settled, row.queue)
        for row in sorted(rows, key=lambda row: row.id)[: given["limit"]]
    ]


def publish_again(tables: Tables, given: Parameters) -> Rows:
    """Rows that Redis turned out not to hold join the line again."""
    if not is_held(tables, given):
        return []
    pairs = zip(ids(given["ids"]), numbers(given["lives"]), strict=True)
    rows = [row for job_id, life in pairs if (row := tables.outbox.get(job_id)) is not None and row.redrives == life]
    again = [row for row in rows if row.state in PLACED]
    _stage_again(again)
    return changed(again)


def rowless(tables: Tables, given: Parameters) -> Rows:
    """Which of these ids have no row."""
    return [(job_id.bytes,) for job_id in ids(given["ids"]) if job_id not in tables.outbox]


def _set_asleep(tables: Tables, given: Parameters, *, asleep: bool) -> list[QueueRow]:
    queue = tables.queues.get(given["queue"])
    if queue is None or queue.token != given["token"]:
        return []
    queue.asleep = asleep
    return [queue]


def _renewed(tables: Tables, given: Parameters) -> int:
    """1 where the lease stands under this token, and runs anew; else 0."""
    queue = tables.queues.get(given["queue"])
    if queue is None or queue.token != given["token"] or queue.lease_until <= tables.now():
        return 0
    queue.lease_until = tables.in_seconds(given["lease"])
    return 1


def _stage_again(rows: list[Row]) -> int:
    for row in rows:
        row.state = "staged"
    return len(rows)


LEASES: dict[str, Statement] = {
    each.__name__: each
    for each in (
        meet,
        take,
        keep,
        fresh_token,
        let_go,
        fall_asleep,
        wake_up,
        oldest_running,
        with_staged,
        with_side_work,
    )
}
RECOVERY: dict[str, Statement] = {each.__name__: each for each in (take_back, name_life, open_windows)}
AUDIT: dict[str, Statement] = {each.__name__: each for each in (published, publish_again, rowless)}
