"""Asks the trial's Redis all the time, by a link that no fault touches, and writes down when the answer takes long.

All links go through this process, and all leases through that server: where they do not get to run, leases lapse.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.faults.programme.book import Book
from tests.faults.programme.witness import STALL_S
from tests.support.proxy import Proxy, in_front_of_redis

EVERY_S = 0.1


@contextlib.contextmanager
def probing(url: str, book: Book) -> Iterator[None]:
    """Until the block ends, in a thread of its own."""
    over = threading.Event()
    with in_front_of_redis(url) as link:
        asking = threading.Thread(target=_ask, args=[link, book, over], name="probe")
        asking.start()
        try:
            yield
        finally:
            over.set()
            asking.join()


def _ask(link: Proxy, book: Book, over: threading.Event) -> None:
    with redis.Redis.from_url(link.url, socket_timeout=10, retry=Retry(NoBackoff(), 0)) as client:
        before = time.monotonic()
        while not over.wait(EVERY_S):
            with contextlib.suppress(redis.RedisError):  # it is down, which is a fault and no stall
                client.ping()
                if time.monotonic() - before > EVERY_S + STALL_S:
                    book.write("stalled", since=before, until=time.monotonic())
            before = time.monotonic()
