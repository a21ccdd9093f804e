"""`redisjobs dead replay`: a limited rate, and an end where the redriven fail again."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from redisjobs.cli import replay as replay_module
from tests.services.test_cli_bulk import bury_many, count, interruptible
from tests.stories.road import Road
from tests.support.builders import Conn
from tests.support.cli import CommandLine
from tests.support.eventually import eventually, eventually_now
from tests.support.processes import Processes


@pytest.fixture
def redisjobs(database_url: str, redis_url: str) -> CommandLine:
    return CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_url})


@pytest.fixture
async def road(database_url: str, redis_url: str) -> AsyncIterator[Road]:
    async with Road(database_url, redis_url) as opened:
        yield opened


class Clock:
    """Time that passes only where somebody waits."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_it_goes_no_faster_than_it_is_told(redisjobs: CommandLine, conn: Conn, monkeypatch: pytest.MonkeyPatch):
    clock = Clock()
    monkeypatch.setattr(replay_module, "time", clock)
    bury_many(conn, 1_000)

    told = redisjobs.json("dead", "replay", "--all", "--rate", "50/s")

    assert (told["fit"], told["done"], told["under_way"], told["stopped"]) == (1_000, 1_000, 1_000, False)
    assert sum(clock.slept) == pytest.approx(1_000 / 50 - 0.5)
    assert (count(conn, "outbox"), count(conn, "dead")) == (1_000, 0)


def test_a_dry_run_says_how_long_it_would_take(redisjobs: CommandLine, conn: Conn):
    bury_many(conn, 300)

    told = redisjobs("dead", "replay", "--job", "mail", "--rate", "1/s", "--dry-run").stdout

    assert told.startswith("300 dead letters would be redriven within 5 min; nothing was changed\n")
    assert count(conn, "dead") == 300


async def test_it_stops_when_the_redriven_fail_again(road: Road, redisjobs: CommandLine, conn: Conn):
    @road.app.job(max_attempts=1)
    async def mail() -> None:
        raise RuntimeError("still broken")

    await road.work(queues=["q"])
    bury_many(conn, 400)

    options = ("--all", "--rate", "40/s", "--stop-on-failures", "20%")
    told = await asyncio.to_thread(redisjobs, "dead", "replay", *options, code=1)

    assert re.search(r"stopped: too many fail again \(0 ended, \d+ failed again \(100%\)", told.stderr)
    assert "goes on with the rest alone" in told.stderr
    fresh = road.query("SELECT count(*) FROM redisjobs.dead WHERE redrives = 0")[0][0]
    assert 0 < fresh < 400

    # what failed again is not replayed by the command that it names
    since = re.findall(r"--died-before (\S+) ", told.stderr)[0]
    tried = await asyncio.to_thread(redisjobs.json, "dead", "replay", *options, "--died-before", since, "--dry-run")
    assert tried["fit"] == fresh


async def test_those_that_end_well_do_not_stop_it(road: Road, redisjobs: CommandLine, conn: Conn):
    @road.app.job()
    async def mail() -> None:
        road.seen.append(1)

    await road.work(queues=["q"])
    bury_many(conn, 200)

    await asyncio.to_thread(redisjobs, "dead", "replay", "--all", "--rate", "400/s", "--stop-on-failures", "1%")

    await eventually(lambda: len(road.seen) == 200, "all have run again")
    assert count(conn, "dead") == 0


def test_ctrl_c_names_the_command_that_goes_on(processes: Processes, conn: Conn, redisjobs: CommandLine):
    bury_many(conn, 100)

    busy = interruptible(processes, "dead", "replay", "--all", "--rate", "10/s")
    eventually_now(lambda: count(conn, "outbox") > 0, "some were redriven")
    busy.send(signal.SIGINT)

    assert busy.wait() == 130
    done, until = re.findall(
        r"interrupted: (\d+) of 100 redriven; the same command with --died-before (\S+)", busy.log()
    )[0]
    assert int(done) == count(conn, "outbox") < 100
    left = redisjobs.json("dead", "replay", "--all", "--rate", "1000/s", "--died-before", until)
    assert left["done"] == 100 - int(done)


def test_a_moment_without_a_zone_is_utc(redisjobs: CommandLine, conn: Conn):
    bury_many(conn, 1)
    ahead = (datetime.now(UTC) + timedelta(hours=1)).replace(tzinfo=None)
    behind = ahead - timedelta(hours=2)
    fit = [
        redisjobs.json("dead", "replay", "--all", "--rate", "1", "--dry-run", "--died-before", each.isoformat())["fit"]
        for each in (ahead, behind)
    ]
    assert fit == [1, 0]
