"""The points. Each lies between two effects of which the second may never come, or come late."""

from __future__ import annotations

from tests.faults.points.point import Part, Point


def _relay(where: str, call: str, **given: object) -> Point:
    return _point("relay", where, call, given)


def _worker(where: str, call: str, **given: object) -> Point:
    return _point("worker", where, call, given)


def _point(part: Part, where: str, call: str, given: dict[str, object]) -> Point:
    return Point(part, f"redisjobs.{where}", call, **given)  # type: ignore[arg-type]


SQL = {"store": "postgres"}
PURE = {"store": None}

OF_RELAYS = {
    # leases and lives
    "relay.renewed": _relay("relay:Relay._renew", "self.leases.renew()", full="", **SQL),
    "relay.taken": _relay("relay:Relay._take_free", "self.leases.take(", full="", **SQL),
    "relay.dirty-cleaned": _relay("relay:Relay._find_outcomes", "self.carrier.clean("),
    "relay.fresh-token": _relay(
        "leases:Leases.take_fresh_token", "self._database.run(", given="publisher.published", **SQL
    ),
    # rows on their way to Redis
    "publisher.read": _relay("publisher:Publisher._read", "self._database.alone(", **SQL),
    "publisher.published": _relay("publisher:Publisher._send", "self._carrier.publish(", full=""),
    "publisher.replaced": _relay(
        "publisher:Publisher._mark", "self._database.change('cancel what was replaced'", **SQL
    ),
    "publisher.marked": _relay("publisher:Publisher._mark_placed.mark", "self._change(hold, 'mark rows'", **SQL),
    "publisher.deferred": _relay("publisher:Publisher._defer.defer", "self._change(hold, 'defer rows'", **SQL),
    "publisher.come-due": _relay("publisher:Publisher.come_due", "self._database.run(", **SQL),
    "publisher.duplicates-deleted": _relay("publisher:Publisher._deduplicate", "fetch(connection", full="", **SQL),
    "publisher.duplicates-ended": _relay(
        "publisher:Publisher._deduplicate", "self._carrier.tell_duplicates(", before=True
    ),
    "publisher.cancelled": _relay("publisher:Publisher._end_cancelled", "self._carrier.cancel(", full=""),
    "publisher.cancelled-here": _relay("publisher:Publisher._end_here", "self._free(", before=True),
    # outcomes on their way to Postgres
    "settler.read": _relay("settler:Settler.settle", "self._carrier.outcomes(", full=""),
    "settler.ends-written": _relay("settler:Settler._settle", "self._aftermath.follow(", before=True, **SQL),
    "settler.followed": _relay("settler:Settler._settle", "self._aftermath.follow(", **SQL),
    "settler.suspended": _relay("settler:Settler._settle", "connection.execute(self._sql.suspend", **SQL),
    "settler.committed": _relay("settler:Settler._settle", "self._carrier.tell_duplicates(", before=True),
    "settler.looks-again": _relay("settler:Settler._look_again", "self._database.change(", **SQL),
    "settler.settled": _relay("settler:Settler.settle", "self._carrier.settled("),
    # the rest of a turn
    "mover.told": _relay("mover:Mover._tell", "self._carrier.move(", full=""),
    "mover.noted": _relay("mover:Mover._note", "self._database.change(", **SQL),
    "deliverer.delivered": _relay("deliverer:Deliverer.deliver", "self._database.run(", **SQL),
    # a Redis that lost data
    "recovery.opened": _relay("recovery:Recovery.open", "self._carrier.open("),
    "recovery.taken-back": _relay("recovery:Recovery._take_back", "self._ask(hold, 'take rows back'", **SQL),
    "recovery.named": _relay("recovery:Recovery._recover", "self._ask(hold, 'name the life of Redis'", **SQL),
    "recovery.windows-read": _relay("recovery:Recovery._recover", "self._database.run('restore windows'", **SQL),
    "recovery.adopted": _relay("recovery:Recovery._adopt", "self._carrier.adopt(hold.fence"),
    "audit.missing": _relay("audit:Audit._missing", "self._carrier.audit(", full=""),
    "audit.published-again": _relay("audit:Audit._missing", "self._database.change(", **SQL),
    "audit.rowless": _relay("audit:Audit._jobs", "self._database.run(", full="", **SQL),
    "audit.forgotten": _relay("audit:Audit._jobs", "self._carrier.forget("),
    "audit.vacated": _relay("audit:Audit._lanes", "self._carrier.vacate("),
}

OF_WORKERS = {
    # deliveries
    "reader.taken": _worker("reader:Reader._take", "self._broker.take(", full="deliveries"),
    "reader.waited": _worker("reader:Reader._wait", "self._broker.wait(", full=""),
    "reader.begun": _worker("reader:Reader._wait", "self._broker.begin(", full="deliveries"),
    "reader.recalled": _worker("reader:Reader._recall", "self._broker.recall(", given="reader.taken"),
    "upkeep.promoted": _worker("upkeep:Promoter._round", "self._broker.promote(", full="moved"),
    "upkeep.reclaimed": _worker("upkeep:Reclaimer._round", "self._broker.reclaim(", full=""),
    # attempts
    "runner.looked": _worker("runner:Runner._body", "self._last_look(", **PURE),
    "runner.returned": _worker("runner:Runner._run", "succeeded(", before=True, **PURE),
    "runner.raised": _worker("runner:Runner._run", "self._raised(", before=True, **PURE),
    "runner.ended": _worker("runner:Runner._run", "attempt.lane.end(", before=True, **PURE),
    "lane.sent": _worker("lane:Lane.end", "self.send(", **PURE),
    "batcher.finished": _worker("batcher:Batcher._send", "self._broker.finish("),
    "batcher.told": _worker("batcher:Batcher._tell", "self._broker.mark_dirty("),
    "heartbeat.renewed": _worker("heartbeat:Heartbeat._renew", "self._heart.renew("),
    # limits
    "limits.admitted": _worker("admission:Admission._ask", "self._limiter.admit("),
    "limits.held": _worker("heartbeat:Heartbeat._hold", "self._heart.hold("),
    "limits.released": _worker("returns:Returns._release.release", "self._limiter.release(", full=""),
    "limits.woken": _worker("returns:Returns._tell.wake", "self._broker.wake("),
    "limits.swept": _worker("returns:Returns.sweep", "self._limiter.sweep("),
    # durable runs
    "runs.claimed": _worker("runs.run:Run._claim", "self.means.store.claim(", **SQL),
    "runs.step-begins": _worker("runs.steps:Step.run", "perform(", before=True, **PURE),
    "runs.stepped": _worker("runs.steps:Step.run", "perform(", **PURE),
    "runs.recorded": _worker("runs.run:Run.put", "self.means.store.put(", plain=True, **SQL),
    "runs.waits": _worker("runs.waits:wait_for_event", "run.means.store.wait(", plain=True, **SQL),
    "runs.suspends": _worker("closing:_End.finish", "self._conclude(suspended(suspension))", before=True, **PURE),
    "runs.child-staged": _worker("runs.family:start", "run.put(", **PURE),
    "runs.transaction-written": _worker("steps.transactions:Transactions.open", "self._write(", plain=True, **SQL),
    "runs.transaction-committed": _worker(
        "steps.transactions:Transactions.open", "transaction.__aexit__(None, None, None)", plain=True, **SQL
    ),
    "runs.job-committed": _worker("runs.bodies:_Transaction.commit", "self._exit(None)", plain=True, **SQL),
    "runs.ending": _worker("closing:_End._begin_ending", "run.means.store.begin_ending(", plain=True, **SQL),
    "runs.undone": _worker("runs.undo:_undo", "_call(", **PURE),
    "runs.undo-recorded": _worker("runs.undo:_undone", "run.means.store.undone(", plain=True, **SQL),
    # webhooks
    "webhooks.sent": _worker("webhooks.delivery:Deliverer._attempt", "self._post(", **PURE),
    "webhooks.noted": _worker("webhooks.delivery:Deliverer._note", "session.store.delivered(", **SQL),
}

OF_SCHEDULERS = {
    "scheduler.looked": _point(
        "scheduler", "scheduler:Scheduler._round", "self.database.run('look for due", {"full": "", **SQL}
    ),
    "scheduler.written": _point("scheduler", "scheduler:Scheduler._move", "fetch(", {"full": "", **SQL}),
    "scheduler.dispatched": _point("scheduler", "scheduler:Scheduler._dispatch", "self._move(known)", dict(SQL)),
}

OF_PRODUCERS = {
    "client.staged": _point("producer", "drivers.psycopg:Psycopg.send", "cursor.execute(", dict(SQL)),
    "client.cancelled": _point("producer", "drivers.psycopg:Psycopg.ask", "_one(", dict(SQL)),
    "client.direct": _point("producer", "broker.broker:Broker.enqueue_direct", "self._run(_ENQUEUE", {}),
    "client.named": _point("producer", "broker.broker:Broker.enqueue_direct", "command(self.redis, 'SADD'", {}),
}

POINTS = OF_RELAYS | OF_WORKERS | OF_SCHEDULERS | OF_PRODUCERS
