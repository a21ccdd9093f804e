"""The demo from its first process to the verdict."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from redisjobs.cli.demo.audit import Verdict, judge
from redisjobs.cli.demo.crew import Child, Crew
from redisjobs.cli.demo.faults import Director
from redisjobs.cli.demo.ledger import Ledger
from redisjobs.cli.demo.plan import Sale
from redisjobs.cli.demo.progress import Progress, Screen
from redisjobs.cli.demo.shop import Shop
from redisjobs.cli.demo.together import together
from redisjobs.settings import Settings

SELLING_S = 8.0
"""How long the shop is open, as far as its clerks keep up; less for a calm one with few orders."""
CALM_PACE = 100.0
"""Sales a second, at least."""
LEASE_S = 4.0
"""Short, so that the jobs of a killed worker are soon run by another one."""
LOOK_S = 0.2
STALLED_S = 60.0
"""Without any progress for so long, what is missing counts as lost."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What is to be played.

    Args:
        calm: without faults.
        flush: FLUSHALL; else only the demo's own keys are removed.
    """

    settings: Settings
    sales: list[Sale]
    calm: bool
    flush: bool

    @property
    def jobs(self) -> int:
        """The orders that will commit."""
        return sum(not sale.declined for sale in self.sales)

    @property
    def pace(self) -> float:
        """Sales a second."""
        return max(len(self.sales) / SELLING_S, CALM_PACE if self.calm else 0.0)


async def play(scene: Scene, screen: Screen) -> Verdict:
    """Play it; the verdict of its ledger. Whatever was started has ended then.

    Raises:
        Fault: a process of the demo failed.
        RedisjobsError: a store did.
    """
    ledger = await Ledger.connect(scene.settings)
    try:
        await ledger.make()
        with Crew(scene.settings, None if scene.calm else LEASE_S) as crew:
            return await _Play(scene, screen, ledger, crew).run()
    finally:
        await ledger.close()


class _Play:
    def __init__(self, scene: Scene, screen: Screen, ledger: Ledger, crew: Crew) -> None:
        self._scene = scene
        self._screen = screen
        self._ledger = ledger
        self._crew = crew
        self._shop = Shop(scene.settings, scene.sales, scene.pace)
        self._director = Director(scene.settings, crew, ledger, self._reached, screen.tell, flush=scene.flush)

    async def run(self) -> Verdict:
        relay, first, second = self._crew.relay(), self._crew.worker(), self._crew.worker()
        await asyncio.gather(relay.says("relay.started"), first.says("worker.started"), second.says("worker.started"))
        self._screen.tell(f"a relay (pid {relay.pid}) and two workers (pids {first.pid}, {second.pid}) are up")
        hours = asyncio.create_task(self._opening_hours(first))
        try:
            await self._watch(hours)
        finally:
            hours.cancel()
        self._screen.tell("all is settled: the workers and the relay are stopped")
        await self._crew.stop()
        verdict = judge(
            await self._ledger.committed(), self._shop.sent_ns, await self._ledger.entries(), self._director.faults
        )
        verdict.unsettled = await self._ledger.waiting()
        return verdict

    async def _opening_hours(self, victim: Child) -> None:
        faults = [] if self._scene.calm else [self._director.direct(victim)]
        await together(self._shop.sell(), *faults)
        self._screen.tell("the shop is closed: all orders are in")

    async def _reached(self, share: float) -> None:
        await self._shop.reached(max(1, int(share * self._scene.jobs)))

    async def _watch(self, hours: asyncio.Task[None]) -> None:
        """Show how far it is, until nothing is left to run or nothing moves any more."""
        began = moved_at = time.monotonic()
        last = Progress()
        while time.monotonic() - moved_at < STALLED_S:
            self._crew.must_run()
            over = hours.done()
            if over:
                hours.result()
            looked_at = time.monotonic()
            seen = await self._look(looked_at - began)
            self._screen.show(seen)
            if over and not seen.waiting:
                return
            if seen.moved(last):
                moved_at, last = looked_at, seen
            # the look itself must not be what the machine is busy with
            await asyncio.sleep(max(LOOK_S, 10 * (time.monotonic() - looked_at)))

    async def _look(self, elapsed: float) -> Progress:
        tally, waiting = await self._ledger.tally(), await self._ledger.waiting()
        shop = self._shop
        return Progress(
            elapsed, self._scene.jobs, shop.committed, shop.rolled_back, tally.done, tally.running, tally.retrying,
            tally.dead, waiting,
        )  # fmt: skip
