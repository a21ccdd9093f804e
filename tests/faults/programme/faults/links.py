"""The network between a process and its stores: cut, slow, silent, or losing single messages."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from tests.faults.programme.fault import fault
from tests.faults.programme.part import Part
from tests.faults.programme.site import Site
from tests.support.flow import Direction
from tests.support.proxy import Proxy
from tests.support.rules import Rule, chance

Some = TypeVar("Some")

CUT_S = (1.0, 7.0)
"""How long a link is away: up to two leases."""


@fault("lost_lease")
async def worker_cut_off_from_redis(site: Site, rng: random.Random) -> None:
    """A worker's connections to Redis are reset and new ones refused, for up to two leases; two workers in turn."""
    for worker in rng.sample(site.workers, 2):
        await _down(site, rng, _link(worker.redis))


@fault("lost_lease")
async def redis_unreachable(site: Site, rng: random.Random) -> None:
    """All connections to Redis are reset and new ones refused, for up to two leases."""
    await _down(site, rng, *site.links_to("redis"))


@fault()
async def postgres_unreachable(site: Site, rng: random.Random) -> None:
    """All connections to Postgres are reset and new ones refused, for up to 7 s."""
    await _down(site, rng, *site.links_to("postgres"))


@fault()
async def relay_cut_off(site: Site, rng: random.Random) -> None:
    """Each relay in turn loses Redis, Postgres, or both, for up to two of its leases."""
    for relay in rng.sample(site.relays, len(site.relays)):
        links = rng.sample(relay.links, rng.randint(1, len(relay.links)))
        await _down(site, rng, *links)


@fault("lost_lease")
async def partition(site: Site, rng: random.Random) -> None:
    """Half of the processes reach neither store, without a reset: their bytes wait until the network is whole."""
    parts = _parts(site)
    links = [link for part in rng.sample(parts, len(parts) // 2) for link in part.links]
    for link in links:
        link.pause()
    await site.lasts(rng.uniform(*CUT_S))
    for link in links:
        link.resume()


@fault("lost_lease")
async def partition_one_way(site: Site, rng: random.Random) -> None:
    """On half of all links requests vanish, or replies do, while the other direction passes; open connections stay."""
    links = _some(rng, [*site.links.values()])
    for link in links:
        rng.choice([link.requests, link.replies]).swallow()
    await site.lasts(rng.uniform(*CUT_S))
    for link in links:
        link.heal()


@fault("lost_lease")
async def silent_connections(site: Site, rng: random.Random) -> None:
    """Half of all open connections go silent for good, without a reset; new ones are served."""
    links = _some(rng, [*site.links.values()])
    for link in links:
        link.swallow_open()
    await site.lasts(rng.uniform(8, 14))
    for link in links:
        link.heal()


@fault()
async def reset_storm(site: Site, rng: random.Random) -> None:
    """Connections are reset all the time, those of one process after the other."""
    links = [*site.links.values()]
    for _ in range(40):
        rng.choice(links).reset()
        await site.lasts(rng.uniform(0.05, 0.3))


@fault("lost_lease")
async def arrivals_ignored(site: Site, rng: random.Random) -> None:
    """Open connections are reset; new ones are accepted and never answered, for up to two leases."""
    links = _some(rng, [*site.links.values()])
    for link in links:
        rng.choice([link.ignore, link.reset_arrivals])()
        link.reset()
    await site.lasts(rng.uniform(*CUT_S))
    for link in links:
        link.heal()
        link.reset()


@fault("lost_lease")
async def latency(site: Site, rng: random.Random) -> None:
    """Every byte on half of all directions of links takes up to 1.5 s longer."""
    await _flows(site, rng, lambda flow: flow.delay(rng.uniform(0.05, 1.5)), 4, 10)


@fault("lost_lease")
async def slow_network(site: Site, rng: random.Random) -> None:
    """Half of all directions of links carry no more than 4 to 64 kB a second."""
    await _flows(site, rng, lambda flow: flow.throttle(rng.uniform(4_000, 64_000)), 4, 10)


@fault()
async def cut_in_mid_sentence(site: Site, rng: random.Random) -> None:
    """Connections close after so many bytes, in the middle of a request or a reply; many times."""
    links = [*site.links.values()]
    for _ in range(30):
        link = rng.choice(links)
        rng.choice([link.requests, link.replies]).cut_after(rng.randint(0, 3_000))
        await site.lasts(rng.uniform(0.1, 0.4))
    for link in links:
        link.heal()


@fault("lost_lease")
async def replies_of_redis_lost(site: Site, rng: random.Random) -> None:
    """Up to a fifth of Redis' replies are lost, and their connections close: what was asked for was carried out."""
    await _losing(site, rng, site.links_to("redis"), Proxy.lose_reply)


@fault("lost_lease")
async def replies_of_redis_muted(site: Site, rng: random.Random) -> None:
    """Up to 2 % of Redis' replies are lost, and the connection is silent from then on."""
    await _losing(site, rng, site.links_to("redis"), Proxy.mute_reply, most=0.02)


@fault()
async def replies_of_postgres_lost(site: Site, rng: random.Random) -> None:
    """Up to a fifth of Postgres' replies are lost, those to COMMIT too, and their connections close."""
    await _losing(site, rng, site.links_to("postgres"), Proxy.lose_reply)


@fault("lost_lease")
async def requests_lost(site: Site, rng: random.Random) -> None:
    """Up to a fifth of all requests to both stores never arrive, and their connections close."""
    await _losing(site, rng, [*site.links.values()], Proxy.lose_request)


@fault()
async def commits_lost(site: Site, rng: random.Random) -> None:
    """Half of the replies to COMMIT are lost: nobody knows whether it was carried out, and it was."""
    share = rng.uniform(0.3, 0.7)
    rules = [
        link.lose_reply("COMMIT", times=None, odds=chance(share, random.Random(rng.random())))
        for link in site.links_to("postgres")
    ]
    await site.lasts(rng.uniform(3, 7))
    for rule in rules:
        rule.remove()


async def _down(site: Site, rng: random.Random, *links: Proxy) -> None:
    for link in links:
        link.down()
    await site.lasts(rng.uniform(*CUT_S))
    for link in links:
        link.heal()


async def _losing(
    site: Site, rng: random.Random, links: Sequence[Proxy], how: Callable[..., Rule], most: float = 0.2
) -> None:
    """1 % or more of all messages; each link draws by itself, so that one does not depend on the pace of another."""
    share = rng.uniform(0.01, most)
    site.note(f"{how.__name__}: {share:.1%}")
    rules = [how(link, times=None, odds=chance(share, random.Random(rng.random()))) for link in links]
    await site.lasts(rng.uniform(4, 9))
    for link, rule in zip(links, rules, strict=True):
        rule.remove()
        link.heal()


async def _flows(
    site: Site, rng: random.Random, disturb: Callable[[Direction], None], least: float, most: float
) -> None:
    """Disturb half of all directions for a while."""
    directions = _some(rng, [flow for link in site.links.values() for flow in (link.requests, link.replies)])
    for direction in directions:
        disturb(direction)
    await site.lasts(rng.uniform(least, most))
    for link in site.links.values():
        link.heal()


def _some(rng: random.Random, every: Sequence[Some]) -> list[Some]:
    """Half of them."""
    return rng.sample(every, (len(every) + 1) // 2)


def _parts(site: Site) -> list[Part]:
    """Those of redisjobs; producers are the application's."""
    return [*site.relays, *site.schedulers, *site.workers]


def _link(link: Proxy | None) -> Proxy:
    assert link is not None
    return link
