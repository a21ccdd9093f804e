"""The example of durable runs works as its README says."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.eventually import eventually_now
from tests.support.processes import CHECKOUT, Processes, Program

EXAMPLE = CHECKOUT / "examples" / "durable"

Conn = psycopg.Connection[Any]


class Terminals:
    """`redisjobs dev` in one, and another for commands."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self.dev: Program = processes.redisjobs("dev", "--app", "app:app")
        self.dev.says_now("worker.started", within=90)
        self.urls = dict(re.findall(r"^export (\w+)='(.*)'$", self.dev.log(), re.MULTILINE))

    def produce(self, *words: str) -> str:
        """What `produce.py` says; the id of the job, where it starts one."""
        program = self._processes.python("produce.py", *words, env=self.urls)
        assert program.wait() == 0, program.log()
        return program.log().strip().rpartition(" ")[2]

    def connect(self) -> Conn:
        return psycopg.connect(self.urls["REDISJOBS_DATABASE_URL"], autocommit=True)


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Terminals]:
    """In a copy of the example's folder, of somebody who has set up nothing."""
    folder = tmp_path / "durable"
    shutil.copytree(EXAMPLE, folder)
    with Processes(folder, {"REDISJOBS_DATABASE_URL": "", "REDISJOBS_REDIS_URL": ""}) as started:
        yield Terminals(started)


def has_ended(conn: Conn, job: str, state: str) -> bool:
    found = conn.execute("SELECT state FROM redisjobs.finished WHERE id = %s", [job]).fetchone()
    dead = conn.execute("SELECT 1 FROM redisjobs.dead WHERE id = %s", [job]).fetchone()
    return found == (state,) or (state == "dead" and dead is not None)


def ends(conn: Conn, job: str, state: str) -> None:
    eventually_now(lambda: has_ended(conn, job, state), f"{job} is {state}", within=60)


def cents(conn: Conn) -> int:
    (total,) = conn.execute("SELECT sum(cents)::bigint FROM accounts").fetchone() or (0,)
    return int(total)


@pytest.mark.timeout(240)
def test_every_run_of_the_example_ends_as_its_file_says(terminals: Terminals):
    log = terminals.dev.log
    user = terminals.produce("onboarding", "7")
    refused = terminals.produce("order", "7")
    placed = terminals.produce("order", "1")
    moved = [terminals.produce("transfer") for _ in range(3)]
    paid = terminals.produce("deposit", "3")
    summed = terminals.produce("report", "40")
    terminals.produce("confirm", "7")

    with terminals.connect() as conn:
        for job, state in ((placed, "done"), (refused, "dead"), (summed, "done"), (paid, "done"), (user, "done")):
            ends(conn, job, state)
        for job in moved:
            ends(conn, job, "done")
        assert cents(conn) == 10 * 10_000 + 100, "transfers move money, and the deposit came once"
        assert len(conn.execute("SELECT FROM statements").fetchall()) == 3
        (reason,) = conn.execute("SELECT reason FROM redisjobs.dead WHERE id = %s", [refused]).fetchone() or ("",)
    assert "no money, no order" in reason
    assert log().count("released lamp") == 1, "of the order that was refused, and of no other"
    assert log().count("refunded") == 0, "nobody was charged who had to get it back"
    assert log().count("shipped") == 1
    assert f"40 parts, {sum(n % 10 for n in range(40))} words" in log()
    assert log().count("mail to user7@example.com: welcome") == 1
    assert log().count("mail to user7@example.com: tips") == 1
    assert terminals.dev.stop() == 0, log()


def test_the_readme_tells_these_commands():
    told = (EXAMPLE / "README.md").read_text()

    for command in ("redisjobs dev --app app:app", "python produce.py onboarding 7", "python produce.py report 1000"):
        assert f"    {command}\n" in told
