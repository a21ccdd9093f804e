"""What runs in a contestant's own environment: `python -m benchmarks.peers.program ROLE DRIVER [options]`.

Roles: `facts` and `produce` print one line of JSON as their last; `prepare` makes tables; `work` and `beside` run until
they are killed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers import job
from benchmarks.peers.drivers.base import Driver
from benchmarks.probe import Probe

Answer = dict[str, Any]


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=("facts", "prepare", "produce", "work", "beside"))
    parser.add_argument("driver")
    parser.add_argument("--slots", type=int, default=10)
    parser.add_argument("--what", choices=("many", "one", "runs"), default="many")
    parser.add_argument("--first", type=int, default=0, help="the number of the first job")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--hold", type=float, default=0.0, help="seconds that each job takes")
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two calls")
    parser.add_argument("--seconds", type=float, default=3600.0, help="end after so long, whatever is left")
    parser.add_argument("--sent", type=Path, help="a probe for the moment before each call")
    given = parser.parse_args()
    driver: Driver = import_module(f"benchmarks.peers.drivers.{given.driver}").Driver()
    if given.role == "work":
        driver.work(given.slots)
    elif given.role == "beside":
        driver.beside()
    elif given.role == "facts":
        names = ("SETTINGS", "SOURCE", "DEFAULT", "BESIDE")
        _answer({name.lower(): getattr(driver, name) for name in names})
    elif given.role == "prepare":
        asyncio.run(driver.prepare())
        _answer({})
    else:
        _answer(asyncio.run(_produce(driver, given)))


async def _produce(driver: Driver, given: argparse.Namespace) -> Answer:
    sent = Probe(given.sent) if given.sent else None
    await driver.open()
    began = time.time()
    number, end = given.first, given.first + given.count
    batch = 1 if given.what == "one" else given.batch
    while number < end and time.time() - began < given.seconds:
        bodies = [job.body(each, _hold(each, given.hold)) for each in range(number, min(end, number + batch))]
        if given.pause and number > given.first:
            await asyncio.sleep(given.pause)
        if sent is not None:
            for body in bodies:
                sent.hit(body["i"])
        await _enqueue(driver, given.what, bodies)
        number += len(bodies)
    seconds = time.time() - began
    return {"count": number - given.first, "seconds": seconds}


def _hold(number: int, seconds: float) -> float:
    """One to two times as long, each job otherwise, so that slots do not end and begin in step."""
    return seconds * (1 + number % 10 / 10)


async def _enqueue(driver: Driver, what: str, bodies: list[job.Body]) -> None:
    ways: dict[str, Callable[[], Awaitable[None]]] = {
        "one": lambda: driver.one(bodies[0]),
        "many": lambda: driver.many(bodies),
        "runs": lambda: driver.runs(bodies),
    }
    await ways[what]()


def _answer(found: Answer) -> None:
    """Print it and end at once: some clients leave threads behind that would wait."""
    print(json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
