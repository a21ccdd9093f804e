"""The bugs, each a mistake that this design rules out, and the tests that must see it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.faults.planted.tree import Edit

ROAD = "tests/services/test_relay_road.py"
"""An ordinary job goes its way. A bug that stops this would be seen by everybody, and proves nothing."""
BROKER_MACHINE = "tests/services/test_broker_machine.py::test_any_calls_in_any_order"
BOTH_ROADS = "tests/services/test_both_roads.py::test_committed_jobs_run_in_their_order_and_rolled_back_ones_never"
RELAY = "tests/faults/test_faults_relay.py::"
CLOCK = "tests/services/test_schedules_clock.py::"
SCHEDULER = "tests/services/test_scheduler.py::"
WORKER = "tests/services/test_worker_faults.py::"
RUNS = "tests/unit/test_testing_runs.py::"
POINTS = "tests/faults/test_points.py::test_nothing_is_lost_and_nothing_doubled_whoever_is_hit"
ORDER = "tests/services/test_relay_order.py::"
DRAIN = "tests/services/test_worker_drain.py::"
LIMITER_MACHINE = "tests/services/test_limiter_machine.py::test_any_calls_in_any_order"


@dataclass(frozen=True, slots=True)
class Bug:
    """One mistake.

    Args:
        name: in words.
        general: tests of a fault, a state machine or a whole road, which know nothing of this very mistake.
        own: tests of the one rule that it breaks.
        road: what still passes with it.
    """

    name: str
    edits: tuple[Edit, ...]
    general: tuple[str, ...]
    own: tuple[str, ...]
    road: tuple[str, ...] = (ROAD,)


BUGS = {
    "finish-without-token": Bug(
        "a finish is accepted from a holder whose start is not the last one",
        (
            Edit(
                "lua/finish.lua",
                "run.entry == entry and run.holder == consumer and run.starts == tonumber(start) then",
                "run.entry == entry and run.holder == consumer then",
            ),
            Edit(
                "lua/lib/ending.lua",
                "if held ~= entry or holder ~= consumer or starts ~= start then return false end",
                "if held ~= entry or holder ~= consumer then return false end",
            ),
        ),
        (BROKER_MACHINE,),
        ("tests/services/test_broker_finish.py::test_an_attempt_with_another_holder_entry_or_start_is_lost",),
    ),
    "mark-without-token": Bug(
        "rows are marked by a relay whose lease has gone to another",
        (
            Edit(
                "redisjobs/sql/publisher.sql",
                "-- those of this very publication: one that came back meanwhile is in line for the next\n"
                "WITH held AS MATERIALIZED (\n"
                "    SELECT 1 FROM redisjobs.queues\n"
                "    WHERE queue = %(queue)s AND token = %(token)s AND epoch",
                "-- those of this very publication: one that came back meanwhile is in line for the next\n"
                "WITH held AS MATERIALIZED (\n"
                "    SELECT 1 FROM redisjobs.queues\n"
                "    WHERE queue = %(queue)s AND epoch",
            ),
        ),
        (
            RELAY + "test_a_relay_that_wakes_up_after_its_lease_marks_and_publishes_nothing",
        ),
        ("tests/services/test_publisher.py::test_a_stale_hold_publishes_and_marks_nothing",),
    ),
    "group-at-the-end": Bug(
        "the group of a stream is made at its end, and what stands in it already is never read",
        (Edit("lua/lib/deliver.lua", "stream, 'workers', '0', 'MKSTREAM')", "stream, 'workers', '$', 'MKSTREAM')"),),
        (BOTH_ROADS,),
        (),
        road=(),
    ),
    "order-by-skip-locked": Bug(
        "the publisher passes over rows that somebody has locked",
        (
            Edit(
                "redisjobs/sql/publisher.sql",
                "LEFT JOIN redisjobs.staged(%(queue)s, %(floor)s, %(limit)s) ON true;",
                "LEFT JOIN (\n"
                "    SELECT * FROM redisjobs.outbox WHERE queue = %(queue)s AND state = 'staged' AND seq > %(floor)s\n"
                "    ORDER BY seq LIMIT %(limit)s FOR UPDATE SKIP LOCKED) AS staged ON true;",
            ),
        ),
        (ORDER + "test_a_row_that_somebody_has_locked_is_overtaken_by_none",),
        (),
    ),
    "hand-back-counted": Bug(
        "an attempt that a drain hands back counts as one of those that a job has",
        (Edit("redisjobs/outcome.py", '= Outcome("released")', '= Outcome("released", counted=True)'),),
        (
            "tests/faults/test_shutdown.py::test_g04_five_deploys_in_mid_job_use_up_no_attempt",
            DRAIN + "test_five_rolling_restarts_use_up_no_attempt",
        ),
        (DRAIN + "test_a_deadline_that_passes_hands_back_what_still_runs_uncounted_and_at_once",),
    ),
    "step-recorded-first": Bug(
        "a step is recorded as done before its body runs",
        (
            Edit(
                "redisjobs/runs/steps.py",
                "            began, tries = time.monotonic(), tries + 1\n",
                "            began, tries = time.monotonic(), tries + 1\n"
                '            await self._run.put(self._run.new(self._name, "step", state="done", tries=tries))\n',
            ),
        ),
        (
            POINTS + "[runs.step-begins-kill]",
            RUNS + "test_a_run_sleeps_waits_and_calls_in_a_world_and_no_step_runs_twice",
        ),
        (),
    ),
    "occurrence-by-wall-clock": Bug(
        "an occurrence is known by the moment at which a scheduler looked, and not by its own",
        (
            Edit("redisjobs/scheduler.py", "key_of(each.name, dispatch.at)", "key_of(each.name, datetime.now(UTC))"),
        ),
        (
            CLOCK + "test_h18_a_watermark_that_was_put_back_runs_no_occurrence_twice_whose_job_still_waits",
        ),
        (
            SCHEDULER + "test_a_dispatch_carries_the_call_unchanged_under_the_key_of_its_occurrence",
        ),
    ),
    "permit-of-another-released": Bug(
        "whoever has ended frees a permit that is another's by now",
        (
            Edit(
                "lua/release.lua",
                "elseif p and p.state ~= 'r' and p.start == start and p.consumer == consumer then",
                "elseif p and p.state ~= 'r' then",
            ),
        ),
        (LIMITER_MACHINE,),
        ("tests/services/test_limiter.py::test_a_later_start_takes_the_permit_of_the_former",),
    ),
    "reclaim-by-local-clock": Bug(
        "whether a lease is over is decided by the wall clock of the worker that looks",
        (
            Edit("redisjobs/broker/broker.py", "import asyncio\nfrom", "import asyncio\nimport time\nfrom"),
            Edit(
                "redisjobs/broker/broker.py",
                "self._run(_RECLAIM, queue, consumer, lease_ms, min(count, MOST_AT_ONCE), max_losses)",
                "self._run(\n"
                "            _RECLAIM, queue, consumer, lease_ms, min(count, MOST_AT_ONCE), max_losses,\n"
                "            round(time.time() * 1000),\n"
                "        )",
            ),
            Edit(
                "lua/reclaim.lua",
                "local consumer, lease, count, max_losses = unpack(ARGV, 1, 4)",
                "local consumer, lease, count, max_losses, at = unpack(ARGV, 1, 5)",
            ),
            Edit("lua/reclaim.lua", "'workers', 'IDLE', lease, '-', '+'", "'workers', 'IDLE', 0, '-', '+'"),
            Edit(
                "lua/reclaim.lua",
                "  for _, item in ipairs(late) do\n",
                "  for _, item in ipairs(late) do\n    item[3] = item[3] + tonumber(at) - now\n",
            ),
            Edit("lua/reclaim.lua", "elseif take_over(band", "elseif item[3] >= lease and take_over(band"),
        ),
        ("tests/faults/test_faults_leases.py::test_no_clock_of_a_worker_or_relay_decides_on_a_lease",),
        (),
    ),
    "unrepeatable-repeated": Bug(
        "a call whose reply was lost is made again by the client, and what it took lies unseen until its lease is over",
        (
            Edit(
                "redisjobs/broker/client.py",
                '            return await call("EVALSHA", script.sha, len(keys), *keys, *arguments)\n',
                "            try:\n"
                '                return await call("EVALSHA", script.sha, len(keys), *keys, *arguments)\n'
                "            except (exceptions.ConnectionError, OSError):\n"
                '                return await call("EVALSHA", script.sha, len(keys), *keys, *arguments)\n',
            ),
        ),
        (
            "tests/faults/test_faults_replies.py::test_a_call_whose_reply_is_lost_doubles_nothing[take-1]",
            WORKER + "test_a_lost_reply_to_any_call_neither_loses_nor_doubles_a_job[take]",
        ),
        ("tests/services/test_broker_connections.py::test_a_lost_reply_is_told_and_the_next_call_goes_on",),
    ),
    "trimmed-by-length": Bug(
        "a stream is kept at a length, and the oldest jobs fall out of it",
        (
            Edit(
                "lua/lib/ready.lua",
                "redis.call('XADD', stream, '*', 'j', id)",
                "redis.call('XADD', stream, 'MAXLEN', '~', 1000, '*', 'j', id)",
            ),
        ),
        ("tests/services/test_broker_many.py::test_ten_thousand_due_at_once_all_start",),
        (),
    ),
    "tombstone-dropped-early": Bug(
        "a job that has ended is forgotten before its outcome has settled",
        (
            Edit(
                "lua/lib/ending.lua",
                "    batch.jobs[#batch.jobs + 1] = item[1]\n"
                "    batch.jobs[#batch.jobs + 1] = '! ' .. item[2].id .. ' ' .. item[3]\n",
                "    redis.call('HDEL', q.jobs, item[1])\n",
            ),
        ),
        (
            BROKER_MACHINE,
            "tests/services/test_broker_repeats.py::test_every_reply_lost_on_the_way_of_a_job_it_still_ends_once",
        ),
        ("tests/services/test_broker_publish.py::test_a_placed_job_is_a_repeat_and_nothing_is_written",),
    ),
}  # fmt: skip
