"""Who serves a queue, and the words for why nobody does (P2, P3)."""

from __future__ import annotations

import pytest

from redisjobs.broker import Presence
from redisjobs.served import serving, why_nobody


def worker(
    name: str, *, state: str = "running", seen_s: float = 0.0, queues: tuple[str, ...] = ("mail.*",)
) -> Presence:
    return Presence(name, state=state, queues=queues, seen_s=seen_s)


@pytest.mark.parametrize(
    ("workers", "why"),
    [
        ([], ": none says that it does"),
        ([worker("w1", queues=("other",))], ": none says that it does"),
        ([worker("w1", seen_s=90)], ": its worker w1 fell silent 90 s ago"),
        ([worker("w1", seen_s=90), worker("w2", seen_s=30)], ": all of its 2 workers fell silent 30 s ago"),
        ([worker("w1", state="draining"), worker("w2", seen_s=30)], ": its worker w1 is draining"),
        ([worker("w1", state="quiet"), worker("w2", state="quiet")], ": all of its 2 workers are quiet"),
    ],
)
def test_why_nobody_serves_a_queue(workers: list[Presence], why: str) -> None:
    assert why_nobody(workers, "mail.news") == why
    assert serving(workers, "mail.news") == []


def test_one_that_is_there_is_enough() -> None:
    there = worker("w1")

    assert why_nobody([worker("w2", seen_s=30), there], "mail.news") is None
    assert serving([worker("w2", seen_s=30), there], "mail.news") == [there]
