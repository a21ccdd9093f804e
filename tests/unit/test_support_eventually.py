"""Waiting ends as soon as it can, and says what it last saw when it cannot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.eventually import always, eventually, eventually_now


def counting() -> Iterator[int]:
    yield from range(1000)


async def test_it_gives_the_first_true_value():
    numbers = counting()
    assert await eventually(lambda: next(numbers), "a number above 0") == 1
    assert eventually_now(lambda: next(numbers), "any") == 2


async def test_the_condition_may_be_async_and_may_fail_at_first():
    numbers = counting()

    async def condition() -> bool:
        if next(numbers) < 3:
            raise ConnectionError("not yet")
        return True

    assert await eventually(condition, "it answers", despite=(ConnectionError,))


async def test_the_message_has_the_condition_and_the_last_value():
    with pytest.raises(AssertionError, match=r"^not within 0\.05 s: the queue is empty \(last: 0\)$"):
        await eventually(lambda: 0, "the queue is empty", within=0.05)
    with pytest.raises(AssertionError, match=r"not within 0\.05 s: it answers \(last: ConnectionError\('gone'\)\)"):
        eventually_now(_gone, "it answers", within=0.05, despite=(ConnectionError,))


async def test_an_error_that_was_not_foreseen_ends_the_wait():
    with pytest.raises(ConnectionError):
        await eventually(_gone, "it answers")


async def test_always_fails_at_the_first_look_that_is_different():
    numbers = counting()
    await always(lambda: True, "it stays", lasting=0.05)
    with pytest.raises(AssertionError, match="below 3"):
        await always(lambda: next(numbers) < 3, "the number stays below 3", lasting=5)


def _gone() -> bool:
    raise ConnectionError("gone")
