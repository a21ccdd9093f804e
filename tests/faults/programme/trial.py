"""One trial: a workload, a fault in the middle of it, healing, rest, and the audit."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import time
import traceback
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import psycopg

from redisjobs.webhooks import generate_secret
from tests.faults.programme import works
from tests.faults.programme.baseline import Baseline, grown, measure
from tests.faults.programme.book import FOLDER, Book
from tests.faults.programme.dump import dump
from tests.faults.programme.facts import Facts
from tests.faults.programme.fault import Fault
from tests.faults.programme.gather import gather
from tests.faults.programme.instruments import install
from tests.faults.programme.invariants import broken
from tests.faults.programme.invariants.starts import extra_starts, why
from tests.faults.programme.patience import AT_REST_S, AUDIT_S, Patience, load
from tests.faults.programme.plan import LONGEST_S, Plan, make_plan
from tests.faults.programme.probe import probing
from tests.faults.programme.producer import PLAN
from tests.faults.programme.receive import Hooks
from tests.faults.programme.shard import Shard
from tests.faults.programme.site import Crew, Site
from tests.support.leftovers import left_in_redis, limits_in_redis, pending_in_redis

COMMIT_S = 60.0
"""How long producers may take to end once all is healed, on a machine with a core to spare."""
CLEAN_S = 5.0
"""How long the last finishes, permits and outcomes may be on their way once Postgres knows of no job any more."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large a trial is: so many jobs over so many seconds of commits."""

    jobs: int = 500
    seconds: float = 8.0
    crew: Crew = field(default_factory=Crew)


@dataclass(slots=True)
class Verdict:
    """What a trial came to.

    Args:
        broken: the invariants that do not hold, each with why.
        error: the trial itself went wrong; it says nothing of the product then.
        extra: extra starts by their explanation.
        folder: where a failed trial has left logs, books and dumps.
    """

    fault: str
    seed: int
    broken: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    error: str | None = None
    notes: str = ""
    jobs: int = 0
    runs: int = 0
    extra: dict[str, int] = field(default_factory=dict[str, int])
    rest_s: float = 0.0
    load: float = 1.0
    stalls: int = 0
    seconds: float = 0.0
    folder: str = ""

    @property
    def holds(self) -> bool:
        return not self.broken and self.error is None

    def told(self) -> str:
        """For whoever has to find out why: the seed, the times of the faults, what broke, and where the dumps are."""
        wrong = [f"  {name}: {why}" for name, why in self.broken] + ([f"  error: {self.error}"] if self.error else [])
        again = f"make faults FAULT={self.fault} SEED={self.seed}"
        return "\n".join(
            [f"{self.fault}, seed {self.seed}: {again}", *wrong, self.notes, f"  all of it: {self.folder}"]
        )


async def run_trial(shard: Shard, fault: Fault, seed: int, size: Size) -> Verdict:
    """One trial from its seed. Its folder stays where it failed."""
    began = time.monotonic()
    folder = shard.folder / f"{fault.name}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    verdict = Verdict(fault.name, seed, folder=str(folder))
    site = Site(shard, folder, size.crew, seed)
    try:
        await Trial(site, fault, seed, size).run(verdict)
    except Exception:  # noqa: BLE001 - one trial that cannot be run does not end a programme of thousands
        verdict.error = traceback.format_exc()
    verdict.notes = site.told()
    try:
        if not verdict.holds:
            dump(site, folder)
        await site.close()
    except Exception:  # noqa: BLE001 - likewise
        verdict.error = f"{verdict.error or ''}\n{traceback.format_exc()}".strip()
        shard.spoil(postgres=True, redis=True)
    verdict.seconds, verdict.load = time.monotonic() - began, load()
    if verdict.holds:
        shutil.rmtree(folder, ignore_errors=True)
    return verdict


CLOCK_S = 125.0
"""More patience where a store's clock was set back: what has a delay then waits for that much longer."""


class Trial:
    """What happens on a site from its start to the audit."""

    def __init__(self, site: Site, fault: Fault, seed: int, size: Size) -> None:
        self._site, self._fault, self._size = site, fault, size
        self._rng = random.Random(f"{fault.name} {seed}")
        self._plan = make_plan(
            seed, jobs=size.jobs, producers=size.crew.producers, seconds=size.seconds, dying=fault.name != "calm"
        )
        self._books = site.folder / "books"
        self._baseline = Baseline()

    async def run(self, verdict: Verdict) -> None:
        """All of it; what is found goes into the verdict."""
        async with Hooks() as hooks:
            self._arrange(hooks, self._plan)
            await self._fault.prepare(self._site, self._rng)
            with probing(self._site.redis_url, Book(self._books / "trial.jsonl")):
                async with self._kept():
                    await self._work()
                    healed = time.monotonic()
                    facts = await self._rest(healed)
            facts.hooks = hooks.accepted
        verdict.broken = broken(facts)
        verdict.jobs, verdict.runs, verdict.rest_s = len(facts.staged), len(facts.runs), facts.rest_s
        verdict.stalls = len(facts.stalls)
        for before, run in extra_starts(facts):
            reason = why(facts, before, run) or "nothing"
            verdict.extra[reason] = verdict.extra.get(reason, 0) + 1

    def _arrange(self, hooks: Hooks, plan: Plan) -> None:
        site = self._site
        self._books.mkdir()
        plan.write(site.folder / "plan.json")
        site.env |= {FOLDER: str(self._books), PLAN: str(site.folder / "plan.json")}
        with psycopg.connect(site.database_url) as conn:
            install(conn)
            conn.execute(
                "SELECT redisjobs.webhook_add(%s, %s, %s, '{}')", [works.ENDPOINT, hooks.url, generate_secret()]
            )

    @contextlib.asynccontextmanager
    async def _kept(self) -> AsyncIterator[None]:
        """While this lasts, what ends by itself is started again."""
        keeping = asyncio.create_task(self._site.keep())
        try:
            yield
        finally:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping

    async def _work(self) -> None:
        """Everything starts, the fault strikes in the middle of the commits, and all is healed and committed."""
        site = self._site
        await site.start(*site.relays, *site.schedulers, *site.workers)
        self._baseline = measure(site)
        await site.start(*site.producers)
        await site.lasts(self._rng.uniform(0.1, 0.6) * self._size.seconds)
        with site.strike(self._fault):
            await self._fault.strike(site, self._rng)
        await site.heal()
        through = await Patience(COMMIT_S).until(self._are_through)
        assert through, f"producers are not through: {[part.name for part in site.producers if part.is_running()]}"
        site.note("all is healed and committed")

    async def _are_through(self) -> bool:
        return not any(part.is_running() for part in self._site.producers)

    async def _rest(self, healed: float) -> Facts:
        """Ask for what will not end by itself to end, wait until nothing is under way, and look at everything."""
        site = self._site
        for scheduler in site.schedulers:
            await site.stop(scheduler)
        with psycopg.connect(site.database_url) as conn:
            conn.execute("SELECT redisjobs.cancel(id) FROM redisjobs.outbox WHERE job = 'unknown'")
        begun = time.monotonic()
        audit_s = AUDIT_S if any("lost_data" in struck.fault.excuses for struck in site.struck) else 0.0
        clock_s = CLOCK_S if any("clock_ahead" in struck.fault.excuses for struck in site.struck) else 0.0
        rests = await Patience(LONGEST_S + AT_REST_S + audit_s + clock_s).until(self._is_at_rest)
        now = time.monotonic()
        site.note(f"at rest after {now - healed:.1f} s" if rests else f"not at rest: {self._under_way()}")
        await Patience(CLEAN_S + audit_s).until(self._is_clean)
        facts = gather(site, self._books)
        facts.rest_s, facts.patience_s = now - healed, now - begun
        facts.restless = None if rests else self._under_way()
        facts.left = self._left()
        facts.odd = grown(site, self._baseline)
        facts.failed = [part.said()[-1000:] for part in site.producers if any(end.code == 1 for end in part.ends)]
        return facts

    async def _is_at_rest(self) -> bool:
        return not await asyncio.to_thread(self._under_way)

    async def _is_clean(self) -> bool:
        return not await asyncio.to_thread(self._left)

    def _under_way(self) -> str:
        """What is not at rest, in words; empty: all is."""
        query = "SELECT queue, state, job, count(*) FROM redisjobs.outbox GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
        with psycopg.connect(self._site.database_url) as conn:
            return ", ".join(f"{count} {state} {job} in {queue}" for queue, state, job, count in conn.execute(query))

    def _left(self) -> dict[str, object]:
        """What Redis holds of jobs and limits. Of keys it holds those whose window is open."""
        with self._site.redis.client() as client:
            left = left_in_redis(client) | pending_in_redis(client) | limits_in_redis(client)
        return {key: value for key, value in left.items() if not key.endswith("}:keys")}
