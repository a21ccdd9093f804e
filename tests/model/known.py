"""Which script and which statement the model has, and by what; the rest with the reason why it has not.

A file that is in neither list fails a test: whoever adds one decides here whether it can change who has a job.
"""

from __future__ import annotations

from tests.model.limiter import Limiter
from tests.model.postgres import Postgres
from tests.model.postgres_runs import PostgresOfRuns
from tests.model.queue_worker import Queue

SCRIPTS: dict[str, type[object]] = {
    **dict.fromkeys(
        (
            "adopt", "audit", "begin", "bury", "cancel", "finish", "forget", "free", "holder", "move", "open",
            "overtake", "promote", "publish", "recall", "reclaim", "renew", "settled", "take", "vacate", "wake",
        ),
        Queue,
    ),
    **dict.fromkeys(("admit", "hold", "release", "sweep"), Limiter),
}  # fmt: skip
"""Each is a method of this class, of the same name."""

SCRIPTS_LEFT = {
    "adjust": "an operator's word: it changes no permit, and tests/services/test_limiter_machine.py calls it",
    "ease": "closes a rate, and rates are not in the model: tests/services/test_limiter_rates.py",
    "enqueue": "places as publish does, for jobs without a row: tests/services/test_direct.py",
    "leave": "takes names of consumers that hold nothing",
    "present": "what workers say of themselves decides nothing",
    "progress": "what bodies say of themselves decides nothing",
}

STATEMENTS: dict[str, type[object]] = {
    **{f"publisher.{name}": Postgres for name in ("batch", "mark", "is_held", "defer", "come_due", "deduplicate",
                                                  "cancels", "end_cancelled")},
    **{f"settler.{name}": Postgres for name in ("settle", "suspend")},
    **{f"leases.{name}": Postgres for name in ("take", "fresh_token", "with_staged")},
    **{f"recovery.{name}": Postgres for name in ("take_back", "name_life", "open_windows")},
    **{f"audit.{name}": Postgres for name in ("published", "publish_again", "rowless")},
    "scheduler.dispatch": Postgres,
    "outbox.stage": Postgres,
    "outbox.cancel": Postgres,
    "operator.redrive": Postgres,
    **{f"steps.{name}": PostgresOfRuns for name in ("claim", "put", "call", "wait", "end_done", "tell_parent")},
    "deliverer.deliver": PostgresOfRuns,
    "events.send": PostgresOfRuns,
}  # fmt: skip
"""Each is a method of this class, of the same name."""

SAME_AS = {
    "settler.settle_done": "Postgres.settle: the short way for what simply succeeded",
    "settler.look_again": "PostgresOfRuns.deliver looks at each event anew",
    "aftermath.clear": "Postgres.end",
    "aftermath.tell_parents": "Postgres.end, PostgresOfRuns.tell_parent",
    "aftermath.cancel_children": "Postgres.end",
    "leases.keep": "Postgres.take, which renews",
    "leases.with_side_work": "Relays._beside looks at each queue by itself",
    "leases.fall_asleep": "wakeup.deaf_orders: flag",
    "leases.wake_up": "wakeup.deaf_orders",
    "leases.oldest_running": "wakeup.deaf_orders: polls_on",
    "deliverer.fall_asleep": "wakeup.deaf_orders: flag",
    "deliverer.wake_up": "wakeup.deaf_orders",
    "outbox.stage_many": "Postgres.stage, again and again",
    "events.send_many": "PostgresOfRuns.send, again and again",
    "operator.cancel": "Postgres.cancel",
    "steps.ended": "Workers._claim: a run that is gone has ended",
}
"""Statements that the model has as a part of something else."""

STATEMENTS_LEFT = {
    "publisher.replaced": "policies of keys have a machine: tests/services/test_policies_machine.py",
    "publisher.failing": "names a row for operators",
    "aftermath.held": "looks, and decides only who settles a pass later: tests/services/test_settling_beside_locks.py",
    "settler.bury_direct": "direct jobs have no row, and are not in the model",
    "settler.make_room": "partitions",
    "settler.drop_finished": "partitions",
    "leases.meet": "gives a queue its row",
    "leases.let_go": "a relay that stops in order: the same as its lease ending now",
    "mover.moves": "a job is moved only while it waits, which move.lua decides: the script is in the model",
    "mover.moved": "likewise",
    "deliverer.clean_events": "events that nobody can take any more",
    "scheduler.due": "a read; what is decided from it counts by the watermark of dispatch",
    "scheduler.cancel": "redisjobs.cancel, as outbox.cancel",
    "scheduler.wait": "a read",
    "scheduler.declared": "what schedules are: no job is touched",
    "scheduler.reread": "what schedules are: no job is touched",
    "steps.begin_ending": "undos: tests/services/test_runs_families.py and tests/stories",
    "steps.hold": "settings of a user's own transaction",
    "steps.lock": "of a user's own transaction: tests/services/test_steps_transactions.py",
    "steps.get": "a read",
    "steps.list": "a read",
    "steps.delete": "an operator's hand",
    "steps.clear": "an operator's hand",
    "outbox.reprioritize": "flags a row, as mover.moves",
    "outbox.reschedule": "flags a row, as mover.moves",
}

STATIONS = ("publisher", "settler", "leases", "recovery", "audit", "deliverer", "aftermath", "mover", "steps", "events",
            "scheduler", "outbox")  # fmt: skip
"""Files of which each statement is on a list; of other stations only what is named above."""

STATIONS_LEFT = {
    "demo": "what the demonstration shows",
    "django": "pages of the admin; what changes a job goes by operator",
    "doctor": "reads",
    "explain": "reads",
    "lineage": "reads, and an operator's hand on records",
    "monitoring": "reads",
    "operator": "reads, and doors to functions; cancel and redrive are in the model",
    "schedules": "what schedules are: no job is touched, but by dispatch",
    "search": "reads",
    "testing": "reads of the test kit",
    "timetable": "reads",
    "top": "reads",
    "webhooks": "endpoints; a delivery is a job as any",
}
