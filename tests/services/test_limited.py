"""Jobs that wait for a limit are counted and listed as such; `doctor` finds pauses and lines that stand still."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from redisjobs.broker import Ask, Want
from redisjobs.broker.depths import Depths
from redisjobs.doctor import of_limits
from redisjobs.monitoring.relay_figures import _of_depths
from tests.support.builders import Conn, publication, stage
from tests.support.cli import CommandLine
from tests.support.examined import examine
from tests.support.limiting import LimiterByHand, ask, limit
from tests.support.queue import QueueByHand


@pytest.fixture
def redisjobs(database_url: str, redis_url: str) -> CommandLine:
    return CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_url})


@pytest.fixture
async def h(redis_url: str) -> AsyncIterator[LimiterByHand]:
    async with LimiterByHand(redis_url) as made:
        yield made


async def behind(conn: Conn, q: QueueByHand, h: LimiterByHand, want: Want) -> UUID:
    """A job that found no room."""
    job = stage(conn, "mail", queue="q")
    conn.execute("UPDATE redisjobs.outbox SET state = 'published', publications = 1 WHERE id = %s", [job])
    conn.commit()
    await q.publish(publication("mail", job_id=job.bytes))
    held = await q.take_one()
    (verdict,) = await h.limiter.admit("w1", [Ask(job.bytes, held.start, "q", (want,))], 60_000)
    assert verdict.word == "wait"
    await q.finish(held, "limited", delay_ms=3_600_000)
    return job


@pytest.fixture
async def seeded(conn: Conn, q: QueueByHand, h: LimiterByHand) -> list[UUID]:
    """Three jobs behind two limits, one of another queue, and one that is only delayed."""
    q.redis.sadd("rj:queues", "q")
    await h.admit(ask(1, limit("api")), ask(2, limit("db:a")), ask(3, limit("api"), queue="other"))
    found = [await behind(conn, q, h, limit(name)) for name in ("api", "db:a", "api")]
    late = stage(conn, "mail", queue="q")
    conn.execute("UPDATE redisjobs.outbox SET state = 'published' WHERE id = %s", [late])
    conn.commit()
    await q.publish(publication("mail", job_id=late.bytes, delay_ms=60_000))
    return [*found, late]


@pytest.mark.usefixtures("seeded")
def test_they_are_a_state_of_their_own_in_figures(redis_url: str, redisjobs: CommandLine):
    with Depths(redis_url) as depths:
        found = depths.look(["q", "other", "none"])
    assert (found["q"].due, found["q"].limited, found["none"].limited) == (1, 3, 0)
    jobs = next(each for each in _of_depths(found) if each.name == "redisjobs_jobs")
    assert (("q", "limited"), 3) in jobs.samples
    assert (("q", "due"), 1) in jobs.samples
    (queue,) = [each for each in redisjobs.json("status")["queues"] if each["queue"] == "q"]
    assert (queue["due"], queue["limited"]) == (1, 3)
    assert "3 wait for a limit" in redisjobs("status").stdout
    (queue,) = [each for each in redisjobs.json("queues", "list")["queues"] if each["queue"] == "q"]
    assert queue["limited"] == 3
    queues = redisjobs.json("top", "--once", "--interval", "200ms")["queues"]
    (queue,) = [each for each in queues if each["queue"] == "q"]
    assert (queue["due"], queue["limited"]) == (1, 3)


def test_they_are_listed_apart_from_what_is_due(redisjobs: CommandLine, seeded: list[UUID]):
    *limited, late = map(str, seeded)

    def ids(state: str) -> set[str]:
        return {each["id"] for each in redisjobs.json("jobs", "list", "--state", state)["jobs"]}

    assert ids("limited") == set(limited)
    assert ids("due") == {late}
    assert redisjobs("jobs", "list", "--state", "limited", "--count").stdout == "3\n"


@pytest.mark.usefixtures("seeded")
def test_a_line_behind_a_limit_that_is_held_is_sound(redisjobs: CommandLine):
    found = examine(redisjobs)

    assert (found.of("limits.paused")["level"], found.of("limits.moving")["level"]) == ("ok", "ok")
    assert found.of("limits.moving")["value"] == "4 jobs wait for 2 limit keys"


@pytest.mark.usefixtures("seeded")
async def test_a_line_that_stands_still_while_nobody_holds_is_found(
    redisjobs: CommandLine, h: LimiterByHand, monkeypatch: pytest.MonkeyPatch
):
    look = of_limits.look_at_limits
    monkeypatch.setattr(of_limits, "look_at_limits", lambda *store: look(*store, again_s=0.05))
    h.redis.hdel(h.key("used"), "api")  # as where every worker died, and nobody sweeps

    found = examine(redisjobs).of("limits.moving")

    assert found["level"] == "warn"
    assert "jobs wait for limit api, and nobody holds it: 3, of queue other" in found["value"]
    assert "redisjobs worker MODULE:APP --queues" in found["remedy"]


async def test_a_line_that_moves_between_two_looks_is_none(
    redis_url: str, h: LimiterByHand, monkeypatch: pytest.MonkeyPatch
):
    one = limit("api")
    await h.admit(ask(1, one), ask(2, one), ask(3, one))
    h.redis.hdel(h.key("used"), "api")
    line = h.redis.zrange(h.key("line"), 0, 0)

    def meanwhile(seconds: float) -> None:
        assert seconds == 3.0
        h.redis.zrem(h.key("line"), *line)

    monkeypatch.setattr(time, "sleep", meanwhile)

    assert of_limits.look_at_limits(redis_url, "rj").still == []


@pytest.mark.usefixtures("seeded")
async def test_a_pause_with_jobs_behind_it_is_found(redisjobs: CommandLine, h: LimiterByHand):
    await h.limiter.set_limit("db", most=0)
    await h.limiter.set_limit("rest", most=0)

    found = examine(redisjobs).of("limits.paused")

    assert found["level"] == "warn"
    assert found["value"] == "limit db is paused at run time, and jobs wait behind it: 1"
    assert found["remedy"] == "redisjobs limits unset db"
