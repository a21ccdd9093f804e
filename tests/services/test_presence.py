"""Workers say that they are there: who serves a queue, what each does, and who fell silent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest
import redis as redis_py

from redisjobs.announcer import Announcer
from redisjobs.broker import Heart, Presence
from redisjobs.broker import presence as presence_module
from redisjobs.broker.view import View
from redisjobs.settings import WorkerSettings
from tests.support.crew import Crew
from tests.support.eventually import eventually
from tests.support.redis_versions import AnyRedis


@pytest.fixture
def view(redis_url: str) -> Iterator[View]:
    with View(redis_url) as opened:
        yield opened


async def test_a_worker_is_listed_from_its_start_to_its_end(crew: Crew, view: View):
    worker = await crew.start(queues=["default", "mail.*"], concurrency={"default": 3}, worker_id="w1")

    (listed,) = await eventually(view.workers, "it is listed")
    await worker.stop()

    assert (listed.worker_id, listed.state, listed.slots) == ("w1", "running", {"default": 3})
    assert [listed.serves(queue) for queue in ("default", "mail.news", "mail", "other")] == [True, True, False, False]
    assert view.workers() == []


async def test_a_quiet_worker_says_that_it_takes_nothing(crew: Crew, view: View, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("redisjobs.announcer.EVERY_S", 0.05)
    monkeypatch.setattr("redisjobs.heartbeat.LOOK_S", 0.05)
    worker = await crew.start(worker_id="w1")
    await eventually(lambda: [each for each in view.workers() if each.serves("default")], "it serves the queue")

    worker.quiet()

    (listed,) = await eventually(lambda: [each for each in view.workers() if each.state == "quiet"], "it is quiet")
    assert not listed.serves("default")


async def test_it_tells_what_it_runs_and_how_much_it_has_done(crew: Crew, view: View, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("redisjobs.announcer.EVERY_S", 0.05)
    monkeypatch.setattr("redisjobs.heartbeat.LOOK_S", 0.05)
    free = asyncio.Event()

    @crew.app.job()
    async def wait() -> None:
        await free.wait()

    await crew.start()
    await crew.put("wait", 2)

    busy = await eventually(
        lambda: [each for each in view.workers() if each.running == {"default": 2}], "it says that it runs them"
    )
    free.set()
    idle = await eventually(
        lambda: [each for each in view.workers() if each.processed == 2], "it says that it ran them"
    )

    assert busy[0].oldest_s is not None
    assert (idle[0].running, idle[0].failed, idle[0].oldest_s) == ({}, 0, None)


def test_one_that_is_killed_counts_as_there_no_longer_than_its_word(
    redis_url: str, view: View, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(presence_module, "TTL_MS", -15_000)
    heart = Heart(redis_url)
    heart.tell("dead", Presence("dead", queues=["q"]).pack())
    monkeypatch.setattr(presence_module, "TTL_MS", 15_000)
    heart.tell("alive", Presence("alive", queues=["q"]).pack())
    heart.close()

    there = {each.worker_id: (each.is_there, each.serves("q")) for each in view.workers()}

    assert there == {"alive": (True, True), "dead": (False, False)}


def test_one_that_was_silent_for_long_is_forgotten(any_redis: AnyRedis, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(presence_module, "KEEP_MS", -60_000)
    heart = Heart(any_redis.url)
    heart.tell("first", b"{}")
    monkeypatch.setattr(presence_module, "KEEP_MS", 60_000)
    heart.tell("second", b"{}")
    heart.tell("third", b"")
    heart.close()

    with View(any_redis.url) as view:
        assert [each.worker_id for each in view.workers()] == ["second"]


def test_a_word_of_another_release_or_of_a_stranger_is_read_as_far_as_it_goes(redis_url: str, view: View):
    heart = Heart(redis_url)
    for name, word in (
        ("newer", json.dumps({"pid": 7, "colour": "red"}).encode()),
        ("odd", b"\xff{"),
        ("list", b"[1]"),
        ("liar", b'{"slots": 3, "queues": {}, "up_s": "long"}'),
    ):
        heart.tell(name, word)
    heart.close()

    assert {each.worker_id: each.pid for each in view.workers()} == {"newer": 7, "odd": 0, "list": 0, "liar": 0}


async def test_a_redis_that_refuses_the_word_is_told_of_once_and_costs_no_lease(
    crew: Crew, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
):
    redis.set("rj:{-}:seen", "no sorted set")
    heart = Heart(crew.redis_url)
    announcer = Announcer(heart, WorkerSettings(worker_id="w1"), lambda: "running", list)

    announcer.tell_if_due()
    announcer.leave()
    heart.close()

    told = [record for record in caplog.records if getattr(record, "event", "") == "worker.unlisted"]
    assert len(told) == 1
    assert "WRONGTYPE" in told[0].getMessage()


def test_a_draining_worker_takes_no_new_jobs():
    assert not Presence("w1", state="draining", queues=["q"]).serves("q")
