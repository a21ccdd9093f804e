"""The conversation with programs in many languages at the same time, on one pair of stores, and what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from redisjobs import Context
from tests.stories.conversation import conversation
from tests.stories.road import Road
from tests.support.eventually import eventually
from tests.support.languages import LANGUAGES, all_languages
from tests.support.net import postgres_variables
from tests.support.producing import Answer, converse

MANY_OF = "SELECT (input->>'n')::int FROM redisjobs.outbox WHERE job = %(job)s ORDER BY seq"


@dataclass(frozen=True, slots=True)
class Seen:
    """What a body was given, and when it began."""

    value: Any
    ctx: Context
    at: datetime


@dataclass
class Talk:
    """What one language said and heard.

    Attributes:
        answers: by the name of the command.
        seen: what the bodies were given, by case.
        many: the numbers in the many rows, in the order of their places.
        rows: what the outbox, `finished` and `dead` hold at the end, by the job's id.
        orders: the business rows.
    """

    answers: dict[str, Answer]
    seen: dict[str, list[Seen]] = field(default_factory=dict[str, "list[Seen]"])
    many: list[int] = field(default_factory=list[int])
    rows: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    orders: set[str] = field(default_factory=set[str])

    def row(self, name: str) -> dict[str, Any]:
        """Where the job is that this command asked for."""
        answer = self.answers[name]
        assert answer.error is None, (name, answer)
        return self.rows[answer.value]

    def ran(self, name: str) -> Seen:
        """What its body was given, the one time that it ran."""
        assert self.row(name)["state"] == "done"
        (seen,) = self.seen[name]
        return seen


async def talk(url: str, redis_url: str, role: str) -> dict[str, Talk]:
    env = postgres_variables(url) | {"PGOPTIONS": f"-c role={role}"}
    told = {name: conversation(name) for name in LANGUAGES}
    languages = all_languages()  # before there is a worker, whose loop it would hold
    async with Road(url, redis_url) as road, bodies(road) as heard:
        spoken = [asyncio.to_thread(converse, languages[name], env, list(told[name].values())) for name in LANGUAGES]
        for name, answers in zip(LANGUAGES, await asyncio.gather(*spoken), strict=True):
            heard[name].answers = dict(zip(told[name], answers, strict=True))
        still = "SELECT 1 FROM redisjobs.outbox WHERE state NOT IN ('deferred', 'parked') AND queue <> 'many'"
        await eventually(lambda: not road.query(f"{still} LIMIT 1"), "every job has ended", within=60)
        for name in LANGUAGES:
            heard[name].rows = rows_of(road, name)
            heard[name].many = [row[0] for row in road.query(MANY_OF, job=f"many.{name}")]
            heard[name].orders = {
                row[0] for row in road.query("SELECT name FROM orders WHERE language = %(n)s", n=name)
            }
        return heard


@asynccontextmanager
async def bodies(road: Road) -> AsyncIterator[dict[str, Talk]]:
    """A worker that knows the jobs of every language, and what it is given."""
    heard = {name: Talk({}) for name in LANGUAGES}

    async def note(ctx: Context, case: str = "nothing but a name", value: Any = "absent") -> None:
        heard[ctx.job.partition(".")[2]].seen.setdefault(case, []).append(Seen(value, ctx, datetime.now(UTC)))

    for name in LANGUAGES:
        road.app.job(name=f"note.{name}", max_attempts=1)(note)
    await road.work(queues=["default", "other"], concurrency=100)
    yield heard


def rows_of(road: Road, name: str) -> dict[str, dict[str, Any]]:
    columns = "id::text, state, run_at, staged_at, NULL::text AS why, NULL::text AS owner FROM redisjobs.outbox"
    ended = "id::text, state, NULL, staged_at, NULL, duplicate_of::text FROM redisjobs.finished"
    dead = "id::text, 'dead', NULL, staged_at, reason, NULL FROM redisjobs.dead"
    jobs = "job IN ('note.' || %(n)s, 'nobody.' || %(n)s)"
    found = road.query(" UNION ALL ".join(f"SELECT {each} WHERE {jobs}" for each in (columns, ended, dead)), n=name)
    names = ("id", "state", "run_at", "staged_at", "reason", "duplicate_of")
    return {row[0]: dict(zip(names, row, strict=True)) for row in found}
