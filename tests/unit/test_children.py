"""Bodies in processes of their own (rule W10): what they are given, how they fail, and how they are ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from redisjobs import ConfigurationError, EncryptedCodec
from redisjobs.app import App
from redisjobs.base.codec import Codecs
from redisjobs.base.envelope import Envelope
from redisjobs.broker import Finish
from redisjobs.children import Process
from redisjobs.guard import Guard
from redisjobs.lane import Attempt
from redisjobs.outcome import Ended
from redisjobs.progress import read
from tests.support import bodies
from tests.support.embedded import is_alive
from tests.support.eventually import eventually
from tests.support.stage import Stage, delivery, record_of


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    yield made
    made.runner.close()


def declared(stage: Stage, function: Callable[..., Any], **options: Any) -> str:
    stage.app.job(process=True, **options)(function)
    return function.__name__


def result_of(finish: Finish) -> Any:
    return json.loads(record_of(finish)["r"])


async def began(folder: Path) -> int:
    await eventually((folder / "began").exists, "it runs", 40)
    return int((folder / "pid").read_text())


async def test_a_body_has_its_arguments_and_context_in_a_warm_process_of_its_own(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    declared(stage, bodies.describe, result_ttl=60, timeout=60, max_attempts=7)
    payload = b'{"order": {"id": 5, "note": "n"}}'
    envelope = Envelope("describe", "json", payload, tenant_id="acme", headers='{"x": [1]}')

    first = stage.begin(delivery(envelope, attempts=2, start=3))
    told = result_of(await finished(stage, first))
    second = result_of(await run(stage, delivery(envelope)))

    assert told["order"] == 5
    assert told["seen"] == [first.job_id, 3, 7, "acme", {"x": [1]}, True]
    assert 50 < told["remaining"] <= 60
    assert told["pid"] != os.getpid()
    assert second["pid"] == told["pid"], "the next one has the same process"
    (reported, *_) = stage.lane.reports.take().values()
    progress = read(b"\n1 1 " + reported)
    assert progress is not None
    assert str(progress) == "1 of 2 (50 %), half"
    assert [each.getMessage() for each in caplog.records if each.name == "shop"] == ["order 5 is described"] * 2


async def finished(stage: Stage, attempt: Attempt) -> Finish:
    await eventually(lambda: attempt.over, "the attempt is over, for which a process had to start", 40)
    assert attempt.finish is not None
    return attempt.finish


async def run(stage: Stage, job: Any, **arguments: Any) -> Finish:
    return await finished(stage, stage.begin(job, **arguments))


async def test_encrypted_arguments_and_results_stay_with_the_worker(stage: Stage) -> None:
    stage.app.codecs = Codecs(EncryptedCodec([b"k" * 32]))
    declared(stage, bodies.describe, result_ttl=60)
    codec, payload = stage.app.codecs.encode({"order": {"id": 1, "note": ""}})
    assert codec == "encrypted"

    finish = await run(stage, delivery(Envelope("describe", codec, payload)))

    record = record_of(finish)
    assert record["rc"] == "encrypted"
    assert stage.app.codecs.decode(record["rc"], record["r"])["order"] == 1


async def test_an_error_comes_back_with_its_class_its_text_and_its_traceback(stage: Stage) -> None:
    declared(stage, bodies.declines, give_up_on=bodies.Declined)

    finish = await run(stage, "declines", code=3)

    error = record_of(finish)["e"]
    assert (finish.word, error["type"]) == ("dead", "tests.support.bodies.Declined")
    assert error["message"] == "declined with 3: no money"
    assert "raise Declined(code" in error["traceback"]
    assert "which led to" in error["traceback"]


async def test_signals_and_results_that_cannot_travel_mean_what_they_mean_elsewhere(stage: Stage) -> None:
    finish = await run(stage, declared(stage, bodies.asks_for_a_retry))
    assert (finish.word, finish.delay_ms) == ("retry", 7000)

    finish = await run(stage, declared(stage, bodies.returns_what_cannot_travel, result_ttl=60))
    assert finish.word == "dead"
    assert "its result cannot be kept" in record_of(finish)["why"]

    finish = await run(stage, declared(stage, bodies.leaves_by_sys_exit))
    assert (finish.word, record_of(finish)["e"]["type"]) == ("retry", "SystemExit")


async def test_a_copy_that_a_body_forks_off_answers_for_no_job(stage: Stage) -> None:
    fork = declared(stage, bodies.forks_and_returns_twice, result_ttl=60)
    pids = [json.loads(record_of(await run(stage, fork))["r"]) for _ in range(3)]

    finish = await run(stage, declared(stage, bodies.asks_for_a_retry))

    assert len(set(pids)) == 1, "the process that the worker started answered each time"
    assert finish.word == "retry", "the next job has an answer of its own"


async def test_what_a_body_logs_beside_its_text_does_not_end_it(stage: Stage) -> None:
    finish = await run(stage, declared(stage, bodies.logs_odd_extras))
    assert finish.word == "done"


async def test_a_result_that_raises_when_it_is_written_is_told_and_the_body_does_not_run_again(stage: Stage) -> None:
    finish = await run(stage, declared(stage, bodies.returns_what_raises_when_it_is_written, result_ttl=60))
    assert finish.word == "dead"
    assert "its result cannot be kept" in record_of(finish)["why"]


@pytest.mark.parametrize(
    ("body", "arguments", "how"),
    [(bodies.exits, {"code": 3}, "ended with exit code 3"), (bodies.crashes, {}, "ended by SIGSEGV")],
)
async def test_a_process_that_ends_fails_the_attempt_and_is_replaced(
    stage: Stage, body: Callable[..., Any], arguments: dict[str, Any], how: str
) -> None:
    finish = await run(stage, declared(stage, body), **arguments)

    error = record_of(finish)["e"]
    assert (finish.word, finish.counted, error["type"]) == ("retry", True, "redisjobs.errors.ProcessEnded")
    assert how in error["message"]
    assert (await run(stage, declared(stage, bodies.asks_for_a_retry))).word == "retry"


async def test_what_a_body_started_does_not_outlive_its_process(stage: Stage, tmp_path: Path) -> None:
    job = declared(stage, bodies.starts_a_helper_and_ends_its_process)

    finish = await run(stage, job, folder=str(tmp_path), code=3)

    assert "ended with exit code 3" in record_of(finish)["e"]["message"]
    await eventually(lambda: not is_alive(int((tmp_path / "helper").read_text())), "what it started has ended too")


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_timeout_unwinds_the_body_or_kills_it_and_what_it_started(
    stage: Stage, tmp_path: Path, stubborn: bool
) -> None:
    await run(stage, declared(stage, bodies.asks_for_a_retry))  # a process is there, and warm
    job = declared(stage, bodies.marks_and_sleeps, timeout=3)

    finish = await run(stage, job, folder=str(tmp_path), stubborn=stubborn)

    assert (finish.word, finish.counted) == ("retry", True)
    assert "ran past its timeout (3 s)" in record_of(finish)["e"]["message"]
    assert (tmp_path / "unwound").exists() is not stubborn
    assert not is_alive(int((tmp_path / "pid").read_text()))
    await eventually(lambda: not is_alive(int((tmp_path / "helper").read_text())), "what it started has ended too")


@pytest.mark.parametrize(
    ("ended", "word"), [(Ended.CANCELLED, "cancelled"), (Ended.DRAINED, "released"), (Ended.LOST, None)]
)
async def test_a_cancel_a_drain_and_a_lost_lease_kill_it(
    stage: Stage, tmp_path: Path, ended: Ended, word: str | None
) -> None:
    attempt = stage.begin(declared(stage, bodies.marks_and_sleeps), folder=str(tmp_path))
    pid = await began(tmp_path)

    stage.runner.cancel(attempt, ended)

    finish = await stage.end(attempt)
    assert (finish and finish.word) == word
    assert not is_alive(pid)


async def test_a_body_hears_of_a_drain_and_may_end_by_itself(stage: Stage, tmp_path: Path) -> None:
    attempt = stage.begin(declared(stage, bodies.ends_when_it_drains), folder=str(tmp_path))
    await eventually((tmp_path / "began").exists, "it runs", 40)

    stage.draining.set()

    assert (await finished(stage, attempt)).word == "done"


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_signal_of_somebody_else_ends_no_body(stage: Stage, tmp_path: Path, sig: signal.Signals) -> None:
    attempt = stage.begin(declared(stage, bodies.ends_when_told), folder=str(tmp_path))
    os.kill(await began(tmp_path), sig)
    (tmp_path / "end").touch()

    assert (await finished(stage, attempt)).word == "done"


async def test_a_process_is_deaf_to_stop_signals_until_it_knows_who_may_end_it() -> None:
    for moment in (0, 0.02, 0.1):
        with contextlib.closing(Guard()) as guard, contextlib.closing(Process(guard)) as process:
            await asyncio.sleep(moment)  # somewhere in its start
            process.signal(signal.SIGTERM)
            process.signal(signal.SIGINT)
            answer = await asyncio.to_thread(process.run, {"type": "run", "level": logging.ERROR}, print)
            assert answer["type"] == "raised", "it serves, and says that there is nothing to run"


async def test_somebody_elses_kill_is_told_and_closing_leaves_nobody(stage: Stage, tmp_path: Path) -> None:
    attempt = stage.begin(declared(stage, bodies.forever), folder=str(tmp_path))
    os.kill(await began(tmp_path), signal.SIGKILL)
    finish = await finished(stage, attempt)
    assert "ended by SIGKILL" in record_of(finish)["e"]["message"]

    (tmp_path / "began").unlink()
    stage.begin("forever", folder=str(tmp_path))
    pid = await began(tmp_path)
    stage.runner.close()
    assert not is_alive(pid)


def test_what_cannot_run_in_a_process_is_refused_where_it_is_declared() -> None:
    app = App()

    async def waits() -> None: ...

    def local() -> None: ...

    with pytest.raises(ConfigurationError, match="this one is async"):
        app.job(process=True)(waits)
    with pytest.raises(ConfigurationError, match="declare it at the top of its module"):
        app.job(process=True)(local)
    with pytest.raises(ConfigurationError, match="neither yes nor no"):
        app.job(process=1)(bodies.exits)  # type: ignore[call-overload]


def test_a_body_that_counts_on_the_lifespans_state_is_refused_in_a_process() -> None:
    app = App()

    with pytest.raises(ConfigurationError, match=r"process=True and Context\[Client\]: .*`ctx: Context`"):
        app.job(process=True)(bodies.wants_a_state)
    app.job(bodies.wants_a_state)
    app.job(process=True)(bodies.has_no_use_for_a_state)


async def test_there_is_no_state_in_a_process(stage: Stage) -> None:
    finish = await run(stage, declared(stage, bodies.bears_that_there_is_none, result_ttl=60))
    assert result_of(finish) is True


async def test_a_body_in_a_process_is_refused_its_first_step_and_told_why(stage: Stage) -> None:
    declared(stage, bodies.takes_a_step, max_attempts=1)
    finish = await stage.run("takes_a_step")
    assert finish.word == "dead"
    assert "job 'takes_a_step' runs in a process of its own, which cannot record" in record_of(finish)["e"]["message"]
