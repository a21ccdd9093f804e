"""Who serves a queue: one judge, by what workers say of themselves, for everybody who tells of it."""

from __future__ import annotations

from collections.abc import Iterable

from redisjobs.base.durations import age
from redisjobs.broker.presence import Presence


def serving(workers: Iterable[Presence], queue: str) -> list[Presence]:
    """Those that are there and take jobs of this queue."""
    return [each for each in workers if each.serves(queue)]


def why_nobody(workers: Iterable[Presence], queue: str) -> str | None:
    """Why no worker serves a queue, in words that go on behind `no worker serves it`; None: one does."""
    meant = [each for each in workers if each.is_meant_for(queue)]
    if serving(meant, queue):
        return None
    stopping = [each for each in meant if each.is_there]
    if stopping:
        return f": {_named(stopping)} {'is' if len(stopping) == 1 else 'are'} {stopping[0].state}"
    if meant:
        return f": {_named(meant)} fell silent {age(min(each.seen_s for each in meant))} ago"
    return ": none says that it does"


def _named(workers: list[Presence]) -> str:
    return f"its worker {workers[0].worker_id}" if len(workers) == 1 else f"all of its {len(workers)} workers"
